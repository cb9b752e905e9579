//! Read-your-writes: a key does not run again before the snapshot can show what its last run wrote.
//!
//! Without it a controller that created an object runs on a snapshot without that object, and creates another one. client-go leaves this to
//! each controller ("expectations"; KEP-5647 works on it for its own). Here it holds for every plugin.
//!
//! A write is visible once the cache of its informer has reached the write's resourceVersion, by that object's change or by any later
//! one, bookmarks included: an informer's changes arrive in order. A deletion has no version to wait for, so it is visible once
//! the deleted object is gone, replaced, or being deleted. A kind that the plugin does not read is not waited for.
//!
//! A watch that is late does not hold a key for ever, and does not make it run blind: after [`PATIENCE`] the host asks for the objects
//! themselves ([`Lookup`](crate::hub::Lookup)). So it does at once after a write that had no answer, which may have been done or not.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use crate::key::{ObjectKey, ResourceVersion};
use crate::queue::Time;
use crate::snapshot::{InformerId, Snapshot};

/// The longest a key waits for a watch to show its own writes, and the time between two attempts to look for them elsewhere.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// A write that a key is not to run before it can see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Awaited {
    /// The informer that will show it.
    pub informer: InformerId,
    /// The object.
    pub key: ObjectKey,
    /// What shows it.
    pub sign: Sign,
}

/// What makes a write visible.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sign {
    /// The informer's cache, or the object in it, has come this far.
    Version(ResourceVersion),
    /// The object with this uid is gone, or on its way.
    Deletion(Box<str>),
    /// Nothing does: the object must be looked up.
    Unknown,
}

impl Awaited {
    fn is_visible(&self, snapshot: &Snapshot) -> bool {
        let cache = &snapshot.informers[self.informer];
        let object = cache.get(self.key.parts());
        match &self.sign {
            Sign::Version(version) => {
                let shows = |have: &ResourceVersion| version == have || version.is_at_most(have);
                shows(cache.resource_version())
                    || object.is_some_and(|object| shows(object.resource_version()))
            }
            Sign::Deletion(uid) => {
                object.is_none_or(|object| object.uid() != &**uid || object.is_being_deleted())
            }
            Sign::Unknown => false,
        }
    }
}

/// Which gate. A key has a new one for each of its runs that wrote something: an answer that was on its way before is none for the next.
pub type GateId = u64;

/// Whether a key may run.
#[derive(Debug, PartialEq, Eq)]
pub enum Passage {
    /// Now.
    Open,
    /// Not before this time, unless [`Gates::opened`] names it earlier.
    Until(Time),
    /// Not before these objects have been looked up, and not before this time either way. The answers are for this gate.
    Ask(Vec<(InformerId, ObjectKey)>, GateId, Time),
}

/// The keys of one plugin whose last writes may not be visible yet.
///
/// Invariant: every held key has a gate, and is held under each informer that its gate waits for. Gates that nobody asks about are
/// dropped when there have come to be many, not one by one.
#[derive(Debug, Default)]
pub struct Gates {
    closed: HashMap<ObjectKey, Gate>,
    /// Keys that were due and wait for nothing else, by the informers that will show what they wait for.
    held: HashMap<InformerId, HashSet<ObjectKey>>,
    last_gate: GateId,
    /// At so many gates those whose writes are visible are dropped.
    sweep_at: usize,
}

#[derive(Debug)]
struct Gate {
    id: GateId,
    /// What is not known to be visible yet.
    awaited: Vec<Awaited>,
    until: Time,
    is_held: bool,
}

impl Gate {
    fn is_open(&self, snapshot: &Snapshot) -> bool {
        self.awaited
            .iter()
            .all(|awaited| awaited.is_visible(snapshot))
    }

    fn must_ask(&self, now: Time) -> bool {
        let is_unknown = |awaited: &Awaited| awaited.sign == Sign::Unknown;
        now >= self.until || self.awaited.iter().any(is_unknown)
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
        self.last_gate += 1;
        let gate = Gate {
            id: self.last_gate,
            awaited,
            until: now + PATIENCE,
            is_held: false,
        };
        self.open(key);
        if gate.is_open(snapshot) {
            return;
        }
        self.closed.insert(key.clone(), gate);
        if self.closed.len() > self.sweep_at.max(SWEEP_FROM) {
            self.closed
                .retain(|_, gate| gate.is_held || !gate.is_open(snapshot));
            self.sweep_at = self.closed.len() * 2;
        }
    }

    /// Whether the key may run now; if not, it is held.
    pub fn try_pass(&mut self, key: &ObjectKey, snapshot: &Snapshot, now: Time) -> Passage {
        let Some(gate) = self.closed.get_mut(key) else {
            return Passage::Open;
        };
        if gate.is_open(snapshot) {
            self.open(key);
            return Passage::Open;
        }
        gate.is_held = true;
        for awaited in &gate.awaited {
            let held = self.held.entry(awaited.informer).or_default();
            held.insert(key.clone());
        }
        if !gate.must_ask(now) {
            return Passage::Until(gate.until);
        }
        gate.until = now + PATIENCE;
        let awaited = gate.awaited.iter();
        let hidden = awaited.filter(|awaited| !awaited.is_visible(snapshot));
        let objects = hidden.map(|awaited| (awaited.informer, awaited.key.clone()));
        Passage::Ask(objects.collect(), gate.id, gate.until)
    }

    /// An object that a key waits for has been looked up for this gate, and the cache shows what was found: there is nothing more to
    /// wait for. Says whether the key may run.
    pub fn looked_up(
        &mut self,
        key: &ObjectKey,
        id: GateId,
        informer: InformerId,
        object: &ObjectKey,
        snapshot: &Snapshot,
    ) -> bool {
        let Some(gate) = self.closed.get_mut(key).filter(|gate| gate.id == id) else {
            return false;
        };
        gate.awaited
            .retain(|awaited| (awaited.informer, &awaited.key) != (informer, object));
        let is_open = gate.is_open(snapshot);
        if is_open {
            self.open(key);
        }
        is_open
    }

    /// The held keys that may run now, after a change of this informer's cache.
    pub fn opened(&mut self, informer: InformerId, snapshot: &Snapshot) -> Vec<ObjectKey> {
        let closed = &self.closed;
        let is_open = |key: &&ObjectKey| closed.get(*key).is_none_or(|gate| gate.is_open(snapshot));
        let held = self.held.get(&informer).into_iter().flatten();
        let opened: Vec<ObjectKey> = held.filter(is_open).cloned().collect();
        opened.iter().for_each(|key| self.open(key));
        opened
    }

    /// Waits no longer for what the informers show that are not to be kept. Says which held keys may run now.
    pub fn keep(&mut self, is_kept: impl Fn(InformerId) -> bool) -> Vec<ObjectKey> {
        for gate in self.closed.values_mut() {
            gate.awaited.retain(|awaited| is_kept(awaited.informer));
        }
        self.held.retain(|informer, _| is_kept(*informer));
        let closed = self.closed.iter();
        let empty = closed.filter(|(_, gate)| gate.awaited.is_empty());
        let opened: Vec<ObjectKey> = empty.map(|(key, _)| key.clone()).collect();
        let held: Vec<ObjectKey> = opened
            .iter()
            .filter(|key| self.closed[*key].is_held)
            .cloned()
            .collect();
        opened.iter().for_each(|key| self.open(key));
        held
    }

    fn open(&mut self, key: &ObjectKey) {
        if self.closed.remove(key).is_some_and(|gate| gate.is_held) {
            for held in self.held.values_mut() {
                held.remove(key);
            }
        }
    }
}
