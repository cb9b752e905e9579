//! What a reconcile returns. Mirrors `wit/changes.wit` and `wit/world.wit`, which document the meaning.

use std::time::Duration;

use crate::key::{Kind, ObjectKey};

/// What should be done, and when to look again regardless.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// In order; checked as a whole before the first is sent.
    pub actions: Vec<Action>,
    /// Run the key again after this time.
    pub requeue_after: Option<Duration>,
}

/// Why a guest decided nothing. The text is for the operator.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// Try again with back-off.
    #[error("{0}")]
    Retry(String),
    /// Not before something this key read changes.
    #[error("terminal: {0}")]
    Terminal(String),
}

/// One write, as a guest asks for it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "documented in wit/changes.wit")]
pub enum Action {
    Apply {
        object: String,
        subresource: Option<String>,
        force: bool,
    },
    Create {
        object: String,
        subresource: Option<String>,
    },
    Update {
        object: String,
        subresource: Option<String>,
    },
    Patch {
        kind: Kind,
        key: ObjectKey,
        subresource: Option<String>,
        patch_type: PatchType,
        body: String,
    },
    Delete(Delete),
    Event(Event),
    Finalizer {
        kind: Kind,
        key: ObjectKey,
        name: String,
        present: bool,
    },
    Children {
        objects: Vec<String>,
    },
}

/// How a patch's body is to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchType {
    /// RFC 6902.
    Json,
    /// RFC 7386.
    Merge,
    /// Kubernetes' own, for built-in kinds.
    Strategic,
}

/// What happens to the objects an object owns when it is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "Kubernetes' three policies")]
pub enum Propagation {
    Background,
    Foreground,
    Orphan,
}

/// A deletion and its preconditions.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "documented in wit/changes.wit")]
pub struct Delete {
    pub kind: Kind,
    pub key: ObjectKey,
    pub uid: Option<String>,
    pub resource_version: Option<String>,
    pub propagation: Option<Propagation>,
    pub grace_period_seconds: Option<u32>,
}

/// A Kubernetes Event about an object.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "documented in wit/changes.wit")]
pub struct Event {
    pub kind: Kind,
    pub key: ObjectKey,
    pub is_warning: bool,
    pub reason: String,
    pub action: String,
    pub note: String,
}

/// What became of one action.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "documented in wit/changes.wit")]
pub enum ActionResult {
    Done(Option<String>),
    Unchanged,
    Skipped,
    Conflict(String),
    AlreadyExists(String),
    NotFound(String),
    Forbidden(String),
    Invalid(String),
    Failed(String),
    /// The server has turned the write away, and says how long it wants to be left alone. Guests see it as failed.
    Busy(String, Duration),
    /// The server has failed, and whether the write was done is not known. Guests see it as failed.
    Unknown(String),
    /// No answer, or none that says anything of the write: the server, or the way to it, is down, and whether the write was done is
    /// not known. Guests see it as failed.
    Unavailable(String),
}

impl ActionResult {
    /// The error's text, if the action failed.
    pub fn error(&self) -> Option<&str> {
        match self {
            Self::Done(_) | Self::Unchanged | Self::Skipped => None,
            Self::Conflict(text)
            | Self::AlreadyExists(text)
            | Self::NotFound(text)
            | Self::Forbidden(text)
            | Self::Invalid(text)
            | Self::Failed(text)
            | Self::Busy(text, _)
            | Self::Unknown(text)
            | Self::Unavailable(text) => Some(text),
        }
    }
}
