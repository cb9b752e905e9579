//! Keys whose objects are gone.
//!
//! What such a key has read wakes it as it does any other: there may be something left to clean up, which has to go first, and
//! informers are not equally far, so that something which belonged to the object may yet come. But nobody deletes a key, and a cluster in
//! which objects come and go would fill the host with what they once read. So a key is forgotten when what it read has no answer any
//! more, and every informer it read has come further than the object's end. That is looked at when such keys have come to be many.

use std::collections::HashMap;
use std::time::Duration;

use super::Seat;
use crate::key::{ObjectKey, ResourceVersion};
use crate::queue::Time;
use crate::snapshot::Snapshot;

/// Fewer keys are not worth looking at.
const SWEEP_FROM: usize = 1024;

/// An informer that has not come so far in this time never will: its kind is kept in a store of its own, with versions of its own.
const LONGEST_SKEW: Duration = Duration::from_secs(600);

/// See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct GoneKeys {
    keys: HashMap<ObjectKey, End>,
    /// At so many keys they are looked at.
    sweep_at: usize,
}

/// When an object was seen to be gone.
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

    /// All of them, which are forgotten here.
    pub fn take(&mut self) -> impl Iterator<Item = ObjectKey> + use<> {
        std::mem::take(&mut self.keys).into_keys()
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
        self.gone.keys.insert(key.clone(), end);
        if self.gone.keys.len() > self.gone.sweep_at.max(SWEEP_FROM) {
            self.forget_gone(snapshot, now);
            self.gone.sweep_at = self.gone.keys.len() * 2;
        }
    }

    fn forget_gone(&mut self, snapshot: &Snapshot, now: Time) {
        let keys = std::mem::take(&mut self.gone.keys);
        for (key, end) in keys {
            if self.is_awaiting(&key, &end, snapshot, now) || !self.queue.forget_idle(&key) {
                self.gone.keys.insert(key, end);
            } else {
                self.forget(&key);
            }
        }
    }

    /// Whether what a key has read may yet wake it.
    fn is_awaiting(&self, key: &ObjectKey, end: &End, snapshot: &Snapshot, now: Time) -> bool {
        let may_be_behind = now < end.at + LONGEST_SKEW;
        self.reads.of(key).any(|read| {
            let version = snapshot.informers[read.informer()].resource_version();
            let is_behind = *version != end.version && version.is_at_most(&end.version);
            (is_behind && may_be_behind) || read.has_answer(snapshot)
        })
    }
}
