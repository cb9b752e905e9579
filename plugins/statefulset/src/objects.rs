//! The parts of StatefulSets, Pods and PersistentVolumeClaims that the rules use. Templates are
//! values, so that fields which nobody here knows reach what is made of them.

use std::collections::BTreeMap;
use std::time::Duration;

use pilothouse_sdk::{IntOrString, Kind, Metadata, ObjectRef, OwnerReference, Projection};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use workloads::pod::{PodStatus, PodView, seconds};

use crate::identity;

/// Label of a pod: the name of the revision that it was made from.
pub const REVISION_LABEL: &str = "controller-revision-hash";

#[derive(Clone, Debug, Deserialize, Projection)]
#[projection(kind = "apps/v1/StatefulSet")]
pub struct StatefulSet {
    pub metadata: SetMetadata,
    pub spec: Spec,
    #[serde(default)]
    pub status: Status,
}

#[derive(Clone, Debug, Default, Deserialize, Projection)]
#[serde(default)]
pub struct SetMetadata {
    #[serde(flatten)]
    pub always: Metadata,
    pub annotations: BTreeMap<String, String>,
    pub generation: i64,
}

#[derive(Clone, Debug, Default, Deserialize, Projection)]
#[serde(rename_all = "camelCase", default)]
pub struct Spec {
    pub replicas: Option<i64>,
    pub selector: Value,
    pub template: Value,
    pub volume_claim_templates: Vec<Value>,
    pub service_name: String,
    pub pod_management_policy: String,
    pub update_strategy: UpdateStrategy,
    pub revision_history_limit: Option<i64>,
    pub min_ready_seconds: i64,
    pub persistent_volume_claim_retention_policy: RetentionPolicy,
    pub ordinals: Ordinals,
}

#[derive(Clone, Debug, Default, Deserialize, Projection)]
#[serde(rename_all = "camelCase", default)]
pub struct UpdateStrategy {
    pub r#type: String,
    pub rolling_update: Option<RollingUpdate>,
}

#[derive(Clone, Debug, Default, Deserialize, Projection)]
#[serde(rename_all = "camelCase", default)]
pub struct RollingUpdate {
    pub partition: i64,
    /// A number, or a percentage of the replicas. `None`: 1.
    pub max_unavailable: Option<IntOrString>,
}

/// What becomes of claims when their pod is not wanted any more, or the set is deleted: `Retain`
/// (also the empty text) or `Delete`.
#[derive(Clone, Debug, Default, Deserialize, Projection)]
#[serde(rename_all = "camelCase", default)]
pub struct RetentionPolicy {
    pub when_deleted: String,
    pub when_scaled: String,
}

#[derive(Clone, Debug, Default, Deserialize, Projection)]
#[serde(default)]
pub struct Ordinals {
    pub start: i64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, Projection)]
#[serde(rename_all = "camelCase", default)]
pub struct Status {
    pub observed_generation: i64,
    pub replicas: i64,
    pub ready_replicas: i64,
    pub current_replicas: i64,
    pub updated_replicas: i64,
    pub available_replicas: i64,
    pub current_revision: String,
    pub update_revision: String,
    pub collision_count: i32,
}

impl StatefulSet {
    pub fn name(&self) -> &str {
        &self.metadata.always.name
    }

    pub fn namespace(&self) -> &str {
        &self.metadata.always.namespace
    }

    pub fn uid(&self) -> &str {
        &self.metadata.always.uid
    }

    pub fn object(&self) -> ObjectRef {
        self.metadata.always.of_kind(Self::KIND)
    }

    /// True if the set is to be deleted.
    pub fn is_deleted(&self) -> bool {
        self.metadata.always.deletion_timestamp.is_some()
    }

    /// How many pods are wanted. The API server fills in 1.
    pub fn replicas(&self) -> i64 {
        self.spec.replicas.unwrap_or(1)
    }

    /// The ordinals of the pods that are wanted.
    pub fn ordinals(&self) -> std::ops::Range<i64> {
        let start = self.spec.ordinals.start;
        start..start + self.replicas()
    }

    /// True if pods are created and deleted one after the other.
    pub fn is_ordered(&self) -> bool {
        self.spec.pod_management_policy != "Parallel"
    }

    pub fn min_ready(&self) -> Duration {
        seconds(self.spec.min_ready_seconds)
    }
}

#[derive(Clone, Debug, Deserialize, Projection)]
#[projection(kind = "v1/Pod")]
pub struct Pod {
    pub metadata: PodMetadata,
    #[serde(default)]
    pub spec: PodSpec,
    #[serde(default)]
    pub status: PodStatus,
}

#[derive(Clone, Debug, Default, Deserialize, Projection)]
#[serde(rename_all = "camelCase", default)]
pub struct PodMetadata {
    #[serde(flatten)]
    pub always: Metadata,
    pub labels: BTreeMap<String, String>,
    #[projection(whole)]
    pub owner_references: Vec<OwnerReference>,
}

#[derive(Clone, Debug, Default, Deserialize, Projection)]
#[serde(default)]
pub struct PodSpec {
    pub volumes: Vec<Volume>,
}

#[derive(Clone, Debug, Default, Deserialize, Projection)]
#[serde(rename_all = "camelCase", default)]
pub struct Volume {
    pub name: String,
    pub persistent_volume_claim: Option<ClaimSource>,
}

#[derive(Clone, Debug, Default, Deserialize, Projection)]
#[serde(rename_all = "camelCase", default)]
pub struct ClaimSource {
    pub claim_name: String,
}

impl PodView for Pod {
    fn metadata(&self) -> &Metadata {
        &self.metadata.always
    }

    fn status(&self) -> &PodStatus {
        &self.status
    }
}

impl Pod {
    pub fn name(&self) -> &str {
        &self.metadata.always.name
    }

    pub fn object(&self) -> ObjectRef {
        self.metadata.always.of_kind(Self::KIND)
    }

    /// The ordinal at the end of its name. `None`: there is none that fits into 32 bits.
    pub fn ordinal(&self) -> Option<i64> {
        identity::parent_and_ordinal(self.name())?.1
    }

    /// The name of the revision that it was made from. Empty if it does not say so.
    pub fn revision(&self) -> &str {
        self.metadata
            .labels
            .get(REVISION_LABEL)
            .map_or("", String::as_str)
    }

    /// True if the API server has given it a phase.
    pub fn is_created(&self) -> bool {
        !self.status.phase.is_empty()
    }

    pub fn is_pending(&self) -> bool {
        self.status.phase == "Pending"
    }

    pub fn is_running_and_ready(&self) -> bool {
        self.status.phase == "Running" && self.is_ready()
    }
}

#[derive(Clone, Debug, Deserialize, Projection)]
#[projection(kind = "v1/PersistentVolumeClaim")]
pub struct Claim {
    pub metadata: ClaimMetadata,
}

#[derive(Clone, Debug, Default, Deserialize, Projection)]
#[serde(rename_all = "camelCase", default)]
pub struct ClaimMetadata {
    #[serde(flatten)]
    pub always: Metadata,
    #[projection(whole)]
    pub owner_references: Vec<OwnerReference>,
}

impl Claim {
    pub fn name(&self) -> &str {
        &self.metadata.always.name
    }

    pub fn object(&self) -> ObjectRef {
        self.metadata.always.of_kind(Self::KIND)
    }

    /// True if the claim is to be deleted.
    pub fn is_deleted(&self) -> bool {
        self.metadata.always.deletion_timestamp.is_some()
    }
}
