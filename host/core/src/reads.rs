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
use std::cell::OnceCell;
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
    /// How many reads there are of each index: the values of others need not be looked for.
    indexed: HashMap<(InformerId, IndexId), usize>,
    held: Held,
}

/// Whom a change concerns, and what it took to find that out.
#[derive(Debug, Default)]
pub struct Touched<'a> {
    /// The keys with a read that the change touches, in order.
    pub keys: Vec<&'a ObjectKey>,
    /// Labels, values and keys that were compared, about: the host's time is not to be had for
    /// nothing.
    pub comparisons: usize,
}

/// Most comparisons of one change with one plugin's reads; what is left then counts as touched.
/// Everybody waits while they are made.
pub(crate) const COMPARISONS: usize = 16_384;

/// A change as a plugin sees it. Whether it sees anything is found out once, however many reads it
/// is held against: the texts may be long.
pub struct Sight<'a> {
    change: &'a Change,
    view: ViewId,
    is_visible: OnceCell<bool>,
}

impl<'a> Sight<'a> {
    /// Through this view.
    pub fn new(change: &'a Change, view: ViewId) -> Self {
        Self {
            change,
            view,
            is_visible: OnceCell::new(),
        }
    }

    fn is_visible(&self) -> bool {
        let is_visible = || is_visible(self.change, self.view);
        *self.is_visible.get_or_init(is_visible)
    }
}

/// The hash of a label, whose objects have it, and where (none: anywhere). The label itself would
/// take as much memory as all else of a read, and is in the
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

    /// How many labels, values or keys are compared at most to find out whether an object is in the
    /// read's answer.
    pub(crate) fn comparisons(&self) -> usize {
        match self {
            Self::List(_, _, Filter::Labels(selector)) => 1 + selector.comparisons(),
            _ => 1,
        }
    }

    /// Whether a change of an object of the read's kind alters its answer.
    pub fn is_touched_by(&self, sight: &Sight<'_>) -> bool {
        let change = sight.change;
        let has =
            |object: &Option<Arc<Object>>| object.as_ref().is_some_and(|object| self.has(object));
        match (has(&change.old), has(&change.new)) {
            (false, false) => false,
            (true, true) => match self {
                Self::Applied(_, _, side) => has_changed(change, *side),
                _ => sight.is_visible(),
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

/// Whether a change touches one of the reads that a run has made, of this informer among others.
/// What that takes comes off `left`, in comparisons; none if it is not enough.
pub(crate) fn touches_any(
    reads: &BTreeSet<Read>,
    informer: InformerId,
    sight: &Sight<'_>,
    left: &mut usize,
) -> Option<bool> {
    let lists_of = |informer| Read::List(informer, None, Filter::Everything);
    let lists = reads.range(lists_of(informer)..lists_of(informer + 1));
    let key = sight.change.key().to_key();
    let objects = [
        Read::Object(informer, key.clone()),
        Read::Applied(informer, key.clone(), Side::Main),
        Read::Applied(informer, key, Side::Status),
    ];
    *left = left.checked_sub(objects.len())?;
    let objects = objects.iter().filter_map(|read| reads.get(read));
    for read in objects.chain(lists) {
        *left = left.checked_sub(sight.change.states().count() * read.comparisons())?;
        if read.is_touched_by(sight) {
            return Some(true);
        }
    }
    Some(false)
}

impl ReadSets {
    /// These, and only these, are the key's reads from now on.
    pub fn set(&mut self, key: &ObjectKey, reads: BTreeSet<Read>) {
        // Most runs ask what the one before has asked. A coarse key may have become a finer one.
        if self.of(key).eq(&reads) && !self.held.coarse.contains(key) {
            return;
        }
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
    /// kind through this view. But for what was applied: see [`drifted`](Self::drifted). Where that
    /// would take more than 16,384 comparisons, more keys than it touches.
    pub fn touched(
        &self,
        informer: InformerId,
        key: &ObjectKey,
        change: &Change,
        view: ViewId,
    ) -> Touched<'_> {
        let sight = Sight::new(change, view);
        let (candidates, mut comparisons) = self.candidates(informer, key, change);
        let states = change.states().count();
        let mut keys = Vec::new();
        let mut reads = 0;
        for read in candidates.chain(self.by_label(informer, key, change)) {
            let more = comparisons + states * read.comparisons();
            let is_touched = if more > COMPARISONS {
                read.informer() == informer
            } else {
                comparisons = more;
                read.informer() == informer && read.is_touched_by(&sight)
            };
            if is_touched {
                reads += 1;
                let readers = self.readers.get(read).into_iter();
                keys.extend(readers.flat_map(Few::iter).map(|key| &**key));
            }
        }
        // Those of one read are in order, each once.
        if reads > 1 {
            keys.sort_unstable();
            keys.dedup();
        }
        Touched { keys, comparisons }
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

    /// Every recorded read that one of the change's states could be in, but for those by label, and
    /// how many were looked for.
    fn candidates(
        &self,
        informer: InformerId,
        key: &ObjectKey,
        change: &Change,
    ) -> (impl Iterator<Item = &Arc<Read>>, usize) {
        let indexes = self.indexed.keys();
        let indexes = indexes.filter(|(of, _)| *of == informer);
        let slots = indexes.flat_map(|(_, index)| {
            let states = change.states();
            states.map(|state| (*index, state, state.slots(*index)))
        });
        let slots: Vec<_> = slots.collect();
        let count: usize = slots.iter().map(|(_, _, slots)| slots.len()).sum();
        // An object with more values than there are reads is held against the reads.
        let is_many = count > self.readers.len();
        let values = slots.into_iter().filter(|_| !is_many);
        let values: BTreeSet<(IndexId, &str)> = values
            .flat_map(|(index, state, slots)| slots.map(move |slot| (index, state.slot(slot))))
            .collect();
        let filters = values
            .into_iter()
            .map(|(index, value)| Filter::Index(index, value.into()))
            .chain([Filter::Everything]);
        let mut reads = vec![Read::Object(informer, key.clone())];
        for filter in filters {
            let namespace = Some(key.namespace.clone());
            reads.push(Read::List(informer, namespace, filter.clone()));
            reads.push(Read::List(informer, None, filter));
        }
        let recorded = reads
            .iter()
            .filter_map(|read| self.readers.get_key_value(read));
        let mut found: Vec<&Arc<Read>> = recorded.map(|(read, _)| read).collect();
        let mut looked_for = reads.len();
        if is_many {
            let is_by_index =
                |read: &&Arc<Read>| matches!(***read, Read::List(_, _, Filter::Index(..)));
            found.extend(self.readers.keys().filter(is_by_index));
            looked_for += self.readers.len();
        }
        (found.into_iter(), looked_for)
    }

    /// The label reads that one of the change's states could be in. Some may come twice.
    fn by_label(
        &self,
        informer: InformerId,
        key: &ObjectKey,
        change: &Change,
    ) -> impl Iterator<Item = &Arc<Read>> {
        let labels = change.states().flat_map(|state| state.labels());
        let anchors = labels.flat_map(|(name, value)| {
            let places = [Some(&*key.namespace), None];
            places.map(|namespace| self.anchor(informer, namespace, name, value))
        });
        // Most labels are those of the state before.
        let anchors: BTreeSet<LabelAnchor> = anchors.collect();
        let anchored = anchors.into_iter();
        let anchored = anchored.filter_map(|anchor| self.anchored.get(&anchor));
        let all = anchored.chain(self.unanchored.get(&informer));
        all.flat_map(Few::iter)
    }

    fn anchor(
        &self,
        informer: InformerId,
        namespace: Option<&str>,
        name: &str,
        value: &str,
    ) -> LabelAnchor {
        let label = (informer, namespace, name, value);
        self.anchored.hasher().hash_one(label)
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
            Anchors::NotALabelRead => {
                if let Read::List(informer, _, Filter::Index(index, _)) = **read {
                    *self.indexed.entry((informer, index)).or_default() += 1;
                }
            }
            Anchors::None(informer) => {
                self.held.unanchored += read.comparisons() - 1;
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
            Anchors::NotALabelRead => {
                if let Read::List(informer, _, Filter::Index(index, _)) = **read
                    && let Entry::Occupied(mut count) = self.indexed.entry((informer, index))
                {
                    *count.get_mut() -= 1;
                    if *count.get() == 0 {
                        count.remove();
                    }
                }
            }
            Anchors::None(informer) => {
                self.held.unanchored -= read.comparisons() - 1;
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
        let Read::List(informer, namespace, Filter::Labels(selector)) = read else {
            return Anchors::NotALabelRead;
        };
        match selector.anchor() {
            None => Anchors::None(*informer),
            Some((name, values)) => {
                let namespace = namespace.as_deref();
                let anchor = |value: &String| self.anchor(*informer, namespace, name, value);
                Anchors::Labels(values.iter().map(anchor).collect())
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
