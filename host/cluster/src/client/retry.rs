//! Decides whether and when a request that the server has turned away is sent again.

use std::time::Duration;

use super::status::Status;

/// The delay before a repeat if the server answers 429 without `Retry-After`.
const DEFAULT_RETRY_AFTER: Duration = Duration::from_secs(1);

/// If the server names a longer delay than this, the request is not repeated here. It fails, and
/// the caller's own back-off (of a key or a list-watch) decides when to try again.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(10);

/// Whether a request that the server has turned away may be sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CanRepeat {
    /// Never, not even after 429.
    Never,
    /// Only if the request was certainly not carried out: after 429.
    IfRefused,
    /// The request is idempotent: after 429, and after a 503 with `Retry-After`.
    Always,
    /// The request changes nothing: after 429, and after every 5xx with `Retry-After`.
    Read,
}

impl CanRepeat {
    /// The delay before the request is sent again; `None` if it must not be repeated.
    pub(super) fn delay(self, status: &Status) -> Option<Duration> {
        let delay = match (status.code, self) {
            (_, Self::Never) => None,
            (429, _) => Some(status.retry_after.unwrap_or(DEFAULT_RETRY_AFTER)),
            (503, Self::Always) | (500.., Self::Read) => status.retry_after,
            _ => None,
        };
        delay.filter(|delay| *delay <= MAX_RETRY_AFTER)
    }
}
