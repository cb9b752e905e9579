//! Read-your-writes: a key does not run again before its snapshot shows what its last reconcile
//! wrote.
//!
//! Without this, a controller that has created an object could run on a snapshot without that
//! object and create another one. client-go leaves this to each controller ("expectations";
//! KEP-5647 brings it to its own controllers). Here it holds for every plugin.
//!
//! A write is visible once the cache of its informer has reached the write's resourceVersion,
//! through that object's change or any later one, bookmarks included: an informer's changes arrive
//! in order. A deletion has no version to wait for. It is visible once the deleted object is gone,
//! has been replaced, or is being deleted. Writes to a kind that the plugin does not read are not
//! waited for.
//!
//! If a plugin runs one key at a time, all its keys share one gate: what one of them wrote (such as
//! an address it allocated) must be visible to the next one.
//!
//! A late watch does not hold a key for ever, and does not make it run blindly: after [`PATIENCE`]
//! the host fetches the objects themselves ([`Fetch`](crate::hub::Fetch)). It does so at once
//! after a write that had no answer, which may or may not have been done, and after a write whose
//! answer does not show the object, such as an eviction or a binding.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use crate::cache::snapshot::{InformerId, Snapshot};
use crate::hub::Question;
use crate::model::key::{ObjectKey, ResourceVersion};
use crate::model::subject_key::SubjectKey;
use crate::queue::Time;

/// The longest time a key waits for a watch to show its own writes, and the time between two
/// attempts to fetch them.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// A write that must be visible before a key runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Awaited {
    /// The informer that will show it.
    pub informer: InformerId,
    /// The object.
    pub key: ObjectKey,
    /// How it becomes visible.
    pub sign: Sign,
}

/// What makes a write visible.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sign {
    /// The informer's cache, or the object in it, has reached this version.
    Version(ResourceVersion),
    /// The object with this uid is gone or being deleted.
    Deletion(Box<str>),
    /// The object with this uid is gone: nothing keeps it any more.
    End(Box<str>),
    /// Nothing makes it visible: the object must be fetched.
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

    /// Whether the object that was written has gone again without a change that shows it: a list
    /// passes over what was created and deleted before it.
    pub fn has_gone_unseen(&self, snapshot: &Snapshot) -> bool {
        let cache = &snapshot.informers[self.informer];
        matches!(self.sign, Sign::Version(_))
            && !cache.informer_key().is_narrowed()
            && cache.get(self.key.parts()).is_none()
            && self.is_visible(snapshot)
    }

    fn question(&self, snapshot: &Snapshot) -> Question {
        let mut question = Question::of(snapshot, self.informer, self.key.clone());
        if let Sign::Deletion(uid) | Sign::End(uid) = &self.sign {
            question.uid = Some(uid.clone());
        }
        question
    }
}

/// Identifies a gate. A key gets a new one for each reconcile that wrote something, so that the
/// answer to an earlier fetch is not taken for the next gate's.
pub type GateId = u64;

/// The result of trying to pass a gate.
#[derive(Debug, PartialEq, Eq)]
pub enum Passage {
    /// The key may run now.
    Open,
    /// The key waits and tries again at this time, unless [`Gates::opened`] returns it earlier.
    Until(Time),
    /// These objects must be fetched first; the answers are for this gate. Without answers, the key
    /// tries again at this time.
    Ask(Vec<Question>, GateId, Time),
}

/// Keys of gates, by informer.
type Waiting = HashMap<InformerId, HashSet<SubjectKey>>;

/// The keys of one plugin whose last writes may not be visible yet.
///
/// Invariant: a gate with held keys is in `waiting` under each informer that it waits for. Gates
/// that no key asks for are not dropped one by one, but all at once when there are many.
#[derive(Debug, Default)]
pub struct Gates {
    /// The gates by the key that has written, or by the singleton's key if all keys share one.
    closed: HashMap<SubjectKey, Gate>,
    /// The gates with held keys, by the informers that will show their writes.
    waiting: Waiting,
    /// Whether all keys share one gate.
    is_shared: bool,
    last_gate: GateId,
    /// At this number of gates, those whose writes are visible are dropped.
    sweep_at: usize,
}

#[derive(Debug)]
struct Gate {
    id: GateId,
    /// The writes that may not be visible yet.
    awaited: Vec<Awaited>,
    until: Time,
    /// The keys that are due and wait only for this gate.
    held: HashSet<SubjectKey>,
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

fn wait(waiting: &mut Waiting, gate: &SubjectKey, awaited: &[Awaited]) {
    for awaited in awaited {
        let of_informer = waiting.entry(awaited.informer).or_default();
        of_informer.insert(gate.clone());
    }
}

/// Below this number of gates nothing is dropped.
const SWEEP_FROM: usize = 1024;

impl Gates {
    /// From now on all keys share one gate, or each key has its own.
    pub fn share(&mut self, is_shared: bool) {
        self.is_shared = is_shared;
    }

    /// The gates that a key has to pass: its own and the shared one. One of them may stem from an
    /// earlier version of the plugin.
    fn names(key: &SubjectKey) -> [SubjectKey; 2] {
        [key.clone(), SubjectKey::singleton()]
    }

    /// The key has written and must not run before this is visible.
    pub fn close(
        &mut self,
        key: &SubjectKey,
        mut awaited: Vec<Awaited>,
        snapshot: &Snapshot,
        now: Time,
    ) {
        let [own, shared] = Self::names(key);
        // The key could only run because its earlier writes were visible.
        self.open(&own);
        let name = if self.is_shared { shared } else { own };
        // Behind a shared gate another key may have written meanwhile: the operator may let more
        // than one run at a time, or several were running when the version was installed.
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

    /// Whether the key may run now. If not, it is held.
    pub fn try_pass(&mut self, key: &SubjectKey, snapshot: &Snapshot, now: Time) -> Passage {
        let is_closed = |name: &SubjectKey| {
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

    /// An object that a key waits for has been fetched for this gate. Without `at`, there is
    /// nothing more to wait for: the cache shows what was found, or it cannot be known. With `at`,
    /// the cache will show it once it has reached that version. Returns the held keys that may run
    /// now.
    pub fn fetch_ended(
        &mut self,
        key: &SubjectKey,
        id: GateId,
        question: &Question,
        at: Option<&ResourceVersion>,
        snapshot: &Snapshot,
    ) -> HashSet<SubjectKey> {
        let is_it = |name: &SubjectKey| self.closed.get(name).is_some_and(|gate| gate.id == id);
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
            // Without a version there is nothing more to wait for.
            at.is_some()
        });
        match gate.is_open(snapshot) {
            true => self.open(&name),
            false => HashSet::new(),
        }
    }

    /// The held keys that may run now, after a change of this informer's cache.
    pub fn opened(&mut self, informer: InformerId, snapshot: &Snapshot) -> HashSet<SubjectKey> {
        let closed = &self.closed;
        let is_open =
            |name: &&SubjectKey| closed.get(*name).is_none_or(|gate| gate.is_open(snapshot));
        let waiting = self.waiting.get(&informer).into_iter().flatten();
        let opened: Vec<SubjectKey> = waiting.filter(is_open).cloned().collect();
        opened.iter().flat_map(|name| self.open(name)).collect()
    }

    /// Stops waiting for writes that only informers which are not kept would show. Returns the held
    /// keys that may run now.
    pub fn keep(
        &mut self,
        is_kept: impl Fn(InformerId) -> bool,
        snapshot: &Snapshot,
    ) -> HashSet<SubjectKey> {
        for gate in self.closed.values_mut() {
            gate.awaited.retain(|awaited| is_kept(awaited.informer));
        }
        self.waiting.retain(|informer, _| is_kept(*informer));
        let closed = self.closed.iter();
        let open = closed.filter(|(_, gate)| gate.is_open(snapshot));
        let opened: Vec<SubjectKey> = open.map(|(name, _)| name.clone()).collect();
        opened.iter().flat_map(|name| self.open(name)).collect()
    }

    /// Forgets all keys but these.
    pub fn retain(&mut self, is_kept: impl Fn(&SubjectKey) -> bool) {
        let is_shared = self.is_shared;
        let is_of_kept =
            |name: &SubjectKey| is_kept(name) || (is_shared && *name == SubjectKey::singleton());
        let names: Vec<SubjectKey> = self.closed.keys().cloned().collect();
        for name in names {
            if !is_of_kept(&name) {
                self.open(&name);
            } else if let Some(gate) = self.closed.get_mut(&name) {
                gate.held.retain(&is_kept);
                if gate.held.is_empty() {
                    for waiting in self.waiting.values_mut() {
                        waiting.remove(&name);
                    }
                }
            }
        }
    }

    /// Forgets all keys, and what was written.
    pub fn clear(&mut self) {
        *self = Self {
            is_shared: self.is_shared,
            last_gate: self.last_gate,
            ..Self::default()
        };
    }

    /// Forgets what a key waits for, because it does not run any more.
    pub fn forget(&mut self, key: &SubjectKey) {
        self.open(key);
    }

    fn open(&mut self, name: &SubjectKey) -> HashSet<SubjectKey> {
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
