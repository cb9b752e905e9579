//! The parts of a pod that the controller looks at.

use pilothouse_sdk::{Projection, Time};
use serde::Deserialize;
use serde_json::Value;

use crate::resources::Resources;

#[derive(Deserialize, Projection)]
#[projection(kind = "v1/Pod")]
pub struct Pod {
    pub metadata: PodMetadata,
    #[serde(default)]
    pub spec: PodSpec,
    #[serde(default)]
    pub status: PodStatus,
}

#[derive(Default, Deserialize, Projection)]
#[serde(rename_all = "camelCase")]
pub struct PodMetadata {
    #[serde(default)]
    pub uid: String,
    pub deletion_timestamp: Option<Time>,
    pub deletion_grace_period_seconds: Option<i64>,
}

#[derive(Default, Deserialize, Projection)]
#[serde(rename_all = "camelCase", default)]
pub struct PodSpec {
    pub containers: Vec<Container>,
    pub init_containers: Vec<InitContainer>,
    /// Those of the pod as a whole.
    pub resources: Option<Requirements>,
    pub overhead: Resources,
    pub active_deadline_seconds: Option<i64>,
    pub priority_class_name: String,
    pub affinity: Affinity,
}

#[derive(Default, Deserialize, Projection)]
#[serde(default)]
pub struct Container {
    pub name: String,
    pub resources: Requirements,
}

#[derive(Default, Deserialize, Projection)]
#[serde(rename_all = "camelCase", default)]
pub struct InitContainer {
    pub name: String,
    pub restart_policy: String,
    pub resources: Requirements,
}

#[derive(Default, Deserialize, Projection)]
#[serde(default)]
pub struct Requirements {
    pub requests: Resources,
    pub limits: Resources,
}

#[derive(Default, Deserialize, Projection)]
#[serde(rename_all = "camelCase", default)]
pub struct Affinity {
    pub pod_affinity: Terms,
    pub pod_anti_affinity: Terms,
}

#[derive(Default, Deserialize, Projection)]
#[serde(default)]
pub struct Terms {
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    pub required: Vec<Term>,
    #[serde(rename = "preferredDuringSchedulingIgnoredDuringExecution")]
    pub preferred: Vec<WeightedTerm>,
}

#[derive(Default, Deserialize, Projection)]
#[serde(rename_all = "camelCase", default)]
pub struct WeightedTerm {
    pub pod_affinity_term: Term,
}

#[derive(Default, Deserialize, Projection)]
#[serde(rename_all = "camelCase", default)]
pub struct Term {
    pub namespaces: Vec<String>,
    pub namespace_selector: Option<Value>,
}

#[derive(Default, Deserialize, Projection)]
#[serde(rename_all = "camelCase", default)]
pub struct PodStatus {
    pub phase: String,
    pub qos_class: String,
    pub conditions: Vec<Condition>,
    pub container_statuses: Vec<ContainerStatus>,
    pub init_container_statuses: Vec<ContainerStatus>,
    pub extended_resource_claim_status: Option<ExtendedResourceClaimStatus>,
}

#[derive(Default, Deserialize, Projection)]
#[serde(default)]
pub struct Condition {
    pub r#type: String,
    pub reason: String,
}

#[derive(Default, Deserialize, Projection)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerStatus {
    pub name: String,
    /// What the container really has, if the kubelet has said so.
    pub resources: Option<Requirements>,
    pub allocated_resources: Resources,
}

#[derive(Default, Deserialize, Projection)]
#[serde(rename_all = "camelCase", default)]
pub struct ExtendedResourceClaimStatus {
    pub resource_claim_name: String,
}
