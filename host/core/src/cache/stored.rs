//! The objects of a cache with the postings of its indexes.

use std::cmp::Ordering;
use std::sync::Arc;

use super::delta::Change;
use super::entry::{CacheEntry, Posting};
use crate::cache::tree::{Key, Tree};
use crate::model::key::KeyRef;
use crate::model::label_bits::WantedBits;
use crate::model::object::{IndexId, Object};

/// How many objects are passed over by their labels' bits in the time that one is examined.
const PASSED_OVER: usize = 64;

/// Objects by key, and by their indexed values. Invariant: the postings are those of exactly these
/// objects, and `bytes` is the size of all of them. Cloning is O(1) and shares everything.
#[derive(Clone, Debug, Default)]
pub(super) struct StoredObjects {
    objects: Tree<CacheEntry>,
    /// The postings of each index, by [`IndexId`].
    indexes: Vec<Tree<Posting>>,
    /// Bytes of the objects, with their views and postings.
    bytes: usize,
}

impl StoredObjects {
    /// No objects, with so many indexes.
    pub fn with_indexes(count: usize) -> Self {
        Self {
            indexes: vec![Tree::default(); count],
            ..Self::default()
        }
    }

    pub fn len(&self) -> usize {
        self.objects.len()
    }

    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub fn get(&self, key: KeyRef<'_>) -> Option<&Arc<Object>> {
        let entry = self.objects.get(|have| CacheEntry::key(have).cmp(&key))?;
        Some(&entry.object)
    }

    /// All objects, ordered by namespace and name.
    pub fn all(&self) -> impl Iterator<Item = &Arc<Object>> {
        self.objects.iter().map(|entry| &entry.object)
    }

    /// All objects, or those of one namespace, ordered by namespace and name. With `after`, only
    /// those after this key.
    pub fn list<'a>(
        &'a self,
        namespace: Option<&'a str>,
        after: Option<KeyRef<'a>>,
    ) -> impl Iterator<Item = &'a Arc<Object>> + use<'a> {
        let entries = self.entries(namespace, after);
        entries.map(|entry| &entry.object)
    }

    /// Of the objects of [`list`](Self::list), those that labels may select. `None` stands for many
    /// others that have been passed over.
    pub fn list_by_labels<'a>(
        &'a self,
        namespace: Option<&'a str>,
        wanted: WantedBits,
        after: Option<KeyRef<'a>>,
    ) -> impl Iterator<Item = Option<&'a Arc<Object>>> + use<'a> {
        let mut entries = self.entries(namespace, after);
        std::iter::from_fn(move || {
            for _ in 0..PASSED_OVER {
                let entry = entries.next()?;
                if wanted.may_be_met_by(entry.labels) {
                    return Some(Some(&entry.object));
                }
            }
            Some(None)
        })
    }

    fn entries<'a>(
        &'a self,
        namespace: Option<&'a str>,
        after: Option<KeyRef<'a>>,
    ) -> impl Iterator<Item = &'a CacheEntry> + use<'a> {
        let order = move |key: Key<'_, CacheEntry>| {
            let key = CacheEntry::key(key);
            match namespace {
                _ if after.is_some_and(|after| key <= after) => Ordering::Less,
                Some(namespace) => key.namespace.cmp(namespace),
                None => Ordering::Equal,
            }
        };
        self.objects.equal(order)
    }

    /// The first object after this key, in the order of namespace and name. Without a key, the
    /// first object.
    pub fn after(&self, key: Option<KeyRef<'_>>) -> Option<&Arc<Object>> {
        let order = |have: Key<'_, CacheEntry>| match key {
            Some(key) if CacheEntry::key(have) <= key => Ordering::Less,
            _ => Ordering::Equal,
        };
        let first = self.objects.equal(order).next();
        first.map(|entry| &entry.object)
    }

    /// The objects that have this value in an index, ordered by namespace and name. With `after`,
    /// only those after this key.
    pub fn list_by_index<'a>(
        &'a self,
        index: IndexId,
        value: &'a str,
        after: Option<KeyRef<'a>>,
    ) -> impl Iterator<Item = &'a Arc<Object>> + use<'a> {
        let order = move |key: Key<'_, Posting>| {
            let (have, object) = Posting::key(key);
            let is_before = || after.is_some_and(|after| object <= after);
            match have.cmp(value) {
                Ordering::Equal if is_before() => Ordering::Less,
                order => order,
            }
        };
        let postings = self.indexes.get(index).into_iter();
        postings
            .flat_map(move |postings| postings.equal(order))
            .map(|posting| &posting.object)
    }

    /// Stores an object in place of its present state, `old`.
    pub fn put(&mut self, new: Arc<Object>, old: Option<Arc<Object>>) -> Change {
        match &old {
            Some(old) => self.replace(old, &new),
            None => self.insert(&new),
        }
        Change {
            old,
            new: Some(new),
        }
    }

    /// Removes an object, if it is there.
    pub fn take(&mut self, key: KeyRef<'_>) -> Option<Change> {
        let old = self
            .objects
            .remove(|have| CacheEntry::key(have).cmp(&key))?
            .object;
        self.bytes -= old.size();
        self.unpost(&old, None);
        Some(Change {
            old: Some(old),
            new: None,
        })
    }

    /// Stores an object that is not there.
    pub fn insert(&mut self, object: &Arc<Object>) {
        self.bytes += object.size();
        self.objects.insert(CacheEntry::new(object));
        for (index, postings) in self.indexes.iter_mut().enumerate() {
            for posting in Posting::all(object, index) {
                postings.insert(posting);
            }
        }
    }

    /// The number of postings of an index.
    #[cfg(test)]
    pub fn postings(&self, index: IndexId) -> usize {
        self.indexes[index].len()
    }

    fn replace(&mut self, old: &Arc<Object>, new: &Arc<Object>) {
        self.bytes = self.bytes - old.size() + new.size();
        self.unpost(old, Some(new));
        self.objects.insert_over(CacheEntry::new(new), |entry| {
            Arc::ptr_eq(&entry.object, old)
        });
        for (index, postings) in self.indexes.iter_mut().enumerate() {
            for posting in Posting::all(new, index) {
                match old.slot_of(index, posting.value()) {
                    Some(slot) => postings.insert_over(posting, |have| have.is_of(old, slot)),
                    None => postings.insert(posting),
                };
            }
        }
    }

    /// Removes the postings of `old`, except those that `new` is about to replace.
    fn unpost(&mut self, old: &Object, new: Option<&Object>) {
        for (index, postings) in self.indexes.iter_mut().enumerate() {
            for value in old.slots(index).map(|slot| old.slot(slot)) {
                if !new.is_some_and(|new| new.is_indexed_by(index, value)) {
                    postings.remove(|key| Posting::key(key).cmp(&(value, old.key())));
                }
            }
        }
    }
}
