//! What the keys of one plugin have read, and which of them a change concerns.

use std::collections::BTreeSet;

use super::changed::KeyedChange;
use super::installed::InstalledVersion;
use crate::cache::snapshot::{InformerId, Snapshot};
use crate::cache::{Cache, Change};
use crate::hub::changelog::Missed;
use crate::hub::reconcile::Ran;
use crate::model::key::{Kind, ObjectKey};
use crate::model::subject_key::SubjectKey;
use crate::reads::read::Read;
use crate::reads::sight::Sight;
use crate::reads::source::{Origin, Source};
use crate::reads::{ReadSets, Touched, touches_any};

/// Maximum number of comparisons between what a reconcile has read and the changes it has missed.
const MISSED_COMPARISONS: usize = 50_000;

/// The objects of a cache with more than these are not compared with the lists of patterns, because
/// the hub is locked meanwhile.
const MAX_COMPARED: usize = if cfg!(test) { 3 } else { 2_000 };

/// The cost of storing one read, in comparisons.
const COMPARISONS_PER_READ: usize = 20;

/// See the module's documentation.
#[derive(Default)]
pub(super) struct RecordedReads {
    sets: ReadSets,
    /// When a readable object last became unreadable, or readable again. A reconcile on an older
    /// snapshot may have asked for it.
    turned_at: u64,
}

/// The changes that alter what a reconcile read. `None` if it is not known which do.
type Altering<'a> = Option<Vec<(InformerId, &'a Change)>>;

impl RecordedReads {
    /// The reads of a key.
    pub fn of(&self, key: &SubjectKey) -> impl Iterator<Item = &Read> {
        self.sets.of(key)
    }

    /// Whether a key has read something that an informer brings.
    pub fn has(&self, origin: Origin<'_>) -> bool {
        origin.sources().any(|source| self.sets.has(&source))
    }

    /// Whether a key has listed a pattern that includes this kind.
    pub fn has_pattern_of(&self, kind: &Kind) -> bool {
        let mut patterns = [Kind::any().group, kind.group.clone()].into_iter();
        patterns.any(|group| self.sets.has(&Source::Pattern(group)))
    }

    /// The number of recorded reads, each counted once per key.
    pub fn len(&self) -> usize {
        self.sets.len()
    }

    /// The number of keys with so many reads that the host assumes they have read everything.
    pub fn coarse(&self) -> usize {
        self.sets.coarse()
    }

    /// The keys with reads that a change alters.
    pub fn touched(
        &self,
        installed: &InstalledVersion,
        snapshot: &Snapshot,
        changed: KeyedChange<'_>,
    ) -> Touched<'_> {
        let KeyedChange {
            informer,
            key,
            change,
            ..
        } = changed;
        let origin = installed.origin(informer);
        let mut touched = self.sets.touched(origin, key, change);
        let drifted = self.sets.drifted(informer, key, change);
        if !drifted.is_empty() && !installed.is_own_apply(snapshot, changed) {
            touched.keys.extend(drifted);
        }
        touched
    }

    /// The keys with a result that contained this object or should have.
    pub fn about(&self, origin: Origin<'_>, key: &ObjectKey) -> BTreeSet<&SubjectKey> {
        self.sets.about(origin, key)
    }

    /// The keys whose lists of patterns have objects of this cache, and how many comparisons it
    /// took to find them. Of a cache with many objects: the keys that have listed such a pattern.
    pub fn in_lists(&self, origin: Origin<'_>, cache: &Cache) -> (BTreeSet<SubjectKey>, usize) {
        if !origin.patterns().any(|pattern| self.sets.has(pattern)) {
            return (BTreeSet::new(), 0);
        }
        if cache.len() > MAX_COMPARED {
            let keys = self.sets.of_patterns(origin).into_iter();
            return (keys.cloned().collect(), self.sets.len());
        }
        let (mut keys, mut comparisons) = (BTreeSet::new(), 0);
        for object in cache.list(None) {
            let change = Change {
                old: None,
                new: Some(object.clone()),
            };
            let key = change.key().to_key();
            let touched = self.sets.touched_of_patterns(origin, &key, &change);
            keys.extend(touched.keys.into_iter().cloned());
            comparisons += touched.comparisons;
        }
        (keys, comparisons)
    }

    /// Some objects have become unreadable, or readable again, at this sequence number.
    pub fn note_turned(&mut self, sequence: u64) {
        self.turned_at = sequence;
    }

    /// Which of the changes that a reconcile has missed alter what it read, and how many
    /// comparisons that took. If it would take too many, it is not found out: the hub is locked
    /// meanwhile.
    pub fn missed<'a>(
        &self,
        installed: &InstalledVersion,
        ran: &Ran,
        missed: Missed<'a>,
    ) -> (Altering<'a>, usize) {
        let Missed::Changes(changes) = missed else {
            return (None, 0);
        };
        // An informer of a pattern may have ended meanwhile. Nothing more comes from it.
        let has_ended = |read: &Read| read.informer().is_some_and(|of| !installed.uses(of));
        let lists_pattern = ran.reads.iter().any(|read| read.informer().is_none());
        if ran.held.sequence < self.turned_at
            || ran.reads.iter().any(has_ended)
            || (lists_pattern && !installed.has_kinds_of(&ran.held))
        {
            return (None, 0);
        }
        let mut left = MISSED_COMPARISONS;
        let sources: BTreeSet<Source> = ran.reads.iter().map(Read::source).collect();
        let altering = changes.filter_map(|(informer, change)| {
            // Which kinds are served decides which objects a list of a pattern has.
            if lists_pattern && installed.tells_kinds(informer) {
                return Some(None);
            }
            let origin = installed.origin(informer);
            if !origin.sources().any(|source| sources.contains(&source)) {
                return None;
            }
            let sight = Sight::new(change, origin);
            match touches_any(&ran.reads, &sight, &mut left) {
                Some(false) => None,
                touches => Some(touches.map(|_| (informer, change))),
            }
        });
        let altering = altering.collect();
        (altering, MISSED_COMPARISONS - left)
    }

    /// Replaces a key's reads by those of a reconcile, or adds them if it failed. Returns what that
    /// costs, in comparisons.
    pub fn store(&mut self, installed: &InstalledVersion, ran: &Ran) -> usize {
        let held = &ran.held;
        let key = &held.request.key;
        let reads = ran.reads.iter();
        // If the subject is gone, perhaps only because it is no longer selected, the guest's reads
        // of it were not recorded. A recorded one is the host's own, made for planning, and nothing
        // else wakes the key when such an object changes.
        let reads = reads.filter(|read| read.informer().is_none_or(|of| installed.uses(of)));
        let reads = reads.filter(|read| held.is_gone || !installed.is_own(read, key));
        let reads: BTreeSet<Read> = reads.cloned().collect();
        let cost = reads.len() * COMPARISONS_PER_READ;
        match &ran.result {
            Ok(_) => self.sets.set(key, reads),
            Err(_) => self.sets.join(key, reads),
        }
        cost
    }

    /// Removes all reads of a key.
    pub fn forget(&mut self, key: &SubjectKey) {
        self.sets.clear(key);
    }

    /// Removes the reads of all keys but these.
    pub fn retain(&mut self, is_kept: impl Fn(&SubjectKey) -> bool) {
        self.sets.retain(is_kept);
    }

    /// Removes and returns all reads.
    pub fn take(&mut self) -> ReadSets {
        std::mem::take(&mut self.sets)
    }
}
