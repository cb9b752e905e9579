//! What the queue tells about itself.

use std::collections::BTreeMap;
use std::time::Duration;

use super::entry::State;
use super::{Counts, Priority, Time, WorkQueue};
use crate::model::subject_key::SubjectKey;

impl WorkQueue {
    /// Whether the queue only finishes what it has.
    pub fn is_draining(&self) -> bool {
        self.is_draining
    }

    /// Whether no key is pending, held or running. client-go's `ShutDownWithDrain` only waits for
    /// running keys.
    pub fn is_empty(&self) -> bool {
        self.pending.is_empty() && self.running.is_empty() && self.held == 0
    }

    /// How many keys are pending. As in client-go's `Len`, delayed and running keys are not
    /// counted.
    pub fn pending(&self) -> usize {
        self.pending.len()
    }

    /// Whether a key is pending.
    pub fn is_pending(&self, key: &SubjectKey) -> bool {
        let state = self.entries.get(key).map(|entry| &entry.state);
        matches!(state, Some(State::Pending { .. }))
    }

    /// Whether a key that does not run is to run, now or later.
    pub fn is_queued(&self, key: &SubjectKey) -> bool {
        let state = self.entries.get(key).map(|entry| &entry.state);
        state.is_some_and(|state| !matches!(state, State::Idle | State::Running { .. }))
    }

    /// How many keys run.
    pub fn running(&self) -> usize {
        self.running.len()
    }

    /// How long each running key has been running.
    pub fn running_for(&self, now: Time) -> impl Iterator<Item = Duration> {
        let running = self.running.iter();
        running.map(move |(_, since)| now.saturating_sub(*since))
    }

    /// How many keys are pending with each priority.
    pub fn depth(&self) -> &BTreeMap<Priority, usize> {
        &self.depth
    }

    /// How many keys wait for their time, including held ones.
    pub fn delayed(&self) -> usize {
        self.delayed.len()
    }

    /// Counters for metrics.
    pub fn counts(&self) -> Counts {
        self.counts
    }
}
