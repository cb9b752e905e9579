//! A plugin as the host sees it: a manifest and a function.

use std::sync::Arc;
use std::time::Duration;

use crate::model::manifest::Manifest;
use crate::model::outcome::{Effect, Failure, Outcome};
use crate::model::subject_key::SubjectKey;
use crate::reads::reader::Reader;

/// One reconcile of one key.
#[derive(Clone, Debug)]
pub struct Request {
    /// The object to reconcile. It may not exist any more.
    pub key: SubjectKey,
    /// 1 for the first try, one more for each retry.
    pub attempt: u32,
    /// What became of the writes of this key's previous outcome.
    pub previous: Vec<Effect>,
    /// What this key's last outcome asked to be kept.
    pub memo: Option<Arc<str>>,
    /// The plugin's configuration, as JSON.
    pub config: String,
}

/// A loaded controller.
///
/// # Contract
/// - After an error (a [`RunError`] other than a terminal failure) the key runs again with
///   back-off. After a terminal failure it does not run again until something that it read changes.
///   What follows an outcome is [`FollowUp::next`](crate::FollowUp), unless one of its writes
///   fails.
/// - The call is CPU-bound and may take long. It is made on a worker thread, for different keys at
///   the same time.
/// - Reads go through `reader`, which records them.
pub trait Plugin: Send + Sync {
    /// What the plugin declared.
    fn manifest(&self) -> &Manifest;

    /// Decides what should be done about a key.
    fn reconcile(&self, request: &Request, reader: &mut Reader) -> Result<Outcome, RunError>;
}

/// Why a reconcile produced no outcome.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The guest returned a failure.
    #[error(transparent)]
    Failure(#[from] Failure),
    /// The guest broke: it trapped, or its answer cannot be read.
    #[error("trap: {0}")]
    Trap(String),
    /// The guest broke and stated the reason first: a panic, an exception.
    #[error("{said}; trap: {trap}")]
    Panic {
        /// The reason, in the guest's words.
        said: String,
        /// The trap, as the host saw it.
        trap: String,
    },
    /// It used up its fuel. The CPU time differs from one run to the next, and shows what the fuel
    /// is worth.
    #[error("over limit: fuel: all of its {fuel} used, which took {took:.1?} of CPU time")]
    OutOfFuel {
        /// The fuel that it was given.
        fuel: u64,
        /// The CPU time that it took.
        took: Duration,
    },
    /// It exceeded a limit other than fuel.
    #[error("over limit: {0}")]
    OverLimit(String),
    /// It ran longer than it may.
    #[error("timeout: {0}")]
    Timeout(String),
    /// It was run twice on the same request and snapshot, and answered differently.
    #[error("is not deterministic: {0}")]
    NonDeterministic(String),
    /// The host could not run it.
    #[error("host: {0}")]
    Host(String),
    /// The host panicked during the guest's call.
    #[error("host: panic: {0}")]
    HostPanic(String),
}
