//! Why a reconcile failed.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::hub::plugin::RunError;
use crate::hub::reconcile::fetching::Unfetched;
use crate::model::key::Kind;
use crate::model::outcome::Failure;
use crate::model::text::cut;
use crate::plan::PlanError;
use crate::plan::execution::WriteFailure;

/// Maximum bytes of the text about a refused outcome. The text may repeat any amount of the outcome
/// and is kept for each broken key.
const ERROR_BYTES: usize = 2 << 10;

/// Why a reconcile failed.
#[derive(Debug, thiserror::Error)]
pub enum ReconcileError {
    /// The guest failed.
    #[error(transparent)]
    Run(#[from] RunError),
    /// Its outcome was refused as a whole.
    #[error("outcome refused: {}", cut(&.0.to_string(), ERROR_BYTES))]
    Plan(#[from] PlanError),
    /// Its outcome asks to be retried, and its writes have succeeded. It is a failure that the
    /// guest returns, with writes.
    #[error("{0}")]
    Retry(String),
    /// The API server will not say whether the snapshot shows what its outcome rests on.
    #[error("cannot confirm {0}")]
    Unconfirmed(String),
    /// The API server refused a write.
    #[error("{message}")]
    Write {
        /// Which write failed, and why.
        message: String,
        /// How long the server wants to be left alone.
        retry_after: Option<Duration>,
    },
    /// It has asked about kinds of a pattern that are not listed yet. That is no failure: it runs
    /// again when they are.
    #[error("{} and {} more kinds are not listed yet", .0.first().map(ToString::to_string).unwrap_or_default(), .0.len() - 1)]
    Unseen(BTreeSet<Kind>),
    /// It has asked about objects that no watch brings. That is no failure: it runs again when they
    /// are fetched.
    #[error("{} objects are not fetched yet", .0.objects.len())]
    Unfetched(Box<Unfetched>),
    /// The cluster could not be reached. That is not the key's fault: it is retried as soon as the
    /// cluster can be reached.
    #[error("{0}")]
    Unavailable(String),
}

impl ReconcileError {
    /// Whether the error counts against the version of the plugin: it broke, or its outcome was
    /// refused.
    pub(in crate::hub) fn is_fault(&self) -> bool {
        match self {
            Self::Run(RunError::Failure(_))
            | Self::Retry(_)
            | Self::Unconfirmed(_)
            | Self::Write { .. }
            | Self::Unseen(_)
            | Self::Unfetched(_)
            | Self::Unavailable(_) => false,
            Self::Run(_) | Self::Plan(_) => true,
        }
    }

    /// Whether the guest has said that retrying does not help.
    pub(in crate::hub) fn is_terminal(&self) -> bool {
        matches!(self, Self::Run(RunError::Failure(Failure::Terminal(_))))
    }

    /// How long to wait at least before a retry.
    pub(in crate::hub) fn retry_after(&self) -> Duration {
        match self {
            Self::Write { retry_after, .. } => retry_after.unwrap_or_default(),
            Self::Run(_)
            | Self::Plan(_)
            | Self::Retry(_)
            | Self::Unconfirmed(_)
            | Self::Unseen(_)
            | Self::Unfetched(_)
            | Self::Unavailable(_) => Duration::ZERO,
        }
    }
}

impl From<WriteFailure> for ReconcileError {
    fn from(failure: WriteFailure) -> Self {
        if failure.is_unavailable {
            Self::Unavailable(failure.message)
        } else {
            Self::Write {
                message: failure.message,
                retry_after: failure.retry_after,
            }
        }
    }
}
