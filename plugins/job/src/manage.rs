//! Which pods a Job that is at work needs, and which are too many.

use std::collections::BTreeMap;
use std::iter;
use std::time::Duration;

use pilothouse_sdk::{Action, Create};
use serde_json::Value;
use workloads::pod::PodView;
use workloads::ranking::sort_plainly;

use crate::backoff::remaining_after;
use crate::indexes::Indexes;
use crate::objects::Pod;
use crate::observed::{Observed, size};
use crate::template;

/// Most pods that one reconcile creates, and that it deletes because they are too many.
const MAX_PODS: usize = 500;
/// Most pods that one reconcile deletes because the Job is suspended or has come to its end. The
/// host takes 10,000 actions in all.
pub const MAX_ENDED: usize = 1500;
/// Most text of the pods that one reconcile creates. The host takes 4 MiB in all.
const MAX_BYTES: usize = 3 << 20;
/// The least time to wait for the end of a back-off.
const LEAST_WAIT: Duration = Duration::from_secs(1);

/// What is to be done with a Job's pods.
pub enum Step<'a> {
    Create(Vec<Action>),
    /// They have not come to an end, and do not count: they lose their finalizer before.
    Delete(Vec<&'a Pod>),
    /// Pods are missing, and may be created after this time.
    Wait(Duration),
    Nothing,
}

/// Pods that are too many go first: nothing is created in a reconcile that deletes.
pub fn next_step<'a>(observed: &Observed<'a>) -> Result<Step<'a>, serde_json::Error> {
    let spec = &observed.job.spec;
    let active = size(observed.active.len());
    if spec.suspend {
        let active = observed.active.iter().copied();
        return Ok(Step::Delete(active.take(MAX_ENDED).collect()));
    }
    let wanted = wanted(observed);
    let too_many = usize::try_from(active - wanted).unwrap_or_default();
    let mut doomed = too_many_pods(observed, too_many);
    if !doomed.is_empty() {
        doomed.truncate(MAX_PODS);
        return Ok(Step::Delete(doomed));
    }
    let replaces_late = observed.job.replaces_only_failed();
    let terminating = if replaces_late {
        observed.terminating()
    } else {
        0
    };
    match usize::try_from(wanted - terminating - active) {
        Ok(missing) if missing > 0 => create(observed, missing),
        _ => Ok(Step::Nothing),
    }
}

/// How many pods should be active.
fn wanted(observed: &Observed<'_>) -> i64 {
    let spec = &observed.job.spec;
    match spec.completions {
        // Once a pod has succeeded, those that run may finish, and no other is begun.
        None if observed.succeeded > 0 => size(observed.active.len()),
        None => spec.parallelism,
        Some(completions) => (completions - observed.succeeded).clamp(0, spec.parallelism.max(0)),
    }
}

/// Those pods that have no index of the Job or that of another pod, and as many more as are too
/// many in all.
fn too_many_pods<'a>(observed: &Observed<'a>, at_least: usize) -> Vec<&'a Pod> {
    let mut doomed = Vec::new();
    let mut left = Vec::new();
    if observed.job.is_indexed() {
        let mut by_index: BTreeMap<i64, Vec<&Pod>> = BTreeMap::new();
        for pod in &observed.active {
            match pod.valid_index(observed.job) {
                Some(index) => by_index.entry(index).or_default().push(pod),
                None => doomed.push(*pod),
            }
        }
        for mut same in by_index.into_values() {
            same = sort_plainly(same);
            left.extend(same.pop());
            doomed.append(&mut same);
        }
    } else {
        left.clone_from(&observed.active);
    }
    let missing = at_least.saturating_sub(doomed.len());
    if missing > 0 {
        doomed.extend(sort_plainly(left).into_iter().take(missing));
    }
    doomed
}

fn create(observed: &Observed<'_>, missing: usize) -> Result<Step<'static>, serde_json::Error> {
    let job = observed.job;
    if job.spec.backoff_limit_per_index.is_none() {
        let wait = observed
            .failures
            .remaining(observed.first_back_off, observed.now);
        if !wait.is_zero() {
            return Ok(Step::Wait(wait.max(LEAST_WAIT)));
        }
    }
    let missing = missing.min(MAX_PODS);
    if !job.is_indexed() {
        let pods = iter::repeat_with(|| template::pod(job));
        return fitting(pods.take(missing));
    }
    match due(observed, &pending_indexes(observed, missing)) {
        Due::Now(indexes) => {
            let replaced = |index| observed.replaced.get(&index).copied();
            let pod = |index| template::indexed_pod(job, index, replaced(index));
            fitting(indexes.into_iter().map(pod))
        }
        Due::In(wait) => Ok(Step::Wait(wait.max(LEAST_WAIT))),
    }
}

/// Creates the first of these pods, as many as fit into an outcome.
fn fitting(pods: impl Iterator<Item = Value>) -> Result<Step<'static>, serde_json::Error> {
    let (mut creates, mut bytes) = (Vec::new(), 0);
    for pod in pods {
        let create = Create::new(&pod)?;
        bytes += create.object.len();
        if bytes > MAX_BYTES && !creates.is_empty() {
            break;
        }
        creates.push(create.into());
    }
    Ok(Step::Create(creates))
}

/// The first indexes for which there is no pod and that have not ended.
fn pending_indexes(observed: &Observed<'_>, count: usize) -> Vec<i64> {
    let job = observed.job;
    let active: Indexes = observed.active_indexes().into_iter().collect();
    let mut taken = observed.completed.and(&active);
    if job.replaces_only_failed() {
        let terminating = observed.pods.iter().filter(PodView::is_terminating);
        taken = taken.and(&terminating.filter_map(|pod| pod.index()).collect());
    }
    if let Some(failed) = &observed.failed_indexes {
        taken = taken.and(failed);
    }
    taken.first_others(count, job.completions())
}

/// When pods of some indexes may be created.
enum Due {
    Now(Vec<i64>),
    In(Duration),
}

/// Those of the indexes whose back-off is over, or else the time until the first is. Only with a
/// limit for each index they have one.
fn due(observed: &Observed<'_>, indexes: &[i64]) -> Due {
    let wait = |index: &i64| {
        let replaced = observed.replaced.get(index);
        replaced.map_or(Duration::ZERO, |pod| {
            remaining_after(pod, observed.first_back_off, observed.now)
        })
    };
    let now = indexes.iter().filter(|index| wait(index).is_zero());
    let now: Vec<i64> = now.copied().collect();
    let soonest = indexes.iter().map(wait).min();
    match soonest.filter(|_| now.is_empty()) {
        Some(wait) => Due::In(wait),
        None => Due::Now(now),
    }
}
