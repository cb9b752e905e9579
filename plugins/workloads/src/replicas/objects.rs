//! The parts of the objects that the controller looks at.

use std::collections::BTreeMap;

use pilothouse_sdk::{Metadata, OwnerReference, Projection, Time};
use serde::Deserialize;
use serde_json::Value;

use crate::claim::Claimable;
use crate::pod::{PodCondition, PodStatus, PodView};
use crate::ranking::{ContainerStatus, InitContainer, InitContainerStatus, Ranked, Restarts};

/// A ReplicaSet or a ReplicationController.
#[derive(Deserialize, Projection)]
pub(super) struct Set {
    pub metadata: SetMetadata,
    pub spec: SetSpec,
    #[serde(default)]
    pub status: SetStatus,
}

#[derive(Deserialize, Projection)]
#[serde(rename_all = "camelCase")]
pub(super) struct SetMetadata {
    #[serde(flatten)]
    pub always: Metadata,
    #[serde(default)]
    pub generation: i64,
    #[serde(default)]
    pub owner_references: Vec<SetOwner>,
}

/// An owner of a set, such as a Deployment.
#[derive(Default, Deserialize, Projection)]
#[serde(default)]
pub(super) struct SetOwner {
    pub uid: String,
    pub controller: bool,
}

/// The uid of the controller among a set's owners.
pub(super) fn controller_uid(owners: &[SetOwner]) -> Option<&str> {
    let controller = owners.iter().find(|owner| owner.controller);
    controller.map(|owner| owner.uid.as_str())
}

#[derive(Deserialize, Projection)]
#[serde(rename_all = "camelCase")]
pub(super) struct SetSpec {
    /// As the API server fills in, if it is absent.
    #[serde(default = "one")]
    pub replicas: i64,
    #[serde(default)]
    pub min_ready_seconds: i64,
    #[serde(default)]
    pub selector: Value,
    #[serde(default)]
    pub template: Value,
}

fn one() -> i64 {
    1
}

#[derive(Default, Deserialize, Projection)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct SetStatus {
    pub replicas: i64,
    pub fully_labeled_replicas: i64,
    pub ready_replicas: i64,
    pub available_replicas: i64,
    pub terminating_replicas: Option<i64>,
    pub observed_generation: i64,
    /// With all their members: those of others are written back.
    pub conditions: Vec<Value>,
}

/// What is needed of the other sets of the same owner.
#[derive(Deserialize)]
pub(super) struct Related {
    pub metadata: RelatedMetadata,
    pub spec: RelatedSpec,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RelatedMetadata {
    pub namespace: String,
    pub uid: String,
    #[serde(default)]
    pub owner_references: Vec<SetOwner>,
}

#[derive(Deserialize)]
pub(super) struct RelatedSpec {
    #[serde(default)]
    pub selector: Value,
}

/// A pod of which only the name is needed.
#[derive(Deserialize)]
pub(super) struct Named {
    pub metadata: Name,
}

#[derive(Deserialize)]
pub(super) struct Name {
    pub name: String,
}

#[derive(Deserialize, Projection)]
#[projection(kind = "v1/Pod")]
pub(super) struct Pod {
    pub metadata: PodMetadata,
    #[serde(default)]
    pub spec: PodSpec,
    #[serde(default)]
    pub status: FullPodStatus,
}

#[derive(Default, Deserialize, Projection)]
#[serde(from = "PodMetadataFields")]
pub(super) struct PodMetadata {
    pub always: Metadata,
    pub labels: BTreeMap<String, String>,
    pub annotations: Annotations,
    pub owner_references: Vec<OwnerReference>,
    pub creation_timestamp: Option<Time>,
}

/// The fields as they stand in a pod. Decoding these is several times as fast as with serde's
/// `flatten`, which counts with thousands of pods.
#[derive(Default, Deserialize, Projection)]
#[serde(rename_all = "camelCase", default)]
struct PodMetadataFields {
    namespace: String,
    name: String,
    uid: String,
    deletion_timestamp: Option<Time>,
    labels: BTreeMap<String, String>,
    annotations: Annotations,
    owner_references: Vec<OwnerReference>,
    creation_timestamp: Option<Time>,
}

impl From<PodMetadataFields> for PodMetadata {
    fn from(fields: PodMetadataFields) -> Self {
        Self {
            always: Metadata {
                namespace: fields.namespace,
                name: fields.name,
                uid: fields.uid,
                deletion_timestamp: fields.deletion_timestamp,
            },
            labels: fields.labels,
            annotations: fields.annotations,
            owner_references: fields.owner_references,
            creation_timestamp: fields.creation_timestamp,
        }
    }
}

#[derive(Default, Deserialize, Projection)]
pub(super) struct Annotations {
    #[serde(rename = "controller.kubernetes.io/pod-deletion-cost")]
    pub deletion_cost: Option<String>,
}

#[derive(Default, Deserialize, Projection)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct PodSpec {
    pub node_name: String,
    pub init_containers: Vec<InitContainer>,
}

#[derive(Default, Deserialize, Projection)]
#[serde(from = "PodStatusFields")]
pub(super) struct FullPodStatus {
    pub state: PodStatus,
    pub container_statuses: Vec<ContainerStatus>,
    pub init_container_statuses: Vec<InitContainerStatus>,
}

/// As [`PodMetadataFields`].
#[derive(Default, Deserialize, Projection)]
#[serde(rename_all = "camelCase", default)]
struct PodStatusFields {
    phase: String,
    conditions: Vec<PodCondition>,
    container_statuses: Vec<ContainerStatus>,
    init_container_statuses: Vec<InitContainerStatus>,
}

impl From<PodStatusFields> for FullPodStatus {
    fn from(fields: PodStatusFields) -> Self {
        Self {
            state: PodStatus {
                phase: fields.phase,
                conditions: fields.conditions,
            },
            container_statuses: fields.container_statuses,
            init_container_statuses: fields.init_container_statuses,
        }
    }
}

impl Pod {
    pub fn name(&self) -> &str {
        &self.metadata.always.name
    }

    pub fn uid(&self) -> &str {
        &self.metadata.always.uid
    }
}

impl PodView for Pod {
    fn metadata(&self) -> &Metadata {
        &self.metadata.always
    }

    fn status(&self) -> &PodStatus {
        &self.status.state
    }
}

impl Claimable for Pod {
    fn metadata(&self) -> &Metadata {
        &self.metadata.always
    }

    fn owners(&self) -> &[OwnerReference] {
        &self.metadata.owner_references
    }
}

impl Ranked for Pod {
    fn node_name(&self) -> &str {
        &self.spec.node_name
    }

    fn created(&self) -> Option<Time> {
        self.metadata.creation_timestamp
    }

    fn restarts(&self) -> Restarts {
        let status = &self.status;
        Restarts::of(
            &status.container_statuses,
            &self.spec.init_containers,
            &status.init_container_statuses,
        )
    }

    fn deletion_cost(&self) -> Option<&str> {
        self.metadata.annotations.deletion_cost.as_deref()
    }
}
