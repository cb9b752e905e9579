//! What a Job's pods say about it, before anything is done.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use workloads::pod::PodView;

use crate::backoff::Failures;
use crate::failure_policy::{Consequence, consequence};
use crate::indexes::Indexes;
use crate::objects::{Job, Pod};

/// A Job and its pods at one instant.
pub struct Observed<'a> {
    pub job: &'a Job,
    pub now: Duration,
    /// The Job's pods. Of an indexed Job in the order of their indexes.
    pub pods: Vec<&'a Pod>,
    pub active: Vec<&'a Pod>,
    /// Pods that have succeeded, or succeeded indexes: counted ones and those still to be counted.
    pub succeeded: i64,
    /// Pods that have failed: counted ones and those still to be counted.
    pub failed: i64,
    /// The indexes that the status has as succeeded.
    pub completed_before: Indexes,
    /// These, and those of pods still to be counted.
    pub completed: Indexes,
    /// The failed indexes, of a Job with a back-off limit for each.
    pub failed_indexes: Option<Indexes>,
    /// For each index that waits for a new pod the failed pod that is replaced. Its successor takes
    /// over its count of failures, so it has to stay until then.
    pub replaced: BTreeMap<i64, &'a Pod>,
    /// The failures since the last success.
    pub failures: Failures,
    /// The delay after the first of them.
    pub first_back_off: Duration,
}

/// What is known besides the Job and its pods.
pub struct Circumstances {
    pub now: Duration,
    /// The failures that were known before.
    pub failures: Failures,
    pub first_back_off: Duration,
}

impl<'a> Observed<'a> {
    pub fn new(job: &'a Job, pods: &'a [Pod], known: &Circumstances) -> Self {
        let mut pods: Vec<&Pod> = pods.iter().collect();
        if job.is_indexed() {
            pods.sort_by_key(|pod| pod.index().unwrap_or(-1));
        }
        let uncounted = job.status.uncounted_terminated_pods.clone();
        let uncounted = uncounted.unwrap_or_default();
        let new = |uncounted: &[String], is_so: &dyn Fn(&Pod) -> bool| {
            let is_new = |pod: &&&Pod| is_counted_once(job, pod, uncounted) && is_so(pod);
            pods.iter().filter(is_new).copied().collect::<Vec<&Pod>>()
        };
        let succeeded = new(&uncounted.succeeded, &Pod::has_succeeded);
        let failed = new(&uncounted.failed, &|pod| pod.has_failed(job));
        let counting = failed.iter().filter(|pod| consequence(job, pod).counts());
        let mut observed = Self {
            job,
            now: known.now,
            first_back_off: known.first_back_off,
            active: pods.iter().filter(PodView::is_active).copied().collect(),
            succeeded: job.status.succeeded + size(succeeded.len() + uncounted.succeeded.len()),
            failed: job.status.failed + size(counting.count() + uncounted.failed.len()),
            completed_before: Indexes::default(),
            completed: Indexes::default(),
            failed_indexes: None,
            replaced: BTreeMap::new(),
            failures: known.failures.with(&succeeded, &failed),
            pods,
        };
        if job.is_indexed() {
            observed.look_at_indexes();
        }
        observed
    }

    fn look_at_indexes(&mut self) {
        let job = self.job;
        let before = Indexes::parse(&job.status.completed_indexes, job.completions());
        let new = self.tracked().filter(|(_, pod)| pod.has_succeeded());
        self.completed = before.and(&new.map(|(index, _)| index).collect());
        self.completed_before = before;
        self.succeeded = self.completed.total();
        if let Some(limit) = job.spec.backoff_limit_per_index {
            let before = job.status.failed_indexes.as_deref().unwrap_or_default();
            let before = Indexes::parse(before, job.completions());
            let new = self
                .tracked()
                .filter(|(_, pod)| fails_its_index(job, pod, limit));
            self.failed_indexes = Some(before.and(&new.map(|(index, _)| index).collect()));
            self.replaced = self.find_replaced();
        }
    }

    /// The pods still to be counted that have an index of the Job, with that.
    fn tracked(&self) -> impl Iterator<Item = (i64, &'a Pod)> {
        let tracked = self.pods.iter().filter(|pod| pod.is_tracked());
        tracked.filter_map(|pod| Some((pod.valid_index(self.job)?, *pod)))
    }

    fn find_replaced(&self) -> BTreeMap<i64, &'a Pod> {
        let active = self.active_indexes();
        let is_done = |index: i64| {
            let failed = self.failed_indexes.as_ref();
            self.completed.has(index)
                || failed.is_some_and(|failed| failed.has(index))
                || active.contains(&index)
        };
        let mut replaced: BTreeMap<i64, &Pod> = BTreeMap::new();
        for (index, pod) in self.tracked() {
            if !pod.has_failed(self.job) || is_done(index) {
                continue;
            }
            let is_later = replaced.get(&index).is_none_or(|last| {
                last.all_failures() <= pod.all_failures() && pod.finished_at() >= last.finished_at()
            });
            if is_later {
                replaced.insert(index, pod);
            }
        }
        replaced
    }

    pub fn active_indexes(&self) -> BTreeSet<i64> {
        self.active.iter().filter_map(|pod| pod.index()).collect()
    }

    pub fn ready(&self) -> i64 {
        size(self.active.iter().filter(PodView::is_ready).count())
    }

    pub fn terminating(&self) -> i64 {
        size(self.pods.iter().filter(PodView::is_terminating).count())
    }
}

/// True if the pod is still to be counted, and has an index if the Job has indexes.
fn is_counted_once(job: &Job, pod: &Pod, uncounted: &[String]) -> bool {
    let has_place = !job.is_indexed() || pod.valid_index(job).is_some();
    let is_known = || uncounted.iter().any(|uid| uid == pod.uid());
    pod.is_tracked() && has_place && !is_known()
}

fn fails_its_index(job: &Job, pod: &Pod, limit: i64) -> bool {
    if !pod.has_failed(job) {
        return false;
    }
    match consequence(job, pod) {
        Consequence::FailIndex => true,
        Consequence::Ignore => false,
        Consequence::Count | Consequence::FailJob(_) => i64::from(pod.failures()) >= limit,
    }
}

/// A number of pods.
pub fn size(pods: usize) -> i64 {
    i64::try_from(pods).unwrap_or(i64::MAX)
}
