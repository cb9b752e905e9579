//! What has become of a CronJob's Jobs: the list of those that are active, the time of the last
//! success, and the Jobs that are kept after their end.

use std::collections::BTreeSet;

use pilothouse_sdk::{Effect, EffectVerb, Failure, Filter, Host, ObjectRef, Time};

use crate::memo::Started;
use crate::notes::Notes;
use crate::objects::{CronJob, JOBS, Job, Reference};
use crate::{MAX_QUESTIONS, OWNER};

/// The Jobs that have this CronJob's name as that of their controller, as upstream finds them.
pub fn jobs_of(cron_job: &ObjectRef, host: &dyn Host) -> Result<Vec<Job>, Failure> {
    let owner = Filter::index(OWNER, &cron_job.name);
    let mut jobs: Vec<Job> = host.list(JOBS, Some(&cron_job.namespace), &owner)?;
    let is_controller = |job: &Job| job.controller().is_some_and(|by| by.name == cron_job.name);
    jobs.retain(is_controller);
    Ok(jobs)
}

/// Takes the run that the last outcome has started into the status.
pub fn record(
    cron_job: &mut CronJob,
    jobs: &[Job],
    started: &Started,
    version: &str,
    notes: &mut Notes,
) {
    let status = &mut cron_job.status;
    status.last_schedule_time = Some(started.scheduled);
    match jobs.iter().find(|job| job.name() == started.job) {
        Some(job) => add(&mut status.active, job.reference(version)),
        None => notes.missing(&started.job),
    }
}

pub fn add(active: &mut Vec<Reference>, job: Reference) {
    if !active.iter().any(|known| known.uid == job.uid) {
        active.push(job);
    }
}

/// A Job that the last outcome has deleted is not active any more, and does not go missing.
pub fn forget_deleted(active: &mut Vec<Reference>, writes: &[&Effect]) {
    let is_deleted = |job: &Reference| {
        let mut writes = writes.iter();
        writes.any(|write| {
            write.verb == EffectVerb::Delete
                && matches!(write.outcome, pilothouse_sdk::ActionResult::Done(_))
                && write.object.name == job.name
        })
    };
    active.retain(|job| !is_deleted(job));
}

/// The Jobs that have ended and are more than are to be kept, the oldest first.
pub fn surplus<'a>(cron_job: &CronJob, jobs: &'a [Job]) -> Vec<&'a Job> {
    let spec = &cron_job.spec;
    let of_end = |end: &str, limit: Option<usize>| -> Vec<&'a Job> {
        let Some(limit) = limit else {
            return Vec::new();
        };
        let mut ended: Vec<&Job> = jobs.iter().filter(|job| job.end() == Some(end)).collect();
        ended.sort_by_key(|job| start_order(job));
        let count = ended.len().saturating_sub(limit);
        ended.truncate(count);
        ended.retain(|job| !job.is_being_deleted());
        ended
    };
    let mut surplus = of_end("Complete", spec.successful_jobs_history_limit);
    surplus.extend(of_end("Failed", spec.failed_jobs_history_limit));
    surplus
}

/// Jobs that have not been started are the last.
fn start_order(job: &Job) -> (bool, Option<Time>, &str) {
    let started = job.status.start_time;
    (started.is_none(), started, job.name())
}

/// Brings the list of active Jobs and the time of the last success up to date.
pub fn look_at(cron_job: &mut CronJob, jobs: &[Job], notes: &mut Notes) {
    let status = &mut cron_job.status;
    for job in jobs {
        let is_active = status.active.iter().any(|known| known.uid == job.uid());
        let Some(end) = job.end() else {
            if !is_active {
                notes.unexpected(job.name());
            }
            continue;
        };
        if is_active {
            status.active.retain(|known| known.uid != job.uid());
            notes.completed(job.name(), end);
        }
        if end == "Complete" {
            status.last_successful_time =
                status.last_successful_time.max(job.status.completion_time);
        }
    }
}

/// Takes the Jobs that are gone off the list of active ones. Returns what is to be confirmed.
///
/// A Job that somebody has made again under the same name is another one.
pub fn drop_missing(
    cron_job: &mut CronJob,
    jobs: &[Job],
    host: &dyn Host,
    notes: &mut Notes,
) -> Result<Vec<ObjectRef>, Failure> {
    let known: BTreeSet<&str> = jobs.iter().map(Job::uid).collect();
    let mut missing = Vec::new();
    let mut left = Vec::new();
    for job in std::mem::take(&mut cron_job.status.active) {
        let object = ObjectRef::new(JOBS, &job.namespace, &job.name);
        let is_there = known.contains(job.uid.as_str())
            || missing.len() == MAX_QUESTIONS
            || host
                .get::<Job>(&object)?
                .is_some_and(|found| found.uid() == job.uid);
        if is_there {
            left.push(job);
        } else {
            notes.missing(&job.name);
            missing.push(object);
        }
    }
    cron_job.status.active = left;
    Ok(missing)
}
