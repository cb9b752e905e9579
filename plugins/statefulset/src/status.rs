//! The status of a set: how many pods there are, in which state, of which revision.

use std::time::Duration;

use pilothouse_sdk::{Failure, Patch};
use serde_json::json;
use workloads::pod::PodView;

use crate::history::History;
use crate::objects::{Pod, StatefulSet, Status};

/// Counts these pods.
pub fn of<'a>(
    set: &StatefulSet,
    history: &History,
    pods: impl IntoIterator<Item = &'a Pod>,
    now: Duration,
) -> Status {
    let mut status = Status {
        observed_generation: set.metadata.generation,
        current_revision: history.current.name.clone(),
        update_revision: history.update.name.clone(),
        collision_count: history.collisions,
        ..Status::default()
    };
    let min_ready = set.min_ready();
    for pod in pods {
        let is_ready = pod.is_running_and_ready();
        let is_kept = pod.is_created() && !pod.is_deleted();
        let is_of = |revision: &str| is_kept && pod.revision() == revision;
        status.replicas += i64::from(pod.is_created());
        status.ready_replicas += i64::from(is_ready);
        let is_available = is_ready && pod.is_available(min_ready, now);
        status.available_replicas += i64::from(is_available);
        status.current_replicas += i64::from(is_of(&history.current.name));
        status.updated_replicas += i64::from(is_of(&history.update.name));
    }
    status
}

/// Makes the update revision the current one, if a rolling update has come to its end.
pub fn complete_update(set: &StatefulSet, status: &mut Status) {
    let counts = [
        status.updated_replicas,
        status.ready_replicas,
        status.replicas,
    ];
    let is_complete = counts.into_iter().all(|count| count == set.replicas());
    if set.spec.update_strategy.r#type == "RollingUpdate" && is_complete {
        status.current_replicas = status.updated_replicas;
        status.current_revision.clone_from(&status.update_revision);
    }
}

/// True if the status has to be written. A collision count alone is no reason.
pub fn differs(set: &StatefulSet, status: &Status) -> bool {
    let had = &set.status;
    let same = Status {
        observed_generation: had.observed_generation,
        collision_count: had.collision_count,
        ..status.clone()
    };
    status.observed_generation > had.observed_generation || same != *had
}

/// Writes the status, of this set alone, whatever else has changed in it.
pub fn patch(set: &StatefulSet, status: &Status) -> Result<Patch, Failure> {
    let body = json!({"metadata": {"uid": set.uid()}, "status": status});
    Ok(Patch::merge(&set.object(), &body)?.subresource("status"))
}
