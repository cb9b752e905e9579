//! A reconcile whose reads are registered: its writes are sent, and its key is given back.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use super::{ReconcileError, RunningKey};
use crate::hub::controller::loops::LoopingKey;
use crate::model::outcome::{FollowUp, NextRun};
use crate::plan::execution::{Executed, Execution, PendingWrite, UnderWay};
use crate::plan::write::{TakenEvent, WriteAnswer};
use crate::reads::fetched::FetchedObjects;

/// The longest time before which an outcome can ask that its key is not run again.
const MAX_NOT_BEFORE: Duration = Duration::from_secs(3600);

/// A reconcile whose writes are being sent.
#[must_use = "its key is held until the reconcile is given back"]
pub struct Writing {
    pub(in crate::hub) held: RunningKey,
    pub(in crate::hub) follow_up: FollowUp,
    pub(in crate::hub) execution: Execution,
}

/// A reconcile of whose writes at least one is under way.
#[must_use = "its key is held until the reconcile is given back"]
pub struct Sending {
    held: RunningKey,
    follow_up: FollowUp,
    under_way: UnderWay,
}

impl Writing {
    /// Goes on to the writes that are to be sent now, or to the end. There may be none to send
    /// while others are under way.
    pub fn advance(self) -> ControlFlow<Finished, (Vec<PendingWrite>, Sending)> {
        let Self {
            held,
            follow_up,
            execution,
        } = self;
        match execution.advance() {
            ControlFlow::Continue((begun, under_way)) => ControlFlow::Continue((
                begun,
                Sending {
                    held,
                    follow_up,
                    under_way,
                },
            )),
            ControlFlow::Break(executed) => {
                ControlFlow::Break(Finished::executed_as(held, follow_up, executed))
            }
        }
    }
}

impl Sending {
    /// The cluster has answered one of the writes.
    pub fn answered(self, pending: PendingWrite, answer: WriteAnswer) -> Writing {
        Writing {
            held: self.held,
            follow_up: self.follow_up,
            execution: self.under_way.answered(pending, answer),
        }
    }
}

/// A reconcile that has ended. Its key is still held.
#[must_use = "its key is held until the reconcile is given back"]
pub struct Finished {
    pub(in crate::hub) held: RunningKey,
    pub(in crate::hub) end: End,
    /// What the outcome asks to be remembered of the key. `None` if there is no outcome.
    pub(in crate::hub) remembered: Option<Remembered>,
    pub(in crate::hub) executed: Executed,
}

/// What an outcome asks to be remembered of its key until the next run.
pub(in crate::hub) struct Remembered {
    pub memo: Option<Arc<str>>,
    /// The least time until the next run, at most [`MAX_NOT_BEFORE`].
    pub not_before: Duration,
}

/// How a reconcile has ended.
pub(in crate::hub) enum End {
    /// It and all its writes have succeeded. Holds the requested delay of the next run.
    Done(Option<Duration>),
    /// It, or one of its writes, has failed, or its outcome asks for a retry.
    Failed(ReconcileError),
    /// Its writes were stopped on the way, because its plugin was halted.
    Halted,
    /// Nothing was written: the API server has contradicted the snapshot that it was decided on.
    Contradicted,
    /// Nothing was decided: kinds that it has asked about are not listed yet.
    Unseen,
    /// Nothing was decided: objects that it has asked about had to be fetched, and these have been.
    Fetched(FetchedObjects),
}

impl Finished {
    /// The guest has failed, or its outcome was refused, so nothing was written.
    pub(in crate::hub) fn failed(held: RunningKey, error: ReconcileError) -> Self {
        Self {
            held,
            end: End::Failed(error),
            remembered: None,
            executed: Executed::default(),
        }
    }

    /// Nothing was decided, because the snapshot lacks kinds that were asked about.
    pub(in crate::hub) fn unseen(held: RunningKey) -> Self {
        Self {
            held,
            end: End::Unseen,
            remembered: None,
            executed: Executed::default(),
        }
    }

    /// Nothing was decided, and these objects have been fetched for the next run.
    pub(in crate::hub) fn fetched(held: RunningKey, fetched: FetchedObjects) -> Self {
        Self {
            held,
            end: End::Fetched(fetched),
            remembered: None,
            executed: Executed::default(),
        }
    }

    /// Nothing was written, because the snapshot was out of date.
    pub(in crate::hub) fn contradicted(held: RunningKey) -> Self {
        Self {
            held,
            end: End::Contradicted,
            remembered: None,
            executed: Executed::default(),
        }
    }

    /// The writes have ended.
    pub(in crate::hub) fn executed_as(
        held: RunningKey,
        follow_up: FollowUp,
        mut executed: Executed,
    ) -> Self {
        let FollowUp {
            next,
            not_before,
            is_settled: _,
            memo,
        } = follow_up;
        let end = match (executed.failure.take(), next) {
            (Some(failure), _) => End::Failed(failure.into()),
            (None, _) if executed.is_halted => End::Halted,
            (None, NextRun::Retry(text)) => End::Failed(ReconcileError::Retry(text)),
            // As in controller-runtime, zero does not ask for another run.
            (None, NextRun::After(delay)) if !delay.is_zero() => End::Done(Some(delay)),
            (None, NextRun::After(_) | NextRun::OnChange) => End::Done(None),
        };
        // What was stopped on the way goes on as soon as it may.
        let not_before = match end {
            End::Halted => Duration::ZERO,
            _ => not_before.min(MAX_NOT_BEFORE),
        };
        Self {
            held,
            end,
            remembered: Some(Remembered { memo, not_before }),
            executed,
        }
    }

    /// The key.
    pub fn held(&self) -> &RunningKey {
        &self.held
    }

    /// Why the reconcile failed, if it did.
    pub fn error(&self) -> Option<&ReconcileError> {
        match &self.end {
            End::Failed(error) => Some(error),
            End::Done(_) | End::Halted | End::Contradicted | End::Unseen | End::Fetched(_) => None,
        }
    }

    /// Takes the Events that are to be written. The key does not wait for them.
    pub fn take_events(&mut self) -> Vec<TakenEvent> {
        std::mem::take(&mut self.executed.events)
    }

    /// What became of the writes. The failure is in [`error`](Self::error).
    pub fn executed(&self) -> &Executed {
        &self.executed
    }
}

/// What the end of a reconcile has shown.
#[derive(Debug, Default)]
pub struct Conclusion {
    /// The key, if it is now found to loop: nothing but its own writes has run it many times in a
    /// row.
    pub looping: Option<LoopingKey>,
    /// Whether this failure put the plugin's version in quarantine.
    pub is_quarantined: bool,
}
