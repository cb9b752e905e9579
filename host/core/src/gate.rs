//! Read-your-writes: a key does not run again before the snapshot can show what its last run wrote.
//!
//! Without it a controller that created an object runs on a snapshot without that object, and creates another one. client-go leaves this to
//! each controller ("expectations"; KEP-5647 works on it for its own). Here it holds for every plugin.
//!
//! A write is visible once the cache of its kind has reached the write's resourceVersion, by that object's change or by any later
//! one, bookmarks included: a kind's changes arrive in order. A deletion has no version to wait for, so it is visible once
//! the deleted object is gone, replaced, or being deleted. A kind that the plugin does not read is not waited for.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use crate::key::{ObjectKey, ResourceVersion};
use crate::queue::Time;
use crate::snapshot::{KindId, Snapshot};

/// The longest a key waits for its own writes: a watch that is this late is broken, and its key better runs on what there is than
/// not at all. What it then decides carries preconditions.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// What makes a write visible.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Awaited {
    /// The kind's cache has come this far.
    Version(KindId, ResourceVersion),
    /// The object with this uid is gone, or on its way.
    Deletion(KindId, ObjectKey, Box<str>),
}

impl Awaited {
    fn is_visible(&self, snapshot: &Snapshot) -> bool {
        match self {
            Self::Version(kind, version) => snapshot.kinds[*kind].resource_version() >= version,
            Self::Deletion(kind, key, uid) => snapshot.kinds[*kind].get(key).is_none_or(|object| {
                object.header.uid != *uid || object.header.deletion_timestamp.is_some()
            }),
        }
    }
}

/// The keys of one plugin whose last writes may not be visible yet.
///
/// Invariant: every held key has a gate. Gates that nobody asks about are dropped when there have come to be many, not one by one.
#[derive(Debug, Default)]
pub struct Gates {
    closed: HashMap<ObjectKey, Gate>,
    /// Keys that were due and wait for nothing else.
    held: HashSet<ObjectKey>,
    /// At so many gates those whose writes are visible are dropped.
    sweep_at: usize,
}

#[derive(Debug)]
struct Gate {
    awaited: Vec<Awaited>,
    until: Time,
}

impl Gate {
    fn is_open(&self, snapshot: &Snapshot) -> bool {
        self.awaited
            .iter()
            .all(|awaited| awaited.is_visible(snapshot))
    }
}

/// Fewer gates are not worth sweeping.
const SWEEP_FROM: usize = 1024;

impl Gates {
    /// The key has written; it is not to run before that is visible.
    pub fn close(
        &mut self,
        key: &ObjectKey,
        awaited: Vec<Awaited>,
        snapshot: &Snapshot,
        now: Time,
    ) {
        let gate = Gate {
            awaited,
            until: now + PATIENCE,
        };
        if gate.is_open(snapshot) {
            self.closed.remove(key);
            return;
        }
        self.closed.insert(key.clone(), gate);
        if self.closed.len() > self.sweep_at.max(SWEEP_FROM) {
            self.closed
                .retain(|key, gate| self.held.contains(key) || !gate.is_open(snapshot));
            self.sweep_at = self.closed.len() * 2;
        }
    }

    /// Whether the key may run now. If not, until when to hold it at most; [`opened`](Self::opened) names it earlier.
    pub fn try_pass(
        &mut self,
        key: &ObjectKey,
        snapshot: &Snapshot,
        now: Time,
    ) -> Result<(), Time> {
        let Some(gate) = self.closed.get(key) else {
            return Ok(());
        };
        if gate.until > now && !gate.is_open(snapshot) {
            let until = gate.until;
            self.held.insert(key.clone());
            return Err(until);
        }
        self.closed.remove(key);
        self.held.remove(key);
        Ok(())
    }

    /// The held keys that may run now, after a change of the caches.
    pub fn opened(&mut self, snapshot: &Snapshot) -> Vec<ObjectKey> {
        let closed = &self.closed;
        let is_open = |key: &&ObjectKey| closed.get(*key).is_none_or(|gate| gate.is_open(snapshot));
        let opened: Vec<ObjectKey> = self.held.iter().filter(is_open).cloned().collect();
        for key in &opened {
            self.held.remove(key);
            self.closed.remove(key);
        }
        opened
    }
}
