//! The items in the trees of a cache: objects by key, and objects by indexed value.

use std::cmp::Ordering;
use std::sync::Arc;

use crate::cache::tree::{Item, Key};
use crate::model::key::KeyRef;
use crate::model::label_bits::LabelBits;
use crate::model::object::{IndexId, Object};

/// A key in a tree, without its object, in one text: value, namespace, name.
#[derive(Clone, Debug)]
pub(super) struct Bound {
    text: Arc<str>,
    namespace_at: usize,
    name_at: usize,
}

impl Bound {
    fn new(value: &str, key: KeyRef<'_>) -> Self {
        Self {
            text: [value, key.namespace, key.name].concat().into(),
            namespace_at: value.len(),
            name_at: value.len() + key.namespace.len(),
        }
    }

    fn value(&self) -> &str {
        &self.text[..self.namespace_at]
    }

    fn key(&self) -> KeyRef<'_> {
        KeyRef {
            namespace: &self.text[self.namespace_at..self.name_at],
            name: &self.text[self.name_at..],
        }
    }
}

/// An object, ordered by its key.
#[derive(Clone, Debug)]
pub(super) struct CacheEntry {
    pub(super) object: Arc<Object>,
    /// Those of its labels. They are here because the object is somewhere else in memory.
    pub(super) labels: LabelBits,
}

impl CacheEntry {
    pub(super) fn new(object: &Arc<Object>) -> Self {
        Self {
            object: object.clone(),
            labels: LabelBits::of(object.labels()),
        }
    }

    pub(super) fn key<'a>(key: Key<'a, Self>) -> KeyRef<'a> {
        match key {
            Key::Item(entry) => entry.object.key(),
            Key::Bound(bound) => bound.key(),
        }
    }
}

impl Item for CacheEntry {
    type Bound = Bound;

    fn bound(&self) -> Bound {
        Bound::new("", self.object.key())
    }

    fn compare(key: Key<'_, Self>, to: &Self) -> Ordering {
        Self::key(key).cmp(&to.object.key())
    }
}

/// An object with one of its indexed values, ordered by value, then key.
#[derive(Clone, Debug)]
pub(super) struct Posting {
    pub(super) object: Arc<Object>,
    /// The slot of the value in the object.
    slot: u32,
}

impl Posting {
    /// One posting for each of the object's values in an index.
    pub(super) fn all(object: &Arc<Object>, index: IndexId) -> impl Iterator<Item = Self> {
        object.slots(index).map(|slot| Self {
            object: object.clone(),
            slot: u32::try_from(slot).expect("an object has fewer than 2^32 slots"),
        })
    }

    pub(super) fn value(&self) -> &str {
        self.object.slot(self.slot as usize)
    }

    /// True if this posting belongs to this state of an object, which has the value in this slot.
    pub(super) fn is_of(&self, object: &Arc<Object>, slot: usize) -> bool {
        self.slot as usize == slot && Arc::ptr_eq(&self.object, object)
    }

    pub(super) fn key<'a>(key: Key<'a, Self>) -> (&'a str, KeyRef<'a>) {
        match key {
            Key::Item(posting) => (posting.value(), posting.object.key()),
            Key::Bound(bound) => (bound.value(), bound.key()),
        }
    }
}

impl Item for Posting {
    type Bound = Bound;

    fn bound(&self) -> Bound {
        Bound::new(self.value(), self.object.key())
    }

    fn compare(key: Key<'_, Self>, to: &Self) -> Ordering {
        Self::key(key).cmp(&(to.value(), to.object.key()))
    }
}
