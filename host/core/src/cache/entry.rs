//! What the trees of a cache hold: objects by key, and objects by indexed value.

use std::cmp::Ordering;
use std::sync::Arc;

use crate::key::KeyRef;
use crate::object::{IndexId, Object};

/// An object, ordered by its key.
#[derive(Clone, Debug)]
pub(super) struct Entry(pub(super) Arc<Object>);

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

    pub(super) fn compare(&self, value: &str, key: KeyRef<'_>) -> Ordering {
        self.value()
            .cmp(value)
            .then_with(|| self.object.key().cmp(&key))
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.key().cmp(&other.0.key())
    }
}

impl Ord for Posting {
    fn cmp(&self, other: &Self) -> Ordering {
        self.compare(other.value(), other.object.key())
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialOrd for Posting {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl PartialEq for Posting {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Entry {}
impl Eq for Posting {}
