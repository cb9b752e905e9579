//! What the trees of a cache hold: objects by key, and objects by indexed value.

use std::cmp::Ordering;
use std::sync::Arc;

use crate::key::{KeyRef, ObjectKey};
use crate::object::{IndexId, Object};
use crate::tree::{Item, Key};

/// An object, ordered by its key.
#[derive(Clone, Debug)]
pub(super) struct Entry(pub(super) Arc<Object>);

impl Entry {
    pub(super) fn key<'a>(key: Key<'a, Self>) -> KeyRef<'a> {
        match key {
            Key::Item(entry) => entry.0.key(),
            Key::Bound(bound) => bound.parts(),
        }
    }
}

impl Item for Entry {
    type Bound = Arc<ObjectKey>;

    fn bound(&self) -> Arc<ObjectKey> {
        Arc::new(self.0.key().to_key())
    }

    fn compare(key: Key<'_, Self>, to: &Self) -> Ordering {
        Self::key(key).cmp(&to.0.key())
    }
}

/// An object with one of its indexed values, ordered by value, then key.
#[derive(Clone, Debug)]
pub(super) struct Posting {
    pub(super) object: Arc<Object>,
    /// Which of the object's values.
    slot: u32,
}

impl Posting {
    /// One for each of the object's values in an index.
    pub(super) fn all(object: &Arc<Object>, index: IndexId) -> impl Iterator<Item = Self> {
        object.slots(index).map(|slot| Self {
            object: object.clone(),
            slot: u32::try_from(slot).expect("an object has fewer than 2^32 slots"),
        })
    }

    pub(super) fn value(&self) -> &str {
        self.object.slot(self.slot as usize)
    }

    pub(super) fn key<'a>(key: Key<'a, Self>) -> (&'a str, KeyRef<'a>) {
        match key {
            Key::Item(posting) => (posting.value(), posting.object.key()),
            Key::Bound(bound) => (&bound.0, bound.1.parts()),
        }
    }
}

impl Item for Posting {
    type Bound = Arc<(Box<str>, ObjectKey)>;

    fn bound(&self) -> Self::Bound {
        Arc::new((self.value().into(), self.object.key().to_key()))
    }

    fn compare(key: Key<'_, Self>, to: &Self) -> Ordering {
        Self::key(key).cmp(&(to.value(), to.object.key()))
    }
}
