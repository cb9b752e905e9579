//! The status of a Deployment: what its ReplicaSets add up to, and whether a rollout gets on.

use std::time::Duration;

use crate::conditions::{
    AVAILABLE, PROGRESSING, REPLICA_FAILURE, SET_AVAILABLE, SET_UPDATED, TIMED_OUT, replica_failure,
};
use crate::objects::{Condition, Deployment, DeploymentStatus, ReplicaSet};
use crate::sets::Sets;

/// The status of a Deployment with these ReplicaSets. The conditions are those it has, but for
/// `Available`.
pub fn status_of(
    deployment: &Deployment,
    sets: &Sets,
    max_unavailable: i64,
    now: Duration,
) -> DeploymentStatus {
    let sum = |of: fn(&ReplicaSet) -> i64| sets.all().map(of).sum::<i64>();
    let available = sum(|set| set.status.available_replicas);
    let mut status = DeploymentStatus {
        observed_generation: deployment.metadata.generation,
        replicas: sum(|set| set.status.replicas),
        updated_replicas: sets.new_set().map_or(0, |new| new.status.replicas),
        ready_replicas: sum(|set| set.status.ready_replicas),
        available_replicas: available,
        unavailable_replicas: (sum(|set| set.spec.replicas) - available).max(0),
        terminating_replicas: terminating(sets.all()),
        collision_count: deployment.status.collision_count,
        conditions: deployment.status.conditions.clone(),
    };
    let (state, reason, message) = if available >= deployment.spec.replicas - max_unavailable {
        let message = "Deployment has minimum availability.";
        ("True", "MinimumReplicasAvailable", message)
    } else {
        let message = "Deployment does not have minimum availability.";
        ("False", "MinimumReplicasUnavailable", message)
    };
    status.set_condition(Condition::new(AVAILABLE, state, reason, message, now));
    status
}

/// The pods that are being deleted. `None`: one of the ReplicaSets does not say how many it has,
/// though a controller has looked at it.
fn terminating<'a>(sets: impl Iterator<Item = &'a ReplicaSet>) -> Option<i64> {
    let counted = sets.map(|set| match set.status.terminating_replicas {
        None if set.status.observed_generation == 0 => Some(0),
        counted => counted,
    });
    counted.sum()
}

/// The status of a Deployment during a rollout: with `Progressing` and `ReplicaFailure`.
pub fn rollout_status_of(
    deployment: &Deployment,
    sets: &Sets,
    max_unavailable: i64,
    now: Duration,
) -> DeploymentStatus {
    let mut status = status_of(deployment, sets, max_unavailable, now);
    if deployment.spec.progress_deadline().is_none() {
        status.remove_condition(PROGRESSING);
    } else if !was_complete(deployment, &status) {
        note_progress(deployment, sets, &mut status, now);
    }
    match replica_failure(sets.new_set(), sets.old()) {
        Some(failure) => status.set_condition(failure),
        None => status.remove_condition(REPLICA_FAILURE),
    }
    status
}

/// True if the last rollout has been completed and no other has begun: then no progress is
/// expected, even if pods fail.
fn was_complete(deployment: &Deployment, status: &DeploymentStatus) -> bool {
    let condition = deployment.status.condition(PROGRESSING);
    status.replicas == status.updated_replicas
        && condition.is_some_and(|condition| condition.reason == SET_AVAILABLE)
}

fn note_progress(
    deployment: &Deployment,
    sets: &Sets,
    status: &mut DeploymentStatus,
    now: Duration,
) {
    let subject = match sets.new_set() {
        Some(new) => format!("ReplicaSet {:?}", new.name()),
        None => format!("Deployment {:?}", deployment.metadata.always.name),
    };
    let condition = |state: &str, reason: &str, what: &str| {
        let message = format!("{subject} {what}.");
        Condition::new(PROGRESSING, state, reason, &message, now)
    };
    if is_complete(deployment, status) {
        status.set_condition(condition(
            "True",
            SET_AVAILABLE,
            "has successfully progressed",
        ));
    } else if is_progressing(&deployment.status, status) {
        // The time of the update moves with each step of progress, also if nothing else does.
        let mut new = condition("True", SET_UPDATED, "is progressing");
        let current = deployment.status.condition(PROGRESSING);
        if let Some(current) = current.filter(|current| current.status == "True") {
            new.last_transition_time = current.last_transition_time;
        }
        status.remove_condition(PROGRESSING);
        status.set_condition(new);
    } else if has_timed_out(deployment, status, now) {
        status.set_condition(condition("False", TIMED_OUT, "has timed out progressing"));
    }
}

/// True if all pods that are wanted are updated and available, and no old ones are left.
pub fn is_complete(deployment: &Deployment, status: &DeploymentStatus) -> bool {
    let wanted = deployment.spec.replicas;
    status.updated_replicas == wanted
        && status.replicas == wanted
        && status.available_replicas == wanted
        && status.observed_generation >= deployment.metadata.generation
}

/// True if there are more updated, ready or available pods than before, or less old ones.
fn is_progressing(before: &DeploymentStatus, status: &DeploymentStatus) -> bool {
    let old = |status: &DeploymentStatus| status.replicas - status.updated_replicas;
    status.updated_replicas > before.updated_replicas
        || old(status) < old(before)
        || status.ready_replicas > before.ready_replicas
        || status.available_replicas > before.available_replicas
}

/// The time from which on a rollout without further progress has failed. `None`: there is no
/// deadline, or nothing from which it counts.
fn deadline(deployment: &Deployment, status: &DeploymentStatus) -> Option<Duration> {
    let seconds = deployment.spec.progress_deadline()?;
    let condition = status.condition(PROGRESSING)?;
    let since = condition.last_update_time.unwrap_or_default();
    Some(since.0 + Duration::from_secs(seconds))
}

fn has_timed_out(deployment: &Deployment, status: &DeploymentStatus, now: Duration) -> bool {
    let reason = status.condition(PROGRESSING).map(|it| it.reason.as_str());
    match reason {
        // What was complete and no longer is has not begun to progress.
        Some(SET_AVAILABLE) => false,
        Some(TIMED_OUT) => true,
        _ => deadline(deployment, status).is_some_and(|deadline| deadline < now),
    }
}

/// How long until the rollout may have timed out. `None`: it will not, or has.
pub fn next_check(
    deployment: &Deployment,
    status: &DeploymentStatus,
    now: Duration,
) -> Option<Duration> {
    let reason = &status.condition(PROGRESSING)?.reason;
    let is_over = matches!(reason.as_str(), TIMED_OUT | SET_AVAILABLE);
    if is_over || is_complete(deployment, status) {
        return None;
    }
    let deadline = deadline(deployment, status)?;
    Some(deadline.saturating_sub(now) + Duration::from_secs(1))
}
