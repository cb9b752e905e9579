//! The reasons why a list or a watch ends, each as one line.

use super::machine::{BadList, FailureClass};
use crate::client::{RequestError, Status};

/// Why a list or a watch ended.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// The server forbids it (403).
    #[error("the host may not {verb} {resource}: {message}")]
    Forbidden {
        /// `list` or `watch`.
        verb: &'static str,
        /// The resource, named as in RBAC rules.
        resource: String,
        /// The server's message.
        message: String,
    },
    /// The request got no usable answer.
    #[error("cannot {verb} {resource}: {source}")]
    Request {
        /// `list` or `watch`.
        verb: &'static str,
        /// The resource, named as in RBAC rules.
        resource: String,
        /// The cause.
        source: RequestError,
    },
    /// The server no longer sends anything.
    #[error("cannot {verb} {resource}: the server has not said anything for {seconds} s")]
    Silent {
        /// `list` or `watch`.
        verb: &'static str,
        /// The resource, named as in RBAC rules.
        resource: String,
        /// Seconds since its last byte.
        seconds: u64,
    },
    /// The server sends the answer so slowly that it is not complete in time.
    #[error("cannot {verb} {resource}: the answer was not complete after {seconds} s")]
    Slow {
        /// `list` or `watch`.
        verb: &'static str,
        /// The resource, named as in RBAC rules.
        resource: String,
        /// Seconds since the request.
        seconds: u64,
    },
    /// No valid request can be made of what the server sent before: a token or a version does not
    /// fit into a URI.
    #[error("cannot {verb} {resource}: the server's own words make no request: {cause}")]
    Unaskable {
        /// `list` or `watch`.
        verb: &'static str,
        /// The resource, named as in RBAC rules.
        resource: String,
        /// The cause.
        cause: String,
    },
    /// The server accepts watches that then bring nothing.
    #[error("{watches} watches of {resource} in a row have brought nothing; listing anew")]
    Fruitless {
        /// The resource, named as in RBAC rules.
        resource: String,
        /// Number of fruitless watches in a row.
        watches: u32,
    },
    /// There is no room for all objects.
    #[error(
        "the objects of {resource} take more than the {bytes} bytes that are left of the caches' limit"
    )]
    OverLimit {
        /// The resource, named as in RBAC rules.
        resource: String,
        /// Bytes that are left.
        bytes: usize,
    },
    /// The answer to a list is not a list.
    #[error("the list of {resource} cannot be read: {cause}")]
    NotAList {
        /// The resource, named as in RBAC rules.
        resource: String,
        /// The cause.
        cause: String,
    },
    /// An object cannot be parsed, and not even its name is known.
    #[error("{resource} {object:?} cannot be read: {cause}")]
    Undecodable {
        /// The resource, named as in RBAC rules.
        resource: String,
        /// The start of its text.
        object: String,
        /// The cause.
        cause: String,
    },
    /// An object has a namespace and must not have one, or the other way round: the kind was
    /// recreated with another scope.
    #[error("{resource} {object:?} is not {expected}, and the kind was; asking what it is now")]
    OtherScope {
        /// The resource, named as in RBAC rules.
        resource: String,
        /// Its namespace (if any) and name.
        object: String,
        /// The scope according to discovery.
        expected: &'static str,
    },
    /// An event came after a newer one, and it had not come before.
    #[error("an event of {resource} came out of order: {version}")]
    OutOfOrder {
        /// The resource, named as in RBAC rules.
        resource: String,
        /// Its resourceVersion.
        version: String,
    },
    /// An event's version is too far from those before to be right.
    #[error("an event of {resource} has a resourceVersion far from all before: {version}")]
    Leap {
        /// The resource, named as in RBAC rules.
        resource: String,
        /// Its resourceVersion, cut if it is long.
        version: String,
    },
    /// The server is at an older version than one it has sent before.
    #[error(
        "the server is at resourceVersion {version} of {resource}, older than what it has said before"
    )]
    Behind {
        /// The resource, named as in RBAC rules.
        resource: String,
        /// The version that the server is at.
        version: String,
    },
    /// The marker at the end of the initial objects does not come.
    #[error("the stream of {resource} does not say where the initial objects end")]
    NoMarker {
        /// The resource, named as in RBAC rules.
        resource: String,
    },
    /// The stream ended before the marker.
    #[error("the stream of {resource} ended before all objects had come")]
    Incomplete {
        /// The resource, named as in RBAC rules.
        resource: String,
    },
    /// Two quorum reads have found that the server was rolled back.
    #[error(
        "the API server has been rolled back from resourceVersion {from} to {to}; listing all {resource} anew"
    )]
    RolledBack {
        /// The resource, named as in RBAC rules.
        resource: String,
        /// Newest version seen before.
        from: String,
        /// The version that the server is at now.
        to: String,
    },
    /// An event cannot be parsed.
    #[error("an event of {resource} cannot be read: {cause}")]
    BadEvent {
        /// The resource, named as in RBAC rules.
        resource: String,
        /// The cause.
        cause: String,
    },
    /// The server ended the watch with an ERROR event.
    #[error("the watch of {resource} ended: {message}")]
    Ended {
        /// The resource, named as in RBAC rules.
        resource: String,
        /// The server's message.
        message: String,
    },
    /// The connection broke.
    #[error("the watch of {resource} broke: {source}")]
    Stream {
        /// The resource, named as in RBAC rules.
        resource: String,
        /// The cause.
        source: StreamError,
    },
}

/// Why no more lines can be read.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// The connection broke.
    #[error("{0}")]
    Broken(#[source] RequestError),
    /// A line is longer than the limit, in bytes.
    #[error("an event is longer than {0} bytes")]
    TooLong(usize),
}

/// A failed request, and the class of its failure.
pub(super) struct WatchFailure {
    pub(super) error: Box<WatchError>,
    pub(super) class: FailureClass,
}

impl From<WatchError> for WatchFailure {
    /// An unreadable answer means that everything must be listed again.
    fn from(error: WatchError) -> Self {
        Self::new(error, FailureClass::Broken)
    }
}

impl WatchFailure {
    pub(super) fn new(error: WatchError, class: FailureClass) -> Self {
        Self {
            error: Box::new(error),
            class,
        }
    }

    /// The failure of a request without a usable answer.
    pub(super) fn of_request(verb: &'static str, resource: String, source: RequestError) -> Self {
        let class = FailureClass::of_request(&source);
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
        Self::new(error, class)
    }

    /// True for a 404 from the request router: it is not a Status. A kind that is served answers a
    /// missing object with a Status.
    pub(super) fn is_path_gone(&self) -> bool {
        let WatchError::Request { source, .. } = &*self.error else {
            return false;
        };
        let status = source.status();
        status.is_some_and(|status| status.code == 404 && status.reason.is_empty())
    }

    /// True if the server fails, most likely for all kinds alike, and not only this kind.
    pub(super) fn is_of_server(&self) -> bool {
        match &*self.error {
            WatchError::Request { source, .. } => match source {
                RequestError::Transport(_) | RequestError::Deadline(_) => true,
                RequestError::Status(status) => status.code == 429 || status.code >= 500,
                RequestError::TooLarge(_) | RequestError::Answer(_) | RequestError::NoRight => {
                    false
                }
            },
            WatchError::Stream { source, .. } => matches!(source, StreamError::Broken(_)),
            WatchError::Silent { .. } | WatchError::Slow { .. } | WatchError::Incomplete { .. } => {
                true
            }
            _ => false,
        }
    }

    /// True if the server has only just begun to serve the kind, as after its CRD was created.
    /// Nothing is wrong with either.
    pub(super) fn is_initializing(&self) -> bool {
        let WatchError::Request { source, .. } = &*self.error else {
            return false;
        };
        // The message is from `storage/cacher` of the API server, which gives no reason or cause.
        let status = source.status();
        status.is_some_and(|status| status.message.contains("storage is (re)initializing"))
    }

    /// True if the scope of the kind according to discovery is no longer right.
    pub(super) fn is_of_other_scope(&self) -> bool {
        matches!(&*self.error, WatchError::OtherScope { .. })
    }

    /// The failure of a body that cannot be read further. After an overlong line, the watch would
    /// only bring that line again, so a list is needed.
    pub(super) fn of_stream(resource: String, source: StreamError) -> Self {
        let class = match source {
            StreamError::Broken(_) => FailureClass::Lost,
            StreamError::TooLong(_) => FailureClass::Broken,
        };
        let error = WatchError::Stream { resource, source };
        Self::new(error, class)
    }

    /// The failure of a watch or stream that has ended with an ERROR event.
    pub(super) fn of_event(resource: String, status: &Status) -> Self {
        let error = WatchError::Ended {
            resource,
            message: status.to_string(),
        };
        Self::new(error, FailureClass::of_event(status))
    }

    /// The failure of a list that exceeds the room.
    pub(super) fn of_room(resource: String, bytes: usize) -> Self {
        Self::new(
            WatchError::OverLimit { resource, bytes },
            FailureClass::Full,
        )
    }

    /// The failure of a list or stream that contradicts itself or an earlier one.
    pub(super) fn of_list(resource: String, bad: &BadList) -> Self {
        let error = WatchError::NotAList {
            resource,
            cause: bad.to_string(),
        };
        Self::new(error, bad.class())
    }
}
