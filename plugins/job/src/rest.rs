//! The rest after a run that has written. Pods of a Job often change together, so they are looked
//! at a second later. A change of the Job's spec is looked at at once.

use std::time::Duration;

use pilothouse_sdk::{Failure, Outcome, Request};
use serde::{Deserialize, Serialize};

use crate::backoff::{Failures, Memo};
use crate::events;
use crate::objects::Job;

/// The least time between two runs that write, if the spec is the same.
pub const REST: Duration = Duration::from_secs(1);

/// A rest of a Job's key.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Rest {
    /// The Job's generation, which moves with its spec and when its deletion is asked for.
    generation: i64,
    /// Since 1970.
    until: Duration,
}

impl Rest {
    /// The rest after a run at this time.
    pub fn after(job: &Job, now: Duration) -> Self {
        Self {
            generation: job.metadata.generation,
            until: now + REST,
        }
    }

    /// How long it goes on. It has ended if the clock has been put back.
    fn remaining(&self, job: &Job, now: Duration) -> Option<Duration> {
        let remaining = self.until.saturating_sub(now);
        let goes_on =
            self.generation == job.metadata.generation && !remaining.is_zero() && remaining <= REST;
        goes_on.then_some(remaining)
    }
}

/// What is done in a rest: Events tell what the last run has written. Pods are not read, so none
/// that changes runs the key again. `None`: the key does not rest.
///
/// # Errors
///
/// If the memo cannot be written as JSON.
pub fn resting(request: &Request, job: &Job, now: Duration) -> Result<Option<Outcome>, Failure> {
    // What has failed is tried again when the host says so.
    if request.attempt > 1 {
        return Ok(None);
    }
    let Some(rest) = Memo::of(job, request).and_then(|memo| memo.rest) else {
        return Ok(None);
    };
    let Some(remaining) = rest.remaining(job, now) else {
        return Ok(None);
    };
    let failures = Failures::remembered(job, request);
    let memo = Memo {
        job: job.metadata.always.uid.clone(),
        before: failures.clone(),
        after: failures,
        rest: Some(rest),
    };
    let events = events::about_pods(job, request).into_iter();
    let outcome = events.fold(Outcome::done(), Outcome::with);
    Ok(Some(outcome.requeue_after(remaining).remember(&memo)?))
}
