//! The subsets of Endpoints, and how single endpoints are packed into them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::or_default;
use crate::service::tcp;
use crate::slice::TargetRef;

/// Addresses that all have the same ports.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Subset {
    /// Those that are ready.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<Address>,
    /// Those that are not.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub not_ready_addresses: Vec<Address>,
    /// The ports.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<Port>,
}

/// An address.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Address {
    /// An IP address, in whatever form.
    pub ip: String,
    /// Its name in DNS.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub hostname: String,
    /// The node that it is on.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub node_name: String,
    /// The pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_ref: Option<TargetRef>,
}

/// A port. Ordered by name first, which is the order in which the ports of a subset are written.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Port {
    /// Empty if it is the only one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// `TCP`, `UDP` or `SCTP`.
    #[serde(default = "tcp")]
    pub protocol: String,
    /// Its number.
    pub port: i32,
    /// The protocol above.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub app_protocol: Option<String>,
}

/// One address at one port. The port is `None` if the Service has no ports.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// The address.
    pub address: Address,
    /// Whether it is ready at this port.
    pub is_ready: bool,
    /// The port.
    pub port: Option<Port>,
}

/// What identifies an address: the IP and the pod's uid. Pods on the host's network may share an IP
/// but have different uids.
type Identity<'a> = (&'a str, &'a str);

fn identity(address: &Address) -> Identity<'_> {
    let uid = address.target_ref.as_ref().map(|target| &*target.uid);
    (&address.ip, uid.unwrap_or_default())
}

/// Packs endpoints into as few subsets as possible: ports share a subset if they have the same
/// addresses with the same readiness.
///
/// If an address is given twice for a port, it is ready only if both are, and its other fields are
/// those given first (upstream's `RepackSubsets`). Addresses are ordered by IP and uid, as upstream
/// does. Upstream orders ports and subsets by a hash of their printed form in Go. Here ports are
/// ordered by name, protocol and number, and subsets by their ports.
#[must_use]
pub fn pack(endpoints: impl Iterator<Item = Endpoint>) -> Vec<Subset> {
    let endpoints: Vec<Endpoint> = endpoints.collect();
    let mut addresses: BTreeMap<Identity<'_>, &Address> = BTreeMap::new();
    let mut readiness_by_port: BTreeMap<&Option<Port>, BTreeMap<Identity<'_>, bool>> =
        BTreeMap::new();
    for endpoint in &endpoints {
        let identity = identity(&endpoint.address);
        let readiness = readiness_by_port.entry(&endpoint.port).or_default();
        let is_ready = readiness.entry(identity).or_insert(true);
        *is_ready &= endpoint.is_ready;
        addresses.entry(identity).or_insert(&endpoint.address);
    }

    // Ports with the same addresses in the same readiness share a key, and so a subset.
    let mut ports_by_readiness: BTreeMap<BTreeMap<Identity<'_>, bool>, Vec<Port>> = BTreeMap::new();
    for (port, readiness) in readiness_by_port {
        let ports = ports_by_readiness.entry(readiness).or_default();
        ports.extend(port.clone());
    }

    let subsets = ports_by_readiness.into_iter().map(|(readiness, ports)| {
        let of = |wanted: bool| {
            let members = readiness.iter().filter(|(_, ready)| **ready == wanted);
            let members = members.filter_map(|(identity, _)| addresses.get(identity));
            members.map(|address| (*address).clone()).collect()
        };
        Subset {
            addresses: of(true),
            not_ready_addresses: of(false),
            ports,
        }
    });
    // Addresses and ports come in order.
    let mut subsets: Vec<Subset> = subsets.collect();
    subsets.sort_by(|a, b| a.ports.cmp(&b.ports));
    subsets
}

/// The single endpoints in subsets.
pub fn unpacked(subsets: &[Subset]) -> impl Iterator<Item = Endpoint> {
    subsets.iter().flat_map(|subset| {
        let ready = subset.addresses.iter().map(|address| (address, true));
        let not_ready = subset
            .not_ready_addresses
            .iter()
            .map(|address| (address, false));
        let ports: Vec<_> = if subset.ports.is_empty() {
            vec![None]
        } else {
            subset.ports.iter().cloned().map(Some).collect()
        };
        ports.into_iter().flat_map(move |port| {
            let addresses = ready.clone().chain(not_ready.clone());
            addresses.map(move |(address, is_ready)| Endpoint {
                address: address.clone(),
                is_ready,
                port: port.clone(),
            })
        })
    })
}

/// The same subsets in the order that [`pack`] uses.
#[must_use]
pub fn sorted(mut subsets: Vec<Subset>) -> Vec<Subset> {
    for subset in &mut subsets {
        let order = |a: &Address, b: &Address| identity(a).cmp(&identity(b));
        subset.addresses.sort_by(order);
        subset.not_ready_addresses.sort_by(order);
        subset.ports.sort();
    }
    subsets.sort_by(|a, b| a.ports.cmp(&b.ports));
    subsets
}

#[cfg(test)]
#[path = "subsets_tests.rs"]
mod tests;
