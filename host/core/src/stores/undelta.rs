//! A store for who wants everything each time, and no changes.

use std::borrow::Borrow;
use std::collections::BTreeMap;

/// Says all that is in it after every write, and nothing after reads (client-go's `UndeltaStore`: `TestUpdateCallsPush`,
/// `TestDeleteCallsPush`, `TestReplaceCallsPush`, `TestReadsDoNotCallPush`). For those to whom the order of changes means nothing: a
/// configuration file that is written anew, a list of peers.
#[derive(Debug)]
pub struct Undelta<K, V, P> {
    entries: BTreeMap<K, V>,
    push: P,
}

impl<K: Ord, V, P: FnMut(&BTreeMap<K, V>)> Undelta<K, V, P> {
    /// An empty store. `push` gets everything after each write; nothing yet.
    pub fn new(push: P) -> Self {
        Self {
            entries: BTreeMap::new(),
            push,
        }
    }

    /// Stores a value, and returns the one that was there.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        let old = self.entries.insert(key, value);
        (self.push)(&self.entries);
        old
    }

    /// Removes a value. Pushes also if there was none, as client-go does: who is told of each write can count them.
    pub fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let old = self.entries.remove(key);
        (self.push)(&self.entries);
        old
    }

    /// These, and only these, are the entries from now on. Pushes once.
    pub fn replace(&mut self, entries: impl IntoIterator<Item = (K, V)>) {
        self.entries = entries.into_iter().collect();
        (self.push)(&self.entries);
    }

    /// What is in it, ordered by key.
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
