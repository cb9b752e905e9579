//! Why a list or a watch ended, in one line each.

use pilothouse_core::object::ObjectError;

use super::state::Verdict;
use super::stream::StreamError;
use crate::request::RequestError;

/// Why a list or a watch ended.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// 403.
    #[error("the host may not {verb} {resource}: {message}")]
    Forbidden {
        /// `list` or `watch`.
        verb: &'static str,
        /// As in RBAC rules.
        resource: String,
        /// The server's words.
        message: String,
    },
    /// The request has no answer.
    #[error("cannot {verb} {resource}: {source}")]
    Request {
        /// `list` or `watch`.
        verb: &'static str,
        /// As in RBAC rules.
        resource: String,
        /// Why.
        source: RequestError,
    },
    /// The answer to a list is none.
    #[error("the list of {resource} cannot be read: {cause}")]
    NotAList {
        /// As in RBAC rules.
        resource: String,
        /// Why.
        cause: String,
    },
    /// An object is not one.
    #[error("{resource} {object:?} cannot be read: {source}")]
    Undecodable {
        /// As in RBAC rules.
        resource: String,
        /// Its name, or the start of its text.
        object: String,
        /// Why.
        source: Box<ObjectError>,
    },
    /// An event is none.
    #[error("an event of {resource} cannot be read: {cause}")]
    BadEvent {
        /// As in RBAC rules.
        resource: String,
        /// Why.
        cause: String,
    },
    /// The server ended the watch with an ERROR event.
    #[error("the watch of {resource} ended: {message}")]
    Ended {
        /// As in RBAC rules.
        resource: String,
        /// The server's words.
        message: String,
    },
    /// The connection broke.
    #[error("the watch of {resource} broke: {source}")]
    Stream {
        /// As in RBAC rules.
        resource: String,
        /// Why.
        source: StreamError,
    },
}

/// A failed step, and what it means for the next one.
pub(super) struct Failure {
    pub(super) error: WatchError,
    pub(super) verdict: Verdict,
}

impl From<WatchError> for Failure {
    /// What cannot be read must be asked for anew.
    fn from(error: WatchError) -> Self {
        Self {
            error,
            verdict: Verdict::Broken,
        }
    }
}

impl Failure {
    /// A request without an answer.
    pub(super) fn of_request(verb: &'static str, resource: String, source: RequestError) -> Self {
        let verdict = Verdict::of_request(&source);
        let error = match source.status() {
            Some(status) if status.code == 403 => WatchError::Forbidden {
                verb,
                resource,
                message: status.to_string(),
            },
            _ => WatchError::Request {
                verb,
                resource,
                source,
            },
        };
        Self { error, verdict }
    }

    /// A body that cannot be read further. After a line without end the watch would only bring that line again.
    pub(super) fn of_stream(resource: String, source: StreamError) -> Self {
        let verdict = match source {
            StreamError::Broken(_) => Verdict::Transient { retry_after: None },
            StreamError::TooLong(_) => Verdict::Broken,
        };
        let error = WatchError::Stream { resource, source };
        Self { error, verdict }
    }
}
