//! The parts of Services and Endpoints that the rules use.

use std::collections::BTreeMap;

use pilothouse_sdk::{Metadata, Projection, Time};
use serde::{Deserialize, Serialize};
use services::or_default;
use services::service::{ServiceSpec, tcp};

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
    #[serde(flatten)]
    pub always: Metadata,
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    #[serde(default)]
    pub annotations: BTreeMap<String, String>,
    pub creation_timestamp: Option<Time>,
}

/// Addresses that all have the same ports.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Subset {
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<Address>,
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub not_ready_addresses: Vec<Address>,
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<Port>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Address {
    pub ip: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub hostname: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub node_name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_ref: Option<TargetRef>,
}

/// The pod at an address. Its resourceVersion, which controllers wrote before 1.24, is ignored, as
/// upstream does.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TargetRef {
    /// Never written here. If another writer has set it, the Endpoints differ and are written
    /// again. The same holds for `field_path`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub api_version: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub field_path: String,
    pub kind: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
}

/// Ordered by name first, which is the order in which the ports of a subset are written.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Port {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    #[serde(default = "tcp")]
    pub protocol: String,
    pub port: i32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub app_protocol: Option<String>,
}
