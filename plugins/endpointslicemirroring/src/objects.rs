//! The parts of Endpoints and Services that the rules use.

use std::collections::BTreeMap;

use pilothouse_sdk::{Metadata, Projection};
use serde::Deserialize;
use services::or_default;
use services::subsets::Subset;

pub const ENDPOINTS: &str = "v1/Endpoints";

/// Label of Endpoints that are not to be mirrored.
const SKIP: &str = "endpointslice.kubernetes.io/skip-mirror";

/// Annotation of Endpoints that are a lock of client-go's leader election.
const LEADER: &str = "control-plane.alpha.kubernetes.io/leader";

#[derive(Deserialize)]
pub struct Endpoints {
    pub metadata: EndpointsMetadata,
    #[serde(default, deserialize_with = "or_default")]
    pub subsets: Vec<Subset>,
}

#[derive(Deserialize)]
pub struct EndpointsMetadata {
    #[serde(flatten)]
    pub always: Metadata,
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    #[serde(default)]
    pub annotations: BTreeMap<String, String>,
}

impl Endpoints {
    /// True if they can be mirrored, whatever their Service is.
    pub fn wants_mirror(&self) -> bool {
        let is_skipped = self
            .metadata
            .labels
            .get(SKIP)
            .is_some_and(|skip| skip == "true");
        !is_skipped && !self.metadata.annotations.contains_key(LEADER)
    }
}

#[derive(Deserialize, Projection)]
#[projection(kind = "v1/Service")]
pub struct Service {
    #[serde(default)]
    pub spec: ServiceSpec,
}

#[derive(Default, Deserialize, Projection)]
#[serde(default)]
pub struct ServiceSpec {
    /// `None`: its Endpoints are somebody else's.
    pub selector: Option<BTreeMap<String, String>>,
}
