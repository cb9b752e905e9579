//! The parts of Service, Pod and Endpoints that the rules use. The manifest's fields are listed
//! beside the types, so that what is declared and what is decoded stay the same.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};

/// The fields read of a Service.
pub const SERVICE_FIELDS: [&str; 11] = [
    ".metadata.labels",
    ".spec.type",
    ".spec.selector",
    ".spec.clusterIP",
    ".spec.ipFamilies",
    ".spec.publishNotReadyAddresses",
    ".spec.ports[*].name",
    ".spec.ports[*].protocol",
    ".spec.ports[*].appProtocol",
    ".spec.ports[*].port",
    ".spec.ports[*].targetPort",
];

/// The fields read of a Pod. Its labels are not among them, because the host selects pods by label.
pub const POD_FIELDS: [&str; 15] = [
    ".spec.nodeName",
    ".spec.hostname",
    ".spec.subdomain",
    ".spec.containers[*].ports[*].name",
    ".spec.containers[*].ports[*].protocol",
    ".spec.containers[*].ports[*].containerPort",
    ".spec.initContainers[*].restartPolicy",
    ".spec.initContainers[*].ports[*].name",
    ".spec.initContainers[*].ports[*].protocol",
    ".spec.initContainers[*].ports[*].containerPort",
    ".status.phase",
    ".status.podIP",
    ".status.podIPs[*].ip",
    ".status.conditions[*].type",
    ".status.conditions[*].status",
];

/// The fields read of the Endpoints.
pub const ENDPOINTS_FIELDS: [&str; 5] = [
    ".metadata.labels",
    ".metadata.annotations['endpoints.kubernetes.io/over-capacity']",
    ".metadata.annotations['endpoints.kubernetes.io/last-change-trigger-time']",
    ".metadata.annotations['control-plane.alpha.kubernetes.io/leader']",
    ".subsets",
];

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct Metadata {
    pub namespace: String,
    pub name: String,
    pub uid: String,
    #[serde(deserialize_with = "or_default")]
    pub labels: BTreeMap<String, String>,
    #[serde(deserialize_with = "or_default")]
    pub annotations: BTreeMap<String, String>,
    pub deletion_timestamp: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub struct Service {
    pub metadata: Metadata,
    pub spec: ServiceSpec,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceSpec {
    pub r#type: String,
    /// `None`: the Service has no selector. Empty: it selects all pods. The API server never stores
    /// an empty one, because it drops empty maps. The distinction is that of upstream between nil
    /// and empty.
    pub selector: Option<BTreeMap<String, String>>,
    #[serde(rename = "clusterIP")]
    pub cluster_ip: String,
    #[serde(deserialize_with = "or_default")]
    pub ip_families: Vec<String>,
    pub publish_not_ready_addresses: bool,
    #[serde(deserialize_with = "or_default")]
    pub ports: Vec<ServicePort>,
}

impl Service {
    /// True if the Service is not headless and has been given a cluster IP.
    pub fn has_cluster_ip(&self) -> bool {
        !matches!(self.spec.cluster_ip.as_str(), "" | "None")
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServicePort {
    #[serde(default)]
    pub name: String,
    #[serde(default = "tcp")]
    pub protocol: String,
    pub app_protocol: Option<String>,
    pub port: i32,
    pub target_port: Option<TargetPort>,
}

/// A port of the pod, by number or by name.
#[derive(Deserialize)]
#[serde(untagged)]
pub enum TargetPort {
    Number(i32),
    Name(String),
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub struct Pod {
    pub metadata: Metadata,
    pub spec: PodSpec,
    pub status: PodStatus,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct PodSpec {
    pub node_name: String,
    pub hostname: String,
    pub subdomain: String,
    #[serde(deserialize_with = "or_default")]
    pub containers: Vec<Container>,
    #[serde(deserialize_with = "or_default")]
    pub init_containers: Vec<Container>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct Container {
    pub restart_policy: String,
    #[serde(deserialize_with = "or_default")]
    pub ports: Vec<ContainerPort>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContainerPort {
    #[serde(default)]
    pub name: String,
    #[serde(default = "tcp")]
    pub protocol: String,
    pub container_port: i32,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct PodStatus {
    pub phase: String,
    #[serde(rename = "podIP")]
    pub pod_ip: String,
    #[serde(rename = "podIPs", deserialize_with = "or_default")]
    pub pod_ips: Vec<PodIp>,
    #[serde(deserialize_with = "or_default")]
    pub conditions: Vec<Condition>,
}

#[derive(Deserialize)]
pub struct PodIp {
    #[serde(default)]
    pub ip: String,
}

#[derive(Deserialize)]
pub struct Condition {
    pub r#type: String,
    pub status: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub struct Endpoints {
    pub metadata: Metadata,
    #[serde(deserialize_with = "or_default")]
    pub subsets: Vec<Subset>,
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

/// The API server's default for a port's protocol.
fn tcp() -> String {
    "TCP".to_owned()
}

/// Treats null like an absent field, as Go does.
fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}
