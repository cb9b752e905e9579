//! A plugin, as the host sees it: a manifest and a function.

use std::time::Duration;

use crate::key::ObjectKey;
use crate::manifest::Manifest;
use crate::outcome::{ActionResult, Failure, Outcome};
use crate::reader::Reader;

/// One turn for one key.
#[derive(Clone, Debug)]
pub struct Request {
    /// The object to look at; it may be gone.
    pub key: ObjectKey,
    /// 1 for the first try, one more for each retry.
    pub attempt: u32,
    /// What became of the actions of this key's previous outcome.
    pub previous: Vec<ActionResult>,
    /// The plugin's configuration, as JSON.
    pub config: String,
}

/// A loaded controller.
///
/// # Contract
/// - An error ([`RunError`] other than terminal) runs the key again with back-off; a terminal failure does not, until something
///   the key read changes; `requeue_after` runs it again after that time. An error wins over everything.
/// - The call is CPU-bound and may be long: it is made on a worker thread, for different keys at the same time.
/// - Reads go through `reader`, which records them.
pub trait Plugin: Send + Sync {
    /// What the plugin declared.
    fn manifest(&self) -> &Manifest;

    /// Decides what should be done about a key.
    fn reconcile(&self, request: &Request, reader: &mut Reader) -> Result<Outcome, RunError>;
}

/// Why a run produced no outcome.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The guest said so.
    #[error(transparent)]
    Failure(#[from] Failure),
    /// The guest broke: a trap, or an answer that cannot be read.
    #[error("trap: {0}")]
    Trap(String),
    /// The guest broke, and had said why: a panic, an exception.
    #[error("{said}; trap: {trap}")]
    Panic {
        /// In its own words.
        said: String,
        /// What the host saw of it.
        trap: String,
    },
    /// It used up its fuel. How long that took differs from run to run, and says what fuel is worth.
    #[error("over limit: fuel: all of its {fuel} used, which took {took:.1?} of CPU time")]
    OutOfFuel {
        /// What it had.
        fuel: u64,
        /// CPU time.
        took: Duration,
    },
    /// It wanted more of something else than it may have.
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
    /// The host panicked in the guest's call.
    #[error("host: panic: {0}")]
    HostPanic(String),
}
