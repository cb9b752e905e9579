//! Classifies failures by what they mean for the position: whether the same request may be
//! repeated, or everything must be listed.

use std::time::Duration;

use crate::client::{RequestError, Status};

/// The class of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FailureClass {
    /// The requested version is not available, or not yet.
    BadVersion,
    /// The server is at an older version than one it has sent before.
    Behind,
    /// The server is overloaded; the same request may work later.
    Busy { retry_after: Option<Duration> },
    /// The server refuses for now: no permission, or an internal error. The position stays valid.
    Refused { retry_after: Option<Duration> },
    /// No answer, or no complete one. The position stays valid, unless the server has changed.
    Lost,
    /// What is known may be wrong: list everything.
    Broken,
    /// There is no room for all objects.
    Full,
}

impl FailureClass {
    pub(crate) fn of_request(error: &RequestError) -> Self {
        let Some(status) = error.status() else {
            return match error {
                RequestError::TooLarge(_) | RequestError::Answer(_) => Self::Broken,
                _ => Self::Lost,
            };
        };
        let retry_after = status.retry_after;
        match status.code {
            _ if status.is_expired() || status.is_too_large_resource_version() => Self::BadVersion,
            429 => Self::Busy { retry_after },
            // Without permission to watch, listing every few seconds instead would be polling.
            401 | 403 | 500.. => Self::Refused { retry_after },
            _ => Self::Broken,
        }
    }

    /// Classifies an ERROR event. After 429 the position stays valid
    /// (`TestNoRelistOnTooManyRequests`). Any other may stand for an event that could not be
    /// encoded, so that only a list is safe (`TestReflectorReplacesStoreOnUnsafeDelete`).
    pub(crate) fn of_event(status: &Status) -> Self {
        match status.code {
            _ if status.is_expired() || status.is_too_large_resource_version() => Self::BadVersion,
            429 => Self::Busy {
                retry_after: status.retry_after,
            },
            _ => Self::Broken,
        }
    }

    /// The delay that the server asked for.
    pub(crate) fn retry_after(self) -> Option<Duration> {
        match self {
            Self::Busy { retry_after } | Self::Refused { retry_after } => retry_after,
            _ => None,
        }
    }
}
