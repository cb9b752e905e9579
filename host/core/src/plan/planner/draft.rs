//! Steps while they are planned.

use crate::model::key::{Kind, ObjectKey};
use crate::model::outcome::{ActionResult, EffectVerb};
use crate::plan::write::Write;
use crate::plan::{Member, What};

/// A step that does not know its action yet.
pub(in crate::plan) struct Draft {
    pub kind: Kind,
    pub key: ObjectKey,
    pub verb: EffectVerb,
    pub what: What,
    pub member: Option<Member>,
}

impl Draft {
    pub(in crate::plan) fn known(
        kind: &Kind,
        key: &ObjectKey,
        verb: EffectVerb,
        result: ActionResult,
    ) -> Self {
        Self {
            kind: kind.clone(),
            key: key.clone(),
            verb,
            what: What::Known(result),
            member: None,
        }
    }

    pub(super) fn send(verb: EffectVerb, write: Write) -> Self {
        let (kind, key) = (write.kind.clone(), write.key.clone());
        Self {
            kind,
            key,
            verb,
            what: What::Send {
                write,
                intent: None,
                finalizer: None,
                is_creation: false,
            },
            member: None,
        }
    }

    /// Remembers an apply by this hash once it is accepted.
    pub(super) fn remembered_as(mut self, hash: Option<u64>) -> Self {
        if let What::Send { intent, .. } = &mut self.what {
            *intent = hash;
        }
        self
    }

    /// An apply that may only create its object.
    pub(super) fn of_creation(mut self, is_so: bool) -> Self {
        if let What::Send { is_creation, .. } = &mut self.what {
            *is_creation = is_so;
        }
        self
    }

    pub(super) fn of_finalizer(mut self, present: bool) -> Self {
        if let What::Send { finalizer, .. } = &mut self.what {
            *finalizer = Some(present);
        }
        self
    }

    pub(super) fn of_member(self, member: Member) -> Self {
        Self {
            member: Some(member),
            ..self
        }
    }
}
