//! Kubernetes Events about the host's plugins, for people who look with `kubectl get events`.

use std::sync::Arc;

use pilothouse_cluster::ApiCluster;
use pilothouse_core::{Author, Kind, ObjectKey, Operation, Write};
use tracing::warn;

/// The field manager and reporting controller of the Events.
const MANAGER: &str = pilothouse_core::HOST;

/// Writes Events about the host's own pod. Outside a pod they are about the namespace `default`,
/// where Kubernetes keeps Events about objects without a namespace.
#[derive(Clone)]
pub struct HostEvents {
    cluster: Arc<ApiCluster>,
    kind: Kind,
    key: ObjectKey,
}

impl HostEvents {
    /// Reads `POD_NAMESPACE` and `POD_NAME`, which the pod's downward API should set.
    pub fn new(cluster: Arc<ApiCluster>) -> Self {
        let pod = std::env::var("POD_NAMESPACE")
            .ok()
            .zip(std::env::var("POD_NAME").ok());
        let (kind, key) = match pod {
            Some((namespace, name)) => ("Pod", ObjectKey::new(&namespace, &name)),
            None => ("Namespace", ObjectKey::new("", "default")),
        };
        Self {
            cluster,
            kind: Kind::new("", "v1", kind),
            key,
        }
    }

    /// Writes a warning Event in the background. A failure is only logged.
    pub fn warn(&self, reason: &str, note: String) {
        self.write(reason, note, true);
    }

    /// Writes an Event in the background. A failure is only logged.
    pub fn tell(&self, reason: &str, note: String) {
        self.write(reason, note, false);
    }

    fn write(&self, reason: &str, note: String, is_warning: bool) {
        let write = Write {
            kind: self.kind.clone(),
            key: self.key.clone(),
            subresource: None,
            operation: Operation::Event {
                uid: None,
                is_warning,
                reason: reason.to_owned(),
                action: "Reconcile".to_owned(),
                note,
            },
        };
        let cluster = self.cluster.clone();
        tokio::spawn(async move {
            let result = cluster.write(&Author::named(MANAGER), &write).await.result;
            if let Some(reason) = result.error() {
                warn!(reason, "an Event was not written");
            }
        });
    }
}
