//! Writes that fail because a test wants it.

use std::time::Duration;

use pilothouse_core::{ActionResult, Kind, Operation, Write, WriteAnswer};

use super::convert;
use crate::Verb;

/// How a write fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteError {
    /// 400: the server refuses the object.
    Invalid,
    /// 403: a quota, or the identity may not do it.
    Forbidden,
    /// 404.
    NotFound,
    /// 409: a precondition does not hold, or somebody else owns a field.
    Conflict,
    /// 409 on create: there is one of this name.
    AlreadyExists,
    /// 429: the server wants to be left alone for this long.
    TooManyRequests(Duration),
    /// 500: the server has failed, and the write was not done.
    ServerError,
    /// The server does not answer, and the write was not done.
    NoAnswer,
    /// The server does not answer, though the write was done.
    AnswerLost,
}

/// Which writes are to fail, and how: see [`FakeCluster::failing`](super::FakeCluster::failing).
///
/// ```
/// use pilothouse_sdk::Verb;
/// use pilothouse_sdk::testing::{Failing, WriteError};
///
/// let third = Failing::next(Verb::Create, "v1/Pod", WriteError::Forbidden).after(2);
/// let status = Failing::next(Verb::Apply, "v1/Node", WriteError::Conflict).subresource("status");
/// let every = status.always();
/// ```
#[derive(Clone, Debug)]
pub struct Failing {
    verb: Verb,
    kind: Kind,
    subresource: Option<String>,
    name: Option<String>,
    error: WriteError,
    /// How many such writes succeed before.
    passing: usize,
    /// How many then fail. `None`: all.
    failing: Option<usize>,
}

impl Failing {
    /// The next write of this verb to an object of this kind. A finalizer action is a `Patch`, and
    /// the applies and deletes of a `Children` action are writes like others.
    ///
    /// # Panics
    ///
    /// The kind is none, or such a write never fails so: only a create finds that there is an
    /// object already, and a delete of one that is gone succeeds.
    #[must_use]
    pub fn next(verb: Verb, kind: &str, error: WriteError) -> Self {
        let is_possible = match error {
            WriteError::AlreadyExists => verb == Verb::Create,
            WriteError::NotFound => !matches!(verb, Verb::Delete | Verb::DeleteCollection),
            _ => true,
        };
        assert!(is_possible, "a {verb:?} never fails with {error:?}");
        Self {
            verb,
            kind: convert::kind(kind),
            subresource: None,
            name: None,
            error,
            passing: 0,
            failing: Some(1),
        }
    }

    /// Only writes to this subresource: `status`, `scale`, `eviction`, `binding`. Without this,
    /// only writes to objects themselves fail.
    #[must_use]
    pub fn subresource(mut self, subresource: &str) -> Self {
        self.subresource = Some(subresource.to_owned());
        self
    }

    /// Only writes to the object of this name.
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// So many such writes are done before one fails.
    #[must_use]
    pub fn after(mut self, writes: usize) -> Self {
        self.passing = writes;
        self
    }

    /// So many of them fail, not only one.
    #[must_use]
    pub fn times(mut self, writes: usize) -> Self {
        self.failing = Some(writes);
        self
    }

    /// All of them fail, until [`FakeCluster::healed`](super::FakeCluster::healed).
    #[must_use]
    pub fn always(mut self) -> Self {
        self.failing = None;
        self
    }

    /// Whether a write is one of those that are meant.
    fn concerns(&self, write: &Write) -> bool {
        let verb = match write.operation {
            Operation::Apply { .. } => Verb::Apply,
            Operation::Create { .. } => Verb::Create,
            Operation::Update { .. } => Verb::Update,
            Operation::Patch { .. } => Verb::Patch,
            Operation::Delete { .. } => Verb::Delete,
            Operation::DeleteAll { .. } => Verb::DeleteCollection,
            Operation::Event { .. } => return false,
        };
        let is_named = |name: &String| **name == *write.key.name;
        verb == self.verb
            && write.kind == self.kind
            && write.subresource == self.subresource
            && self.name.as_ref().is_none_or(is_named)
    }

    /// Counts a write. True: it is to fail.
    fn fails(&mut self) -> bool {
        if self.passing > 0 {
            self.passing -= 1;
            return false;
        }
        match &mut self.failing {
            None => true,
            Some(0) => false,
            Some(left) => {
                *left -= 1;
                true
            }
        }
    }
}

/// The writes that are to fail.
#[derive(Default)]
pub(super) struct FailingWrites(Vec<Failing>);

impl FailingWrites {
    pub fn add(&mut self, failing: Failing) {
        self.0.push(failing);
    }

    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// How a write that is about to be sent fails, if it does. Every rule that concerns it counts
    /// it, up to the first that fails it.
    pub fn of(&mut self, write: &Write) -> Option<WriteError> {
        let concerned = self.0.iter_mut().filter(|failing| failing.concerns(write));
        let mut failing = concerned.filter_map(|failing| failing.fails().then_some(failing.error));
        failing.next()
    }
}

impl WriteError {
    /// Whether the write has been done.
    pub(super) fn is_done(self) -> bool {
        self == Self::AnswerLost
    }

    /// What the host takes from it, as from a server's answer.
    pub(super) fn answer(self) -> WriteAnswer {
        let said = "the test lets it fail";
        let text = said.to_owned();
        let (result, status) = match self {
            Self::Invalid => (ActionResult::Invalid(text), "HTTP 400 BadRequest"),
            Self::Forbidden => (ActionResult::Forbidden(text), "HTTP 403 Forbidden"),
            Self::NotFound => (ActionResult::NotFound(text), "HTTP 404 NotFound"),
            Self::Conflict => (ActionResult::Conflict(text), "HTTP 409 Conflict"),
            Self::AlreadyExists => (ActionResult::AlreadyExists(text), "HTTP 409 AlreadyExists"),
            Self::TooManyRequests(time) => {
                let text = format!("HTTP 429: {said}");
                (ActionResult::Busy(text, time), "HTTP 429 TooManyRequests")
            }
            Self::ServerError => {
                let text = format!("HTTP 500: {said}");
                (ActionResult::Unknown(text), "HTTP 500 InternalError")
            }
            Self::NoAnswer | Self::AnswerLost => {
                let text = "no answer within 30 s".to_owned();
                return ActionResult::Unavailable(text).into();
            }
        };
        WriteAnswer {
            status: Some(status.to_owned()),
            ..result.into()
        }
    }
}
