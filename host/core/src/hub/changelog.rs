//! The changes that a running reconcile cannot have seen.

use std::collections::{BTreeMap, VecDeque};

use crate::cache::Change;
use crate::cache::snapshot::InformerId;

/// Maximum number of changes kept. If more arrive during a reconcile, its key simply runs again.
const MAX_CHANGES: usize = 65_536;

/// A change's sequence number, its informer, and the change.
type Entry = (u64, InformerId, Change);

/// Every change since the oldest snapshot that a reconcile or a preparation still uses.
///
/// Invariant: it holds all changes after `forgotten`, in order, and none while nothing is open.
#[derive(Default)]
pub(super) struct Changelog {
    entries: VecDeque<Entry>,
    /// Changes up to this sequence number are no longer kept.
    forgotten: u64,
    /// How many reconciles and preparations use the snapshot with this sequence number.
    open: BTreeMap<u64, usize>,
}

/// What happened since a snapshot.
pub(super) enum Missed<'a> {
    Changes(Box<dyn Iterator<Item = (InformerId, &'a Change)> + 'a>),
    /// More changes than are kept.
    TooMuch,
}

impl Changelog {
    /// Records stored changes; `sequence` is the number of the last one.
    pub fn push(&mut self, sequence: u64, informer: InformerId, changes: Vec<Change>) {
        if self.open.is_empty() {
            self.forgotten = sequence;
            return;
        }
        let first = sequence + 1 - changes.len() as u64;
        let numbered = changes.into_iter().zip(first..);
        self.entries
            .extend(numbered.map(|(change, sequence)| (sequence, informer, change)));
        while self.entries.len() > MAX_CHANGES {
            if let Some((sequence, _, _)) = self.entries.pop_front() {
                self.forgotten = sequence;
            }
        }
    }

    /// A reconcile starts on the snapshot with this number.
    pub fn open(&mut self, sequence: u64) {
        *self.open.entry(sequence).or_default() += 1;
    }

    /// A reconcile on the snapshot with this number has ended. Returns the changes it has missed.
    pub fn close(&mut self, sequence: u64) -> Missed<'_> {
        if let Some(count) = self.open.get_mut(&sequence) {
            *count -= 1;
            if *count == 0 {
                self.open.remove(&sequence);
            }
        }
        if sequence < self.forgotten {
            return Missed::TooMuch;
        }
        let start = self.entries.partition_point(|(at, _, _)| *at <= sequence);
        Missed::Changes(Box::new(
            self.entries
                .range(start..)
                .map(|(_, informer, change)| (*informer, change)),
        ))
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Removes what no running reconcile can miss and returns it: freeing old objects takes a
    /// while.
    pub fn trim(&mut self) -> Vec<Entry> {
        let oldest = self.open.keys().next().copied().unwrap_or(u64::MAX);
        let end = self.entries.partition_point(|(at, _, _)| *at <= oldest);
        let forgotten: Vec<Entry> = self.entries.drain(..end).collect();
        if let Some((sequence, _, _)) = forgotten.last() {
            self.forgotten = *sequence;
        }
        forgotten
    }
}
