//! A store for consumers that want the whole content each time, not the changes.

use std::borrow::Borrow;
use std::collections::BTreeMap;

/// Passes its whole content to a callback after every write, and never after a read (client-go's
/// `UndeltaStore`: `TestUpdateCallsPush`, `TestDeleteCallsPush`, `TestReplaceCallsPush`,
/// `TestReadsDoNotCallPush`). It is for consumers to which the order of changes means nothing, such
/// as a configuration file that is written anew, or a list of peers.
#[derive(Debug)]
pub struct Undelta<K, V, P> {
    entries: BTreeMap<K, V>,
    push: P,
}

impl<K: Ord, V, P: FnMut(&BTreeMap<K, V>)> Undelta<K, V, P> {
    /// Creates an empty store. `push` gets the whole content after each write. It is not called
    /// now.
    pub fn new(push: P) -> Self {
        Self {
            entries: BTreeMap::new(),
            push,
        }
    }

    /// Stores a value and returns the value it replaces, if there was one.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        let old = self.entries.insert(key, value);
        (self.push)(&self.entries);
        old
    }

    /// Removes a value. Pushes also if there was no such value, as client-go does, so that the
    /// consumer can count the writes.
    pub fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let old = self.entries.remove(key);
        (self.push)(&self.entries);
        old
    }

    /// Replaces all entries with these. Pushes once.
    pub fn replace(&mut self, entries: impl IntoIterator<Item = (K, V)>) {
        self.entries = entries.into_iter().collect();
        (self.push)(&self.entries);
    }

    /// All entries, ordered by key.
    pub fn entries(&self) -> &BTreeMap<K, V> {
        &self.entries
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_write_pushes_everything_and_no_read_does() {
        let mut pushed: Vec<Vec<(char, u8)>> = Vec::new();
        let mut store = Undelta::new(|all: &BTreeMap<char, u8>| {
            pushed.push(all.iter().map(|(key, value)| (*key, *value)).collect());
        });
        store.insert('a', 1);
        store.insert('b', 2);
        assert_eq!(store.insert('a', 3), Some(1));
        assert_eq!(store.entries().get(&'b'), Some(&2));
        assert_eq!(store.remove(&'b'), Some(2));
        store.remove(&'x');
        store.replace([('c', 4), ('d', 5)]);
        assert_eq!(
            pushed,
            [
                vec![('a', 1)],
                vec![('a', 1), ('b', 2)],
                vec![('a', 3), ('b', 2)],
                vec![('a', 3)],
                vec![('a', 3)],
                vec![('c', 4), ('d', 5)],
            ]
        );
    }
}
