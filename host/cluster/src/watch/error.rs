//! Why a list or a watch ended, in one line each.

use super::lines::StreamError;
use super::step::BadList;
use super::verdict::Verdict;
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
    /// The server does not say anything any more.
    #[error("cannot {verb} {resource}: the server has not said anything for {seconds} s")]
    Silent {
        /// `list` or `watch`.
        verb: &'static str,
        /// As in RBAC rules.
        resource: String,
        /// Since its last byte.
        seconds: u64,
    },
    /// There is no such request, by what the server has said before: a token or a version that fits no URI.
    #[error("cannot {verb} {resource}: the server's own words make no request: {cause}")]
    Unaskable {
        /// `list` or `watch`.
        verb: &'static str,
        /// As in RBAC rules.
        resource: String,
        /// Why.
        cause: String,
    },
    /// Watches are accepted, and do not work.
    #[error("{watches} watches of {resource} in a row have brought nothing; listing anew")]
    Fruitless {
        /// As in RBAC rules.
        resource: String,
        /// How many.
        watches: u32,
    },
    /// There is no room for all of it.
    #[error(
        "the objects of {resource} take more than the {bytes} bytes that are left of the caches' limit"
    )]
    OverLimit {
        /// As in RBAC rules.
        resource: String,
        /// What is left.
        bytes: usize,
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
    #[error("{resource} {object:?} cannot be read: {cause}")]
    Undecodable {
        /// As in RBAC rules.
        resource: String,
        /// The start of its text: its name cannot be told.
        object: String,
        /// Why.
        cause: String,
    },
    /// An object has a namespace and should have none, or the other way round: the kind was made anew with another scope.
    #[error("{resource} {object:?} is not {expected}, and the kind was; asking what it is now")]
    OtherScope {
        /// As in RBAC rules.
        resource: String,
        /// Its namespace, if it has one, and name.
        object: String,
        /// What discovery said of the kind.
        expected: &'static str,
    },
    /// An event came after a newer one, for the first time.
    #[error("an event of {resource} came out of order: {version}")]
    OutOfOrder {
        /// As in RBAC rules.
        resource: String,
        /// Its resourceVersion.
        version: String,
    },
    /// An event's version cannot be one.
    #[error("an event of {resource} has a resourceVersion far from all before: {version}")]
    Leap {
        /// As in RBAC rules.
        resource: String,
        /// Its resourceVersion, or the start of it.
        version: String,
    },
    /// The server has nothing newer than this, and had.
    #[error(
        "the server is at resourceVersion {version} of {resource}, older than what it has said before"
    )]
    Behind {
        /// As in RBAC rules.
        resource: String,
        /// Where it says it is.
        version: String,
    },
    /// The marker at the end of the initial objects does not come.
    #[error("the stream of {resource} does not say where the initial objects end")]
    NoMarker {
        /// As in RBAC rules.
        resource: String,
    },
    /// The stream ended before the marker.
    #[error("the stream of {resource} ended before all objects had come")]
    Incomplete {
        /// As in RBAC rules.
        resource: String,
    },
    /// Confirmed by two quorum reads.
    #[error(
        "the API server has been rolled back from resourceVersion {from} to {to}; listing all {resource} anew"
    )]
    RolledBack {
        /// As in RBAC rules.
        resource: String,
        /// Newest seen before.
        from: String,
        /// Where it is now.
        to: String,
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
    pub(super) error: Box<WatchError>,
    pub(super) verdict: Verdict,
}

impl From<WatchError> for Failure {
    /// What cannot be read must be asked for anew.
    fn from(error: WatchError) -> Self {
        Self::new(error, Verdict::Broken)
    }
}

impl Failure {
    pub(super) fn new(error: WatchError, verdict: Verdict) -> Self {
        Self {
            error: Box::new(error),
            verdict,
        }
    }

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
        Self::new(error, verdict)
    }

    /// 404 from whoever routes requests, and not a Status: a kind that is served has an answer of its own for what it has not.
    pub(super) fn is_path_gone(&self) -> bool {
        let WatchError::Request { source, .. } = &*self.error else {
            return false;
        };
        let status = source.status();
        status.is_some_and(|status| status.code == 404 && status.reason.is_empty())
    }

    /// Whether it is the server that fails, most likely for all kinds alike, and not this kind.
    pub(super) fn is_of_server(&self) -> bool {
        match &*self.error {
            WatchError::Request { source, .. } => match source {
                RequestError::Transport(_) | RequestError::Deadline(_) => true,
                RequestError::Status(status) => status.code == 429 || status.code >= 500,
                RequestError::TooLarge(_) | RequestError::Answer(_) => false,
            },
            WatchError::Stream { source, .. } => matches!(source, StreamError::Broken(_)),
            WatchError::Silent { .. } | WatchError::Incomplete { .. } => true,
            _ => false,
        }
    }

    /// The server has only just begun to serve the kind, as after its CRD was created: nothing is wrong with either.
    pub(super) fn is_initializing(&self) -> bool {
        let WatchError::Request { source, .. } = &*self.error else {
            return false;
        };
        // `storage/cacher` of the API server. It has no reason or cause of its own.
        let status = source.status();
        status.is_some_and(|status| status.message.contains("storage is (re)initializing"))
    }

    /// What is known of the kind is not true any more.
    pub(super) fn is_of_other_scope(&self) -> bool {
        matches!(&*self.error, WatchError::OtherScope { .. })
    }

    /// A body that cannot be read further. After a line without end the watch would only bring that line again.
    pub(super) fn of_stream(resource: String, source: StreamError) -> Self {
        let verdict = match source {
            StreamError::Broken(_) => Verdict::Lost,
            StreamError::TooLong(_) => Verdict::Broken,
        };
        let error = WatchError::Stream { resource, source };
        Self::new(error, verdict)
    }

    /// More than there is room for.
    pub(super) fn of_room(resource: String, bytes: usize) -> Self {
        Self::new(WatchError::OverLimit { resource, bytes }, Verdict::Full)
    }

    /// A list or a stream that contradicts itself or an earlier one.
    pub(super) fn of_list(resource: String, bad: &BadList) -> Self {
        let error = WatchError::NotAList {
            resource,
            cause: bad.to_string(),
        };
        Self::new(error, bad.verdict())
    }
}
