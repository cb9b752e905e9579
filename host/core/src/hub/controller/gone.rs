//! Keys whose objects are gone.
//!
//! What such a key has read still wakes it, as with any other key: there may be something to clean
//! up that must go first. Informers also do not advance together, so something that belonged to the
//! object may arrive later. But keys are never deleted explicitly, and a cluster in which objects
//! come and go would fill the host with what they once read.
//!
//! So a key is forgotten when what it read has no answer any more and every informer it read has
//! come past the object's end. It is forgotten one hour after that end in any case, because what it
//! read may never go away, such as settings that all keys read. This is checked only when there are
//! many such keys, and then for a few of them with each new one: to find out that a list is empty,
//! every object may have to be examined. A key for which too many would have to be is kept.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::time::Duration;

use super::present::Present;
use super::recorded::RecordedReads;
use crate::model::key::ResourceVersion;
use crate::model::subject_key::SubjectKey;
use crate::queue::Time;
use crate::reads::read::Read;

/// With fewer keys than this, nothing is checked.
const LOOK_FROM: usize = 1024;

/// Number of keys checked with each new one. It is more than one, so that their number falls.
const LOOK_AT: usize = 2;

/// Maximum number of objects examined for one key, because the hub is locked meanwhile.
const MAX_EXAMINED: usize = if cfg!(test) { 100 } else { 10_000 };

/// If an informer has not come this far in this time, it never will: its kind is kept in a store of
/// its own, with versions of its own.
const LONGEST_SKEW: Duration = Duration::from_secs(600);

/// If something that the key read still exists this long after its object, the key is not waiting
/// for it to go.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);

/// See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct GoneKeys {
    keys: BTreeMap<SubjectKey, GoneSince>,
    /// The key that was checked last. The next one in order follows.
    last: Option<SubjectKey>,
}

/// When an object was first seen to be gone.
#[derive(Debug)]
struct GoneSince {
    /// The resourceVersion of the informer that showed it.
    version: ResourceVersion,
    at: Time,
}

impl GoneKeys {
    /// A reconcile has ended that is not retried by itself, and its key had no object. Returns how
    /// many of these keys are to be checked now.
    pub fn add(&mut self, key: &SubjectKey, present: Present<'_>) -> usize {
        let snapshot = present.snapshot;
        let informer = present.installed.subjects().informer_of(snapshot, key);
        let version = informer.map(|informer| snapshot.informers[informer].resource_version());
        let end = GoneSince {
            version: version.cloned().unwrap_or_default(),
            at: present.now,
        };
        self.keys.entry(key.clone()).or_insert(end);
        match self.keys.len() > LOOK_FROM {
            true => LOOK_AT,
            false => 0,
        }
    }

    /// The key has an object again, or is forgotten.
    pub fn remove(&mut self, key: &SubjectKey) {
        self.keys.remove(key);
    }

    /// The next key to check, in rotation.
    pub fn next(&mut self) -> Option<SubjectKey> {
        let behind = self.last.take().map_or(Bound::Unbounded, Bound::Excluded);
        let mut behind = self.keys.range((behind, Bound::Unbounded));
        let next = behind.next().or_else(|| self.keys.first_key_value());
        self.last = next.map(|(key, _)| key.clone());
        self.last.clone()
    }

    /// Whether what a key has read may still wake it.
    pub fn is_awaiting(
        &self,
        key: &SubjectKey,
        reads: &RecordedReads,
        present: Present<'_>,
    ) -> bool {
        let Present { snapshot, now, .. } = present;
        let Some(end) = self.keys.get(key) else {
            return false;
        };
        let may_be_behind = now < end.at + LONGEST_SKEW;
        let may_go = now < end.at + LONGEST_WAIT;
        let mut left = MAX_EXAMINED;
        let mut may_have_answer = |read: &Read| {
            // The look-up itself counts, too: a read of a pattern is one for each of its kinds.
            let is_left = left > 0;
            left = left.saturating_sub(1);
            !is_left || read.has_answer(snapshot, &mut left) != Some(false)
        };
        let reads = reads.of(key);
        let mut reads = reads.flat_map(|read| present.installed.reads_of_informers(read));
        reads.any(|read| {
            let cache = read
                .informer()
                .map(|informer| &snapshot.informers[informer]);
            // Which kinds there are wakes no key that has nothing else to wait for.
            let Some(cache) = cache.filter(|cache| !cache.is_of_served_kinds()) else {
                return false;
            };
            let version = cache.resource_version();
            let is_behind = *version != end.version && version.is_at_most(&end.version);
            (is_behind && may_be_behind) || (may_go && may_have_answer(&read))
        })
    }

    /// Forgets all keys but these.
    pub fn retain(&mut self, is_kept: impl Fn(&SubjectKey) -> bool) {
        self.keys.retain(|key, _| is_kept(key));
    }

    /// Removes and returns all keys.
    pub fn take(&mut self) -> impl Iterator<Item = SubjectKey> + use<> {
        std::mem::take(self).keys.into_keys()
    }
}
