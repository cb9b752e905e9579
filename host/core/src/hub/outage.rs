//! What a plugin does while its writes find no cluster: nothing, but for one try a second.
//!
//! Per plugin: what cannot be reached may be an aggregated API or a slow webhook that only this plugin needs.

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
}

impl Outage {
    pub(super) fn new(now: Time) -> Self {
        Self {
            next_probe: now + PROBE_EVERY,
            stranded: BTreeSet::new(),
            favourite: None,
        }
    }

    /// A key has to wait for the end of it.
    pub(super) fn strand(&mut self, key: ObjectKey) {
        self.stranded.insert(key);
    }

    /// The cluster has answered a question for this key: it is the next to try, at once.
    pub(super) fn favour(&mut self, key: ObjectKey, now: Time) {
        self.next_probe = now;
        self.favourite = Some(key);
    }

    /// When the next try is due; none while there is nobody to try with.
    pub(super) fn next_probe(&self) -> Option<Time> {
        let is_empty = self.stranded.is_empty() && self.favourite.is_none();
        (!is_empty).then_some(self.next_probe)
    }

    /// Whose turn it is to try.
    pub(super) fn probe(&mut self, now: Time) -> Option<ObjectKey> {
        if now < self.next_probe {
            return None;
        }
        self.next_probe = now + PROBE_EVERY;
        self.favourite.take().or_else(|| self.stranded.pop_first())
    }

    /// Who waited for the end of it.
    pub(super) fn into_stranded(self) -> impl Iterator<Item = ObjectKey> {
        self.stranded.into_iter().chain(self.favourite)
    }
}
