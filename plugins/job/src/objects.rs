//! The parts of a Job and of its pods that the rules use.

use std::collections::BTreeMap;

use pilothouse_sdk::{LabelSelector, Metadata, OwnerReference, Projection, Time};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use workloads::pod::{PodCondition, PodStatus as PodState};
use workloads::ranking::InitContainer;

/// A Job.
#[derive(Deserialize, Projection)]
#[projection(kind = "batch/v1/Job")]
pub struct Job {
    pub metadata: JobMetadata,
    pub spec: JobSpec,
    #[serde(default)]
    pub status: JobStatus,
}

#[derive(Deserialize, Projection)]
pub struct JobMetadata {
    #[serde(flatten)]
    pub always: Metadata,
    /// Moves with the spec.
    #[serde(default)]
    pub generation: i64,
}

#[derive(Deserialize, Projection)]
#[serde(rename_all = "camelCase")]
pub struct JobSpec {
    #[serde(default = "one")]
    pub parallelism: i64,
    /// `None`: the Job is complete when one pod has succeeded and none is active.
    pub completions: Option<i64>,
    pub active_deadline_seconds: Option<u64>,
    pub pod_failure_policy: Option<PodFailurePolicy>,
    pub success_policy: Option<SuccessPolicy>,
    #[serde(default = "six")]
    pub backoff_limit: i64,
    pub backoff_limit_per_index: Option<i64>,
    pub max_failed_indexes: Option<i64>,
    /// Without one the Job selects nothing.
    pub selector: Option<LabelSelector>,
    /// The whole template: what is not known here survives.
    pub template: Value,
    pub completion_mode: Option<String>,
    #[serde(default)]
    pub suspend: bool,
    pub pod_replacement_policy: Option<String>,
    pub managed_by: Option<String>,
}

#[derive(Deserialize, Projection)]
pub struct PodFailurePolicy {
    #[serde(default)]
    pub rules: Vec<FailureRule>,
}

#[derive(Deserialize, Projection)]
#[serde(rename_all = "camelCase")]
pub struct FailureRule {
    /// `FailJob`, `FailIndex`, `Ignore` or `Count`.
    pub action: String,
    pub on_exit_codes: Option<OnExitCodes>,
    pub on_pod_conditions: Option<Vec<ConditionPattern>>,
}

#[derive(Deserialize, Projection)]
#[serde(rename_all = "camelCase")]
pub struct OnExitCodes {
    /// `None`: any container.
    pub container_name: Option<String>,
    /// `In` or `NotIn`.
    pub operator: String,
    #[serde(default)]
    pub values: Vec<i32>,
}

#[derive(Deserialize, Projection)]
pub struct ConditionPattern {
    pub r#type: String,
    pub status: String,
}

#[derive(Deserialize, Projection)]
pub struct SuccessPolicy {
    #[serde(default)]
    pub rules: Vec<SuccessRule>,
}

#[derive(Deserialize, Projection)]
#[serde(rename_all = "camelCase")]
pub struct SuccessRule {
    pub succeeded_indexes: Option<String>,
    pub succeeded_count: Option<i64>,
}

/// A Job's status, in the form in which it is compared and written.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, Projection)]
#[serde(rename_all = "camelCase", default)]
pub struct JobStatus {
    pub active: i64,
    pub succeeded: i64,
    pub failed: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminating: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Time>,
    /// Only written.
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    pub completion_time: Option<Time>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub completed_indexes: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed_indexes: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uncounted_terminated_pods: Option<Uncounted>,
    /// Whole, because the list is replaced when it is written.
    #[projection(whole)]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<JobCondition>,
}

/// Finished pods, by uid, that are not in the counters yet.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, Projection)]
#[serde(default)]
pub struct Uncounted {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub succeeded: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct JobCondition {
    pub r#type: String,
    pub status: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_probe_time: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Members that are not known here survive.
    #[serde(flatten)]
    pub others: BTreeMap<String, Value>,
}

/// A pod.
#[derive(Deserialize, Projection)]
#[projection(kind = "v1/Pod")]
pub struct Pod {
    #[projection(as = PlainMetadata)]
    pub metadata: PodMetadata,
    #[serde(default)]
    pub spec: PodSpec,
    #[serde(default)]
    #[projection(as = PlainStatus)]
    pub status: PodStatus,
}

#[derive(Deserialize)]
#[serde(from = "PlainMetadata")]
pub struct PodMetadata {
    pub always: Metadata,
    pub labels: BTreeMap<String, String>,
    pub annotations: Annotations,
    pub finalizers: Vec<String>,
    pub owner_references: Vec<OwnerReference>,
    pub creation_timestamp: Option<Time>,
    pub deletion_grace_period_seconds: u64,
}

/// A pod's metadata as they are decoded. Of thousands of pods that takes half as long as with
/// `#[serde(flatten)]`.
#[derive(Default, Deserialize, Projection)]
#[serde(rename_all = "camelCase", default)]
struct PlainMetadata {
    namespace: String,
    name: String,
    uid: String,
    deletion_timestamp: Option<Time>,
    labels: BTreeMap<String, String>,
    annotations: Annotations,
    finalizers: Vec<String>,
    owner_references: Vec<OwnerReference>,
    creation_timestamp: Option<Time>,
    deletion_grace_period_seconds: u64,
}

impl From<PlainMetadata> for PodMetadata {
    fn from(plain: PlainMetadata) -> Self {
        Self {
            always: Metadata {
                namespace: plain.namespace,
                name: plain.name,
                uid: plain.uid,
                deletion_timestamp: plain.deletion_timestamp,
            },
            labels: plain.labels,
            annotations: plain.annotations,
            finalizers: plain.finalizers,
            owner_references: plain.owner_references,
            creation_timestamp: plain.creation_timestamp,
            deletion_grace_period_seconds: plain.deletion_grace_period_seconds,
        }
    }
}

#[derive(Default, Deserialize, Projection)]
pub struct Annotations {
    #[serde(rename = "batch.kubernetes.io/job-completion-index")]
    pub index: Option<String>,
    #[serde(rename = "batch.kubernetes.io/job-index-failure-count")]
    pub failures: Option<String>,
    #[serde(rename = "batch.kubernetes.io/job-index-ignored-failure-count")]
    pub ignored_failures: Option<String>,
}

#[derive(Default, Deserialize, Projection)]
#[serde(rename_all = "camelCase", default)]
pub struct PodSpec {
    pub node_name: String,
    pub init_containers: Vec<InitContainer>,
}

#[derive(Default, Deserialize)]
#[serde(from = "PlainStatus")]
pub struct PodStatus {
    pub state: PodState,
    pub container_statuses: Vec<ContainerStatus>,
    pub init_container_statuses: Vec<ContainerStatus>,
}

/// A pod's status as it is decoded.
#[derive(Default, Deserialize, Projection)]
#[serde(rename_all = "camelCase", default)]
struct PlainStatus {
    phase: String,
    conditions: Vec<PodCondition>,
    container_statuses: Vec<ContainerStatus>,
    init_container_statuses: Vec<ContainerStatus>,
}

impl From<PlainStatus> for PodStatus {
    fn from(plain: PlainStatus) -> Self {
        Self {
            state: PodState {
                phase: plain.phase,
                conditions: plain.conditions,
            },
            container_statuses: plain.container_statuses,
            init_container_statuses: plain.init_container_statuses,
        }
    }
}

#[derive(Deserialize, Projection)]
#[serde(rename_all = "camelCase")]
pub struct ContainerStatus {
    #[serde(default)]
    pub name: String,
    #[serde(default)]
    pub restart_count: i64,
    #[serde(default)]
    pub state: ContainerState,
}

#[derive(Default, Deserialize, Projection)]
pub struct ContainerState {
    pub terminated: Option<Terminated>,
}

#[derive(Deserialize, Projection)]
#[serde(rename_all = "camelCase")]
pub struct Terminated {
    #[serde(default)]
    pub exit_code: i32,
    pub finished_at: Option<Time>,
}

fn one() -> i64 {
    1
}

fn six() -> i64 {
    6
}
