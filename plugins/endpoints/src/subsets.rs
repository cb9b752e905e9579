//! What fits into an Endpoints object, and whether two of them say the same.

use services::subsets::{Address, Subset, pack, sorted, unpacked};

/// Most addresses of an Endpoints object (upstream's `maxCapacity`).
const CAPACITY: usize = 1_000;

/// True if the subsets that are stored mean the same as the wanted ones, which come from [`pack`]
/// and [`truncate`]. Another writer may have used another order, and may have distributed ports and
/// addresses over subsets differently.
pub fn say_the_same(written: &[Subset], wanted: &[Subset]) -> bool {
    // What this controller has written itself is as it would write it again.
    if written == wanted {
        return true;
    }
    let written = &without_versions(written);
    // First compare them as they are, because truncated subsets need not be packed any more.
    sorted(written.clone()) == wanted || (written.len() > 1 && pack(unpacked(written)) == wanted)
}

/// The versions of pods, which controllers wrote before 1.24, do not matter.
fn without_versions(subsets: &[Subset]) -> Vec<Subset> {
    let mut subsets = subsets.to_vec();
    for subset in &mut subsets {
        let addresses = subset.addresses.iter_mut();
        for address in addresses.chain(&mut subset.not_ready_addresses) {
            if let Some(target) = &mut address.target_ref {
                target.resource_version.clear();
            }
        }
    }
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
