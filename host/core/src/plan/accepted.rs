//! What a write that the server accepted has left behind: the sign by which it becomes visible.

use crate::model::key::{Kind, ObjectKey, ResourceVersion};
use crate::model::outcome::ActionResult;
use crate::plan::write::{Operation, Write};

/// A write that the server accepted, or may have accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcceptedWrite {
    /// The object's kind.
    pub kind: Kind,
    /// The object.
    pub key: ObjectKey,
    /// How it becomes visible.
    pub effect: Effect,
}

/// What an accepted write left behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The object at this resourceVersion.
    Version(ResourceVersion),
    /// Sooner or later no object has this uid.
    Deletion(String),
    /// No object has this uid now: nothing keeps it any more.
    End(String),
    /// There was no answer, so it is not known.
    Unknown,
    /// The write is done, but the answer does not show the object: an eviction answers with a
    /// Status.
    Unshown,
}

impl AcceptedWrite {
    /// `ended` and `owner` come from the
    /// [`WriteAnswer`](crate::plan::write::WriteAnswer).
    pub(super) fn of(
        write: &Write,
        result: &ActionResult,
        ended: Option<String>,
        owner: Option<Kind>,
    ) -> Option<Self> {
        let effect = match (&write.operation, result) {
            (Operation::Event { .. }, _) => return None,
            (_, ActionResult::Unknown(_) | ActionResult::Unavailable(_)) => Effect::Unknown,
            (Operation::Create { .. }, ActionResult::Done(_)) if write.subresource.is_some() => {
                Effect::Unshown
            }
            (Operation::Delete { uid: Some(uid), .. }, ActionResult::Done(_)) => {
                Effect::Deletion(uid.clone())
            }
            (Operation::Delete { .. }, _) => return None,
            (_, ActionResult::Done(_)) if ended.is_some() => Effect::End(ended?),
            (_, ActionResult::Done(Some(version))) => {
                Effect::Version(ResourceVersion::new(version))
            }
            _ => return None,
        };
        Some(Self {
            kind: owner.unwrap_or_else(|| write.kind.clone()),
            key: write.key.clone(),
            effect,
        })
    }
}
