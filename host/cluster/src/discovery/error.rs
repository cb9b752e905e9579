//! Why a kind cannot be resolved to a resource.

use pilothouse_core::Kind;

use crate::client::RequestError;

/// Why a kind cannot be resolved to a resource.
#[derive(Debug, thiserror::Error)]
pub enum DiscoveryError {
    /// The server was asked and does not serve the kind.
    #[error("the server has no kind {kind}{hint}")]
    UnknownKind {
        /// The kind requested.
        kind: Kind,
        /// Versions that are served, or a kind with a similar name; may be empty.
        hint: String,
    },
    /// The part of the server that would know the kind did not answer.
    #[error("whether there is a kind {kind} is not known: {cause}")]
    Unanswered {
        /// The kind requested.
        kind: Kind,
        /// The part that did not answer, and why.
        cause: String,
    },
    /// The kind cannot be addressed by itself, only as a subresource of another kind.
    #[error(
        "{kind} is the {subresource} of several kinds ({candidates}): name the one meant, with a patch"
    )]
    Ambiguous {
        /// The kind requested.
        kind: Kind,
        /// The subresource.
        subresource: String,
        /// The kinds that have it.
        candidates: String,
    },
    /// The kind can be read or created, but not listed and watched.
    #[error("{0} cannot be watched: the server offers no list and watch for it")]
    Unwatchable(Kind),
    /// Discovery is forbidden (403).
    #[error("the host may not ask which kinds there are: {0}")]
    Forbidden(String),
    /// The server was asked a moment ago, and failed.
    #[error("{0}")]
    Again(String),
    /// The server gave no usable answer.
    #[error("the server does not say which kinds there are: {0}")]
    Request(#[source] RequestError),
}

impl DiscoveryError {
    /// True if discovery as a whole fails, for all kinds alike.
    pub fn is_of_server(&self) -> bool {
        matches!(self, Self::Again(_) | Self::Request(_))
    }

    /// True if the server was asked and does not serve the kind.
    pub fn is_absence(&self) -> bool {
        matches!(self, Self::UnknownKind { .. })
    }

    /// True if it is still unknown whether the kind exists: asking again may help.
    pub(crate) fn is_unanswered(&self) -> bool {
        self.is_of_server() || matches!(self, Self::Unanswered { .. })
    }
}
