//! Services, as the rules about endpoints look at them.

use std::collections::BTreeMap;

use pilothouse_sdk::{IntOrString, Projection};
use serde::Deserialize;

/// The kind.
pub const SERVICES: &str = "v1/Service";

/// A Service's `spec`.
#[derive(Clone, Debug, Default, Deserialize, Projection)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceSpec {
    /// `ClusterIP`, `ExternalName`, ….
    pub r#type: String,
    /// The labels of the pods behind it. `None`: there is no selector, and the endpoints are
    /// somebody else's. Empty: all pods of the namespace. (The API server never stores an empty
    /// one, because it drops empty maps. The distinction is Go's between nil and empty.)
    pub selector: Option<BTreeMap<String, String>>,
    /// Its address; `None` (the word) if it is headless; empty before it has one.
    #[serde(rename = "clusterIP")]
    pub cluster_ip: String,
    /// `IPv4` and `IPv6`, in the order of preference.
    pub ip_families: Vec<String>,
    /// Pods count that are not ready.
    pub publish_not_ready_addresses: bool,
    /// Its ports.
    pub ports: Vec<ServicePort>,
}

impl ServiceSpec {
    /// The labels of the pods behind it, if its endpoints are a controller's task: an external name
    /// points outside of the cluster, and the endpoints of a Service without a selector are
    /// maintained by somebody else.
    #[must_use]
    pub fn selects(&self) -> Option<&BTreeMap<String, String>> {
        let selector = self.selector.as_ref();
        selector.filter(|_| self.r#type != "ExternalName")
    }

    /// True if the Service is not headless and has been given a cluster IP.
    #[must_use]
    pub fn has_cluster_ip(&self) -> bool {
        !matches!(&*self.cluster_ip, "" | "None")
    }

    /// True if the Service is headless.
    #[must_use]
    pub fn is_headless(&self) -> bool {
        self.cluster_ip == "None"
    }
}

/// A port of a Service.
#[derive(Clone, Debug, Deserialize, Projection)]
#[serde(rename_all = "camelCase")]
pub struct ServicePort {
    /// Empty if it is the only one.
    #[serde(default)]
    pub name: String,
    /// `TCP`, `UDP` or `SCTP`.
    #[serde(default = "tcp")]
    pub protocol: String,
    /// The protocol above, such as `kubernetes.io/h2c`.
    pub app_protocol: Option<String>,
    /// The Service's own number.
    pub port: i32,
    /// The pod's port, by number or by name.
    pub target_port: Option<IntOrString>,
}

/// The API server's default for a port's protocol.
#[must_use]
pub fn tcp() -> String {
    "TCP".to_owned()
}
