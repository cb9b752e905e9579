//! What the object's status says about its pods.

use std::time::Duration;

use pilothouse_sdk::{Failure, Patch, rfc3339};
use serde_json::{Value, json};

use super::Round;
use super::history::Verdict;
use super::objects::{Pod, SetStatus};
use super::scale::NO_LABELS;
use crate::pod::{PodView, seconds};
use crate::template;

/// The condition that says that pods could not be created or deleted.
const REPLICA_FAILURE: &str = "ReplicaFailure";

/// The status as it should be.
pub(super) struct Status(SetStatus);

impl Status {
    /// The status of a set with these active pods, and so many that are being deleted.
    pub fn new(round: &Round<'_>, active: &[&Pod], terminating: usize, now: Duration) -> Self {
        let spec = &round.set.spec;
        let min_ready = seconds(spec.min_ready_seconds);
        let has_all_labels = |pod: &&&Pod| {
            let mut labels = template::labels(&spec.template);
            labels.all(|(key, value)| pod.metadata.labels.get(key).is_some_and(|is| is == value))
        };
        let is_available = |pod: &&&Pod| pod.is_available(min_ready, now);
        let terminating = round.flavor.counts_terminating.then(|| number(terminating));
        Self(SetStatus {
            replicas: number(active.len()),
            fully_labeled_replicas: number(active.iter().filter(has_all_labels).count()),
            ready_replicas: number(active.iter().filter(PodView::is_ready).count()),
            available_replicas: number(active.iter().filter(is_available).count()),
            terminating_replicas: terminating,
            observed_generation: round.set.metadata.generation,
            conditions: conditions(round, active.len(), now),
        })
    }

    /// True if a ready pod is not available yet.
    pub fn is_waiting(&self) -> bool {
        self.0.ready_replicas != self.0.available_replicas
    }

    /// Writes the status, unless the object has it already.
    pub fn patch(&self, round: &Round<'_>) -> Result<Option<Patch>, Failure> {
        let (have, want) = (&round.set.status, &self.0);
        let members = |status: &SetStatus| {
            let mut members = json!({
                "replicas": status.replicas,
                "fullyLabeledReplicas": status.fully_labeled_replicas,
                "readyReplicas": status.ready_replicas,
                "availableReplicas": status.available_replicas,
                "observedGeneration": status.observed_generation,
            });
            if round.flavor.counts_terminating {
                members["terminatingReplicas"] = json!(status.terminating_replicas);
            }
            let conditions = Some(&status.conditions).filter(|list| !list.is_empty());
            members["conditions"] = json!(conditions);
            members
        };
        let wanted = members(want);
        if wanted == members(have) {
            return Ok(None);
        }
        round.status_patch(&wanted).map(Some)
    }
}

fn number(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// The conditions that there are, with one more or less if pods could, or could not, be created and
/// deleted. One that is there stays as it is while the failure lasts, and while it is not known how
/// what is now attempted ends.
fn conditions(round: &Round<'_>, active: usize, now: Duration) -> Vec<Value> {
    let mut conditions = round.set.status.conditions.clone();
    let is_failure = |condition: &Value| condition["type"] == REPLICA_FAILURE;
    let (verdict, reason, beginning) = match round.surplus(active) {
        _ if round.is_being_deleted() => (Verdict::Succeeded, "", ""),
        ..0 if round.has_no_labels() => (Verdict::Failed(NO_LABELS), "FailedCreate", ""),
        ..0 => (round.history.creations(), "FailedCreate", ""),
        0 => (Verdict::Succeeded, "", ""),
        1.. => (
            round.history.deletions(),
            "FailedDelete",
            "unable to delete pods: ",
        ),
    };
    match verdict {
        Verdict::Unknown => {}
        Verdict::Succeeded => conditions.retain(|condition| !is_failure(condition)),
        Verdict::Failed(_) if conditions.iter().any(is_failure) => {}
        Verdict::Failed(fault) => conditions.push(json!({
            "type": REPLICA_FAILURE, "status": "True", "reason": reason,
            "message": format!("{beginning}{fault}"), "lastTransitionTime": rfc3339(now),
        })),
    }
    conditions
}
