//! Keys whose objects are gone.
//!
//! What such a key has read wakes it as it does any other: there may be something left to clean up,
//! which has to go first, and informers are not equally far, so that something which belonged to
//! the object may yet come. But nobody deletes a key, and a cluster in which objects come and go
//! would fill the host with what they once read. So a key is forgotten when what it read has no
//! answer any more, and every informer it read has come further than the object's end; and an hour
//! after that end in any case, for what it read may be there for good: settings that all keys read,
//! say. When such keys have come to be many, that is looked at, of a few of them with each that
//! comes: to find out that a list is empty may take a look at every object.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::time::Duration;

use super::Seat;
use crate::key::{ObjectKey, ResourceVersion};
use crate::queue::Time;
use crate::snapshot::Snapshot;

/// Fewer keys are not worth looking at.
const LOOK_FROM: usize = 1024;

/// So many are looked at with each that comes, so that they become fewer.
const LOOK_AT: usize = 2;

/// An informer that has not come so far in this time never will: its kind is kept in a store of its own, with versions of its own.
const LONGEST_SKEW: Duration = Duration::from_secs(600);

/// What has not gone in this time after a key's object is not what the key waits for.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);

/// See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct GoneKeys {
    keys: BTreeMap<ObjectKey, End>,
    /// The one that was looked at last; the next is the one behind it.
    last: Option<ObjectKey>,
}

/// When an object was first seen to be gone.
#[derive(Debug)]
struct End {
    /// How far the informer had come that showed it.
    version: ResourceVersion,
    at: Time,
}

impl GoneKeys {
    /// The key has an object again.
    pub fn remove(&mut self, key: &ObjectKey) {
        self.keys.remove(key);
    }

    /// The next to be looked at, in turn.
    fn next(&mut self) -> Option<ObjectKey> {
        let behind = self.last.take().map_or(Bound::Unbounded, Bound::Excluded);
        let mut behind = self.keys.range((behind, Bound::Unbounded));
        let next = behind.next().or_else(|| self.keys.first_key_value());
        self.last = next.map(|(key, _)| key.clone());
        self.last.clone()
    }

    /// All of them, which are forgotten here.
    pub fn take(&mut self) -> impl Iterator<Item = ObjectKey> + use<> {
        std::mem::take(self).keys.into_keys()
    }
}

impl Seat {
    /// A run has ended that is not to be repeated by itself, and there was no object of its key.
    pub(super) fn note_gone(&mut self, key: &ObjectKey, snapshot: &Snapshot, now: Time) {
        let subject = self.subject.as_ref();
        let informer = subject.and_then(|subject| subject.informer_of(snapshot, key));
        let version = informer.map(|informer| snapshot.informers[informer].resource_version());
        let end = End {
            version: version.cloned().unwrap_or_default(),
            at: now,
        };
        self.gone.keys.entry(key.clone()).or_insert(end);
        if self.gone.keys.len() > LOOK_FROM {
            (0..LOOK_AT).for_each(|_| self.forget_next_gone(snapshot, now));
        }
    }

    /// Forgets the next of these keys, if nothing that it has read can wake it and it is not
    /// queued.
    fn forget_next_gone(&mut self, snapshot: &Snapshot, now: Time) {
        let Some(key) = self.gone.next() else {
            return;
        };
        let end = self.gone.keys.get(&key);
        let is_awaiting = end.is_some_and(|end| self.is_awaiting(&key, end, snapshot, now));
        if !is_awaiting && self.queue.forget_idle(&key) {
            self.gone.keys.remove(&key);
            self.forget(&key);
        }
    }

    /// Whether what a key has read may yet wake it.
    fn is_awaiting(&self, key: &ObjectKey, end: &End, snapshot: &Snapshot, now: Time) -> bool {
        let may_be_behind = now < end.at + LONGEST_SKEW;
        let may_go = now < end.at + LONGEST_WAIT;
        self.reads.of(key).any(|read| {
            let version = snapshot.informers[read.informer()].resource_version();
            let is_behind = *version != end.version && version.is_at_most(&end.version);
            (is_behind && may_be_behind) || (may_go && read.has_answer(snapshot))
        })
    }
}
