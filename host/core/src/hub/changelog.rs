//! The changes that a running reconcile cannot have seen.

use std::collections::{BTreeMap, VecDeque};

use crate::cache::Change;
use crate::snapshot::InformerId;

/// Most changes remembered. A reconcile that runs while more than this happens is simply run again.
const MAX_CHANGES: usize = 65_536;

/// A change, its number, and whose it is.
type Entry = (u64, InformerId, Change);

/// Every change since the oldest snapshot that a reconcile still runs on.
///
/// Invariant: it holds all changes after `forgotten`, in order, and none when nothing runs.
#[derive(Default)]
pub(super) struct Changelog {
    entries: VecDeque<Entry>,
    /// The sequence number up to which changes are not remembered.
    forgotten: u64,
    /// How many reconciles run on the snapshot with this sequence number.
    open: BTreeMap<u64, usize>,
}

/// What happened since a snapshot.
pub(super) enum Missed<'a> {
    Changes(Box<dyn Iterator<Item = (InformerId, &'a Change)> + 'a>),
    /// More than is remembered.
    TooMuch,
}

impl Changelog {
    /// Changes were stored; `sequence` is the number of the last.
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

    /// A reconcile on the snapshot with this number has ended. What did it miss?
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

    /// Forgets what no running reconcile can miss, and hands it out: freeing old objects takes a while.
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
