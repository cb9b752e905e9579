//! A store whose entries expire a fixed time after they were stored.

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::queue::Time;

/// Entries that expire. Nothing runs in the background: the next access, reads included, drops what
/// has expired (client-go's `ExpirationCache`: `TestTTLExpirationBasic`, `TestTTLList`). Storing a
/// value again restarts its time (`TestReAddExpiredItem`).
///
/// Invariant: `order` has one pair for each entry: the time when it expires, and its key.
#[derive(Clone, Debug)]
pub struct Expiring<K, V> {
    time_to_live: Duration,
    entries: BTreeMap<K, (Time, V)>,
    order: BTreeSet<(Time, K)>,
}

impl<K: Ord + Clone, V> Expiring<K, V> {
    /// Creates an empty store whose entries expire this long after they were stored.
    pub fn new(time_to_live: Duration) -> Self {
        Self {
            time_to_live,
            entries: BTreeMap::new(),
            order: BTreeSet::new(),
        }
    }

    /// Stores a value and returns the value it replaces, if there was one.
    pub fn insert(&mut self, key: K, value: V, now: Time) -> Option<V> {
        self.expire(now);
        let until = now.saturating_add(self.time_to_live);
        let old = self.entries.insert(key.clone(), (until, value));
        let old = old.map(|(until, value)| {
            self.order.remove(&(until, key.clone()));
            value
        });
        self.order.insert((until, key));
        old
    }

    /// The value, unless it has expired.
    pub fn get<Q: Ord + ?Sized>(&mut self, key: &Q, now: Time) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.expire(now);
        self.entries.get(key).map(|(_, value)| value)
    }

    /// Removes a value before it expires.
    pub fn remove<Q: Ord + ?Sized>(&mut self, key: &Q, now: Time) -> Option<V>
    where
        K: Borrow<Q>,
    {
        self.expire(now);
        let (key, (until, value)) = self.entries.remove_entry(key)?;
        self.order.remove(&(until, key));
        Some(value)
    }

    /// The entries that have not expired, ordered by key.
    pub fn iter(&mut self, now: Time) -> impl Iterator<Item = (&K, &V)> {
        self.expire(now);
        self.entries.iter().map(|(key, (_, value))| (key, value))
    }

    /// Replaces all entries with these.
    pub fn replace(&mut self, entries: impl IntoIterator<Item = (K, V)>, now: Time) {
        self.entries.clear();
        self.order.clear();
        for (key, value) in entries {
            self.insert(key, value, now);
        }
    }

    /// Drops the expired entries. An entry that expires at exactly `now` is dropped.
    fn expire(&mut self, now: Time) {
        while let Some((until, _)) = self.order.first()
            && *until <= now
        {
            if let Some((_, key)) = self.order.pop_first() {
                self.entries.remove(&key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_secs(10);

    fn at(seconds: u64) -> Time {
        Duration::from_secs(seconds)
    }

    #[test]
    fn an_entry_is_there_until_its_time() {
        let mut store = Expiring::new(TTL);
        store.insert("a", 1, at(0));
        assert_eq!(store.get("a", at(9)), Some(&1));
        assert_eq!(store.get("a", at(10)), None);
        assert_eq!(
            store.insert("a", 2, at(11)),
            None,
            "the old value is gone for good"
        );
    }

    #[test]
    fn an_entry_that_is_stored_again_starts_anew() {
        let mut store = Expiring::new(TTL);
        store.insert("a", 1, at(0));
        assert_eq!(store.insert("a", 2, at(8)), Some(1));
        assert_eq!(store.get("a", at(12)), Some(&2));
        assert_eq!(store.get("a", at(18)), None);
    }

    #[test]
    fn a_list_has_only_what_is_there_still() {
        let mut store = Expiring::new(TTL);
        store.insert("b", 1, at(0));
        store.insert("a", 2, at(5));
        store.insert("c", 3, at(5));
        assert_eq!(store.remove("c", at(6)), Some(3));
        assert_eq!(store.iter(at(10)).collect::<Vec<_>>(), [(&"a", &2)]);
        assert!(store.order.len() == store.entries.len());
    }

    #[test]
    fn a_replacement_is_all_there_is() {
        let mut store = Expiring::new(TTL);
        store.insert("a", 1, at(0));
        store.replace([("b", 2)], at(5));
        assert_eq!(store.iter(at(12)).collect::<Vec<_>>(), [(&"b", &2)]);
        assert_eq!(store.iter(at(15)).count(), 0);
    }
}
