//! What wakes a key: the reads of its last run.
//!
//! A change touches a read when it alters the read's answer: the object enters or leaves it, or is in it and changed in a way
//! the plugin can see. Exact in both directions: nothing is missed, and nobody is woken for nothing.
//!
//! Guests say what they read, so there is an end to it. A key that asks more than the host is prepared to hold against every
//! change is taken to have read everything of the kinds it asked of: it is woken too often, and for nothing that it missed.
//!
//! Invariant: `readers` and `reads_of` are each other's inverse, every label read in `readers` is in exactly one of `anchored`
//! and `unanchored`, and the counters are of what is in `reads_of` and `unanchored`.

mod bounds;
mod few;

use std::borrow::Borrow;
use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

use crate::cache::Change;
use crate::key::ObjectKey;
use crate::object::{IndexId, Object, Side, ViewId};
use crate::reader::{Filter, MAX_READS, Read};
use crate::snapshot::InformerId;

use bounds::{Held, OF_LABEL, widened};
use few::Few;

/// The recorded reads of one plugin's keys.
#[derive(Debug, Default)]
pub struct ReadSets {
    /// The keys that asked a question. Most are asked by one.
    readers: HashMap<Arc<Read>, Few<Arc<ObjectKey>>>,
    reads_of: HashMap<Arc<ObjectKey>, Box<[Arc<Read>]>>,
    /// Label reads by a label that their objects must have: a change finds them through its object's labels.
    anchored: HashMap<LabelAnchor, Few<Arc<Read>>>,
    /// Label reads without such a label (`!canary`): every change of the kind is held against them.
    unanchored: HashMap<InformerId, Few<Arc<Read>>>,
    held: Held,
}

/// The hash of a label and whose objects have it. The label itself would take as much memory as all else of a read, and is in the
/// read: where two labels have one hash, their reads are held against the changes of both.
type LabelAnchor = u64;

impl Read {
    /// Whose objects were read.
    pub fn informer(&self) -> InformerId {
        match self {
            Self::Object(informer, _)
            | Self::Applied(informer, _, _)
            | Self::List(informer, _, _) => *informer,
        }
    }

    /// The same, with the texts of a key where it has the same: most reads are in the namespace of the key that is reconciled.
    fn beside(self, key: &ObjectKey) -> Self {
        match self {
            Self::Object(informer, object) => {
                Self::Object(informer, object.parts().to_key_beside(key))
            }
            Self::Applied(informer, object, side) => {
                Self::Applied(informer, object.parts().to_key_beside(key), side)
            }
            Self::List(informer, Some(namespace), filter) if namespace == key.namespace => {
                Self::List(informer, Some(key.namespace.clone()), filter)
            }
            list => list,
        }
    }

    /// Whether this object is in the read's answer.
    pub fn has(&self, object: &Object) -> bool {
        let key = object.key();
        match self {
            Self::Object(_, wanted) | Self::Applied(_, wanted, _) => key == *wanted,
            Self::List(_, namespace, filter) => {
                namespace
                    .as_ref()
                    .is_none_or(|namespace| **namespace == *key.namespace)
                    && match filter {
                        Filter::Everything => true,
                        Filter::Labels(selector) => selector.matches(object),
                        Filter::Index(index, value) => object.is_indexed_by(*index, value),
                    }
            }
        }
    }

    /// Whether a change of an object of the read's kind alters its answer, seen through this view.
    pub fn is_touched_by(&self, change: &Change, view: ViewId) -> bool {
        let has =
            |object: &Option<Arc<Object>>| object.as_ref().is_some_and(|object| self.has(object));
        match (has(&change.old), has(&change.new)) {
            (false, false) => false,
            (true, true) => match self {
                Self::Applied(_, _, side) => has_changed(change, *side),
                _ => is_visible(change, view),
            },
            _ => true,
        }
    }
}

fn has_changed(change: &Change, side: Side) -> bool {
    match (&change.old, &change.new) {
        (Some(old), Some(new)) => old.uid() != new.uid() || !old.is_same_on(side, new),
        _ => true,
    }
}

/// Whether a plugin with this view sees a difference between the two states.
pub fn is_visible(change: &Change, view: ViewId) -> bool {
    match (&change.old, &change.new) {
        (Some(old), Some(new)) => old.uid() != new.uid() || old.view(view) != new.view(view),
        _ => true,
    }
}

impl ReadSets {
    /// These, and only these, are the key's reads from now on.
    pub fn set(&mut self, key: &ObjectKey, reads: BTreeSet<Read>) {
        self.clear(key);
        if reads.is_empty() {
            return;
        }
        let key = Arc::new(key.clone());
        let (reads, mut is_coarse) = self.held.bounded(reads);
        let bound = |read: Read| {
            let is_too_many = self.is_behind_many(&read);
            is_coarse |= is_too_many;
            if is_too_many {
                widened(read, false)
            } else {
                read
            }
        };
        let reads: BTreeSet<Read> = reads.into_iter().map(bound).collect();
        if is_coarse {
            self.held.coarse.insert(key.clone());
        }
        let reads = reads.into_iter().map(|read| read.beside(&key));
        let reads: Box<[_]> = reads.map(|read| self.register(read, &key)).collect();
        reads.iter().for_each(|read| self.held.add(read));
        self.reads_of.insert(key, reads);
    }

    /// These are the key's reads as well. A key that keeps failing and reads something else each time loses the older ones.
    pub fn join(&mut self, key: &ObjectKey, reads: BTreeSet<Read>) {
        if self
            .reads_of
            .get(key)
            .is_some_and(|known| known.len() + reads.len() > MAX_READS)
        {
            return self.set(key, reads);
        }
        let known = self
            .reads_of
            .get(key)
            .into_iter()
            .flatten()
            .map(|read| (**read).clone());
        let all = known.chain(reads).collect();
        let was_coarse = self.held.coarse.contains(key);
        self.set(key, all);
        if was_coarse {
            self.held.coarse.insert(Arc::new(key.clone()));
        }
    }

    /// Whether the label that leads to this read leads to very many others, which a change would be held against as well.
    fn is_behind_many(&self, read: &Read) -> bool {
        let Anchors::Labels(labels) = self.anchors(read) else {
            return false;
        };
        let mut buckets = labels.iter().filter_map(|label| self.anchored.get(label));
        !self.readers.contains_key(read) && buckets.any(|bucket| bucket.len() >= OF_LABEL)
    }

    /// The key has no reads any more.
    pub fn clear(&mut self, key: &ObjectKey) {
        self.held.coarse.remove(key);
        for read in self.reads_of.remove(key).into_iter().flatten() {
            self.held.remove(&read);
            self.unregister(&read, key);
        }
    }

    /// How many keys have asked so much that they are taken to have read everything.
    pub fn coarse(&self) -> usize {
        self.held.coarse.len()
    }

    /// The key's reads.
    pub fn of(&self, key: &ObjectKey) -> impl Iterator<Item = &Read> {
        let reads = self.reads_of.get(key).into_iter().flatten();
        reads.map(|read| &**read)
    }

    /// How many reads are recorded, each counted once per key.
    pub fn len(&self) -> usize {
        self.held.reads
    }

    /// Whether no read is recorded.
    pub fn is_empty(&self) -> bool {
        self.reads_of.is_empty()
    }

    /// The keys whose reads a change of the object of this key touches, for a plugin that sees the
    /// kind through this view. But for what was applied: see [`drifted`](Self::drifted).
    pub fn touched(
        &self,
        informer: InformerId,
        key: &ObjectKey,
        change: &Change,
        view: ViewId,
    ) -> BTreeSet<&ObjectKey> {
        let candidates = self.candidates(informer, key, change);
        let touched = candidates
            .iter()
            .filter(|read| read.informer() == informer && read.is_touched_by(change, view));
        let readers = touched.filter_map(|read| self.readers.get(read));
        readers.flat_map(Few::iter).map(|key| &**key).collect()
    }

    /// The keys that have applied the object of this key, if a change alters what they have
    /// applied.
    pub fn drifted(
        &self,
        informer: InformerId,
        key: &ObjectKey,
        change: &Change,
    ) -> BTreeSet<&ObjectKey> {
        let sides = [Side::Main, Side::Status].into_iter();
        let reads = sides.map(|side| (side, Read::Applied(informer, key.clone(), side)));
        let read = reads.filter_map(|(side, read)| Some((side, self.readers.get(&read)?)));
        let drifted = read.filter(|(side, _)| has_changed(change, *side));
        let keys = drifted.flat_map(|(_, readers)| readers.iter());
        keys.map(|key| &**key).collect()
    }

    /// The keys whose reads an object of this key could be in, whatever it is. Linear in the number of reads.
    pub fn about(&self, informer: InformerId, key: &ObjectKey) -> BTreeSet<&ObjectKey> {
        let is_about = |read: &Read| match read {
            Read::Object(of, wanted) | Read::Applied(of, wanted, _) => {
                *of == informer && wanted == key
            }
            Read::List(of, namespace, _) => {
                let mut namespace = namespace.iter();
                *of == informer && namespace.all(|namespace| *namespace == key.namespace)
            }
        };
        let readers = self.readers.iter().filter(|(read, _)| is_about(read));
        let keys = readers.flat_map(|(_, readers)| readers.iter());
        keys.map(|key| &**key).collect()
    }

    /// Every recorded read that one of the change's states could be in.
    fn candidates(
        &self,
        informer: InformerId,
        key: &ObjectKey,
        change: &Change,
    ) -> BTreeSet<Arc<Read>> {
        let values = change.states().flat_map(|state| state.indexed_values());
        let values: BTreeSet<(IndexId, &str)> = values.collect();
        let filters: Vec<Filter> = values
            .into_iter()
            .map(|(index, value)| Filter::Index(index, value.into()))
            .chain([Filter::Everything])
            .collect();
        let mut reads = Vec::with_capacity(filters.len() * 2 + 1);
        for filter in filters {
            let namespace = Some(key.namespace.clone());
            reads.push(Read::List(informer, namespace, filter.clone()));
            reads.push(Read::List(informer, None, filter));
        }
        reads.push(Read::Object(informer, key.clone()));
        let recorded = reads
            .iter()
            .filter_map(|read| self.readers.get_key_value(read));
        let mut found: BTreeSet<Arc<Read>> = recorded.map(|(read, _)| read.clone()).collect();
        found.extend(self.by_label(informer, change).cloned());
        found
    }

    /// The label reads that one of the change's states could be in.
    fn by_label(&self, informer: InformerId, change: &Change) -> impl Iterator<Item = &Arc<Read>> {
        let labels = change.states().flat_map(|state| state.labels());
        let anchors = labels.map(move |(name, value)| self.anchor(informer, name, value));
        let anchored = anchors.filter_map(|anchor| self.anchored.get(&anchor));
        let all = anchored.chain(self.unanchored.get(&informer));
        all.flat_map(Few::iter)
    }

    fn anchor(&self, informer: InformerId, name: &str, value: &str) -> LabelAnchor {
        self.anchored.hasher().hash_one((informer, name, value))
    }

    fn register(&mut self, read: Read, key: &Arc<ObjectKey>) -> Arc<Read> {
        let read = match self.readers.get_key_value(&read) {
            Some((known, _)) => known.clone(),
            None => Arc::new(read),
        };
        let is_new = insert_into(&mut self.readers, read.clone(), key);
        if is_new {
            self.place(&read);
        }
        read
    }

    fn unregister(&mut self, read: &Arc<Read>, key: &ObjectKey) {
        let is_gone = remove_from(&mut self.readers, read, key);
        if is_gone {
            self.displace(read);
        }
    }

    /// Makes a label read findable from the labels of an object.
    fn place(&mut self, read: &Arc<Read>) {
        match self.anchors(read) {
            Anchors::NotALabelRead => {}
            Anchors::None(informer) => {
                self.held.unanchored += 1;
                insert_into(&mut self.unanchored, informer, read);
            }
            Anchors::Labels(labels) => {
                for label in labels {
                    insert_into(&mut self.anchored, label, read);
                }
            }
        }
    }

    fn displace(&mut self, read: &Arc<Read>) {
        match self.anchors(read) {
            Anchors::NotALabelRead => {}
            Anchors::None(informer) => {
                self.held.unanchored -= 1;
                remove_from(&mut self.unanchored, &informer, read);
            }
            Anchors::Labels(labels) => {
                for label in labels {
                    remove_from(&mut self.anchored, &label, read);
                }
            }
        }
    }

    fn anchors(&self, read: &Read) -> Anchors {
        let Read::List(informer, _, Filter::Labels(selector)) = read else {
            return Anchors::NotALabelRead;
        };
        match selector.anchor() {
            None => Anchors::None(*informer),
            Some((name, values)) => {
                let values = values.iter();
                Anchors::Labels(
                    values
                        .map(|value| self.anchor(*informer, name, value))
                        .collect(),
                )
            }
        }
    }
}

/// Where a read is found.
enum Anchors {
    NotALabelRead,
    None(InformerId),
    Labels(Vec<LabelAnchor>),
}

/// Adds to a set. Says whether it is the first there.
fn insert_into<K: Eq + Hash, T: Clone + Ord>(
    sets: &mut HashMap<K, Few<T>>,
    key: K,
    item: &T,
) -> bool {
    match sets.entry(key) {
        Entry::Occupied(mut set) => {
            set.get_mut().insert(item.clone());
            false
        }
        Entry::Vacant(vacant) => {
            vacant.insert(Few::One(item.clone()));
            true
        }
    }
}

/// Removes from a set, and the set when that was the last. Says whether it was.
fn remove_from<K, Q, T>(sets: &mut HashMap<K, Few<T>>, key: &K, item: &Q) -> bool
where
    K: Eq + Hash,
    T: Borrow<Q> + Ord,
    Q: Ord + ?Sized,
{
    let is_empty = sets.get_mut(key).is_some_and(|set| set.remove(item));
    if is_empty {
        sets.remove(key);
    }
    is_empty
}

#[cfg(test)]
#[path = "reads_tests.rs"]
mod tests;
