//! Jobs: no pod counted twice, no index run twice at the same time, no pod too many.

use std::collections::BTreeSet;

use pilothouse_tests::What;

use super::{Audit, Event, Track};
use crate::facts::{Facts, Job, Of, Pod};

pub fn judge(audit: &mut Audit, event: &Event) {
    if let Of::Job(job) = &event.now.of
        && event.what != What::Deleted
    {
        counts_are_true(audit, event, job);
        no_pod_is_counted_again(audit, event, job);
    }
    let Some(owner) = &event.now.owner else {
        return;
    };
    let of_job = owner.kind == "Job";
    let (true, Some(pod)) = (of_job, event.now.pod()) else {
        return;
    };
    let wanted = wanted(audit, event, &owner.uid);
    let Some(latest) = wanted.last() else {
        return;
    };
    if event.before.is_none() {
        one_of_an_index(audit, event, &owner.uid, pod, latest);
        no_pod_too_many(audit, event, &owner.uid, &wanted);
    } else if event.is_taken {
        a_reason_to_go(audit, event, &owner.uid, &wanted);
    }
}

/// What the Job may be known to be; empty if it is gone.
fn wanted(audit: &Audit, event: &Event, job: &str) -> Vec<Job> {
    let Some(track) = audit.cluster.track(job) else {
        return Vec::new();
    };
    let spec = |facts: &Facts| match &facts.of {
        Of::Job(job) => Some(job.clone()),
        _ => None,
    };
    track.since(event.horizon).filter_map(spec).collect()
}

fn has_ever(track: &Track, is_so: impl Fn(&Facts, &Pod) -> bool) -> bool {
    let mut versions = track.versions();
    versions.any(|facts| facts.pod().is_some_and(|pod| is_so(facts, pod)))
}

fn succeeds(facts: &Facts) -> bool {
    facts.pod().is_some_and(|pod| pod.phase == "Succeeded")
}

fn has_succeeded(track: &Track) -> bool {
    track.first(succeeds).is_some()
}

/// Whether a pod is to be counted as succeeded. As upstream, one that succeeds just when a
/// suspended Job, or one with too many pods, takes it away is not counted.
fn counts_as_succeeded(audit: &Audit, pod: &Track) -> bool {
    let known = pod.taken.map(|taken| audit.horizon(taken));
    let succeeded = pod.first(succeeds);
    succeeded.is_some_and(|since| known.is_none_or(|known| since < known))
}

/// No more pods are counted than have ended: each once. A pod that is being deleted counts as
/// failed, as it may never say how it ended.
fn counts_are_true(audit: &mut Audit, event: &Event, job: &Job) {
    let pods = || audit.cluster.owned(&event.now.uid);
    let succeeded = pods().filter(|pod| has_succeeded(pod));
    let succeeded: i64 = if job.is_indexed {
        let index = |pod: &Track| pod.versions().last()?.pod()?.index;
        let indexes: BTreeSet<u64> = succeeded.filter_map(index).collect();
        indexes.len() as i64
    } else {
        succeeded.count() as i64
    };
    let failed = pods().filter(|pod| {
        let fails = |facts: &Facts, pod: &Pod| pod.phase == "Failed" || facts.is_deleting;
        has_ever(pod, fails)
    });
    let failed = failed.count() as i64;
    let (new_succeeded, new_failed) = &job.uncounted;
    let says = (
        job.succeeded + new_succeeded.len() as i64,
        job.failed + new_failed.len() as i64,
    );
    let holds = says.0 <= succeeded && says.1 <= failed;
    audit.check("no job pod is counted twice", holds, || {
        format!(
            "{} counts {says:?} of {succeeded} and {failed}",
            event.now.name
        )
    });
    let before = event.before.as_ref().map(|before| &before.of);
    if let Some(Of::Job(before)) = before {
        let holds = job.succeeded >= before.succeeded && job.failed >= before.failed;
        audit.check("a Job's counters never go back", holds, || {
            format!("{}: {before:?}, then {job:?}", event.now.name)
        });
    }
}

/// A uid that has left the status has been counted, and does not come again.
fn no_pod_is_counted_again(audit: &mut Audit, event: &Event, job: &Job) {
    let listed = |job: &Job| -> BTreeSet<String> {
        let (succeeded, failed) = &job.uncounted;
        succeeded.iter().chain(failed).cloned().collect()
    };
    let now = listed(job);
    let before = match event.before.as_ref().map(|before| &before.of) {
        Some(Of::Job(before)) => listed(before),
        _ => BTreeSet::new(),
    };
    let counted = audit.counted.entry(event.now.uid.clone()).or_default();
    counted.extend(before.difference(&now).cloned());
    let again: Vec<String> = now.intersection(counted).cloned().collect();
    if !now.is_empty() {
        audit.check("no job pod is counted again", again.is_empty(), || {
            format!("{} counts {again:?}", event.now.name)
        });
    }
}

/// Pods of an index come one after the other. As upstream, a pod that is being deleted makes room
/// for the next, unless failed pods alone are replaced.
fn one_of_an_index(audit: &mut Audit, event: &Event, owner: &str, pod: &Pod, job: &Job) {
    let Some(index) = pod.index else {
        return;
    };
    let of_index: Vec<&Track> = {
        let pods = audit.cluster.owned(owner);
        let same = |facts: &Facts| facts.pod().is_some_and(|pod| pod.index == Some(index));
        pods.filter(|pod| pod.versions().last().is_some_and(same))
            .collect()
    };
    let runs = |facts: &Facts| match job.replaces_failed_only {
        true => facts.pod().is_some_and(|pod| !pod.has_ended()),
        false => facts.is_active(),
    };
    let running = of_index.iter().filter_map(|pod| pod.now());
    let running = running.filter(|pod| runs(pod)).count();
    let is_done = of_index.iter().any(|pod| counts_as_succeeded(audit, pod));
    let name = &event.now.name;
    audit.check("no index runs twice at the same time", running <= 1, || {
        format!("{name} is one of {running} of index {index}")
    });
    audit.check("no index runs again that has succeeded", !is_done, || {
        format!("{name} of index {index}")
    });
}

/// A Job that is not suspended and not over gets pods, at most as many as run at a time and as are
/// missing.
fn no_pod_too_many(audit: &mut Audit, event: &Event, owner: &str, wanted: &[Job]) {
    let Some(latest) = wanted.last() else {
        return;
    };
    let runs = |pod: &Facts| match latest.replaces_failed_only {
        true => pod.pod().is_some_and(|pod| !pod.has_ended()),
        false => pod.is_active(),
    };
    let active = audit.cluster.owned_now(owner).filter(|pod| runs(pod));
    let active = active.count() as i64;
    let succeeded = audit.cluster.owned(owner);
    let succeeded = succeeded.filter(|pod| counts_as_succeeded(audit, pod));
    let succeeded = succeeded.count() as i64;
    let parallel = wanted.iter().map(|job| job.parallelism).max().unwrap_or(0);
    let name = &event.now.name;
    audit.check(
        "a Job stays within its parallelism",
        active <= parallel,
        || format!("{name} makes {active} of {parallel}"),
    );
    if let (Some(completions), false) = (latest.completions, latest.is_indexed) {
        let all = active + succeeded;
        audit.check(
            "a Job stays within its completions",
            all <= completions,
            || format!("{name} makes {active} beside {succeeded} of {completions}"),
        );
    }
    let is_at_rest = wanted.iter().all(|job| job.is_suspended) || latest.is_over;
    let rule = "a Job that is suspended or over gets no pod";
    audit.check(rule, !is_at_rest, || name.clone());
}

/// A pod that goes on is deleted when its Job is over, suspended, or has more than it wants.
fn a_reason_to_go(audit: &mut Audit, event: &Event, owner: &str, wanted: &[Job]) {
    let was_active = event.before.as_ref().is_some_and(|pod| pod.is_active());
    let latest = wanted.last();
    let first = wanted.first();
    let (true, Some(first), Some(latest)) = (was_active, first, latest) else {
        return;
    };
    let is_ending = wanted.iter().any(|job| job.is_over || job.is_suspended);
    let is_scaled = wanted
        .iter()
        .any(|job| job.parallelism != first.parallelism);
    // Another index may have made the Job fail, of which the status tells right after.
    let may_fail = audit.cluster.owned(owner).any(|pod| {
        let fails = |_: &Facts, pod: &Pod| pod.phase == "Failed";
        has_ever(pod, fails)
    });
    let active = audit.cluster.owned_now(owner).filter(|pod| pod.is_active());
    let left = active.count() as i64;
    let holds = is_ending || is_scaled || may_fail || left >= latest.parallelism;
    audit.check("a job pod is deleted for a reason", holds, || {
        format!("{} goes, which leaves {left}", event.now.name)
    });
}
