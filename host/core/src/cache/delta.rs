//! The input of a cache, and the changes that result from it.

use std::sync::Arc;

use crate::model::extent::Extent;
use crate::model::key::{KeyRef, ObjectKey, ResourceVersion};
use crate::model::object::Object;

/// What a list-watch reports about its objects, in the order in which it reports it.
#[derive(Debug)]
pub enum Delta {
    /// These are all the objects that exist.
    Replace(Listing),
    /// The object is new or has changed.
    Upsert(Object),
    /// The object was read on its own. It may be ahead of changes that are still to come.
    Read(Object),
    /// The object is gone.
    Delete {
        /// Its key.
        key: ObjectKey,
        /// The resourceVersion of the deletion.
        resource_version: ResourceVersion,
    },
    /// The object has changed and cannot be read.
    Unreadable(Unreadable),
    /// Nothing has changed up to this resourceVersion.
    Bookmark(ResourceVersion),
}

impl Delta {
    /// The deletion of the object whose last state this is.
    pub fn delete(last: &Object) -> Self {
        Self::Delete {
            key: last.key().to_key(),
            resource_version: last.resource_version().clone(),
        }
    }
}

/// A complete list.
#[derive(Debug, Default)]
pub struct Listing {
    /// The objects.
    pub objects: Vec<Object>,
    /// Objects that exist but cannot be read.
    pub unreadable: Vec<Unreadable>,
    /// The list's resourceVersion.
    pub resource_version: ResourceVersion,
    /// How much was asked for.
    pub extent: Extent,
    /// The server is known to have gone back in time (etcd was restored from a snapshot), so the
    /// list is accepted however old it is.
    pub is_rollback: bool,
}

/// An object of which only the key can be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// Its key.
    pub key: ObjectKey,
    /// Its resourceVersion, if that can be read.
    pub resource_version: ResourceVersion,
    /// Why the rest cannot be read, in one line.
    pub reason: String,
}

/// The change of one object. It has at least one of the two states.
#[derive(Clone, Debug)]
pub struct Change {
    /// The state before. `None` if the object is new to the cache.
    pub old: Option<Arc<Object>>,
    /// The state after. `None` if the object is gone.
    pub new: Option<Arc<Object>>,
}

impl Change {
    /// The object's key.
    pub fn key(&self) -> KeyRef<'_> {
        let object = self.new.as_ref().or(self.old.as_ref());
        object.expect("a change has a state").key()
    }

    /// True if an older state follows a newer one, which happens when the server has gone back in
    /// time. Whatever was concluded from the object's resourceVersions is then invalid.
    pub fn goes_back(&self) -> bool {
        let (Some(old), Some(new)) = (&self.old, &self.new) else {
            return false;
        };
        let (old, new) = (old.resource_version(), new.resource_version());
        new != old && new.is_at_most(old)
    }

    /// The states that exist, the older first.
    pub fn states(&self) -> impl Iterator<Item = &Arc<Object>> {
        self.old.iter().chain(&self.new)
    }
}
