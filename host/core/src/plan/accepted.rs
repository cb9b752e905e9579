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
    pub trace: Trace,
}

/// What an accepted write left behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trace {
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
    /// The objects that a deletion of a collection has deleted.
    pub(super) fn of_deleted(write: &Write, deleted: Vec<(ObjectKey, String)>) -> Vec<Self> {
        let deleted = deleted.into_iter();
        deleted
            .map(|(key, uid)| Self {
                kind: write.kind.clone(),
                key,
                trace: Trace::Deletion(uid),
            })
            .collect()
    }

    /// `ended` and `owner` come from the
    /// [`WriteAnswer`](crate::plan::write::WriteAnswer).
    pub(super) fn of(
        write: &Write,
        result: &ActionResult,
        ended: Option<String>,
        owner: Option<Kind>,
    ) -> Option<Self> {
        let trace = match (&write.operation, result) {
            // A collection has no one object to wait for. Repeating its deletion does no harm.
            (Operation::Event { .. } | Operation::DeleteAll { .. }, _) => return None,
            (_, ActionResult::Unknown(_) | ActionResult::Unavailable(_)) => Trace::Unknown,
            (Operation::Create { .. }, ActionResult::Done(_)) if write.subresource.is_some() => {
                Trace::Unshown
            }
            (Operation::Delete { uid: Some(uid), .. }, ActionResult::Done(_)) => {
                Trace::Deletion(uid.clone())
            }
            (Operation::Delete { .. }, _) => return None,
            (_, ActionResult::Done(_)) if ended.is_some() => Trace::End(ended?),
            (_, ActionResult::Done(Some(version))) => Trace::Version(ResourceVersion::new(version)),
            _ => return None,
        };
        Some(Self {
            kind: owner.unwrap_or_else(|| write.kind.clone()),
            key: write.key.clone(),
            trace,
        })
    }
}
