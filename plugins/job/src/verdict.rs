//! Whether a Job has come to its end, and how.

use std::time::Duration;

use crate::failure_policy::{Consequence, consequence};
use crate::objects::JobCondition;
use crate::observed::Observed;
use crate::success_policy::met_rule;

/// How a Job ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    pub stage: Stage,
    pub reason: String,
    pub message: String,
}

/// How far the status has come with saying so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// `SuccessCriteriaMet` comes first, if it is not there yet, and then `Complete`.
    Success,
    /// `FailureTarget` comes first, and then `Failed`.
    Failure,
    /// `FailureTarget` is there; `Failed` comes.
    Failing,
}

impl Verdict {
    pub fn is_failure(&self) -> bool {
        self.stage != Stage::Success
    }

    fn failure(reason: &str, message: &str) -> Self {
        Self {
            stage: Stage::Failure,
            reason: reason.to_owned(),
            message: message.to_owned(),
        }
    }

    fn of(condition: &JobCondition, stage: Stage) -> Self {
        let (reason, message) = (condition.reason.clone(), condition.message.clone());
        Self {
            stage,
            reason,
            message,
        }
    }

    /// All completions are reached.
    pub fn complete() -> Self {
        Self {
            stage: Stage::Success,
            reason: "CompletionsReached".to_owned(),
            message: "Reached expected number of succeeded pods".to_owned(),
        }
    }
}

/// What a Job's status, pods and age say about its end. What was said before holds. Failure comes
/// before success. Whether all completions are reached is seen later: pods may still be running.
pub fn verdict(observed: &Observed<'_>, start: Option<Duration>) -> Option<Verdict> {
    let said = said_before(observed);
    let said = said.or_else(|| failed_by_policy(observed));
    let said = said.or_else(|| past_a_limit(observed, start));
    let said = said.or_else(|| failed_indexes(observed));
    said.or_else(|| met_success_policy(observed))
}

fn said_before(observed: &Observed<'_>) -> Option<Verdict> {
    let job = observed.job;
    let met = job.true_condition("SuccessCriteriaMet");
    let met = met.map(|condition| Verdict::of(condition, Stage::Success));
    met.or_else(|| {
        let failing = job.true_condition("FailureTarget")?;
        Some(Verdict::of(failing, Stage::Failing))
    })
}

fn failed_by_policy(observed: &Observed<'_>) -> Option<Verdict> {
    let job = observed.job;
    let mut failed = observed.pods.iter().filter(|pod| pod.has_failed(job));
    failed.find_map(|pod| match consequence(job, pod) {
        Consequence::FailJob(message) => Some(Verdict::failure("PodFailurePolicy", &message)),
        _ => None,
    })
}

fn past_a_limit(observed: &Observed<'_>, start: Option<Duration>) -> Option<Verdict> {
    let limit = observed.job.spec.backoff_limit;
    if observed.failed > limit || has_too_many_restarts(observed, limit) {
        let message = "Job has reached the specified backoff limit";
        return Some(Verdict::failure("BackoffLimitExceeded", message));
    }
    let left = time_left(observed, start)?;
    left.is_zero().then(|| {
        Verdict::failure(
            "DeadlineExceeded",
            "Job was active longer than specified deadline",
        )
    })
}

/// Where containers are restarted in place, their restarts are the failures.
fn has_too_many_restarts(observed: &Observed<'_>, limit: i64) -> bool {
    if observed.job.spec.template["spec"]["restartPolicy"] != "OnFailure" {
        return false;
    }
    let is_at_work = |pod: &str| matches!(pod, "Running" | "Pending");
    let pods = observed
        .pods
        .iter()
        .filter(|pod| is_at_work(&pod.status.state.phase));
    let restarts: i64 = pods.map(|pod| pod.all_restarts()).sum();
    restarts >= limit.max(1)
}

/// The time until the Job's deadline. `None`: it has none, or is suspended.
pub fn time_left(observed: &Observed<'_>, start: Option<Duration>) -> Option<Duration> {
    let spec = &observed.job.spec;
    let deadline = spec.active_deadline_seconds.filter(|_| !spec.suspend)?;
    let end = start? + Duration::from_secs(deadline);
    Some(end.saturating_sub(observed.now))
}

fn failed_indexes(observed: &Observed<'_>) -> Option<Verdict> {
    let failed = observed.failed_indexes.as_ref()?.total();
    let most = observed.job.spec.max_failed_indexes;
    if most.is_some_and(|most| failed > most) {
        let message = "Job has exceeded the specified maximal number of failed indexes";
        return Some(Verdict::failure("MaxFailedIndexesExceeded", message));
    }
    let ended = failed + observed.completed.total();
    let is_over = failed > 0 && ended >= observed.job.completions();
    is_over.then(|| Verdict::failure("FailedIndexes", "Job has failed indexes"))
}

fn met_success_policy(observed: &Observed<'_>) -> Option<Verdict> {
    let rule = met_rule(observed.job, &observed.completed)?;
    let reason = "SuccessPolicy".to_owned();
    Some(Verdict {
        stage: Stage::Success,
        reason,
        message: rule,
    })
}
