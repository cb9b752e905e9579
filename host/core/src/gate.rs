//! Read-your-writes: a key does not run again before the snapshot can show what its last run wrote.
//!
//! Without it a controller that created an object runs on a snapshot without that object, and creates another one. client-go leaves this to
//! each controller ("expectations"; KEP-5647 works on it for its own). Here it holds for every plugin.
//!
//! A write is visible once the cache of its informer has reached the write's resourceVersion, by that object's change or by any later
//! one, bookmarks included: an informer's changes arrive in order. A deletion has no version to wait for, so it is visible once
//! the deleted object is gone, replaced, or being deleted. A kind that the plugin does not read is not waited for.
//!
//! The keys of a plugin that is to run one at a time have one gate together: what one of them wrote (the address that it took), the
//! next must see.
//!
//! A watch that is late does not hold a key for ever, and does not make it run blind: after [`PATIENCE`] the host asks for the objects
//! themselves ([`Lookup`](crate::hub::Lookup)). So it does at once after a write that had no answer, which may have been done or not,
//! and after one whose answer does not show the object: an eviction, a binding.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use crate::hub::Question;
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
    /// The object with this uid is gone: nothing keeps it any more.
    End(Box<str>),
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
            Sign::End(uid) => object.is_none_or(|object| object.uid() != &**uid),
            Sign::Unknown => false,
        }
    }

    fn question(&self, snapshot: &Snapshot) -> Question {
        let mut question = Question::of(snapshot, self.informer, self.key.clone());
        if let Sign::Deletion(uid) | Sign::End(uid) = &self.sign {
            question.uid = Some(uid.clone());
        }
        question
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
    Ask(Vec<Question>, GateId, Time),
}

/// Gates by informers.
type Waiting = HashMap<InformerId, HashSet<ObjectKey>>;

/// The keys of one plugin whose last writes may not be visible yet.
///
/// Invariant: a gate with held keys is among those of each informer that it waits for. Gates that nobody asks about are dropped when
/// there have come to be many, not one by one.
#[derive(Debug, Default)]
pub struct Gates {
    /// By the key that has written; of a plugin whose keys share one, by the singleton's.
    closed: HashMap<ObjectKey, Gate>,
    /// The gates with held keys, by the informers that will show what they wait for.
    waiting: Waiting,
    /// Whether all keys share one gate.
    is_shared: bool,
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
    /// The keys that were due and wait for nothing else.
    held: HashSet<ObjectKey>,
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

fn wait(waiting: &mut Waiting, gate: &ObjectKey, awaited: &[Awaited]) {
    for awaited in awaited {
        let of_informer = waiting.entry(awaited.informer).or_default();
        of_informer.insert(gate.clone());
    }
}

/// Fewer gates are not worth sweeping.
const SWEEP_FROM: usize = 1024;

impl Gates {
    /// From now on all keys share one gate, or each has its own.
    pub fn share(&mut self, is_shared: bool) {
        self.is_shared = is_shared;
    }

    /// The gates that a key has to pass: its own, and the one that all share. One of them may be left of another version.
    fn names(key: &ObjectKey) -> [ObjectKey; 2] {
        [key.clone(), ObjectKey::singleton()]
    }

    /// The key has written; it is not to run before that is visible.
    pub fn close(
        &mut self,
        key: &ObjectKey,
        mut awaited: Vec<Awaited>,
        snapshot: &Snapshot,
        now: Time,
    ) {
        let [own, shared] = Self::names(key);
        // What the key wrote before was visible when it ran.
        self.open(&own);
        let name = if self.is_shared { shared } else { own };
        // Behind a shared gate another key may have written meanwhile: more run at a time if the
        // operator says so, or ran when the version came.
        let before = self.closed.get_mut(&name);
        let before = before.map(|gate| std::mem::take(&mut gate.awaited));
        let held = self.open(&name);
        awaited.extend(before.into_iter().flatten());
        awaited.retain(|awaited| !awaited.is_visible(snapshot));
        if awaited.is_empty() {
            return;
        }
        self.last_gate += 1;
        let gate = Gate {
            id: self.last_gate,
            awaited,
            until: now + PATIENCE,
            held,
        };
        if !gate.held.is_empty() {
            wait(&mut self.waiting, &name, &gate.awaited);
        }
        self.closed.insert(name, gate);
        if self.closed.len() > self.sweep_at.max(SWEEP_FROM) {
            self.closed
                .retain(|_, gate| !gate.held.is_empty() || !gate.is_open(snapshot));
            self.sweep_at = self.closed.len() * 2;
        }
    }

    /// Whether the key may run now; if not, it is held.
    pub fn try_pass(&mut self, key: &ObjectKey, snapshot: &Snapshot, now: Time) -> Passage {
        let is_closed = |name: &ObjectKey| {
            let gate = self.closed.get(name);
            gate.is_some_and(|gate| !gate.is_open(snapshot))
        };
        let Some(name) = Self::names(key).into_iter().find(is_closed) else {
            return Passage::Open;
        };
        let Some(gate) = self.closed.get_mut(&name) else {
            return Passage::Open;
        };
        gate.held.insert(key.clone());
        wait(&mut self.waiting, &name, &gate.awaited);
        if !gate.must_ask(now) {
            return Passage::Until(gate.until);
        }
        gate.until = now + PATIENCE;
        let awaited = gate.awaited.iter();
        let hidden = awaited.filter(|awaited| !awaited.is_visible(snapshot));
        let questions = hidden.map(|awaited| awaited.question(snapshot));
        Passage::Ask(questions.collect(), gate.id, gate.until)
    }

    /// An object that a key waits for has been looked up for this gate, and the cache shows what
    /// was found, or it cannot be known: there is nothing more to wait for; or it will be shown
    /// once the cache has come to the version `at`. Returns the held keys that may run now.
    pub fn looked_up(
        &mut self,
        key: &ObjectKey,
        id: GateId,
        question: &Question,
        at: Option<&ResourceVersion>,
        snapshot: &Snapshot,
    ) -> HashSet<ObjectKey> {
        let is_it = |name: &ObjectKey| self.closed.get(name).is_some_and(|gate| gate.id == id);
        let Some(name) = Self::names(key).into_iter().find(is_it) else {
            return HashSet::new();
        };
        let Some(gate) = self.closed.get_mut(&name) else {
            return HashSet::new();
        };
        gate.awaited.retain_mut(|awaited| {
            if (awaited.informer, &awaited.key) != (question.informer, &question.key) {
                return true;
            }
            if let Some(version) = at
                && !matches!(awaited.sign, Sign::Version(_))
            {
                awaited.sign = Sign::Version(version.clone());
            }
            at.is_some()
        });
        match gate.is_open(snapshot) {
            true => self.open(&name),
            false => HashSet::new(),
        }
    }

    /// The held keys that may run now, after a change of this informer's cache.
    pub fn opened(&mut self, informer: InformerId, snapshot: &Snapshot) -> HashSet<ObjectKey> {
        let closed = &self.closed;
        let is_open =
            |name: &&ObjectKey| closed.get(*name).is_none_or(|gate| gate.is_open(snapshot));
        let waiting = self.waiting.get(&informer).into_iter().flatten();
        let opened: Vec<ObjectKey> = waiting.filter(is_open).cloned().collect();
        opened.iter().flat_map(|name| self.open(name)).collect()
    }

    /// Waits no longer for what the informers show that are not to be kept. Returns the held keys that may run now.
    pub fn keep(
        &mut self,
        is_kept: impl Fn(InformerId) -> bool,
        snapshot: &Snapshot,
    ) -> HashSet<ObjectKey> {
        for gate in self.closed.values_mut() {
            gate.awaited.retain(|awaited| is_kept(awaited.informer));
        }
        self.waiting.retain(|informer, _| is_kept(*informer));
        let closed = self.closed.iter();
        let open = closed.filter(|(_, gate)| gate.is_open(snapshot));
        let opened: Vec<ObjectKey> = open.map(|(name, _)| name.clone()).collect();
        opened.iter().flat_map(|name| self.open(name)).collect()
    }

    /// Forgets what a key waits for: it does not run any more.
    pub fn forget(&mut self, key: &ObjectKey) {
        self.open(key);
    }

    fn open(&mut self, name: &ObjectKey) -> HashSet<ObjectKey> {
        let held = self.closed.remove(name).map(|gate| gate.held);
        let held = held.unwrap_or_default();
        if !held.is_empty() {
            for waiting in self.waiting.values_mut() {
                waiting.remove(name);
            }
        }
        held
    }
}
