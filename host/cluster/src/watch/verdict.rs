//! What a failure means for the position: may the same be asked again, or must the kind be listed?

use std::time::Duration;

use crate::request::{RequestError, Status};

/// What a failure means for the position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// What was asked for is not, or not yet, to be had.
    BadVersion,
    /// The server is older than what it has said before.
    Behind,
    /// The server has too much to do; the same again may work.
    Busy { retry_after: Option<Duration> },
    /// The server does not do it, for now: no permission, an internal error. The position is good.
    Refused { retry_after: Option<Duration> },
    /// No answer, or no end of it. The position is good, if it is still that server's.
    Lost,
    /// What is known may be wrong: list.
    Broken,
    /// There is no room for all of it.
    Full,
}

impl Verdict {
    pub(super) fn of_request(error: &RequestError) -> Self {
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

    /// An ERROR event. 429 leaves the position good (`TestNoRelistOnTooManyRequests`). Any other may stand for an event that could
    /// not be encoded, so that only a list is safe (`TestReflectorReplacesStoreOnUnsafeDelete`).
    pub(super) fn of_event(status: &Status) -> Self {
        match status.code {
            _ if status.is_expired() || status.is_too_large_resource_version() => Self::BadVersion,
            429 => Self::Busy {
                retry_after: status.retry_after,
            },
            _ => Self::Broken,
        }
    }

    /// When the server wants to be asked again.
    pub(super) fn retry_after(self) -> Option<Duration> {
        match self {
            Self::Busy { retry_after } | Self::Refused { retry_after } => retry_after,
            _ => None,
        }
    }
}
