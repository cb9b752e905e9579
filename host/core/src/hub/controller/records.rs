//! What is remembered of each key, besides its place in the queue and what it has read.

use std::collections::HashMap;
use std::time::Duration;

use crate::model::key::ObjectKey;
use crate::model::outcome::{ActionResult, shorten};
use crate::queue::backoff::Backoff;

/// Maximum memory of the results of one plugin in bytes. A plugin can ask for a hundred Events for
/// each key that all are refused, and their results would take several times the memory of the
/// objects.
const MAX_RESULT_BYTES: usize = if cfg!(test) { 64 << 10 } else { 64 << 20 };

/// Minimum delay for a key that keeps asking for a short requeue. Any outside change wakes it
/// anyway, so it can only be waiting for time to pass.
pub(super) const REQUEUE_STREAK: Backoff = Backoff {
    base: Duration::from_millis(5),
    max: Duration::from_secs(1),
};

/// What is remembered of one key. Most keys have nothing to remember, and no record.
#[derive(Debug, Default)]
struct KeyRecord {
    /// How many times in a row the key's writes could not reach the cluster. A whole outage counts
    /// once.
    unreachable_streak: u32,
    /// How many times in a row the key has asked for a short requeue.
    requeue_streak: u32,
    /// The last error, if the key is broken.
    error: Option<Box<str>>,
    results: Box<[ActionResult]>,
}

impl KeyRecord {
    fn is_empty(&self) -> bool {
        self.unreachable_streak == 0
            && self.requeue_streak == 0
            && self.error.is_none()
            && self.results.is_empty()
    }
}

/// The records of one plugin's keys. Invariant: none of them is empty, and `result_bytes` is the
/// size of all their results.
#[derive(Debug, Default)]
pub(super) struct KeyRecords {
    of: HashMap<ObjectKey, KeyRecord>,
    result_bytes: usize,
}

impl KeyRecords {
    fn get(&self, key: &ObjectKey) -> Option<&KeyRecord> {
        self.of.get(key)
    }

    /// Changes the record of a key.
    fn change<T>(&mut self, key: &ObjectKey, change: impl FnOnce(&mut KeyRecord) -> T) -> T {
        if let Some(record) = self.of.get_mut(key) {
            let changed = change(record);
            if record.is_empty() {
                self.of.remove(key);
            }
            return changed;
        }
        let mut record = KeyRecord::default();
        let changed = change(&mut record);
        if !record.is_empty() {
            self.of.insert(key.clone(), record);
        }
        changed
    }

    /// How many times in a row the key's writes could not reach the cluster.
    pub fn unreachable_streak(&self, key: &ObjectKey) -> u32 {
        self.get(key).map_or(0, |record| record.unreachable_streak)
    }

    /// The key's writes could not reach the cluster. Returns how many times in a row that is.
    /// During an outage further failures tell nothing more about the key.
    pub fn count_unreachable(&mut self, key: &ObjectKey, is_outage: bool) -> u32 {
        self.change(key, |record| {
            if record.unreachable_streak == 0 || !is_outage {
                record.unreachable_streak += 1;
            }
            record.unreachable_streak
        })
    }

    /// A reconcile of the key has ended without having failed to reach the cluster.
    pub fn end_unreachable(&mut self, key: &ObjectKey) {
        self.change(key, |record| record.unreachable_streak = 0);
    }

    /// The key asks for a requeue after this delay. Returns after which delay it gets one.
    pub fn requeue(&mut self, key: &ObjectKey, delay: Duration) -> Duration {
        if delay >= REQUEUE_STREAK.max {
            self.end_requeues(key);
            return delay;
        }
        let streak = self.change(key, |record| {
            record.requeue_streak = record.requeue_streak.saturating_add(1);
            record.requeue_streak
        });
        delay.max(REQUEUE_STREAK.delay(streak))
    }

    /// The key has asked for no requeue.
    pub fn end_requeues(&mut self, key: &ObjectKey) {
        self.change(key, |record| record.requeue_streak = 0);
    }

    /// Sets the last error of a key that is broken, or removes it.
    pub fn set_error(&mut self, key: &ObjectKey, error: Option<String>) {
        self.change(key, |record| record.error = error.map(String::into));
    }

    /// The last error of a broken key. Empty if the key is not broken.
    pub fn error(&self, key: &ObjectKey) -> &str {
        let record = self.get(key);
        let error = record.and_then(|record| record.error.as_deref());
        error.unwrap_or_default()
    }

    /// The results of the actions of the key's last outcome, which its next reconcile is given.
    /// Empty also if there was no room to keep them.
    pub fn results(&self, key: &ObjectKey) -> &[ActionResult] {
        self.get(key).map_or(&[], |record| &record.results)
    }

    /// Replaces the key's results, with their texts shortened.
    pub fn set_results(&mut self, key: &ObjectKey, mut results: Vec<ActionResult>) {
        shorten(&mut results);
        let others = self.result_bytes - size(self.results(key));
        let bytes = others + size(&results);
        if bytes > MAX_RESULT_BYTES {
            results.clear();
        }
        self.result_bytes = others + size(&results);
        self.change(key, |record| record.results = results.into());
    }

    /// Forgets that writes could not reach the cluster. Returns the keys whose writes could not.
    pub fn forget_unreachable(&mut self) -> Vec<ObjectKey> {
        let records = self.of.iter();
        let unreachable = records.filter(|(_, record)| record.unreachable_streak > 0);
        let keys: Vec<ObjectKey> = unreachable.map(|(key, _)| key.clone()).collect();
        keys.iter().for_each(|key| self.end_unreachable(key));
        keys
    }

    pub fn forget(&mut self, key: &ObjectKey) {
        if let Some(record) = self.of.remove(key) {
            self.result_bytes -= size(&record.results);
        }
    }
}

/// Bytes that the results of one key take.
fn size(results: &[ActionResult]) -> usize {
    let texts = results.iter().filter_map(ActionResult::text);
    size_of_val(results) + texts.map(str::len).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: usize) -> ObjectKey {
        ObjectKey::new("default", &number.to_string())
    }

    #[test]
    fn results_beyond_the_limit_are_not_kept_until_others_go() {
        let mut all = KeyRecords::default();
        let refused = || vec![ActionResult::Forbidden("x".repeat(100)); 100];
        for number in 0..100 {
            all.set_results(&key(number), refused());
        }
        assert_eq!(all.results(&key(0)).len(), 100);
        assert!(all.results(&key(99)).is_empty());
        assert!(all.result_bytes <= MAX_RESULT_BYTES);
        (0..100).for_each(|number| all.forget(&key(number)));
        assert_eq!(all.result_bytes, 0);
        all.set_results(&key(99), refused());
        assert_eq!(all.results(&key(99)).len(), 100);
        let done = ActionResult::Done(Some("name".into()));
        all.set_results(&key(99), vec![done.clone()]);
        assert_eq!(all.results(&key(99)), [done]);
        all.set_results(&key(99), vec![]);
        assert_eq!((all.result_bytes, all.of.len()), (0, 0));
    }

    #[test]
    fn a_key_with_nothing_to_remember_has_no_record() {
        let mut all = KeyRecords::default();
        all.change(&key(0), |record| record.requeue_streak = 0);
        assert!(all.get(&key(0)).is_none());
        all.change(&key(0), |record| record.unreachable_streak = 2);
        all.change(&key(1), |record| record.error = Some("e".into()));
        assert_eq!(all.forget_unreachable(), [key(0)]);
        assert!(all.get(&key(0)).is_none() && all.get(&key(1)).is_some());
        all.change(&key(1), |record| record.error = None);
        assert!(all.get(&key(1)).is_none());
    }
}
