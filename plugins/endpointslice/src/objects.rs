//! The parts of Services and Nodes that the rules use.

use std::collections::BTreeMap;

use pilothouse_sdk::{Metadata, Projection, Quantity, Time};
use serde::Deserialize;
use services::service::ServiceSpec as Shared;

#[derive(Deserialize, Projection)]
#[projection(kind = "v1/Service")]
pub struct Service {
    pub metadata: ServiceMetadata,
    #[serde(default)]
    pub spec: ServiceSpec,
}

#[derive(Deserialize, Projection)]
#[serde(rename_all = "camelCase")]
pub struct ServiceMetadata {
    #[serde(flatten)]
    pub always: Metadata,
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    #[serde(default)]
    pub annotations: ServiceAnnotations,
    pub creation_timestamp: Option<Time>,
}

/// The annotations that ask for hints. Of two, the older one counts.
#[derive(Default, Deserialize, Projection)]
#[serde(default)]
pub struct ServiceAnnotations {
    #[serde(rename = "service.kubernetes.io/topology-aware-hints")]
    pub topology_aware_hints: Option<String>,
    #[serde(rename = "service.kubernetes.io/topology-mode")]
    pub topology_mode: Option<String>,
}

#[derive(Default, Deserialize, Projection)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceSpec {
    #[serde(flatten)]
    pub shared: Shared,
    pub traffic_distribution: Option<String>,
}

impl Service {
    /// True if its endpoints are to have hints in proportion to the CPUs of the zones.
    pub fn wants_topology(&self) -> bool {
        let annotations = &self.metadata.annotations;
        let mode = annotations.topology_aware_hints.as_deref();
        let mode = mode.or(annotations.topology_mode.as_deref());
        matches!(mode, Some("Auto" | "auto"))
    }
}

#[derive(Deserialize, Projection)]
#[projection(kind = "v1/Node")]
pub struct Node {
    pub metadata: NodeMetadata,
    #[serde(default)]
    pub status: NodeStatus,
}

#[derive(Deserialize, Projection)]
pub struct NodeMetadata {
    #[serde(flatten)]
    pub always: Metadata,
    #[serde(default)]
    pub labels: NodeLabels,
}

#[derive(Default, Deserialize, Projection)]
#[serde(default)]
pub struct NodeLabels {
    #[serde(rename = "topology.kubernetes.io/zone")]
    pub zone: Option<String>,
    #[serde(rename = "node-role.kubernetes.io/control-plane")]
    pub control_plane: Option<String>,
    #[serde(rename = "node-role.kubernetes.io/master")]
    pub master: Option<String>,
}

#[derive(Default, Deserialize, Projection)]
#[serde(default)]
pub struct NodeStatus {
    pub conditions: Vec<NodeCondition>,
    pub allocatable: Allocatable,
}

#[derive(Deserialize, Projection)]
pub struct NodeCondition {
    pub r#type: String,
    pub status: String,
}

#[derive(Default, Deserialize, Projection)]
#[serde(default)]
pub struct Allocatable {
    pub cpu: Option<Quantity>,
}

impl Node {
    /// The zone that it is in. `None`: nobody has said.
    pub fn zone(&self) -> Option<&str> {
        let zone = self.metadata.labels.zone.as_deref();
        zone.filter(|zone| !zone.is_empty())
    }

    /// True if what it can run counts for the zone's share: it is ready, and is not there for the
    /// control plane.
    pub fn counts(&self) -> bool {
        let labels = &self.metadata.labels;
        let is_excluded = labels.control_plane.is_some() || labels.master.is_some();
        let mut conditions = self.status.conditions.iter();
        let ready = conditions.find(|condition| condition.r#type == "Ready");
        !is_excluded && ready.is_some_and(|ready| ready.status == "True")
    }
}
