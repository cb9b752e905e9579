//! Hints in proportion to the CPUs of the zones, for Services that ask for them by annotation
//! (upstream's `topologycache`). Each zone gets so many endpoints that none is overloaded by more
//! than a fifth; what its own endpoints are too few for, other zones give.

use std::collections::BTreeMap;

use services::changes::Changes;
use services::slice::{Endpoint, Hints, Named, Slice};

use crate::objects::Node;

/// How much more than its share an endpoint may get at most.
const OVERLOAD: f64 = 0.2;

/// A number of endpoints by zone.
type ByZone<N> = BTreeMap<String, N>;

/// What is told about hints.
#[derive(Debug, PartialEq, Eq)]
pub enum Told {
    /// There are hints from now on.
    Enabled,
    /// There are none, for this reason.
    Disabled(String),
}

/// The share of all CPUs that each zone has. `None`: not enough is known of the nodes, or they are
/// all in one zone.
pub struct Zones(Option<ByZone<f64>>);

/// How many endpoints are for a zone.
#[derive(Debug)]
struct Allocation {
    maximum: i64,
    desired: f64,
}

impl Zones {
    /// Of these nodes. One that counts, and of which zone or CPUs are not known, is enough for
    /// nothing to be known.
    pub fn of<'a>(nodes: impl Iterator<Item = &'a Node>) -> Self {
        let mut cpus: ByZone<i64> = BTreeMap::new();
        for node in nodes.filter(|node| node.counts()) {
            let cpu = node.status.allocatable.cpu;
            let cpu = cpu.filter(|cpu| !cpu.is_zero());
            let (Some(zone), Some(cpu)) = (node.zone(), cpu) else {
                return Self(None);
            };
            *cpus.entry(zone.to_owned()).or_default() += cpu.milli_value();
        }
        let total: i64 = cpus.values().sum();
        if cpus.len() < 2 || total == 0 {
            return Self(None);
        }
        let share = |cpu: i64| float(cpu) / float(total);
        let shares = cpus.into_iter().map(|(zone, cpu)| (zone, share(cpu)));
        Self(Some(shares.collect()))
    }

    /// Gives the endpoints of slices hints, or takes all of them away if that is not possible.
    /// `are_known` says whether the Service has hints already, and is told whether it has them now.
    pub fn hint(&self, changes: &mut Changes, are_known: &mut bool) -> Option<Told> {
        let told = self.distribute(changes).err().map(Told::Disabled);
        let had_none = !std::mem::replace(are_known, told.is_none());
        if told.is_some() {
            remove(changes);
        }
        told.or_else(|| had_none.then_some(Told::Enabled))
    }

    /// # Errors
    ///
    /// Why there can be no hints.
    fn distribute(&self, changes: &mut Changes) -> Result<(), String> {
        let ready = changes.left().flat_map(|slice| &slice.endpoints);
        let ready = ready.filter(|endpoint| endpoint.is_ready()).count();
        let allocations = self.allocations(ready)?;
        let mut hinted = keep_good(changes, &allocations);
        // As a start, each endpoint is for its own zone.
        for endpoint in ready_endpoints(changes) {
            let zone = endpoint.zone.clone().filter(|zone| !zone.is_empty());
            let zone = zone.ok_or("One or more endpoints do not have a zone specified")?;
            endpoint.hints = Some(for_zone(&zone));
            *hinted.entry(zone).or_default() += 1;
        }
        let (giving, receiving) = exchange(&allocations, &hinted);
        redistribute(changes, giving, receiving);
        if hinted.is_empty() {
            return Err("No hints allocated for zones".to_owned());
        }
        Ok(())
    }

    /// # Errors
    ///
    /// Why so many endpoints cannot be shared out.
    fn allocations(&self, count: usize) -> Result<ByZone<Allocation>, String> {
        let unknown = "Insufficient Node information: allocatable CPU or zone not specified on one \
                       or more nodes";
        let shares = self.0.as_ref().ok_or(unknown)?;
        let numbers = format!("({count} endpoints, {} zones)", shares.len());
        if shares.len() > count {
            return Err(format!("Insufficient number of endpoints {numbers}"));
        }
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        let minimum = |desired: f64| whole((desired * (1.0 / (1.0 + OVERLOAD))).ceil());
        let desired = shares
            .iter()
            .map(|(zone, share)| (zone, share * float(count)));
        let least: Vec<(&String, f64, i64)> = desired
            .map(|(zone, desired)| (zone, desired, minimum(desired)))
            .collect();
        let all_least: i64 = least.iter().map(|(_, _, minimum)| minimum).sum();
        if all_least > count {
            let reason = "Unable to allocate minimum required endpoints to each zone without \
                          exceeding overload threshold";
            return Err(format!("{reason} {numbers}"));
        }
        let allocations = least.into_iter().map(|(zone, desired, minimum)| {
            let allocation = Allocation {
                maximum: minimum + count - all_least,
                desired: desired.max(float(minimum)),
            };
            (zone.clone(), allocation)
        });
        Ok(allocations.collect())
    }
}

/// Takes all hints away. Slices that have some are updated.
pub fn remove(changes: &mut Changes) {
    changes.update_if(|slice| slice.endpoints.iter().any(|one| one.hints.is_some()));
    let endpoints = changes.written().flat_map(|slice| &mut slice.endpoints);
    endpoints.for_each(|endpoint| endpoint.hints = None);
}

/// The ready endpoints of slices that are written anyway.
fn ready_endpoints(changes: &mut Changes) -> impl Iterator<Item = &mut Endpoint> {
    let endpoints = changes.written().flat_map(|slice| &mut slice.endpoints);
    endpoints.filter(|endpoint| endpoint.is_ready())
}

/// Counts the hints of slices that are not written. One whose hints are not good any more is
/// updated.
fn keep_good(changes: &mut Changes, allocations: &ByZone<Allocation>) -> ByZone<i64> {
    let mut hinted: ByZone<i64> = BTreeMap::new();
    changes.update_if(|slice| match good_hints(slice, &hinted, allocations) {
        Some(of_slice) => {
            for (zone, count) in of_slice {
                *hinted.entry(zone).or_default() += count;
            }
            false
        }
        None => true,
    });
    hinted
}

/// The hints of a slice by zone. `None`: a ready endpoint has none, or one for a zone that needs
/// none, or a zone would have more than its maximum.
fn good_hints(
    slice: &Slice,
    hinted: &ByZone<i64>,
    allocations: &ByZone<Allocation>,
) -> Option<ByZone<i64>> {
    let mut of_slice: ByZone<i64> = BTreeMap::new();
    for endpoint in slice.endpoints.iter().filter(|one| one.is_ready()) {
        let hints = endpoint.hints.as_ref()?;
        if hints.for_zones.is_empty() {
            return None;
        }
        for zone in &hints.for_zones {
            allocations.get(&zone.name)?;
            *of_slice.entry(zone.name.clone()).or_default() += 1;
        }
    }
    let mut zones = of_slice.iter();
    let is_good = zones.all(|(zone, count)| {
        let all = count + hinted.get(zone).copied().unwrap_or_default();
        let allocation = allocations.get(zone);
        allocation.is_some_and(|allocation| all <= allocation.maximum)
    });
    is_good.then_some(of_slice)
}

/// How many endpoints each zone gives to others, and how many each receives from others.
fn exchange(allocations: &ByZone<Allocation>, hinted: &ByZone<i64>) -> (ByZone<i64>, ByZone<i64>) {
    let mut too_many: ByZone<f64> = BTreeMap::new();
    let mut too_few: ByZone<f64> = BTreeMap::new();
    for (zone, allocation) in allocations {
        let has = float(hinted.get(zone).copied().unwrap_or_default());
        if has > allocation.desired {
            too_many.insert(zone.clone(), has - allocation.desired);
        } else if has < allocation.desired {
            too_few.insert(zone.clone(), allocation.desired - has);
        }
    }
    let (mut giving, mut receiving) = (BTreeMap::new(), BTreeMap::new());
    while let (Some((giver, give)), Some((receiver, receive))) = (most(&too_many), most(&too_few)) {
        if (give < 1.0 && receive < 1.0) || give < 0.5 || receive < 0.5 {
            break;
        }
        for (zone, counts, rest) in [
            (giver, &mut giving, &mut too_many),
            (receiver, &mut receiving, &mut too_few),
        ] {
            *counts.entry(zone.clone()).or_default() += 1;
            rest.entry(zone).and_modify(|rest| *rest -= 1.0);
        }
    }
    (giving, receiving)
}

/// The zone with the most, if one has more than nothing. Of two the first by name.
fn most(zones: &ByZone<f64>) -> Option<(String, f64)> {
    let mut best: Option<(&String, f64)> = None;
    for (zone, number) in zones {
        if *number > best.map_or(0.0, |(_, best)| best) {
            best = Some((zone, *number));
        }
    }
    best.map(|(zone, number)| (zone.clone(), number))
}

/// Gives endpoints of zones that have too many to those that have too few.
fn redistribute(changes: &mut Changes, mut giving: ByZone<i64>, mut receiving: ByZone<i64>) {
    for endpoint in ready_endpoints(changes) {
        let Some(receiver) = receiving.keys().next().cloned() else {
            return;
        };
        let giver = endpoint.zone.clone().unwrap_or_default();
        if !giving.contains_key(&giver) {
            continue;
        }
        endpoint.hints = Some(for_zone(&receiver));
        take_one(&mut giving, &giver);
        take_one(&mut receiving, &receiver);
    }
}

/// Takes one of a zone, which goes when it has no more.
fn take_one(zones: &mut ByZone<i64>, zone: &str) {
    if let Some(count) = zones.get_mut(zone) {
        *count -= 1;
    }
    zones.retain(|_, count| *count > 0);
}

fn for_zone(zone: &str) -> Hints {
    Hints {
        for_zones: vec![Named::new(zone)],
        for_nodes: Vec::new(),
    }
}

#[allow(
    clippy::cast_precision_loss,
    reason = "counts of endpoints and CPUs are small"
)]
fn float(number: i64) -> f64 {
    number as f64
}

#[allow(clippy::cast_possible_truncation, reason = "a count of endpoints")]
fn whole(number: f64) -> i64 {
    number as i64
}

#[cfg(test)]
#[path = "topology_tests.rs"]
mod tests;
