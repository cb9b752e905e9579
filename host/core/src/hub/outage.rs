//! What a plugin does while its writes find no cluster: it tries with one key a second.
//!
//! Per plugin: what cannot be reached may be an aggregated API or a slow webhook that only this
//! plugin needs. It may be needed by one key alone, so the keys that are tried are in turn those
//! that found no cluster and those that have not been tried. A run that needs no cluster says
//! nothing of it, and the next key is tried at once; but however many of these there are, a key
//! that found no cluster is tried every two seconds. Any answer, a refusal too, ends the outage.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::key::ObjectKey;
use crate::queue::Time;

/// The time between two tries.
const PROBE_EVERY: Duration = Duration::from_secs(1);

/// A time in which a plugin's writes have no answer.
#[derive(Debug)]
pub(super) struct Outage {
    next_probe: Time,
    /// The keys whose writes had none. The queue holds them.
    stranded: BTreeSet<ObjectKey>,
    /// Of those, the one that has been looked up for since.
    favourite: Option<ObjectKey>,
    /// From this time on the next try is with a key that found no cluster, whatever the queue has.
    stranded_first_at: Time,
}

/// Which key is to be tried.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Probe {
    /// This one, which the queue holds.
    Stranded(ObjectKey),
    /// The next of the queue.
    Queued,
}

impl Outage {
    pub(super) fn new(now: Time) -> Self {
        Self {
            next_probe: now + PROBE_EVERY,
            stranded: BTreeSet::new(),
            favourite: None,
            stranded_first_at: now + PROBE_EVERY * 2,
        }
    }

    /// A key has to wait for the end of it.
    pub(super) fn strand(&mut self, key: ObjectKey) {
        self.stranded.insert(key);
    }

    /// The cluster has answered a question for this key: it is the next to try, at once.
    pub(super) fn favour(&mut self, key: ObjectKey, now: Time) {
        self.next_probe = now;
        self.stranded.extend(self.favourite.replace(key));
    }

    /// The last try has not needed the cluster: the next need not wait.
    pub(super) fn hurry(&mut self, now: Time) {
        self.next_probe = self.next_probe.min(now);
    }

    /// Before this time nothing is tried.
    pub(super) fn next_probe(&self) -> Time {
        self.next_probe
    }

    /// Whether nobody waits for the end of it.
    pub(super) fn is_empty(&self) -> bool {
        self.stranded.is_empty() && self.favourite.is_none()
    }

    /// Which key is to be tried now, if it is time. `is_queued`: whether the queue has one.
    pub(super) fn probe(&mut self, is_queued: bool, now: Time) -> Option<Probe> {
        if now < self.next_probe {
            return None;
        }
        if let Some(key) = self.favourite.take() {
            return Some(Probe::Stranded(key));
        }
        if is_queued && (now < self.stranded_first_at || self.stranded.is_empty()) {
            return Some(Probe::Queued);
        }
        self.stranded_first_at = now + PROBE_EVERY * 2;
        self.stranded.pop_first().map(Probe::Stranded)
    }

    /// A key is being tried: the next has its time.
    pub(super) fn tried(&mut self, now: Time) {
        self.next_probe = now + PROBE_EVERY;
    }

    /// Who waited for the end of it.
    pub(super) fn into_stranded(self) -> impl Iterator<Item = ObjectKey> {
        self.stranded.into_iter().chain(self.favourite)
    }
}
