//! Why a write was not sent, and what its plugin is told then.

use pilothouse_core::ActionResult;

use crate::discovery::{DiscoveryError, ResourcePathError};

/// Why a write was not sent.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The object has no path.
    #[error(transparent)]
    Path(#[from] ResourcePathError),
    /// Discovery does not know the kind.
    #[error(transparent)]
    Discovery(#[from] DiscoveryError),
    /// The parts do not make a valid HTTP request.
    #[error("not a request: {0}")]
    Request(#[from] http::Error),
}

impl WriteError {
    pub(super) fn into_result(self) -> ActionResult {
        let text = self.to_string();
        match self {
            Self::Path(_)
            | Self::Request(_)
            | Self::Discovery(DiscoveryError::Ambiguous { .. }) => ActionResult::Invalid(text),
            Self::Discovery(DiscoveryError::UnknownKind { .. }) => ActionResult::NotFound(text),
            // Discovery has no answer. The write itself may be right.
            Self::Discovery(error) if error.is_unanswered() => ActionResult::Unavailable(text),
            Self::Discovery(_) => ActionResult::Failed(text),
        }
    }
}
