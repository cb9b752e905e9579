//! The failures of keys: they are counted, delay the key, and break it.

use std::time::Duration;

use super::entry::State;
use super::{BREAK_AFTER, Priority, Time, WorkQueue};
use crate::model::subject_key::SubjectKey;

impl WorkQueue {
    /// Counts a failure of a running key and queues it again after its back-off, or after
    /// `at_least` if that is longer. Returns the delay.
    pub fn fail(
        &mut self,
        key: &SubjectKey,
        at_least: Duration,
        priority: Priority,
        now: Time,
    ) -> Duration {
        let Some(failures) = self.count_failure(key, now) else {
            return Duration::ZERO;
        };
        let delay = self.backoff.delay(failures).max(at_least);
        self.counts.retries += 1;
        self.add_after(key, delay, priority, now);
        delay
    }

    /// Counts a failure of a running key that is not retried by itself.
    pub fn fail_terminally(&mut self, key: &SubjectKey, now: Time) {
        self.count_failure(key, now);
    }

    /// Resets a key's failures.
    pub fn forget(&mut self, key: &SubjectKey) {
        if let Some(entry) = self.entries.get_mut(key) {
            let before = std::mem::take(&mut entry.failures);
            self.recount(key, before, 0);
        }
    }

    /// The broken keys in order, with their failures and the time of their next try, if there is
    /// one.
    pub fn broken(&self) -> impl ExactSizeIterator<Item = (&SubjectKey, u32, Option<Time>)> {
        self.broken.iter().map(|key| {
            let entry = self.entries.get(key);
            let due = match entry.map(|entry| &entry.state) {
                Some(&State::Delayed { due: (due, _), .. }) => Some(due),
                _ => None,
            };
            (key, entry.map_or(0, |entry| entry.failures), due)
        })
    }

    /// What made keys fail may be repaired now: broken keys run as soon as they are added.
    pub fn end_cool_downs(&mut self) {
        for entry in self.entries.values_mut() {
            entry.failed_at = None;
        }
    }

    /// The keys whose last reconcile failed. Linear in the number of remembered keys.
    pub fn failed(&self) -> impl Iterator<Item = &SubjectKey> {
        let failed = self.entries.iter();
        failed
            .filter(|(_, entry)| entry.failures > 0)
            .map(|(key, _)| key)
    }

    /// Whether a key's last reconcile failed.
    pub fn is_failing(&self, key: &SubjectKey) -> bool {
        let entry = self.entries.get(key);
        entry.is_some_and(|entry| entry.failures > 0)
    }

    /// Whether a key is broken.
    pub fn is_broken(&self, key: &SubjectKey) -> bool {
        self.broken.contains(key)
    }

    /// How many keys' last reconcile failed.
    pub fn failing(&self) -> usize {
        self.failing
    }

    /// Counts a failure. Returns the failures in a row; `None` if the key is unknown.
    pub(super) fn count_failure(&mut self, key: &SubjectKey, now: Time) -> Option<u32> {
        let entry = self.entries.get_mut(key)?;
        let before = entry.failures;
        let failures = before.saturating_add(1);
        entry.failures = failures;
        entry.failed_at = Some(now);
        self.recount(key, before, failures);
        Some(failures)
    }

    /// Updates the counters for a key whose number of failures changes from `before` to `now`.
    pub(super) fn recount(&mut self, key: &SubjectKey, before: u32, now: u32) {
        self.failing += usize::from(now > 0);
        self.failing -= usize::from(before > 0);
        match (before >= BREAK_AFTER, now >= BREAK_AFTER) {
            (false, true) => drop(self.broken.insert(key.clone())),
            (true, false) => drop(self.broken.remove(key)),
            _ => {}
        }
    }
}
