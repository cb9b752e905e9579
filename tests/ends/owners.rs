//! Which owners of an object are there. A reference is looked up as it is written.

use std::sync::Arc;

use crate::facts::{Facts, Owner};
use crate::kinds::KindOf;

/// What a reference points to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Nothing, or another object of this name.
    Absent,
    /// To what is being deleted and waits until its dependents are.
    Waiting(Arc<Facts>),
    /// To what is there. It may be being deleted, and not wait.
    Solid(Arc<Facts>),
    /// To a kind that is not served: nobody can say what is there.
    Unknown,
    /// From a cluster-scoped object to a kind whose objects are in namespaces.
    Misplaced,
}

impl PartialEq for Facts {
    fn eq(&self, other: &Self) -> bool {
        self.uid == other.uid
    }
}

impl Eq for Facts {}

impl Standing {
    /// Whether the object may be deleted, as far as this owner goes.
    pub fn lets_go(&self) -> bool {
        matches!(self, Self::Absent | Self::Waiting(_))
    }
}

/// What this reference of an object points to. `find` looks a uid up.
pub fn standing(
    owner: &Owner,
    dependent: &Facts,
    find: impl Fn(&str) -> Option<Arc<Facts>>,
) -> Standing {
    let Some(kind) = KindOf::named(&owner.api_version, &owner.kind) else {
        return Standing::Unknown;
    };
    if kind.is_namespaced && dependent.namespace.is_empty() {
        return Standing::Misplaced;
    }
    let namespace = match kind.is_namespaced {
        true => dependent.namespace.as_str(),
        false => "",
    };
    let is_there = |found: &Arc<Facts>| {
        found.resource == kind.resource && found.name == owner.name && found.namespace == namespace
    };
    match find(&owner.uid).filter(is_there) {
        None => Standing::Absent,
        Some(found) if found.is_waiting() => Standing::Waiting(found),
        Some(found) => Standing::Solid(found),
    }
}
