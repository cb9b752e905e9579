//! What a plugin does while its writes cannot reach the cluster: it tries one key a second.
//!
//! Outages are tracked per plugin, because the unreachable part may be an aggregated API or a slow
//! webhook that only this plugin needs. It may also be needed by one key alone. So tries alternate
//! between keys whose writes were not answered and keys that have not been tried. A reconcile that
//! does not need the cluster tells nothing about it, and the next key is tried at once; but a
//! parked key is tried every two seconds, however many such reconciles there are. Any answer ends
//! the outage, a refusal too.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::model::subject_key::SubjectKey;
use crate::queue::Time;

/// The time between two tries.
const PROBE_EVERY: Duration = Duration::from_secs(1);

/// A period in which a plugin's writes are not answered.
#[derive(Debug)]
pub(super) struct Outage {
    next_probe: Time,
    /// The parked keys: their writes were not answered. The queue holds them.
    parked: BTreeSet<SubjectKey>,
    /// The parked key that the server has answered a fetch for; it is tried next.
    preferred: Option<SubjectKey>,
    /// From this time on, the next try is a parked key, even if the queue has a key.
    parked_first_at: Time,
}

/// Which key to try.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Probe {
    /// This parked key, which the queue holds.
    Parked(SubjectKey),
    /// The next key of the queue.
    Queued,
}

impl Outage {
    pub(super) fn new(now: Time) -> Self {
        Self {
            next_probe: now + PROBE_EVERY,
            parked: BTreeSet::new(),
            preferred: None,
            parked_first_at: now + PROBE_EVERY * 2,
        }
    }

    /// Parks a key until the outage ends.
    pub(super) fn park(&mut self, key: SubjectKey) {
        self.parked.insert(key);
    }

    /// The server has answered a fetch for this key: it is tried next, at once.
    pub(super) fn prefer(&mut self, key: SubjectKey, now: Time) {
        self.next_probe = now;
        self.parked.extend(self.preferred.replace(key));
    }

    /// The last try did not need the cluster, so the next one does not have to wait.
    pub(super) fn probe_soon(&mut self, now: Time) {
        self.next_probe = self.next_probe.min(now);
    }

    /// Nothing is tried before this time.
    pub(super) fn next_probe(&self) -> Time {
        self.next_probe
    }

    /// Whether no key is parked.
    pub(super) fn is_empty(&self) -> bool {
        self.parked.is_empty() && self.preferred.is_none()
    }

    /// Which key to try now, if it is time. `is_queued`: whether the queue has a key.
    pub(super) fn probe(&mut self, is_queued: bool, now: Time) -> Option<Probe> {
        if now < self.next_probe {
            return None;
        }
        if let Some(key) = self.preferred.take() {
            return Some(Probe::Parked(key));
        }
        if is_queued && (now < self.parked_first_at || self.parked.is_empty()) {
            return Some(Probe::Queued);
        }
        self.parked_first_at = now + PROBE_EVERY * 2;
        self.parked.pop_first().map(Probe::Parked)
    }

    /// A key is being tried: the next try has to wait for its time.
    pub(super) fn tried(&mut self, now: Time) {
        self.next_probe = now + PROBE_EVERY;
    }

    /// Forgets all parked keys but these.
    pub(super) fn retain(&mut self, is_kept: impl Fn(&SubjectKey) -> bool) {
        self.parked.retain(&is_kept);
        self.preferred = self.preferred.take().filter(is_kept);
    }

    /// The parked keys.
    pub(super) fn into_parked(self) -> impl Iterator<Item = SubjectKey> {
        self.parked.into_iter().chain(self.preferred)
    }
}
