//! The endpoints that should be mirrored.

use std::collections::BTreeMap;

use services::ip;
use services::slice::{Endpoint, EndpointConditions, EndpointSet, Port, port_map};
use services::subsets::{self, Address, Subset, pack, unpacked};

/// What groups endpoints: their address type, and the ports that they have.
pub type Group = (&'static str, Vec<Port>);

/// What should be mirrored of Endpoints.
#[derive(Default)]
pub struct Desired {
    /// The endpoints by group. Of each subset there are both address types, also without endpoints.
    pub groups: BTreeMap<Group, EndpointSet>,
    /// How many addresses are none.
    pub invalid: usize,
    /// How many addresses are left out, those included.
    pub skipped: usize,
}

impl Desired {
    /// Of these subsets, which may spread ports and addresses as they like. Of each subset at most
    /// so many addresses are mirrored, ready ones first: so a subset is one slice of each type.
    pub fn of(subsets: &[Subset], max: usize) -> Self {
        let mut desired = Self::default();
        for subset in pack(unpacked(subsets)) {
            desired.add(&subset, max);
        }
        desired
    }

    fn add(&mut self, subset: &Subset, max: usize) {
        let ports: Vec<Port> = subset.ports.iter().map(port).collect();
        let ports = port_map(&ports);
        for address_type in ["IPv4", "IPv6"] {
            self.groups
                .entry((address_type, ports.clone()))
                .or_default();
        }
        let ready = subset.addresses.iter().map(|address| (address, true));
        let not_ready = subset.not_ready_addresses.iter();
        let not_ready = not_ready.map(|address| (address, false));
        let mut left = max;
        for (address, is_ready) in ready.chain(not_ready) {
            if left == 0 {
                self.skipped += 1;
                continue;
            }
            let Some((address_type, endpoint)) = endpoint(address, is_ready) else {
                self.invalid += 1;
                self.skipped += 1;
                continue;
            };
            let group = self.groups.entry((address_type, ports.clone()));
            group.or_default().insert(endpoint.identity(), endpoint);
            left -= 1;
        }
    }
}

fn port(port: &subsets::Port) -> Port {
    Port {
        name: Some(port.name.clone()),
        protocol: Some(port.protocol.clone()),
        port: Some(port.port),
        app_protocol: port.app_protocol.clone(),
    }
}

/// An endpoint and its address type. `None`: it is no address.
fn endpoint(address: &Address, is_ready: bool) -> Option<(&'static str, Endpoint)> {
    let ip = ip::parse(&address.ip)?;
    let given = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
    let endpoint = Endpoint {
        addresses: vec![ip.to_string()],
        conditions: EndpointConditions {
            ready: Some(is_ready),
            ..EndpointConditions::default()
        },
        hostname: given(&address.hostname),
        target_ref: address.target_ref.clone(),
        node_name: given(&address.node_name),
        ..Endpoint::default()
    };
    let address_type = if ip.is_ipv6() { "IPv6" } else { "IPv4" };
    Some((address_type, endpoint))
}
