//! Counting the pods that have come to their end, each once.
//!
//! A pod has a finalizer until it is counted, so it stays until then. The uid of one that has come
//! to its end is first written to the status, then the pod loses its finalizer, and then its uid
//! goes from the status while the counter goes up. Whenever this is interrupted, a pod without the
//! finalizer whose uid is in the status is the one to be counted.

use std::collections::BTreeSet;

use crate::failure_policy::consequence;
use crate::indexes::Indexes;
use crate::objects::{JobCondition, JobStatus, Pod};
use crate::observed::{Observed, size};
use crate::status::seconds;
use crate::verdict::{Stage, Verdict};

/// Most uids in a status, which keeps them below some 20 KB.
const MAX_UNCOUNTED: usize = 500;

/// Most pods that lose their finalizer in one reconcile, those included that do not count.
const MAX_FREED: usize = 2000;

/// What is written, one after the other.
pub struct Tracked<'a> {
    /// The status with the uids of pods that have come to their end, and with the interim condition
    /// of a Job that has.
    pub first: JobStatus,
    /// The pods that lose their finalizer.
    pub freed: Vec<&'a Pod>,
    /// The status with these pods in the counters, and with the last condition of a Job that has
    /// come to its end.
    pub last: JobStatus,
    /// How the Job has ended, if `last` says so.
    pub ended: Option<Verdict>,
}

/// `status` has all but what is decided here.
pub fn track<'a>(
    observed: &Observed<'a>,
    mut status: JobStatus,
    verdict: Option<&Verdict>,
) -> Tracked<'a> {
    let known = observed.job.status.uncounted_terminated_pods.clone();
    let known = known.unwrap_or_default();
    status.uncounted_terminated_pods.get_or_insert_default();
    let mut tracked: BTreeSet<&str> = BTreeSet::new();
    tracked.extend(
        observed
            .pods
            .iter()
            .filter(|pod| pod.is_tracked())
            .map(|pod| pod.uid()),
    );
    count(&mut status, &tracked);

    let mut counting = Counting {
        observed,
        verdict,
        status,
        indexes: Vec::new(),
        freed: Vec::new(),
    };
    let is_full = counting.look_at_all(&known.failed, &known.succeeded);
    let Counting {
        mut status,
        indexes,
        freed,
        ..
    } = counting;
    if observed.job.is_indexed() {
        let completed = observed
            .completed
            .and(&indexes.into_iter().collect::<Indexes>());
        status.succeeded = completed.total();
        status.completed_indexes = completed.to_string();
        status.failed_indexes = observed.failed_indexes.as_ref().map(ToString::to_string);
    }
    if let Some(verdict) = verdict {
        say_interim(&mut status, verdict, observed);
    }

    let mut last = status.clone();
    for pod in &freed {
        tracked.remove(pod.uid());
    }
    count(&mut last, &tracked);
    let ended = verdict.filter(|_| !is_full && is_all_over(&last)).cloned();
    if let Some(verdict) = &ended {
        say_end(&mut last, verdict, observed);
    }
    Tracked {
        first: status,
        freed,
        last,
        ended,
    }
}

struct Counting<'s, 'a> {
    observed: &'s Observed<'a>,
    verdict: Option<&'s Verdict>,
    status: JobStatus,
    /// Newly succeeded indexes.
    indexes: Vec<i64>,
    freed: Vec<&'a Pod>,
}

impl<'a> Counting<'_, 'a> {
    /// Takes up pods until the status is full, and returns whether it is.
    fn look_at_all(&mut self, known_failed: &[String], known_succeeded: &[String]) -> bool {
        let observed = self.observed;
        for pod in observed.pods.iter().copied().filter(|pod| pod.is_tracked()) {
            if !self.is_free(pod) {
                continue;
            }
            self.freed.push(pod);
            let is_among = |uids: &[String]| uids.iter().any(|uid| uid == pod.uid());
            if pod.has_succeeded() && !is_among(known_failed) {
                self.take_succeeded(pod, is_among(known_succeeded));
            } else if !is_among(known_failed) {
                self.take_failed(pod);
            }
            let uncounted = self
                .status
                .uncounted_terminated_pods
                .get_or_insert_default();
            let uids = uncounted.succeeded.len() + uncounted.failed.len();
            if self.indexes.len() + uids >= MAX_UNCOUNTED || self.freed.len() >= MAX_FREED {
                return true;
            }
        }
        false
    }

    /// True if the pod may lose its finalizer.
    fn is_free(&self, pod: &Pod) -> bool {
        let observed = self.observed;
        if observed.job.is_being_deleted() || self.verdict.is_some() || pod.has_succeeded() {
            return true;
        }
        let is_replaced = |index| {
            let replaced = observed.replaced.get(&index);
            replaced.is_some_and(|replaced| replaced.uid() == pod.uid())
        };
        pod.has_failed(observed.job) && !pod.index().is_some_and(is_replaced)
    }

    /// An index that has succeeded is counted by itself.
    fn take_succeeded(&mut self, pod: &Pod, is_known: bool) {
        let job = self.observed.job;
        if job.is_indexed() {
            let index = pod.valid_index(job);
            let index = index.filter(|index| !self.observed.completed_before.has(*index));
            self.indexes.extend(index);
        } else if !is_known {
            let uncounted = self
                .status
                .uncounted_terminated_pods
                .get_or_insert_default();
            uncounted.succeeded.push(pod.uid().to_owned());
        }
    }

    /// When a Job fails, each of its pods has failed.
    fn take_failed(&mut self, pod: &Pod) {
        let job = self.observed.job;
        let is_over = self.verdict.is_some_and(Verdict::is_failure);
        let has_place = !job.is_indexed() || pod.valid_index(job).is_some();
        let is_failed = pod.has_failed(job) || is_over;
        if is_failed && has_place && consequence(job, pod).counts() {
            let uncounted = self
                .status
                .uncounted_terminated_pods
                .get_or_insert_default();
            uncounted.failed.push(pod.uid().to_owned());
        }
    }
}

/// Moves the pods that have lost their finalizer from the uids into the counters.
fn count(status: &mut JobStatus, tracked: &BTreeSet<&str>) {
    let uncounted = status.uncounted_terminated_pods.get_or_insert_default();
    let lists = [
        (&mut uncounted.succeeded, &mut status.succeeded),
        (&mut uncounted.failed, &mut status.failed),
    ];
    for (uids, counter) in lists {
        let before = uids.len();
        uids.retain(|uid| tracked.contains(uid.as_str()));
        *counter += size(before - uids.len());
    }
}

fn say_interim(status: &mut JobStatus, verdict: &Verdict, observed: &Observed<'_>) {
    let r#type = match verdict.stage {
        Stage::Failing => return,
        Stage::Success if observed.job.true_condition("SuccessCriteriaMet").is_some() => return,
        Stage::Success => "SuccessCriteriaMet",
        Stage::Failure => "FailureTarget",
    };
    let Verdict {
        reason, message, ..
    } = verdict;
    status
        .conditions
        .push(JobCondition::new(r#type, reason, message, observed.now));
}

/// True if every pod is counted and none is left that may still be running.
fn is_all_over(status: &JobStatus) -> bool {
    let uncounted = status.uncounted_terminated_pods.as_ref();
    let is_counted = uncounted
        .is_none_or(|uncounted| uncounted.succeeded.is_empty() && uncounted.failed.is_empty());
    is_counted && status.terminating.unwrap_or_default() == 0
}

fn say_end(status: &mut JobStatus, verdict: &Verdict, observed: &Observed<'_>) {
    let Verdict {
        reason, message, ..
    } = verdict;
    if verdict.is_failure() {
        status.ensure(JobCondition::new("Failed", reason, message, observed.now));
    } else {
        status.ensure(JobCondition::new("Complete", reason, message, observed.now));
        status.completion_time = Some(seconds(observed.now));
    }
}
