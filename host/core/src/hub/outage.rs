//! What is done while the cluster cannot be reached: nothing, but for one try a second.

use std::time::Duration;

use crate::queue::Time;

/// The time between two tries.
const PROBE_EVERY: Duration = Duration::from_secs(1);

/// A time in which writes have no answer. It ends with the first answer of any kind.
#[derive(Debug, Default)]
pub(super) struct Outage {
    next_probe: Time,
}

impl Outage {
    /// A try has failed.
    pub(super) fn extend(&mut self, now: Time) {
        self.next_probe = now + PROBE_EVERY;
    }

    /// Until when nothing is to run; none if the next try is due.
    pub(super) fn pause(&self, now: Time) -> Option<Time> {
        (now < self.next_probe).then_some(self.next_probe)
    }

    /// The next try is under way.
    pub(super) fn probe(&mut self, now: Time) {
        self.next_probe = now + PROBE_EVERY;
    }
}
