//! One reconcile of a Job that has not come to its end.

use std::time::Duration;

use pilothouse_sdk::{
    Action, Delete, Event, Failure, Finalizer, Host, ObjectRef, Outcome, Request,
};

use workloads::pod::PodView;

use crate::backoff::{Config, Failures, Memo};
use crate::claim::{Claimed, claim};
use crate::events;
use crate::manage::{MAX_ENDED, Step, next_step};
use crate::objects::{Job, JobCondition, JobStatus, Pod};
use crate::observed::{Circumstances, Observed, size};
use crate::pods::TRACKING;
use crate::rest::{REST, Rest};
use crate::status::seconds;
use crate::tracking::{Tracked, track};
use crate::verdict::{Verdict, time_left, verdict};

/// Runs the Job, whose name `owned` have as that of an owner.
///
/// Pods come first, so that the status can tell of them at once. When something has failed before,
/// the status comes first and tells of what there is, so that whatever becomes of the pods cannot
/// keep it from being written.
pub fn sync(
    request: &Request,
    host: &dyn Host,
    job: &Job,
    owned: Vec<Pod>,
) -> Result<Outcome, Failure> {
    let Claimed {
        pods,
        actions,
        adopts,
    } = claim(host, job, owned)?;
    let config: Config = request.configuration()?;
    let known = Circumstances {
        now: host.now(),
        failures: Failures::remembered(job, request),
        first_back_off: config.first_back_off(),
    };
    let observed = Observed::new(job, &pods, &known);
    let is_cautious = request.attempt > 1;
    let plan = Plan::new(&observed, is_cautious)?;
    let tracked = track(&observed, plan.status, plan.verdict.as_ref());

    let key = job.object_ref();
    let first = tracked.first.patch(&job.status, &key)?;
    let mut memo = Memo {
        job: job.metadata.always.uid.clone(),
        after: if first.is_some() {
            observed.failures.clone()
        } else {
            known.failures.clone()
        },
        before: known.failures,
        rest: None,
    };
    let mut outcome = stage(Outcome::done(), actions);
    if !is_cautious {
        outcome = stage(outcome, plan.pods.clone());
    }
    outcome = stage(outcome, first.map(Action::from));
    outcome = stage(outcome, freed(&tracked).chain(plan.event.map(Action::from)));
    outcome = stage(
        outcome,
        tracked.last.patch(&tracked.first, &key)?.map(Action::from),
    );
    outcome = stage(outcome, end_events(&key, &observed, &tracked));
    if is_cautious {
        outcome = plan.pods.into_iter().fold(outcome.always(), Outcome::with);
    }
    if adopts {
        outcome = outcome.confirm(&key);
    }
    if outcome.actions().next().is_some() {
        if is_cautious {
            outcome = outcome.not_before(REST);
        } else {
            memo.rest = Some(Rest::after(job, known.now));
        }
    }
    if let Some(wait) = plan.wait {
        outcome = outcome.requeue_after(wait);
    }
    Ok(outcome.remember(&memo)?)
}

/// Adds a stage with these actions.
fn stage(outcome: Outcome, actions: impl IntoIterator<Item = Action>) -> Outcome {
    actions.into_iter().fold(outcome.stage(), Outcome::with)
}

fn freed(tracked: &Tracked<'_>) -> impl Iterator<Item = Action> {
    let pods = tracked.freed.iter();
    pods.map(|pod| Finalizer::remove(&pod.object_ref(), TRACKING).into())
}

fn end_events(key: &ObjectRef, observed: &Observed<'_>, tracked: &Tracked<'_>) -> Vec<Action> {
    let ended = tracked.ended.as_ref();
    let events = ended.map(|verdict| events::ended(key, observed, &tracked.last, verdict));
    events.into_iter().flatten().map(Action::from).collect()
}

/// What is done about the pods, and the status but for what counting them adds.
struct Plan {
    pods: Vec<Action>,
    status: JobStatus,
    /// How the Job ends, if that can be said now.
    verdict: Option<Verdict>,
    event: Option<Event>,
    /// When the Job must be looked at again.
    wait: Option<Duration>,
}

impl Plan {
    /// `is_cautious`: the status is written before the pods, and tells of those there are.
    fn new(observed: &Observed<'_>, is_cautious: bool) -> Result<Self, serde_json::Error> {
        let job = observed.job;
        let mut status = job.status.clone();
        if status.start_time.is_none() && !job.spec.suspend {
            status.start_time = Some(seconds(observed.now));
        }
        status.active = size(observed.active.len());
        status.ready = Some(observed.ready());
        status.terminating = Some(observed.terminating());
        let start = status.start_time.map(|time| time.0);
        let mut plan = Self {
            pods: Vec::new(),
            status,
            verdict: verdict(observed, start),
            event: None,
            wait: time_left(observed, start),
        };
        if plan.verdict.is_some() {
            plan.wait = None;
            plan.end(observed, is_cautious);
        } else {
            plan.go_on(observed, is_cautious)?;
        }
        Ok(plan)
    }

    /// Deletes what is active. As long as something is, the end is not said.
    fn end(&mut self, observed: &Observed<'_>, is_cautious: bool) {
        let active = &observed.active;
        let doomed = &active[..active.len().min(MAX_ENDED)];
        self.pods = doomed.iter().map(|pod| delete(pod)).collect();
        if !is_cautious {
            self.count_deleted(doomed);
        }
        if self.status.active > 0 {
            self.verdict = None;
        }
    }

    fn go_on(
        &mut self,
        observed: &Observed<'_>,
        is_cautious: bool,
    ) -> Result<(), serde_json::Error> {
        let job = observed.job;
        if !job.is_being_deleted() {
            self.take(next_step(observed)?, is_cautious);
        }
        let has_succeeded = match job.spec.completions {
            None => observed.succeeded > 0,
            Some(completions) => observed.succeeded >= completions,
        };
        if has_succeeded && self.status.active == 0 {
            self.verdict = Some(Verdict::complete());
        } else if !job.is_being_deleted() {
            self.say_suspended(observed);
        }
        Ok(())
    }

    fn take(&mut self, step: Step<'_>, is_cautious: bool) {
        match step {
            Step::Nothing => {}
            Step::Wait(wait) => {
                // As upstream: in this time no pod is said to be active.
                self.status.active = 0;
                self.wait = Some(self.wait.map_or(wait, |other| other.min(wait)));
            }
            Step::Create(creates) => {
                if !is_cautious {
                    self.status.active += size(creates.len());
                }
                self.pods = creates;
            }
            Step::Delete(doomed) => {
                if !is_cautious {
                    self.count_deleted(&doomed);
                }
                let free = |pod: &Pod| Finalizer::remove(&pod.object_ref(), TRACKING).into();
                let of = |pod: &&Pod| {
                    let free = pod.is_tracked().then(|| free(pod));
                    free.into_iter().chain([delete(pod)])
                };
                self.pods = doomed.iter().flat_map(of).collect();
            }
        }
    }

    fn count_deleted(&mut self, pods: &[&Pod]) {
        let ready = size(pods.iter().filter(PodView::is_ready).count());
        self.status.active -= size(pods.len());
        self.status.ready = self.status.ready.map(|before| before - ready);
        self.status.terminating = self
            .status
            .terminating
            .map(|before| before + size(pods.len()));
    }

    fn say_suspended(&mut self, observed: &Observed<'_>) {
        let is_suspended = observed.job.spec.suspend;
        let now = observed.now;
        let condition = if is_suspended {
            JobCondition::new("Suspended", "JobSuspended", "Job suspended", now)
        } else {
            let condition = JobCondition::new("Suspended", "JobResumed", "Job resumed", now);
            JobCondition {
                status: "False".to_owned(),
                ..condition
            }
        };
        if self.status.ensure(condition) {
            // The deadline counts the time of being active without a pause.
            self.status.start_time = (!is_suspended).then(|| seconds(now));
            self.event = Some(events::suspended(&observed.job.object_ref(), is_suspended));
        }
    }
}

fn delete(pod: &Pod) -> Action {
    Delete::new(&pod.object_ref()).uid(pod.uid()).into()
}
