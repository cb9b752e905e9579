//! Packs single endpoints into the subsets of an Endpoints object.

use std::collections::BTreeMap;

use crate::objects::{Address, Port, Subset};

/// Most addresses of an Endpoints object (upstream's `maxCapacity`).
const CAPACITY: usize = 1_000;

/// One address at one port. The port is `None` if the Service has no ports.
#[derive(Clone, Debug)]
pub struct Endpoint {
    pub address: Address,
    pub is_ready: bool,
    pub port: Option<Port>,
}

/// What identifies an address: the IP and the pod's uid. Pods on the host's network may share an IP
/// but have different uids.
type Identity = (String, String);

fn identity(address: &Address) -> Identity {
    let uid = address.target_ref.as_ref().map(|target| target.uid.clone());
    (address.ip.clone(), uid.unwrap_or_default())
}

/// Packs endpoints into as few subsets as possible: ports share a subset if they have the same
/// addresses with the same readiness.
///
/// If an address is given twice for a port, it is ready only if both are, and its other fields are
/// those given first (upstream's `RepackSubsets`). Addresses are ordered by IP and uid, as upstream
/// does. Upstream orders ports and subsets by a hash of their printed form in Go. Here ports are
/// ordered by name, protocol and number, and subsets by their ports.
pub fn pack(endpoints: impl Iterator<Item = Endpoint>) -> Vec<Subset> {
    let mut addresses: BTreeMap<Identity, Address> = BTreeMap::new();
    let mut readiness_by_port: BTreeMap<Option<Port>, BTreeMap<Identity, bool>> = BTreeMap::new();
    for Endpoint {
        address,
        is_ready,
        port,
    } in endpoints
    {
        let identity = identity(&address);
        let readiness = readiness_by_port.entry(port).or_default();
        readiness
            .entry(identity.clone())
            .and_modify(|was_ready| *was_ready &= is_ready)
            .or_insert(is_ready);
        addresses.entry(identity).or_insert(address);
    }

    // Ports with the same addresses in the same readiness share a key, and so a subset.
    let mut ports_by_readiness: BTreeMap<BTreeMap<Identity, bool>, Vec<Port>> = BTreeMap::new();
    for (port, readiness) in readiness_by_port {
        ports_by_readiness
            .entry(readiness)
            .or_default()
            .extend(port);
    }

    let subsets = ports_by_readiness.into_iter().map(|(readiness, ports)| {
        let is_ready = |identity: &Identity| readiness.get(identity).copied().unwrap_or_default();
        let members = readiness
            .keys()
            .filter_map(|identity| Some((is_ready(identity), addresses.get(identity)?.clone())));
        let (ready, not_ready): (Vec<_>, Vec<_>) = members.partition(|(is_ready, _)| *is_ready);
        let only_addresses = |members: Vec<(bool, Address)>| {
            members.into_iter().map(|(_, address)| address).collect()
        };
        Subset {
            addresses: only_addresses(ready),
            not_ready_addresses: only_addresses(not_ready),
            ports,
        }
    });
    sorted(subsets.collect())
}

/// True if the subsets that are stored mean the same as the wanted ones, which come from [`pack`]
/// and [`truncate`]. Another writer may have used another order, and may have distributed ports and
/// addresses over subsets differently.
pub fn say_the_same(written: &[Subset], wanted: &[Subset]) -> bool {
    // First compare them as they are, because truncated subsets need not be packed any more.
    sorted(written.to_vec()) == wanted || (written.len() > 1 && pack(unpacked(written)) == wanted)
}

/// The single endpoints in subsets.
fn unpacked(subsets: &[Subset]) -> impl Iterator<Item = Endpoint> {
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
fn sorted(mut subsets: Vec<Subset>) -> Vec<Subset> {
    for subset in &mut subsets {
        subset.addresses.sort_by_cached_key(identity);
        subset.not_ready_addresses.sort_by_cached_key(identity);
        subset.ports.sort();
    }
    subsets.sort_by(|a, b| a.ports.cmp(&b.ports));
    subsets
}

/// Removes addresses until an Endpoints object can hold the rest. Returns true if any were removed.
///
/// Addresses that are not ready are removed first. Addresses are taken from all subsets in
/// proportion, rounded so that the last subset may lose more (upstream's `truncateEndpoints`). A
/// subset without addresses is removed, too, because the API server refuses it.
pub fn truncate(subsets: &mut Vec<Subset>) -> bool {
    let ready: usize = subsets.iter().map(|subset| subset.addresses.len()).sum();
    let not_ready: usize = subsets
        .iter()
        .map(|subset| subset.not_ready_addresses.len())
        .sum();
    if ready + not_ready <= CAPACITY {
        return false;
    }
    if ready > CAPACITY {
        share(
            subsets.iter_mut().map(|subset| &mut subset.addresses),
            ready,
            CAPACITY,
        );
        subsets
            .iter_mut()
            .for_each(|subset| subset.not_ready_addresses.clear());
    } else {
        share(
            subsets
                .iter_mut()
                .map(|subset| &mut subset.not_ready_addresses),
            not_ready,
            CAPACITY - ready,
        );
    }
    subsets.retain(|subset| !subset.addresses.is_empty() || !subset.not_ready_addresses.is_empty());
    true
}

/// Shortens lists with `total` addresses to `room` addresses. Each list keeps a share in proportion
/// to its length, rounded up while there is room.
fn share<'a>(lists: impl Iterator<Item = &'a mut Vec<Address>>, total: usize, room: usize) {
    let mut left = room;
    for list in lists {
        let part = (list.len() * room).div_ceil(total.max(1));
        list.truncate(part.min(left));
        left -= list.len();
    }
}

/// True if there are addresses and each refers to a pod.
pub fn are_all_pods(subsets: &[Subset]) -> bool {
    let mut addresses = subsets
        .iter()
        .flat_map(|subset| subset.addresses.iter().chain(&subset.not_ready_addresses))
        .peekable();
    addresses.peek().is_some()
        && addresses.all(|address| {
            address
                .target_ref
                .as_ref()
                .is_some_and(|target| target.kind == "Pod")
        })
}

#[cfg(test)]
#[path = "subsets_tests.rs"]
mod tests;
