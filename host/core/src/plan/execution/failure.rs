//! Why a plan was not carried out to its end.

use std::time::Duration;

/// Why a plan was not carried out to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteFailure {
    /// Which action failed, and what the server answered.
    pub message: String,
    /// The cluster could not be reached, which is not the key's fault.
    pub is_unavailable: bool,
    /// How long the server wants to be left alone.
    pub retry_after: Option<Duration>,
}

/// The failure that is reported: of those that say when to retry, or else of all, that of the first
/// step. So it does not depend on the order of the answers.
pub(super) struct FailedStep {
    pub number: usize,
    pub failure: WriteFailure,
}

impl WriteFailure {
    /// Whether it determines when to retry: the cluster cannot be reached, or wants to be left
    /// alone.
    pub(super) fn says_when(&self) -> bool {
        self.is_unavailable || self.retry_after.is_some()
    }
}

impl FailedStep {
    pub fn join(&mut self, other: Self) {
        let rank = |failed: &Self| (!failed.failure.says_when(), failed.number);
        let longest = self.failure.retry_after.max(other.failure.retry_after);
        if rank(&other) < rank(self) {
            *self = other;
        }
        self.failure.retry_after = longest;
    }
}
