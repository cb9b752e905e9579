//! A reconcile whose reads are registered: its writes are sent, and its key is given back.

use std::ops::ControlFlow;
use std::time::Duration;

use super::{ReconcileError, RunningKey};
use crate::hub::controller::LoopingKey;
use crate::plan::execution::{Executed, Execution, PendingWrite};
use crate::plan::write::{Author, Write, WriteAnswer};

/// A reconcile whose writes are being sent, while none of them is under way.
#[must_use = "its key is held until the reconcile is given back"]
pub struct Writing {
    pub(in crate::hub) held: RunningKey,
    pub(in crate::hub) requeue_after: Option<Duration>,
    pub(in crate::hub) execution: Execution,
}

/// A reconcile whose writes are being sent, while this one is under way.
#[must_use = "its key is held until the reconcile is given back"]
pub struct Sending {
    held: RunningKey,
    requeue_after: Option<Duration>,
    pending: PendingWrite,
}

impl Writing {
    /// Goes on to the next write that is to be sent, or to the end.
    pub fn advance(self) -> ControlFlow<Finished, Sending> {
        let Self {
            held,
            requeue_after,
            execution,
        } = self;
        match execution.advance() {
            ControlFlow::Continue(pending) => ControlFlow::Continue(Sending {
                held,
                requeue_after,
                pending,
            }),
            ControlFlow::Break(executed) => {
                ControlFlow::Break(Finished::executed_as(held, requeue_after, executed))
            }
        }
    }
}

impl Sending {
    /// The write to be sent.
    pub fn write(&self) -> &Write {
        self.pending.write()
    }

    /// The author of the write, as it was when the reconcile began.
    pub fn author(&self) -> &Author {
        self.pending.author()
    }

    /// The cluster has answered.
    pub fn answered(self, answer: WriteAnswer) -> Writing {
        Writing {
            held: self.held,
            requeue_after: self.requeue_after,
            execution: self.pending.answered(answer),
        }
    }
}

/// A reconcile that has ended. Its key is still held.
#[must_use = "its key is held until the reconcile is given back"]
pub struct Finished {
    pub(in crate::hub) held: RunningKey,
    pub(in crate::hub) end: End,
    pub(in crate::hub) executed: Executed,
}

/// How a reconcile has ended.
pub(in crate::hub) enum End {
    /// It and all its writes have succeeded. Holds the requested delay of the next run.
    Done(Option<Duration>),
    /// It, or one of its writes, has failed.
    Failed(ReconcileError),
    /// Its writes were stopped on the way, because its plugin was halted.
    Halted,
}

impl Finished {
    /// The guest has failed, or its outcome was refused, so nothing was written.
    pub(in crate::hub) fn failed(held: RunningKey, error: ReconcileError) -> Self {
        Self {
            held,
            end: End::Failed(error),
            executed: Executed::default(),
        }
    }

    /// The writes have ended.
    pub(in crate::hub) fn executed_as(
        held: RunningKey,
        requeue_after: Option<Duration>,
        mut executed: Executed,
    ) -> Self {
        let end = match executed.failure.take() {
            Some(failure) => End::Failed(failure.into()),
            None if executed.is_halted => End::Halted,
            // As in controller-runtime, zero does not ask for another run.
            None => End::Done(requeue_after.filter(|delay| !delay.is_zero())),
        };
        Self {
            held,
            end,
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
            End::Done(_) | End::Halted => None,
        }
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
