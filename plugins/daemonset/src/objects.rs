//! The parts of DaemonSets and Pods that the rules use, and no more: what is not named here is
//! neither cached nor a reason to run. Nodes are in `workloads::scheduling`, revisions in
//! `workloads::revision`.

use std::collections::BTreeMap;

use pilothouse_sdk::{IntOrString, Metadata, OwnerReference, Projection, Time};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use workloads::pod::{PodStatus, PodView};

/// Label of pods and ControllerRevisions: of which revision they are.
pub const HASH_LABEL: &str = "controller-revision-hash";
/// Label of pods from the time before revisions: of which generation of the template they are.
pub const GENERATION_LABEL: &str = "pod-template-generation";
/// Annotation of DaemonSets from that time: the generation of their template.
const GENERATION: &str = "deprecated.daemonset.template.generation";
/// The API server's default for `revisionHistoryLimit`.
const HISTORY_LIMIT: usize = 10;

#[derive(Deserialize, Projection)]
#[projection(kind = "apps/v1/DaemonSet")]
pub struct DaemonSet {
    pub metadata: DaemonSetMetadata,
    pub spec: DaemonSetSpec,
    #[serde(default)]
    pub status: DaemonSetStatus,
}

#[derive(Deserialize, Projection)]
#[serde(default)]
#[derive(Default)]
pub struct DaemonSetMetadata {
    #[serde(flatten)]
    pub always: Metadata,
    pub generation: i64,
    /// A revision has all of them.
    pub annotations: BTreeMap<String, String>,
}

#[derive(Deserialize, Projection)]
#[serde(rename_all = "camelCase")]
pub struct DaemonSetSpec {
    #[serde(default)]
    pub selector: Value,
    /// What pods are made of: whole, because what we do not know is theirs as well.
    pub template: Value,
    #[serde(default)]
    pub update_strategy: UpdateStrategy,
    #[serde(default)]
    pub min_ready_seconds: i64,
    revision_history_limit: Option<usize>,
}

#[derive(Default, Deserialize, Projection)]
#[serde(rename_all = "camelCase", default)]
pub struct UpdateStrategy {
    pub r#type: String,
    pub rolling_update: Option<RollingUpdate>,
}

/// How many pods may be missing, or be there as well.
#[derive(Default, Deserialize, Projection)]
#[serde(rename_all = "camelCase", default)]
pub struct RollingUpdate {
    pub max_unavailable: Option<IntOrString>,
    pub max_surge: Option<IntOrString>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, Projection)]
#[serde(rename_all = "camelCase", default)]
pub struct DaemonSetStatus {
    pub observed_generation: i64,
    pub desired_number_scheduled: usize,
    pub current_number_scheduled: usize,
    pub number_misscheduled: usize,
    pub number_ready: usize,
    pub updated_number_scheduled: usize,
    pub number_available: usize,
    pub number_unavailable: usize,
    /// Written alone, when a revision has been given a name that another has.
    #[serde(skip_serializing)]
    pub collision_count: Option<i32>,
}

impl DaemonSet {
    pub fn uid(&self) -> &str {
        &self.metadata.always.uid
    }

    /// True if it would select every pod of its namespace. The API server allows none such.
    pub fn selects_everything(&self) -> bool {
        let selector = self.spec.selector.as_object();
        let is_empty = |part: &Value| match part {
            Value::Object(labels) => labels.is_empty(),
            Value::Array(expressions) => expressions.is_empty(),
            other => other.is_null(),
        };
        selector.is_some_and(|parts| parts.values().all(is_empty))
    }

    /// The generation of its template, as a pod's label has it. Text that is no number counts as
    /// none.
    pub fn template_generation(&self) -> Option<String> {
        let generation: i64 = self.metadata.annotations.get(GENERATION)?.parse().ok()?;
        Some(generation.to_string())
    }

    /// True if pods are replaced when the template changes.
    pub fn is_rolling(&self) -> bool {
        self.spec.update_strategy.r#type == "RollingUpdate"
    }

    pub fn history_limit(&self) -> usize {
        self.spec.revision_history_limit.unwrap_or(HISTORY_LIMIT)
    }
}

#[derive(Clone, Debug, Default, Deserialize, Projection)]
#[projection(kind = "v1/Pod")]
#[serde(default)]
pub struct Pod {
    pub metadata: PodMetadata,
    pub spec: PodSpec,
    pub status: PodStatus,
}

#[derive(Clone, Debug, Default, Deserialize, Projection)]
#[serde(from = "PodMetadataFields")]
pub struct PodMetadata {
    pub always: Metadata,
    pub labels: PodLabels,
    pub owner_references: Vec<OwnerReference>,
    pub creation_timestamp: Option<Time>,
}

/// What [`PodMetadata`] is decoded from. To flatten `Metadata` into it takes serde twice the time,
/// and there may be thousands of pods.
#[derive(Default, Deserialize, Projection)]
#[serde(rename_all = "camelCase", default)]
struct PodMetadataFields {
    namespace: String,
    name: String,
    uid: String,
    deletion_timestamp: Option<Time>,
    labels: PodLabels,
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
            owner_references: fields.owner_references,
            creation_timestamp: fields.creation_timestamp,
        }
    }
}

/// Those labels that say of which template a pod is. By the others the host selects.
#[derive(Clone, Debug, Default, Deserialize, Projection)]
#[serde(default)]
pub struct PodLabels {
    #[serde(rename = "controller-revision-hash")]
    pub hash: String,
    #[serde(rename = "pod-template-generation")]
    pub generation: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize, Projection)]
#[serde(rename_all = "camelCase", default)]
pub struct PodSpec {
    /// The node that the scheduler has chosen. Empty: none yet.
    pub node_name: String,
    affinity: PodAffinity,
}

#[derive(Clone, Debug, Default, Deserialize, Projection)]
#[serde(rename_all = "camelCase", default)]
struct PodAffinity {
    node_affinity: PodNodeAffinity,
}

#[derive(Clone, Debug, Default, Deserialize, Projection)]
#[serde(rename_all = "camelCase", default)]
struct PodNodeAffinity {
    required_during_scheduling_ignored_during_execution: PodNodeSelector,
}

#[derive(Clone, Debug, Default, Deserialize, Projection)]
#[serde(rename_all = "camelCase", default)]
struct PodNodeSelector {
    node_selector_terms: Vec<PodNodeSelectorTerm>,
}

#[derive(Clone, Debug, Default, Deserialize, Projection)]
#[serde(rename_all = "camelCase", default)]
struct PodNodeSelectorTerm {
    match_fields: Vec<FieldRequirement>,
}

#[derive(Clone, Debug, Default, Deserialize, Projection)]
#[serde(default)]
struct FieldRequirement {
    key: String,
    operator: String,
    values: Vec<String>,
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

    /// The node that it is on, or is meant for by its affinity. `None`: any.
    pub fn node(&self) -> Option<&str> {
        if !self.spec.node_name.is_empty() {
            return Some(&self.spec.node_name);
        }
        let affinity = &self.spec.affinity.node_affinity;
        let required = &affinity.required_during_scheduling_ignored_during_execution;
        let mut fields = required
            .node_selector_terms
            .iter()
            .flat_map(|term| &term.match_fields);
        let pinned = fields.find(|field| field.key == "metadata.name" && field.operator == "In")?;
        match pinned.values.as_slice() {
            [node] => Some(node),
            _ => None,
        }
    }

    /// True if it is of the revision with this hash, or of this generation of the template.
    pub fn is_updated(&self, hash: &str, generation: Option<&str>) -> bool {
        let labels = &self.metadata.labels;
        let is_generation = generation.is_some() && labels.generation.as_deref() == generation;
        is_generation || (!hash.is_empty() && labels.hash == hash)
    }
}
