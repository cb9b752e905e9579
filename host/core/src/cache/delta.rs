//! What goes into a cache, and what comes of it.

use std::sync::Arc;

use crate::key::{KeyRef, ObjectKey, ResourceVersion};
use crate::object::Object;
use crate::source::Payload;

/// What a list-watch says of its objects, in the order it says it.
#[derive(Debug)]
pub enum Delta {
    /// These are all the objects there are.
    Replace(Listing),
    /// The object is new or has changed.
    Upsert(Object),
    /// The object, read on its own: it may be ahead of the changes that are still to come.
    Read(Object),
    /// The object is gone.
    Delete {
        /// Which.
        key: ObjectKey,
        /// That of its deletion.
        resource_version: ResourceVersion,
    },
    /// The object has changed, and cannot be read.
    Unreadable(Unreadable),
    /// Nothing has changed up to this resourceVersion.
    Bookmark(ResourceVersion),
}

impl Delta {
    /// The deletion of which this is the object's last state.
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
    /// Objects that are there and cannot be read.
    pub unreadable: Vec<Unreadable>,
    /// The list's resourceVersion.
    pub resource_version: ResourceVersion,
    /// How much of each object was asked for.
    pub payload: Payload,
    /// The server is known to have gone back in time (etcd restored from a snapshot): what is listed counts, however old it is.
    pub is_rollback: bool,
}

/// An object of which only the name can be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// Its key.
    pub key: ObjectKey,
    /// Its resourceVersion, if that can be read.
    pub resource_version: ResourceVersion,
    /// Why the rest cannot, in one line.
    pub reason: String,
}

/// What became of one object. At least one of the two states is there.
#[derive(Clone, Debug)]
pub struct Change {
    /// The state before; none if the object is new to the cache.
    pub old: Option<Arc<Object>>,
    /// The state after; none if it is gone.
    pub new: Option<Arc<Object>>,
}

impl Change {
    /// The object's key.
    pub fn key(&self) -> KeyRef<'_> {
        let object = self.new.as_ref().or(self.old.as_ref());
        object.expect("a change has a state").key()
    }

    /// Whether an older state has come after a newer one, as it does when the server has gone back in time. What is known of the
    /// object by its resourceVersions is then void.
    pub fn goes_back(&self) -> bool {
        let (Some(old), Some(new)) = (&self.old, &self.new) else {
            return false;
        };
        let (old, new) = (old.resource_version(), new.resource_version());
        new != old && new.is_at_most(old)
    }

    /// Both states.
    pub fn states(&self) -> impl Iterator<Item = &Arc<Object>> {
        self.old.iter().chain(&self.new)
    }
}
