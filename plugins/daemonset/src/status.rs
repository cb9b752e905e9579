//! What the status of a DaemonSet says.

use std::time::Duration;

use workloads::pod::{PodView, seconds};

use crate::objects::{DaemonSet, DaemonSetStatus};
use crate::placement::{Layout, Place};

/// The status that a DaemonSet should have. Of each node the first pod counts.
pub fn status(
    daemon_set: &DaemonSet,
    layout: &Layout<'_>,
    hash: &str,
    now: Duration,
) -> DaemonSetStatus {
    let min_ready = seconds(daemon_set.spec.min_ready_seconds);
    let generation = daemon_set.template_generation();
    let mut status = DaemonSetStatus {
        observed_generation: daemon_set.metadata.generation,
        collision_count: daemon_set.status.collision_count,
        ..DaemonSetStatus::default()
    };
    for (node, place) in &layout.places {
        let first = layout.pods_on(node).first();
        if *place != Place::Wanted {
            status.number_misscheduled += usize::from(first.is_some());
            continue;
        }
        status.desired_number_scheduled += 1;
        if let Some(pod) = first {
            let is_updated = pod.is_updated(hash, generation.as_deref());
            status.current_number_scheduled += 1;
            status.number_ready += usize::from(pod.is_ready());
            status.number_available += usize::from(pod.is_available(min_ready, now));
            status.updated_number_scheduled += usize::from(is_updated);
        }
    }
    status.number_unavailable = status.desired_number_scheduled - status.number_available;
    status
}

/// True if there is no need to write the status. One that has observed a later generation is not
/// taken back.
pub fn is_current(have: &DaemonSetStatus, wanted: &DaemonSetStatus) -> bool {
    let as_observed = DaemonSetStatus {
        observed_generation: have.observed_generation,
        ..wanted.clone()
    };
    *have == as_observed && have.observed_generation >= wanted.observed_generation
}
