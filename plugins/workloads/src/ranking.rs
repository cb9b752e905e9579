//! Which pods are deleted first when there are too many (upstream's `ActivePodsWithRanks` and
//! `ActivePods`).

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::time::Duration;

use pilothouse_sdk::{Projection, Time};
use serde::Deserialize;

use crate::pod::PodView;

/// The annotation that says what it costs to delete a pod: the cheaper ones go first.
pub const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// A pod with what the order of deletion looks at.
pub trait Ranked: PodView {
    /// The node that it is on. Empty: none yet.
    fn node_name(&self) -> &str;

    /// When it was created.
    fn created(&self) -> Option<Time>;

    /// The most restarts of one of its containers, and of one of its sidecars.
    fn restarts(&self) -> Restarts;

    /// Its annotation [`DELETION_COST`].
    fn deletion_cost(&self) -> Option<&str>;
}

impl<P: Ranked> Ranked for &P {
    fn node_name(&self) -> &str {
        (**self).node_name()
    }

    fn created(&self) -> Option<Time> {
        (**self).created()
    }

    fn restarts(&self) -> Restarts {
        (**self).restarts()
    }

    fn deletion_cost(&self) -> Option<&str> {
        (**self).deletion_cost()
    }
}

/// The most restarts of one container. The sidecars are compared if the others are equal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Restarts {
    /// Of the containers.
    pub containers: i64,
    /// Of the sidecars: init containers that restart always.
    pub sidecars: i64,
}

/// An entry of a pod's `spec.initContainers`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Projection)]
#[serde(default, rename_all = "camelCase")]
pub struct InitContainer {
    /// Its name.
    pub name: String,
    /// `Always` for a sidecar.
    pub restart_policy: Option<String>,
}

/// An entry of a pod's `status.containerStatuses`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Projection)]
#[serde(default, rename_all = "camelCase")]
pub struct ContainerStatus {
    /// How often it has been restarted.
    pub restart_count: i64,
}

/// An entry of a pod's `status.initContainerStatuses`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Projection)]
#[serde(default, rename_all = "camelCase")]
pub struct InitContainerStatus {
    /// The init container's name.
    pub name: String,
    /// How often it has been restarted.
    pub restart_count: i64,
}

impl Restarts {
    /// The restarts of a pod that has these init containers, and these statuses.
    #[must_use]
    pub fn of(
        containers: &[ContainerStatus],
        init_containers: &[InitContainer],
        init_statuses: &[InitContainerStatus],
    ) -> Self {
        let is_sidecar = |status: &&InitContainerStatus| {
            init_containers.iter().any(|container| {
                container.name == status.name
                    && container.restart_policy.as_deref() == Some("Always")
            })
        };
        let counts = containers.iter().map(|status| status.restart_count);
        let sidecars = init_statuses.iter().filter(is_sidecar);
        Self {
            containers: counts.max().unwrap_or(0),
            sidecars: sidecars
                .map(|status| status.restart_count)
                .max()
                .unwrap_or(0),
        }
    }
}

/// How many active pods are on each node.
#[derive(Clone, Debug, Default)]
pub struct PodsOnNodes(BTreeMap<String, usize>);

impl PodsOnNodes {
    /// Counts these pods.
    pub fn of<'a, P: Ranked + 'a>(pods: impl IntoIterator<Item = &'a P>) -> Self {
        let mut count = BTreeMap::<String, usize>::new();
        for pod in pods.into_iter().filter(PodView::is_active) {
            *count.entry(pod.node_name().to_owned()).or_default() += 1;
        }
        Self(count)
    }
}

/// Orders pods, those that are to be deleted first at the beginning. Each rule decides between pods
/// that are equal by the rules before:
///
/// 1. on no node before on one
/// 2. pending before unknown before running
/// 3. not ready before ready
/// 4. cheaper to delete before dearer
/// 5. on a node with more related pods before on one with fewer
/// 6. ready for a shorter time before a longer one
/// 7. more restarts of a container before fewer
/// 8. then more restarts of a sidecar before fewer
/// 9. created later before earlier
/// 10. where times are as long ago as each other: the smaller uid
///
/// Times are compared by the power of two of the nanoseconds that they are ago, so that among pods
/// of about the same age, chance decides.
pub fn sort_with_nodes<P: Ranked>(pods: Vec<P>, related: &PodsOnNodes, now: Duration) -> Vec<P> {
    let colocated = |pod: &P| related.0.get(pod.node_name()).copied().unwrap_or_default();
    let now = Some(now);
    sort(pods, &|a, b| {
        by_state(a, b)
            .then_with(|| cost(a).cmp(&cost(b)))
            .then_with(|| colocated(b).cmp(&colocated(a)))
            .then_with(|| by_age(a, b, now))
    })
}

/// As [`sort_with_nodes`], without what the deletion costs and what else is on the nodes; times are
/// compared exactly.
pub fn sort_plainly<P: Ranked>(pods: Vec<P>) -> Vec<P> {
    sort(pods, &|a, b| {
        by_state(a, b).then_with(|| by_age(a, b, None))
    })
}

fn by_state(a: &impl Ranked, b: &impl Ranked) -> Ordering {
    let has_node = |pod: &dyn Ranked| !pod.node_name().is_empty();
    has_node(a)
        .cmp(&has_node(b))
        .then_with(|| phase(a).cmp(&phase(b)))
        .then_with(|| a.is_ready().cmp(&b.is_ready()))
}

fn by_age(a: &impl Ranked, b: &impl Ranked, now: Option<Duration>) -> Ordering {
    let by_time = |of_a: Option<Time>, of_b: Option<Time>| match later_first(of_a, of_b, now) {
        Some(order) => order,
        None => a.metadata().uid.cmp(&b.metadata().uid),
    };
    by_time(a.ready_since(), b.ready_since())
        .then_with(|| b.restarts().cmp(&a.restarts()))
        .then_with(|| by_time(a.created(), b.created()))
}

/// The later of two times first, and no time before any. `None`: they differ, but are as long ago
/// as each other.
fn later_first(a: Option<Time>, b: Option<Time>, now: Option<Duration>) -> Option<Ordering> {
    match (a, b, now) {
        (a, b, _) if a == b => Some(Ordering::Equal),
        (Some(a), Some(b), Some(now)) => {
            let order = magnitude(now, a).cmp(&magnitude(now, b));
            Some(order).filter(|order| order.is_ne())
        }
        (Some(a), Some(b), None) => Some(b.cmp(&a)),
        (a, b, _) => Some(a.is_some().cmp(&b.is_some())),
    }
}

/// The power of two of the nanoseconds that a time is ago. `None`: it is not in the past.
fn magnitude(now: Duration, time: Time) -> Option<u32> {
    let ago = now.checked_sub(time.0)?;
    ago.as_nanos().checked_ilog2()
}

fn phase(pod: &impl Ranked) -> u8 {
    match &*pod.status().phase {
        "Unknown" => 1,
        "Running" => 2,
        _ => 0,
    }
}

/// A whole number of 32 bits. One with a plus sign or leading zeros counts as 0, as what is no
/// number does.
fn cost(pod: &impl Ranked) -> i32 {
    let text = pod.deletion_cost().unwrap_or_default();
    let is_valid =
        text == "0" || text.starts_with(['-', '1', '2', '3', '4', '5', '6', '7', '8', '9']);
    if is_valid {
        text.parse().unwrap_or(0)
    } else {
        0
    }
}

/// Sorts by merging. Because chance (rule 10) comes between two rules, three pods can be in a
/// circle; the standard library's sort may panic on that.
fn sort<P>(mut pods: Vec<P>, compare: &impl Fn(&P, &P) -> Ordering) -> Vec<P> {
    if pods.len() < 2 {
        return pods;
    }
    let second = pods.split_off(pods.len() / 2);
    let first = sort(pods, compare).into_iter();
    let second = sort(second, compare).into_iter();
    let (mut first, mut second) = (first.peekable(), second.peekable());
    let mut merged = Vec::new();
    while let (Some(a), Some(b)) = (first.peek(), second.peek()) {
        let next = if compare(a, b).is_le() {
            first.next()
        } else {
            second.next()
        };
        merged.extend(next);
    }
    merged.extend(first);
    merged.extend(second);
    merged
}

#[cfg(test)]
mod tests;
