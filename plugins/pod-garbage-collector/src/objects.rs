//! The parts of Pod and Node that the rules use.

use pilothouse_sdk::{Metadata, ObjectRef, Projection, Time};
use serde::Deserialize;
use serde_json::value::RawValue;

pub const PODS: &str = "v1/Pod";

/// What a [`Pod`] is decoded from.
pub const POD_FIELDS: [&str; 8] = [
    ".metadata.creationTimestamp",
    ".metadata.generation",
    ".spec.nodeName",
    ".status.phase",
    ".status.reason",
    ".status.conditions[*].type",
    ".status.conditions[*].status",
    ".status.conditions[*].lastTransitionTime",
];

/// A pod. All pods of the cluster are decoded, so this has few members, and nothing that has to be
/// buffered for it.
#[derive(Deserialize)]
pub struct Pod {
    pub metadata: PodMetadata,
    #[serde(default)]
    spec: PodSpec,
    #[serde(default)]
    pub status: PodStatus,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodMetadata {
    pub namespace: String,
    pub name: String,
    pub uid: String,
    deletion_timestamp: Option<Time>,
    pub creation_timestamp: Option<Time>,
    #[serde(default)]
    pub generation: i64,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PodSpec {
    node_name: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub struct PodStatus {
    pub phase: String,
    reason: String,
    /// Decoded only for a pod that is to be deleted.
    conditions: Option<Box<RawValue>>,
}

/// An entry of a pod's conditions.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodCondition {
    pub r#type: String,
    pub status: String,
    pub last_transition_time: Option<Time>,
}

impl Pod {
    pub fn key(&self) -> ObjectRef {
        ObjectRef::new(PODS, &self.metadata.namespace, &self.metadata.name)
    }

    /// The node that it is on. Empty: none.
    pub fn node(&self) -> &str {
        &self.spec.node_name
    }

    pub fn is_being_deleted(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    /// True if it has succeeded or failed, or nobody has said anything about it.
    pub fn has_ended(&self) -> bool {
        !matches!(&*self.status.phase, "Pending" | "Running" | "Unknown")
    }

    /// True if a kubelet has evicted it.
    pub fn is_evicted(&self) -> bool {
        self.status.phase == "Failed" && self.status.reason == "Evicted"
    }

    /// Its condition of this type.
    ///
    /// # Errors
    ///
    /// Its conditions are not in Kubernetes' form.
    pub fn condition(&self, r#type: &str) -> Result<Option<PodCondition>, serde_json::Error> {
        let Some(raw) = &self.status.conditions else {
            return Ok(None);
        };
        let conditions: Vec<PodCondition> = serde_json::from_str(raw.get())?;
        Ok(conditions.into_iter().find(|one| one.r#type == r#type))
    }
}

#[derive(Deserialize, Projection)]
#[projection(kind = "v1/Node")]
pub struct Node {
    pub metadata: Metadata,
    #[serde(default)]
    spec: NodeSpec,
    #[serde(default)]
    status: NodeStatus,
}

#[derive(Default, Deserialize, Projection)]
#[serde(default)]
struct NodeSpec {
    taints: Vec<Taint>,
}

#[derive(Deserialize, Projection)]
struct Taint {
    key: String,
}

#[derive(Default, Deserialize, Projection)]
#[serde(default)]
struct NodeStatus {
    conditions: Vec<NodeCondition>,
}

#[derive(Deserialize, Projection)]
struct NodeCondition {
    r#type: String,
    status: String,
}

impl Node {
    /// True if somebody has said that it is down for good, and it is not ready: what is being
    /// deleted on it will never be reported as stopped.
    pub fn is_out_of_service(&self) -> bool {
        let mut conditions = self.status.conditions.iter();
        let ready = conditions.find(|condition| condition.r#type == "Ready");
        let is_ready = ready.is_some_and(|ready| ready.status == "True");
        let mut taints = self.spec.taints.iter();
        !is_ready && taints.any(|taint| taint.key == "node.kubernetes.io/out-of-service")
    }
}
