//! The parts of Services and Endpoints that the rules use.

use std::collections::BTreeMap;

use pilothouse_sdk::{Projection, Time};
use serde::Deserialize;
use services::or_default;
use services::service::ServiceSpec;
use services::subsets::Subset;

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
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    pub creation_timestamp: Option<Time>,
}

/// Endpoints. They are read whole, because they are written whole.
#[derive(Deserialize)]
pub struct Endpoints {
    pub metadata: EndpointsMetadata,
    #[serde(default, deserialize_with = "or_default")]
    pub subsets: Vec<Subset>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EndpointsMetadata {
    #[serde(default)]
    pub uid: String,
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    #[serde(default)]
    pub annotations: BTreeMap<String, String>,
    pub creation_timestamp: Option<Time>,
}
