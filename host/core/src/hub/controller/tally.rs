//! How the reconciles of one plugin have ended, for people and metrics.

use std::time::Duration;

use crate::hub::plugin::RunError;
use crate::hub::reconcile::{End, Finished, ReconcileError};
use crate::hub::status::{LastError, ReconcileCounts};
use crate::model::outcome::Failure;
use crate::model::subject_key::SubjectKey;
use crate::queue::Time;

/// See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct Tally {
    counts: ReconcileCounts,
    last_error: Option<LastError>,
}

impl Tally {
    pub fn counts(&self) -> ReconcileCounts {
        self.counts
    }

    pub fn last_error(&self) -> Option<&LastError> {
        self.last_error.as_ref()
    }

    /// A reconcile begins.
    pub fn begin(&mut self, is_self_triggered: bool) {
        self.counts.self_triggered += u64::from(is_self_triggered);
    }

    /// The guest of a reconcile has ended.
    pub fn ran(&mut self, has_denied_read: bool) {
        self.counts.denied_reads += u64::from(has_denied_read);
    }

    /// A reconcile has ended.
    pub fn finished(&mut self, finished: &Finished, now: Time) {
        match &finished.end {
            End::Done(requeue_after) => self.succeeded(*requeue_after),
            End::Failed(error) => self.failed(&finished.held.request.key, error, now),
            End::Halted | End::Unseen | End::Fetched(_) => {}
            End::Contradicted => self.counts.contradicted += 1,
        }
    }

    fn succeeded(&mut self, requeue_after: Option<Duration>) {
        match requeue_after {
            Some(_) => self.counts.requeue_after += 1,
            None => self.counts.success += 1,
        }
    }

    fn failed(&mut self, key: &SubjectKey, error: &ReconcileError, now: Time) {
        self.counts.error += 1;
        self.last_error = Some(LastError {
            key: key.clone(),
            message: error.to_string(),
            at: now,
        });
        match error {
            ReconcileError::Run(RunError::Failure(Failure::Terminal(_))) => {
                self.counts.terminal += 1;
            }
            ReconcileError::Run(RunError::Failure(_)) | ReconcileError::Retry(_) => {}
            ReconcileError::Run(_) => self.counts.trapped += 1,
            ReconcileError::Plan(_) => self.counts.refused += 1,
            ReconcileError::Unconfirmed(_)
            | ReconcileError::Write { .. }
            | ReconcileError::Unseen(_)
            | ReconcileError::Unfetched(_)
            | ReconcileError::Unavailable(_) => {}
        }
    }
}
