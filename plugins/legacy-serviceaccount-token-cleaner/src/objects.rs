//! The parts of Secrets, service accounts, pods and one ConfigMap that the rules use.

use std::collections::{BTreeMap, BTreeSet};

use pilothouse_sdk::{Metadata, ObjectRef, Projection, Time};
use serde::Deserialize;
use serde_json::Value;

pub const PODS: &str = "v1/Pod";

/// Where the names of Secrets stand in a pod. Nothing else of its spec is read.
pub const SECRET_NAMES: [&str; 18] = [
    ".spec.imagePullSecrets[*].name",
    ".spec.containers[*].env[*].valueFrom.secretKeyRef.name",
    ".spec.containers[*].envFrom[*].secretRef.name",
    ".spec.initContainers[*].env[*].valueFrom.secretKeyRef.name",
    ".spec.initContainers[*].envFrom[*].secretRef.name",
    ".spec.ephemeralContainers[*].env[*].valueFrom.secretKeyRef.name",
    ".spec.ephemeralContainers[*].envFrom[*].secretRef.name",
    ".spec.volumes[*].azureFile.secretName",
    ".spec.volumes[*].cephfs.secretRef.name",
    ".spec.volumes[*].cinder.secretRef.name",
    ".spec.volumes[*].csi.nodePublishSecretRef.name",
    ".spec.volumes[*].flexVolume.secretRef.name",
    ".spec.volumes[*].iscsi.secretRef.name",
    ".spec.volumes[*].projected.sources[*].secret.name",
    ".spec.volumes[*].rbd.secretRef.name",
    ".spec.volumes[*].scaleIO.secretRef.name",
    ".spec.volumes[*].secret.secretName",
    ".spec.volumes[*].storageos.secretRef.name",
];

#[derive(Deserialize, Projection)]
#[projection(kind = "v1/Secret")]
pub struct Secret {
    pub metadata: SecretMetadata,
}

#[derive(Deserialize, Projection)]
#[serde(rename_all = "camelCase")]
pub struct SecretMetadata {
    #[serde(flatten)]
    pub always: Metadata,
    pub creation_timestamp: Option<Time>,
    #[serde(default)]
    pub labels: SecretLabels,
    #[serde(default)]
    annotations: SecretAnnotations,
}

/// Dates, as `2026-01-31`.
#[derive(Default, Deserialize, Projection)]
pub struct SecretLabels {
    /// When the API server has seen the token last.
    #[serde(rename = "kubernetes.io/legacy-token-last-used")]
    pub last_used: Option<String>,
    /// Since when the API server does not accept it any more.
    #[serde(rename = "kubernetes.io/legacy-token-invalid-since")]
    pub invalid_since: Option<String>,
}

#[derive(Default, Deserialize, Projection)]
struct SecretAnnotations {
    #[serde(rename = "kubernetes.io/service-account.name")]
    account: Option<String>,
    #[serde(rename = "kubernetes.io/service-account.uid")]
    account_uid: Option<String>,
}

impl Secret {
    pub fn key(&self) -> ObjectRef {
        let Metadata {
            namespace, name, ..
        } = &self.metadata.always;
        ObjectRef::new("v1/Secret", namespace, name)
    }

    /// True if this account names it among its Secrets, as one for which it was made.
    pub fn is_of(&self, account: &ServiceAccount) -> bool {
        let uid = self.metadata.annotations.account_uid.as_deref();
        let is_same = uid.is_none_or(|uid| uid.is_empty() || uid == account.metadata.uid);
        let name = &self.metadata.always.name;
        is_same && account.secrets.iter().any(|secret| secret.name == *name)
    }

    /// Namespace and name of its service account. `None`: it has none.
    pub fn account(&self) -> Option<(&str, &str)> {
        let account = self.metadata.annotations.account.as_deref();
        account.map(|name| (&*self.metadata.always.namespace, name))
    }
}

#[derive(Deserialize, Projection)]
#[projection(kind = "v1/ServiceAccount")]
pub struct ServiceAccount {
    metadata: Metadata,
    #[serde(default)]
    secrets: Vec<SecretReference>,
}

impl ServiceAccount {
    /// Namespace and name.
    pub fn name(&self) -> (&str, &str) {
        (&self.metadata.namespace, &self.metadata.name)
    }
}

#[derive(Default, Deserialize, Projection)]
#[serde(default)]
struct SecretReference {
    name: String,
}

/// Since when the API server notes the use of tokens.
#[derive(Deserialize, Projection)]
#[projection(kind = "v1/ConfigMap")]
pub struct Tracking {
    #[serde(default)]
    pub data: TrackingData,
}

#[derive(Default, Deserialize, Projection)]
#[serde(default)]
pub struct TrackingData {
    pub since: Option<String>,
}

/// A pod, of whose spec there is nothing but the names of Secrets.
#[derive(Deserialize)]
pub struct Pod {
    metadata: Metadata,
    #[serde(default)]
    spec: Value,
}

/// The Secrets that pods name, by namespace.
#[derive(Default)]
pub struct UsedSecrets(BTreeMap<String, BTreeSet<String>>);

impl UsedSecrets {
    pub fn add(&mut self, pod: Pod) {
        let mut names = Vec::new();
        texts(pod.spec, &mut names);
        if !names.is_empty() {
            self.0
                .entry(pod.metadata.namespace)
                .or_default()
                .extend(names);
        }
    }

    pub fn has(&self, secret: &Metadata) -> bool {
        let names = self.0.get(&secret.namespace);
        names.is_some_and(|names| names.contains(&secret.name))
    }
}

/// All texts in a document.
fn texts(value: Value, found: &mut Vec<String>) {
    match value {
        Value::String(text) => found.push(text),
        Value::Array(items) => items.into_iter().for_each(|item| texts(item, found)),
        Value::Object(members) => members.into_iter().for_each(|(_, item)| texts(item, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
