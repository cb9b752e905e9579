//! The parts of Deployment, ReplicaSet and Pod that the rules use. Templates and selectors stay
//! JSON, so that fields which are not known here survive.
//!
//! Numbers of replicas are 64 bits wide: sums of the API's 32 bits then never overflow.

use std::collections::BTreeMap;

use pilothouse_sdk::{IntOrString, Metadata, OwnerReference, Projection, Time};
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub const DEPLOYMENT: &str = "apps/v1/Deployment";
pub const REPLICA_SET: &str = "apps/v1/ReplicaSet";
pub const POD: &str = "v1/Pod";

/// An integer that stands for "no limit" in a Deployment.
const UNLIMITED: i64 = i32::MAX as i64;

#[derive(Clone, Deserialize)]
pub struct Deployment {
    pub metadata: DeploymentMetadata,
    pub spec: DeploymentSpec,
    #[serde(default)]
    pub status: DeploymentStatus,
}

#[derive(Clone, Default, Deserialize)]
#[serde(default)]
pub struct DeploymentMetadata {
    #[serde(flatten)]
    pub always: Metadata,
    pub generation: i64,
    pub annotations: BTreeMap<String, String>,
}

#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeploymentSpec {
    #[serde(default = "one")]
    pub replicas: i64,
    #[serde(default)]
    pub selector: Value,
    pub template: Value,
    #[serde(default)]
    pub strategy: Strategy,
    #[serde(default)]
    pub min_ready_seconds: i64,
    revision_history_limit: Option<i64>,
    #[serde(default)]
    pub paused: bool,
    progress_deadline_seconds: Option<i64>,
}

#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Strategy {
    pub r#type: String,
    pub rolling_update: RollingUpdate,
}

#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RollingUpdate {
    pub max_surge: Option<IntOrString>,
    pub max_unavailable: Option<IntOrString>,
}

impl Strategy {
    pub fn is_rolling_update(&self) -> bool {
        self.r#type == "RollingUpdate"
    }

    pub fn is_recreate(&self) -> bool {
        self.r#type == "Recreate"
    }
}

impl DeploymentSpec {
    /// How many old ReplicaSets are kept. `None`: all of them.
    pub fn revision_history_limit(&self) -> Option<usize> {
        let limit = self.revision_history_limit;
        let limit = limit.filter(|limit| *limit != UNLIMITED)?;
        usize::try_from(limit).ok()
    }

    /// The seconds after which a rollout without progress has failed. `None`: it never fails.
    pub fn progress_deadline(&self) -> Option<u64> {
        let deadline = self.progress_deadline_seconds;
        let deadline = deadline.filter(|deadline| *deadline != UNLIMITED)?;
        u64::try_from(deadline).ok()
    }

    /// True if the selector selects every object. The API server refuses such a Deployment.
    pub fn selects_everything(&self) -> bool {
        let is_empty = |part: &Value| match part {
            Value::Null => true,
            Value::Array(items) => items.is_empty(),
            Value::Object(members) => members.is_empty(),
            _ => false,
        };
        let parts = self.selector.as_object();
        parts.is_some_and(|parts| parts.values().all(is_empty))
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DeploymentStatus {
    pub observed_generation: i64,
    pub replicas: i64,
    pub updated_replicas: i64,
    pub ready_replicas: i64,
    pub available_replicas: i64,
    pub unavailable_replicas: i64,
    /// `None`, which is written as null: it is not known.
    pub terminating_replicas: Option<i64>,
    /// How often the name of a new ReplicaSet was taken. `None`, written as null: never.
    pub collision_count: Option<i32>,
    pub conditions: Vec<Condition>,
}

/// A condition of a Deployment, which unlike others says when it was last updated.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Condition {
    pub r#type: String,
    pub status: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_update_time: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
}

#[derive(Clone, Deserialize, Projection)]
#[projection(kind = "apps/v1/ReplicaSet")]
pub struct ReplicaSet {
    pub metadata: ReplicaSetMetadata,
    pub spec: ReplicaSetSpec,
    #[serde(default)]
    pub status: ReplicaSetStatus,
}

#[derive(Clone, Default, Deserialize, Projection)]
#[serde(rename_all = "camelCase", default)]
pub struct ReplicaSetMetadata {
    #[serde(flatten)]
    pub always: Metadata,
    pub generation: i64,
    pub creation_timestamp: Option<Time>,
    pub annotations: BTreeMap<String, String>,
    pub owner_references: Vec<OwnerReference>,
}

#[derive(Clone, Deserialize, Projection)]
#[serde(rename_all = "camelCase")]
pub struct ReplicaSetSpec {
    #[serde(default = "one")]
    pub replicas: i64,
    #[serde(default)]
    pub min_ready_seconds: i64,
    #[serde(default)]
    pub template: Value,
}

#[derive(Clone, Default, Deserialize, Projection)]
#[serde(rename_all = "camelCase", default)]
pub struct ReplicaSetStatus {
    pub observed_generation: i64,
    pub replicas: i64,
    pub ready_replicas: i64,
    pub available_replicas: i64,
    pub terminating_replicas: Option<i64>,
    pub conditions: Vec<ReplicaSetCondition>,
}

#[derive(Clone, Default, Deserialize, Projection)]
#[serde(rename_all = "camelCase", default)]
pub struct ReplicaSetCondition {
    pub r#type: String,
    pub status: String,
    pub last_transition_time: Option<Time>,
    pub reason: String,
    pub message: String,
}

impl ReplicaSet {
    pub fn name(&self) -> &str {
        &self.metadata.always.name
    }

    /// True if it is meant to have pods.
    pub fn is_active(&self) -> bool {
        self.spec.replicas > 0
    }

    /// Older first, by name if two are equally old.
    pub fn age_order(&self) -> (Option<Time>, &str) {
        (self.metadata.creation_timestamp, self.name())
    }
}

/// A pod, as far as it matters whether it still runs.
#[derive(Deserialize, Projection)]
#[projection(kind = "v1/Pod")]
pub struct Pod {
    metadata: PodMetadata,
    #[serde(default)]
    status: PodStatus,
}

#[derive(Deserialize, Projection)]
#[serde(rename_all = "camelCase")]
struct PodMetadata {
    #[serde(default)]
    owner_references: Vec<PodOwner>,
}

#[derive(Deserialize, Projection)]
struct PodOwner {
    uid: String,
    #[serde(default)]
    controller: bool,
}

#[derive(Default, Deserialize, Projection)]
struct PodStatus {
    #[serde(default)]
    phase: String,
}

impl Pod {
    /// The uid of the owner that manages the pod.
    pub fn controller(&self) -> Option<&str> {
        let mut owners = self.metadata.owner_references.iter();
        let controller = owners.find(|owner| owner.controller);
        controller.map(|controller| controller.uid.as_str())
    }

    /// True if its containers have ended for good.
    pub fn has_finished(&self) -> bool {
        matches!(self.status.phase.as_str(), "Failed" | "Succeeded")
    }
}

/// The API server's default for a number of replicas.
fn one() -> i64 {
    1
}
