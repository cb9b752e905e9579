//! The pods behind a Service.

use std::net::IpAddr;

use pilothouse_sdk::{Metadata, Projection, Time};
use serde::Deserialize;

use crate::ip;

/// A pod. Its labels are not among what is read, because the host selects pods by label.
#[derive(Clone, Debug, Default, Deserialize, Projection)]
#[projection(kind = "v1/Pod")]
#[serde(default)]
pub struct Pod {
    /// Name, uid, and whether it is being deleted.
    pub metadata: Metadata,
    /// Where it runs, and its ports.
    pub spec: PodSpec,
    /// Its addresses, and whether it is ready.
    pub status: PodStatus,
}

/// A pod's `spec`.
#[derive(Clone, Debug, Default, Deserialize, Projection)]
#[serde(rename_all = "camelCase", default)]
pub struct PodSpec {
    /// Empty before it is scheduled.
    pub node_name: String,
    /// Its name in DNS, under the subdomain.
    pub hostname: String,
    /// The Service under which it has a name in DNS.
    pub subdomain: String,
    /// The containers.
    pub containers: Vec<Container>,
    /// Those that run first, and sidecars.
    pub init_containers: Vec<InitContainer>,
}

/// A container.
#[derive(Clone, Debug, Default, Deserialize, Projection)]
#[serde(default)]
pub struct Container {
    /// The ports that it names.
    pub ports: Vec<ContainerPort>,
}

/// An init container.
#[derive(Clone, Debug, Default, Deserialize, Projection)]
#[serde(rename_all = "camelCase", default)]
pub struct InitContainer {
    /// `Always`: it is a sidecar.
    pub restart_policy: String,
    /// The ports that it names.
    pub ports: Vec<ContainerPort>,
}

/// A port of a container.
#[derive(Clone, Debug, Deserialize, Projection)]
#[serde(rename_all = "camelCase")]
pub struct ContainerPort {
    /// By which a Service may mean it.
    #[serde(default)]
    pub name: String,
    /// `TCP`, `UDP` or `SCTP`.
    #[serde(default = "crate::service::tcp")]
    pub protocol: String,
    /// Its number.
    pub container_port: i32,
}

/// A pod's `status`.
#[derive(Clone, Debug, Default, Deserialize, Projection)]
#[serde(rename_all = "camelCase", default)]
pub struct PodStatus {
    /// `Running`, `Succeeded`, ….
    pub phase: String,
    /// Its first address.
    #[serde(rename = "podIP")]
    pub pod_ip: String,
    /// All its addresses.
    #[serde(rename = "podIPs")]
    pub pod_ips: Vec<PodIp>,
    /// What is known of it, `Ready` among it.
    pub conditions: Vec<PodCondition>,
}

/// An address of a pod.
#[derive(Clone, Debug, Default, Deserialize, Projection)]
#[serde(default)]
pub struct PodIp {
    /// In whatever form.
    pub ip: String,
}

/// An entry of a pod's `status.conditions`.
#[derive(Clone, Debug, Default, Deserialize, Projection)]
#[serde(default, rename_all = "camelCase")]
pub struct PodCondition {
    /// The type: `Ready`.
    pub r#type: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// Since when the status is so, as text: of the few that are looked at it is a time.
    pub last_transition_time: Option<String>,
}

impl Pod {
    /// True if it is being deleted.
    #[must_use]
    pub fn is_terminating(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    /// True if it can belong to a Service: it has an address, and has not ended for good
    /// (upstream's `ShouldPodBeInEndpoints`). Whether one that is being deleted counts is another
    /// question.
    #[must_use]
    pub fn is_reachable(&self) -> bool {
        let has_ended = matches!(&*self.status.phase, "Failed" | "Succeeded");
        let has_ip = !(self.status.pod_ip.is_empty() && self.status.pod_ips.is_empty());
        !has_ended && has_ip
    }

    /// True if its condition `Ready` says so.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.ready().is_some_and(|ready| ready.status == "True")
    }

    /// Since when it is ready, or is not. `None`: nobody has said.
    #[must_use]
    pub fn ready_changed(&self) -> Option<Time> {
        self.ready()?.last_transition_time.as_ref()?.parse().ok()
    }

    /// Its addresses, in their canonical form. What is no address is left out.
    pub fn ips(&self) -> impl Iterator<Item = IpAddr> {
        let texts = self.status.pod_ips.iter();
        texts.filter_map(|pod_ip| ip::parse(&pod_ip.ip))
    }

    /// Its name in DNS as a member of this Service: it has one if its subdomain is the Service.
    #[must_use]
    pub fn hostname_in(&self, service: &str) -> Option<&str> {
        let hostname = Some(&*self.spec.hostname);
        hostname.filter(|hostname| !hostname.is_empty() && self.spec.subdomain == service)
    }

    fn ready(&self) -> Option<&PodCondition> {
        let mut conditions = self.status.conditions.iter();
        conditions.find(|condition| condition.r#type == "Ready")
    }
}
