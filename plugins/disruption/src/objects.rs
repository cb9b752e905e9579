//! The parts of the objects that the controller looks at.

use std::collections::BTreeMap;

use pilothouse_sdk::{IntOrString, LabelSelector, Metadata, Projection, Time};
use serde::Deserialize;
use serde_json::Value;

/// The kinds with a scale that are read by their names, and what is read of them.
pub const SCALED: [(&str, &[&str]); 4] = [
    (REPLICATION_CONTROLLER, &[".spec.replicas"]),
    (
        REPLICA_SET,
        &[
            ".metadata.ownerReferences[*].apiVersion",
            ".metadata.ownerReferences[*].kind",
            ".metadata.ownerReferences[*].name",
            ".metadata.ownerReferences[*].uid",
            ".metadata.ownerReferences[*].controller",
            ".spec.replicas",
        ],
    ),
    (DEPLOYMENT, &[".spec.replicas"]),
    (STATEFUL_SET, &[".spec.replicas"]),
];

/// The pattern by which the scales of custom kinds are read, and their definitions.
pub const EVERY_KIND: &str = "*";
/// Read by the pattern.
pub const DEFINITION: &str = "apiextensions.k8s.io/v1/CustomResourceDefinition";

pub const REPLICATION_CONTROLLER: &str = "v1/ReplicationController";
pub const REPLICA_SET: &str = "apps/v1/ReplicaSet";
pub const DEPLOYMENT: &str = "apps/v1/Deployment";
pub const STATEFUL_SET: &str = "apps/v1/StatefulSet";

#[derive(Deserialize, Projection)]
#[projection(kind = "policy/v1/PodDisruptionBudget")]
pub struct Budget {
    pub metadata: BudgetMetadata,
    #[serde(default)]
    pub spec: BudgetSpec,
    #[serde(default)]
    pub status: BudgetStatus,
}

#[derive(Deserialize, Projection)]
pub struct BudgetMetadata {
    #[serde(flatten)]
    pub always: Metadata,
    #[serde(default)]
    pub generation: i64,
}

#[derive(Default, Deserialize, Projection)]
#[serde(rename_all = "camelCase", default)]
pub struct BudgetSpec {
    pub min_available: Option<IntOrString>,
    pub max_unavailable: Option<IntOrString>,
    pub selector: Option<LabelSelector>,
}

#[derive(Default, Deserialize, Projection)]
#[serde(rename_all = "camelCase", default)]
pub struct BudgetStatus {
    pub observed_generation: i64,
    pub disruptions_allowed: i32,
    pub current_healthy: i32,
    pub desired_healthy: i32,
    pub expected_pods: i32,
    /// When the API server has let pods be evicted, by their names.
    pub disrupted_pods: BTreeMap<String, Option<Time>>,
    /// With all their members: those of others are written back.
    pub conditions: Vec<Value>,
}

#[derive(Deserialize, Projection)]
#[projection(kind = "v1/Pod")]
pub struct Pod {
    pub metadata: PodMetadata,
    #[serde(default)]
    pub status: PodStatus,
}

/// Decoding these one by one is several times as fast as with serde's `flatten`, which counts with
/// thousands of pods.
#[derive(Deserialize, Projection)]
#[serde(rename_all = "camelCase")]
pub struct PodMetadata {
    pub name: String,
    #[serde(default)]
    pub uid: String,
    pub deletion_timestamp: Option<Time>,
    #[serde(default)]
    pub generation: i64,
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    #[serde(default)]
    pub owner_references: Vec<Owner>,
}

/// An entry of `metadata.ownerReferences`.
#[derive(Default, Deserialize, Projection)]
#[serde(rename_all = "camelCase", default)]
pub struct Owner {
    pub api_version: String,
    pub kind: String,
    pub name: String,
    pub uid: String,
    pub controller: bool,
}

/// The owner that manages the object which has these owners.
pub fn controller_of(owners: &[Owner]) -> Option<&Owner> {
    owners.iter().find(|owner| owner.controller)
}

#[derive(Default, Deserialize, Projection)]
#[serde(default)]
pub struct PodStatus {
    pub phase: String,
    pub conditions: Vec<PodCondition>,
}

#[derive(Default, Deserialize, Projection)]
#[serde(rename_all = "camelCase", default)]
pub struct PodCondition {
    pub r#type: String,
    pub status: String,
    pub reason: String,
    pub last_transition_time: Option<Time>,
}

impl Pod {
    pub fn condition(&self, r#type: &str) -> Option<&PodCondition> {
        let mut conditions = self.status.conditions.iter();
        conditions.find(|condition| condition.r#type == r#type)
    }

    /// True if it is to be deleted.
    pub fn is_deleted(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    pub fn is_ready(&self) -> bool {
        let ready = self.condition("Ready");
        ready.is_some_and(|ready| ready.status == "True")
    }
}

/// An object of one of the kinds with a scale.
#[derive(Deserialize)]
pub struct Scaled {
    pub metadata: ScaledMetadata,
    #[serde(default)]
    pub spec: ScaledSpec,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ScaledMetadata {
    pub uid: String,
    #[serde(default)]
    pub owner_references: Vec<Owner>,
}

#[derive(Default, Deserialize)]
pub struct ScaledSpec {
    /// As the API server fills in, if it is absent.
    pub replicas: Option<i32>,
}

impl Scaled {
    pub fn replicas(&self) -> i32 {
        self.spec.replicas.unwrap_or(1)
    }
}
