//! The result of a reconcile. Mirrors `wit/changes.wit` and `wit/world.wit`, which document the
//! meaning.

use std::sync::Arc;
use std::time::Duration;

use crate::model::key::{Kind, ObjectKey};
use crate::model::query::Confirmation;
use crate::model::text::cut;

/// What to write, and when to run the key again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// One after the other. All of them are checked before the first write is sent.
    pub stages: Vec<Stage>,
    /// What the API server must answer as the snapshot does before the first write is sent.
    pub confirm: Vec<Confirmation>,
    /// What follows, whatever is written.
    pub follow_up: FollowUp,
}

impl Outcome {
    /// An outcome whose actions are one stage.
    pub fn of(actions: Vec<Action>) -> Self {
        let stage = Stage {
            actions,
            always: false,
        };
        Self {
            stages: vec![stage],
            confirm: Vec::new(),
            follow_up: FollowUp::default(),
        }
    }
}

/// What an outcome says of its key's later runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FollowUp {
    /// When the key runs again.
    pub next: NextRun,
    /// The least time until then, whatever changes.
    pub not_before: Duration,
    /// Whether the key need not run for the changes that this outcome's own writes make.
    pub is_settled: bool,
    /// What the key's next run is given back, if the host has not forgotten it.
    pub memo: Option<Arc<str>>,
}

impl From<NextRun> for FollowUp {
    fn from(next: NextRun) -> Self {
        Self {
            next,
            ..Self::default()
        }
    }
}

/// Actions that do not depend on each other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stage {
    /// Those on one object are done in this order.
    pub actions: Vec<Action>,
    /// Whether it is begun even if an earlier stage has failed.
    pub always: bool,
}

/// When a key runs again after its outcome.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum NextRun {
    /// When something that it has read changes.
    #[default]
    OnChange,
    /// Then, or after this time.
    After(Duration),
    /// After its stages, with back-off, as after a failure. The text is for the operator.
    Retry(String),
}

/// Why a guest returned no outcome. The text is for the operator.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// Try again with back-off.
    #[error("{0}")]
    Retry(String),
    /// Do not retry before something that this key read changes.
    #[error("terminal: {0}")]
    Terminal(String),
}

/// One write, as a guest asks for it.
///
/// What a new kind of action concerns:
///
/// - Always: `wit/changes.wit` with `wit/cases` and `wit/frozen`; `wasm::convert` (how a guest
///   returns it) and `wasm::run::verify` (how two outcomes are compared); `plan::planner` (which
///   writes it is: one, or many, as of `children`); the SDK's `bindings`, `changes` and `testing`.
/// - If it needs a new [`Verb`](crate::Verb): `wit/manifest.schema.json`,
///   `access::permission`, `hub::wanted_informers`, and in `app` `settings::grants`, `rbac::rules`
///   and `check::risks`.
/// - If no [`Operation`](crate::Operation) fits: `cluster::write`, `plan::accepted`,
///   `plan::words`, `plan::execution`. A write names one object, or (without a name) all of a kind
///   in a namespace, which the order of writes relies on. What is awaited and fetched is always one
///   object: see [`WriteAnswer::deleted`](crate::WriteAnswer::deleted).
///
/// An eviction or a binding is a `Create` of a subresource.
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
    DeleteAll(DeleteAll),
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

/// The format of a patch's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchType {
    /// RFC 6902.
    Json,
    /// RFC 7386.
    Merge,
    /// Kubernetes' own format, for built-in kinds.
    Strategic,
}

/// What happens to an object's dependents when the object is deleted.
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

/// A deletion of all objects of a kind in a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "documented in wit/changes.wit")]
pub struct DeleteAll {
    pub kind: Kind,
    pub namespace: String,
    pub labels: Option<String>,
    pub propagation: Option<Propagation>,
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

/// What became of one write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Effect {
    /// The kind of the object.
    pub kind: Kind,
    /// The object, with the name that the host has derived. For an Event, the object that it is
    /// about. For a deletion of all objects of a namespace, without a name.
    pub key: ObjectKey,
    /// What was to be done.
    pub verb: EffectVerb,
    /// What became of it.
    pub result: ActionResult,
}

/// What was to be done with an object. A `children` action applies and deletes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names of the actions")]
pub enum EffectVerb {
    Apply,
    Create,
    Update,
    Patch,
    Delete,
    DeleteAll,
    Event,
    Finalizer,
}

/// The result of one write.
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
    /// The server has rejected the write for now and wants to be left alone for this long. Guests
    /// see this as failed.
    Busy(String, Duration),
    /// The server has failed, and it is not known if the write was done. Guests see this as failed.
    Unknown(String),
    /// There was no answer, or none that tells anything about the write: the server, or the way to
    /// it, is down. It is not known if the write was done. Guests see this as failed.
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

    /// The error's text, or the name that the server gave the object.
    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Self::Done(name) => name.as_deref(),
            _ => self.error(),
        }
    }

    /// The same result, with another text if it is an error.
    pub(crate) fn saying(mut self, text: String) -> Self {
        if let Some(error) = self.error_mut() {
            *error = text;
        }
        self
    }

    fn error_mut(&mut self) -> Option<&mut String> {
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

/// Bytes of error texts kept for one outcome until its key's next reconcile.
const KEPT_BYTES: usize = 16 << 10;
/// Bytes kept of each further error, once the others have used up `KEPT_BYTES`.
const LEAST_BYTES: usize = 32;

/// Shortens the errors of an outcome, the last ones most: there may be thousands of them for each
/// key.
pub fn shorten(effects: &mut [Effect]) {
    let mut room = KEPT_BYTES;
    let results = effects.iter_mut().map(|effect| &mut effect.result);
    for text in results.filter_map(ActionResult::error_mut) {
        *text = cut(text, room.max(LEAST_BYTES));
        room = room.saturating_sub(text.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_errors_of_an_outcome_are_kept_up_to_a_few_kilobytes() {
        let failed = Effect {
            kind: Kind::new("", "v1", "ConfigMap"),
            key: ObjectKey::new("default", "a"),
            verb: EffectVerb::Apply,
            result: ActionResult::Invalid("e".repeat(2_000)),
        };
        let mut effects = vec![failed.clone(); 10_000];
        shorten(&mut effects);
        let texts = effects.iter().filter_map(|effect| effect.result.error());
        assert!(texts.map(str::len).sum::<usize>() < 400_000);
        assert_eq!(effects[0], failed, "the first one is whole");
        assert!(matches!(effects[9_999].result, ActionResult::Invalid(_)));
    }
}
