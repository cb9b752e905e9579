//! Decides which keys a change wakes, from the reads that each key's last reconcile made.
//!
//! A change touches a read if it alters the read's answer: the object enters or leaves the answer,
//! or is in it and changed in a way that the plugin can see. This is exact in both directions: no
//! change is missed, and no key is woken needlessly.
//!
//! What is read is up to the guest, so there is a limit. If a key has more reads than the host is
//! prepared to compare with every change, the host assumes that it has read everything of the kinds
//! concerned. Such a key is woken too often, but it misses no change.
//!
//! Invariant: `readers` and `reads_of` are each other's inverse. Every label read in `readers` is
//! in exactly one of `anchored` and `unanchored`. The counters match the content of `reads_of` and
//! `unanchored`.

mod bounds;
pub mod error;
pub mod fetched;
mod few;
pub mod read;
pub mod reader;
pub mod sight;
pub mod source;

use std::borrow::Borrow;
use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

use crate::cache::Change;
use crate::cache::snapshot::InformerId;
use crate::model::key::ObjectKey;
use crate::model::object::{IndexId, Side};
use crate::model::subject_key::SubjectKey;

use self::error::MAX_READS;
use self::read::{Filter, Read};
use self::sight::{Sight, has_changed};
use self::source::{Origin, Source};
use bounds::{Held, OF_LABEL, widened};
use few::Few;

/// The recorded reads of one plugin's keys.
#[derive(Debug, Default)]
pub struct ReadSets {
    /// The keys that made each read. Most reads are made by one key.
    readers: HashMap<Arc<Read>, Few<Arc<SubjectKey>>>,
    /// The reads of each key, sorted.
    reads_of: HashMap<Arc<SubjectKey>, Box<[Arc<Read>]>>,
    /// Label reads by a label that their objects must have. A change finds them through its
    /// object's labels.
    anchored: HashMap<LabelAnchor, Few<Arc<Read>>>,
    /// Label reads without such a label (`!canary`). Every change of the kind is compared with
    /// them.
    unanchored: HashMap<Source, Few<Arc<Read>>>,
    /// The number of reads of each index. The values of other indexes need not be looked up.
    indexed: HashMap<(Source, IndexId), usize>,
    /// The number of different reads of each source.
    of_source: HashMap<Source, usize>,
    held: Held,
}

/// The keys that a change concerns, and the cost of finding them.
#[derive(Debug, Default)]
pub struct Touched<'a> {
    /// The keys with a read that the change touches, in order.
    pub keys: Vec<&'a SubjectKey>,
    /// The approximate number of labels, values and keys that were compared. This is time of the
    /// host, and must be accounted for.
    pub comparisons: usize,
}

/// The maximum number of comparisons of one change with one plugin's reads. The remaining reads
/// then count as touched. Everything else in the host waits during these comparisons.
pub(crate) const COMPARISONS: usize = 16_384;

/// The hash of a label that the objects of a read must have, together with the source and the
/// namespace (`None`: all namespaces). The label itself would take as much memory as everything
/// else of a read, and is in the read anyway. If two labels have the same hash, the reads of both
/// are compared with the changes of either.
type LabelAnchor = u64;

/// True if a change touches one of the reads that a reconcile has made. `reads` may contain reads
/// of other informers. Each comparison is deducted from `left`. `None` if `left` does not suffice.
pub(crate) fn touches_any(
    reads: &BTreeSet<Read>,
    sight: &Sight<'_>,
    left: &mut usize,
) -> Option<bool> {
    let lists = sight.origin.sources().flat_map(|source| {
        let first = Read::List(source.clone(), None, Filter::Everything);
        let from = reads.range(first..);
        from.take_while(move |read| matches!(read, Read::List(of, _, _) if *of == source))
    });
    let informer = sight.origin.informer;
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
    /// Replaces the key's reads with these.
    pub fn set(&mut self, key: &SubjectKey, reads: BTreeSet<Read>) {
        // Most reconciles make the same reads as the one before. A coarse key is registered anew,
        // because its reads may now fit within the limits.
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
            // Every change with this label would be compared with all of these reads.
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
        let reads = reads.into_iter().map(|read| read.beside(&key.object));
        let reads: Box<[_]> = reads.map(|read| self.register(read, &key)).collect();
        reads.iter().for_each(|read| self.held.add(read));
        self.reads_of.insert(key, reads);
    }

    /// Adds these reads to the key's. A key that keeps failing and reads something else each time
    /// loses the older reads.
    pub fn join(&mut self, key: &SubjectKey, mut reads: BTreeSet<Read>) {
        // A key that fails usually reads the same each time, or less.
        reads.retain(|read| !self.covers(key, read));
        if reads.is_empty() {
            return;
        }
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

    /// True if every change that touches this read touches one of the key's reads.
    fn covers(&self, key: &SubjectKey, read: &Read) -> bool {
        let known = self.reads_of.get(key);
        let has = |wanted: &Read| {
            known.is_some_and(|known| known.binary_search_by(|have| (**have).cmp(wanted)).is_ok())
        };
        has(read)
            || [false, true]
                .map(|wide| widened(read.clone(), wide))
                .iter()
                .any(has)
    }

    /// True if the label that leads to this read also leads to very many others, with which a
    /// change would have to be compared as well.
    fn is_behind_many(&self, read: &Read) -> bool {
        let Anchors::Labels(labels) = self.anchors(read) else {
            return false;
        };
        let mut buckets = labels.iter().filter_map(|label| self.anchored.get(label));
        !self.readers.contains_key(read) && buckets.any(|bucket| bucket.len() >= OF_LABEL)
    }

    /// Removes all reads of the key.
    pub fn clear(&mut self, key: &SubjectKey) {
        self.held.coarse.remove(key);
        for read in self.reads_of.remove(key).into_iter().flatten() {
            self.held.remove(&read);
            self.unregister(&read, key);
        }
    }

    /// Removes the reads of all keys but these.
    pub fn retain(&mut self, is_kept: impl Fn(&SubjectKey) -> bool) {
        let others = self.reads_of.keys().filter(|key| !is_kept(key));
        for key in others.cloned().collect::<Vec<_>>() {
            self.clear(&key);
        }
    }

    /// The number of keys with so many reads that the host assumes they have read everything.
    pub fn coarse(&self) -> usize {
        self.held.coarse.len()
    }

    /// The key's reads.
    pub fn of(&self, key: &SubjectKey) -> impl Iterator<Item = &Read> {
        let reads = self.reads_of.get(key).into_iter().flatten();
        reads.map(|read| &**read)
    }

    /// True if a key has read something of this source.
    pub fn has(&self, source: &Source) -> bool {
        self.of_source.contains_key(source)
    }

    /// The number of recorded reads, each counted once per key.
    pub fn len(&self) -> usize {
        self.held.reads
    }

    /// True if no read is recorded.
    pub fn is_empty(&self) -> bool {
        self.reads_of.is_empty()
    }

    /// The keys whose reads are touched by a change of the object of this key. Reads of what was
    /// applied are left out; see [`drifted`](Self::drifted). If more than 16,384 comparisons would
    /// be needed, the result may contain keys that the change does not touch.
    pub fn touched(&self, origin: Origin<'_>, key: &ObjectKey, change: &Change) -> Touched<'_> {
        self.touched_of(origin.sources(), key, &Sight::new(change, origin))
    }

    /// As [`touched`](Self::touched), of the lists of patterns alone.
    pub fn touched_of_patterns(
        &self,
        origin: Origin<'_>,
        key: &ObjectKey,
        change: &Change,
    ) -> Touched<'_> {
        let patterns = origin.patterns().cloned();
        self.touched_of(patterns, key, &Sight::new(change, origin))
    }

    fn touched_of(
        &self,
        sources: impl Iterator<Item = Source>,
        key: &ObjectKey,
        sight: &Sight<'_>,
    ) -> Touched<'_> {
        let states = sight.change.states().count();
        let mut touched = Touched::default();
        let mut reads = 0;
        for source in sources.filter(|source| self.has(source)) {
            let (candidates, looked_for) = self.candidates(&source, key, sight);
            touched.comparisons += looked_for;
            for read in candidates.chain(self.by_label(&source, key, sight.change)) {
                let more = touched.comparisons + states * read.comparisons();
                let is_touched = if more > COMPARISONS {
                    read.source() == source
                } else {
                    touched.comparisons = more;
                    read.source() == source && read.is_touched_by(sight)
                };
                if is_touched {
                    reads += 1;
                    let readers = self.readers.get(read).into_iter();
                    let keys = readers.flat_map(Few::iter).map(|key| &**key);
                    touched.keys.extend(keys);
                }
            }
        }
        // The keys of one read are in order and without repetition already.
        if reads > 1 {
            touched.keys.sort_unstable();
            touched.keys.dedup();
        }
        touched
    }

    /// The keys that have applied the object of this key, if a change alters what they have
    /// applied.
    pub fn drifted(
        &self,
        informer: InformerId,
        key: &ObjectKey,
        change: &Change,
    ) -> BTreeSet<&SubjectKey> {
        let sides = [Side::Main, Side::Status].into_iter();
        let reads = sides.map(|side| (side, Read::Applied(informer, key.clone(), side)));
        let read = reads.filter_map(|(side, read)| Some((side, self.readers.get(&read)?)));
        let drifted = read.filter(|(side, _)| has_changed(change, *side));
        let keys = drifted.flat_map(|(_, readers)| readers.iter());
        keys.map(|key| &**key).collect()
    }

    /// The keys whose reads could contain an object of this key, whatever its content. Linear in
    /// the number of reads.
    pub fn about(&self, origin: Origin<'_>, key: &ObjectKey) -> BTreeSet<&SubjectKey> {
        let sources: Vec<Source> = origin.sources().collect();
        let is_about = |read: &Read| match read {
            Read::Object(of, wanted) | Read::Applied(of, wanted, _) => {
                *of == origin.informer && wanted == key
            }
            Read::List(of, namespace, _) => {
                let mut namespace = namespace.iter();
                sources.contains(of) && namespace.all(|namespace| *namespace == key.namespace)
            }
        };
        self.readers_of(is_about)
    }

    /// The keys with a list of a pattern that may have objects from there. Linear in the number of
    /// reads.
    pub fn of_patterns(&self, origin: Origin<'_>) -> BTreeSet<&SubjectKey> {
        let patterns: Vec<&Source> = origin.patterns().collect();
        self.readers_of(|read| matches!(read, Read::List(of, _, _) if patterns.contains(&of)))
    }

    fn readers_of(&self, is_meant: impl Fn(&Read) -> bool) -> BTreeSet<&SubjectKey> {
        let readers = self.readers.iter().filter(|(read, _)| is_meant(read));
        let keys = readers.flat_map(|(_, readers)| readers.iter());
        keys.map(|key| &**key).collect()
    }

    /// Every recorded read of a source, label reads excepted, that could contain one of the
    /// change's states, and the number of look-ups that were made.
    fn candidates(
        &self,
        source: &Source,
        key: &ObjectKey,
        sight: &Sight<'_>,
    ) -> (impl Iterator<Item = &Arc<Read>>, usize) {
        let indexes = self.indexed.keys();
        let indexes = indexes.filter(|(of, _)| of == source);
        let slots = indexes.flat_map(|(_, index)| {
            let own = sight.origin.index(source, *index);
            let states = own.into_iter().flat_map(|own| {
                let states = sight.change.states();
                states.map(move |state| (state, state.slots(own)))
            });
            states.map(|(state, slots)| (*index, state, slots))
        });
        let slots: Vec<_> = slots.collect();
        let count: usize = slots.iter().map(|(_, _, slots)| slots.len()).sum();
        // If an object has more indexed values than there are reads, going through the reads is
        // cheaper.
        let is_many = count > self.readers.len();
        let values = slots.into_iter().filter(|_| !is_many);
        let values: BTreeSet<(IndexId, &str)> = values
            .flat_map(|(index, state, slots)| slots.map(move |slot| (index, state.slot(slot))))
            .collect();
        let filters = values
            .into_iter()
            .map(|(index, value)| Filter::Index(index, value.into()))
            .chain([Filter::Everything]);
        let mut reads = Vec::new();
        if let Source::Informer(informer) = source {
            reads.push(Read::Object(*informer, key.clone()));
        }
        for filter in filters {
            let namespace = Some(key.namespace.clone());
            reads.push(Read::List(source.clone(), namespace, filter.clone()));
            reads.push(Read::List(source.clone(), None, filter));
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

    /// The label reads that could contain one of the change's states. Some may occur twice.
    fn by_label(
        &self,
        source: &Source,
        key: &ObjectKey,
        change: &Change,
    ) -> impl Iterator<Item = &Arc<Read>> {
        let labels = change.states().flat_map(|state| state.labels());
        let anchors = labels.flat_map(|(name, value)| {
            let places = [Some(&*key.namespace), None];
            places.map(|namespace| self.anchor(source, namespace, name, value))
        });
        // The set removes repetitions: most labels are the same in the old and the new state.
        let anchors: BTreeSet<LabelAnchor> = anchors.collect();
        let anchored = anchors.into_iter();
        let anchored = anchored.filter_map(|anchor| self.anchored.get(&anchor));
        let all = anchored.chain(self.unanchored.get(source));
        all.flat_map(Few::iter)
    }

    fn anchor(
        &self,
        source: &Source,
        namespace: Option<&str>,
        name: &str,
        value: &str,
    ) -> LabelAnchor {
        let label = (source, namespace, name, value);
        self.anchored.hasher().hash_one(label)
    }

    fn register(&mut self, read: Read, key: &Arc<SubjectKey>) -> Arc<Read> {
        let read = match self.readers.get_key_value(&read) {
            Some((known, _)) => known.clone(),
            None => Arc::new(self.sharing_source(read)),
        };
        let is_new = insert_into(&mut self.readers, read.clone(), key);
        if is_new {
            *self.of_source.entry(read.source()).or_default() += 1;
            self.place(&read);
        }
        read
    }

    /// The same read, sharing the text of its source with the other reads of it.
    fn sharing_source(&self, read: Read) -> Read {
        match read {
            Read::List(source, namespace, filter) => {
                let known = self.of_source.get_key_value(&source);
                let known = known.map(|(known, _)| known.clone());
                Read::List(known.unwrap_or(source), namespace, filter)
            }
            other => other,
        }
    }

    fn unregister(&mut self, read: &Arc<Read>, key: &SubjectKey) {
        let is_gone = remove_from(&mut self.readers, read, key);
        if is_gone {
            take_one(&mut self.of_source, read.source());
            self.displace(read);
        }
    }

    /// Makes a label read findable from the labels of an object, and counts an index read.
    fn place(&mut self, read: &Arc<Read>) {
        match self.anchors(read) {
            Anchors::NotALabelRead => {
                if let Read::List(source, _, Filter::Index(index, _)) = &**read {
                    let place = (source.clone(), *index);
                    *self.indexed.entry(place).or_default() += 1;
                }
            }
            Anchors::None(source) => {
                self.held.unanchored += read.comparisons() - 1;
                insert_into(&mut self.unanchored, source, read);
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
                if let Read::List(source, _, Filter::Index(index, _)) = &**read {
                    take_one(&mut self.indexed, (source.clone(), *index));
                }
            }
            Anchors::None(source) => {
                self.held.unanchored -= read.comparisons() - 1;
                remove_from(&mut self.unanchored, &source, read);
            }
            Anchors::Labels(labels) => {
                for label in labels {
                    remove_from(&mut self.anchored, &label, read);
                }
            }
        }
    }

    fn anchors(&self, read: &Read) -> Anchors {
        let Read::List(source, namespace, Filter::Labels(selector)) = read else {
            return Anchors::NotALabelRead;
        };
        match selector.anchor() {
            None => Anchors::None(source.clone()),
            Some((name, values)) => {
                let namespace = namespace.as_deref();
                let anchor = |value: &String| self.anchor(source, namespace, name, value);
                Anchors::Labels(values.iter().map(anchor).collect())
            }
        }
    }
}

/// Counts one less, and forgets a counter that has come to zero.
fn take_one<K: Eq + Hash>(counters: &mut HashMap<K, usize>, of: K) {
    if let Entry::Occupied(mut count) = counters.entry(of) {
        *count.get_mut() -= 1;
        if *count.get() == 0 {
            count.remove();
        }
    }
}

/// How a read is found from an object.
enum Anchors {
    NotALabelRead,
    None(Source),
    Labels(Vec<LabelAnchor>),
}

/// Adds an item to a set. Returns true if it is the first in its set.
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

/// Removes an item from a set, and the set itself once it is empty. Returns true if it has become
/// empty.
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
mod tests;
