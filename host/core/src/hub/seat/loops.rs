//! Keys that are woken by their own writes, again and again.
//!
//! A controller that writes the time into a status never comes to rest: each write is a change, which runs the key, which writes. The host
//! sees what wakes a key and what it wrote, so it can tell. A run is *self-triggered* if every change that queued its key is one that the
//! key's last run wrote. One of these after a write is usual, and finds nothing to do. A key of which so many in a row
//! ([`SLOW_AFTER`]) write the same object once more loops: it is slowed down as one that asks to be run again soon, and named. A change
//! by somebody else runs it at once, as ever.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use serde_json::Value;

use super::running::HURRY;
use crate::cache::Change;
use crate::key::{ObjectKey, ResourceVersion};
use crate::queue::Time;
use crate::snapshot::InformerId;

/// After so many self-triggered runs in a row that wrote the same object, a key is slowed down.
pub const SLOW_AFTER: u32 = 10;

/// Most changes told apart that queue a key while it runs, when it is not known yet which are its
/// own.
const MAX_CAUSES: usize = 1024;

/// A state of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct State {
    pub informer: InformerId,
    pub key: ObjectKey,
    pub version: ResourceVersion,
}

impl State {
    fn is_same_object(&self, other: &Self) -> bool {
        (self.informer, &self.key) == (other.informer, &other.key)
    }
}

/// See the module's documentation. Only of keys that run, or whose last run wrote something: anything else that queues a key is not its own.
#[derive(Debug, Default)]
pub(super) struct Loops {
    keys: HashMap<ObjectKey, Cycle>,
    /// Those of them that loop. Whoever asks walks no others.
    looping: BTreeSet<ObjectKey>,
}

#[derive(Debug, Default)]
struct Cycle {
    /// The changes that have queued the key since it was handed out last. While it runs it is not
    /// known yet whether they are its own: a watch can be faster than the answer to the write.
    /// After that all of them are.
    causes: Vec<State>,
    is_running: bool,
    /// Something that is not its own has queued it.
    is_foreign: bool,
    /// What its last run wrote.
    wrote: Vec<State>,
    /// What triggered the run that is under way, if that is self-triggered.
    trigger: Vec<State>,
    /// Self-triggered runs in a row that wrote what had triggered them.
    runs: u32,
    /// Until when it waits, once it is known that it has to.
    until: Option<Time>,
    /// The first field in which its last write differed from the state before.
    field: String,
}

impl Cycle {
    fn is_self_triggered(&self) -> bool {
        !self.is_foreign && !self.causes.is_empty()
    }

    /// Something that is not its own has queued the key: nothing else matters.
    fn is_caused_otherwise(&mut self) {
        self.is_foreign = true;
        self.causes = Vec::new();
    }
}

/// A key that its own writes keep running.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoopingKey {
    /// Which.
    pub key: ObjectKey,
    /// How many runs in a row nothing but its own writes has triggered.
    pub runs: u32,
    /// The field that changes, as a JSON Pointer into the object that it writes; empty if that is not known.
    pub field: String,
}

impl Loops {
    /// A change queues a key.
    pub fn caused(&mut self, key: &ObjectKey, informer: InformerId, change: &Change) {
        let Some(cycle) = self.keys.get_mut(key) else {
            return;
        };
        let state = change.new.as_ref().map(|new| State {
            informer,
            key: new.key().to_key(),
            version: new.resource_version().clone(),
        });
        let may_be_own = |state: &State| match cycle.is_running {
            true => cycle.causes.len() < MAX_CAUSES,
            false => cycle.wrote.contains(state),
        };
        let Some(state) = state.filter(|state| !cycle.is_foreign && may_be_own(state)) else {
            return cycle.is_caused_otherwise();
        };
        if cycle.causes.contains(&state) {
            return;
        }
        if cycle.runs + 1 >= SLOW_AFTER {
            cycle.field = first_difference(change).unwrap_or_default();
        }
        cycle.causes.push(state);
    }

    /// Something else queues a key.
    pub fn caused_otherwise(&mut self, key: &ObjectKey) {
        if let Some(cycle) = self.keys.get_mut(key) {
            cycle.is_caused_otherwise();
        }
    }

    /// How long a key that is due has to wait. The next of its writes to be shown does not make it
    /// longer, nor shorter.
    pub fn wait(&mut self, key: &ObjectKey, now: Time) -> Option<Duration> {
        let cycle = self.keys.get_mut(key)?;
        if cycle.runs < SLOW_AFTER || !cycle.is_self_triggered() {
            return None;
        }
        let delay = HURRY.delay(cycle.runs - SLOW_AFTER + 1);
        let until = *cycle.until.get_or_insert(now + delay);
        (now < until).then(|| until - now)
    }

    /// A key is handed out. Says whether the run is self-triggered.
    pub fn begin(&mut self, key: &ObjectKey) -> bool {
        let cycle = self.keys.entry(key.clone()).or_default();
        let is_self_triggered = cycle.is_self_triggered();
        let causes = std::mem::take(&mut cycle.causes);
        cycle.trigger = if is_self_triggered { causes } else { vec![] };
        if !is_self_triggered {
            cycle.runs = 0;
            self.looping.remove(key);
        }
        cycle.wrote.clear();
        cycle.is_foreign = false;
        cycle.is_running = true;
        cycle.until = None;
        is_self_triggered
    }

    /// A run has ended, and has written this. Names the key if it is found to loop now.
    pub fn end(&mut self, key: &ObjectKey, wrote: Vec<State>) -> Option<LoopingKey> {
        if wrote.is_empty() {
            self.forget(key);
            return None;
        }
        let cycle = self.keys.get_mut(key)?;
        let is_rewritten = |before: &State| wrote.iter().any(|state| state.is_same_object(before));
        cycle.runs = match cycle.trigger.iter().any(is_rewritten) {
            true => cycle.runs.saturating_add(1),
            false => 0,
        };
        match cycle.runs {
            0..SLOW_AFTER => self.looping.remove(key),
            _ => self.looping.insert(key.clone()),
        };
        cycle.wrote = wrote;
        cycle.is_running = false;
        if !cycle.causes.iter().all(|cause| cycle.wrote.contains(cause)) {
            cycle.is_caused_otherwise();
        }
        (cycle.runs == SLOW_AFTER).then(|| looping(key, cycle))
    }

    /// Nothing is known of a key any more.
    pub fn forget(&mut self, key: &ObjectKey) {
        self.keys.remove(key);
        self.looping.remove(key);
    }

    /// The keys that loop, in their order.
    pub fn looping(&self) -> impl ExactSizeIterator<Item = LoopingKey> {
        let keys = self.looping.iter();
        keys.map(|key| looping(key, &self.keys[key]))
    }
}

fn looping(key: &ObjectKey, cycle: &Cycle) -> LoopingKey {
    LoopingKey {
        key: key.clone(),
        runs: cycle.runs,
        field: cycle.field.clone(),
    }
}

/// Where two states of an object differ first, but for what the server changes with each write.
fn first_difference(change: &Change) -> Option<String> {
    let parse = |text: &str| serde_json::from_str::<Value>(text).ok();
    let mut old = parse(change.old.as_ref()?.json())?;
    let mut new = parse(change.new.as_ref()?.json())?;
    for state in [&mut old, &mut new] {
        if let Some(metadata) = state.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("resourceVersion");
            metadata.remove("generation");
        }
    }
    difference(&old, &new)
}

fn difference(old: &Value, new: &Value) -> Option<String> {
    let below = |name: &str, old: &Value, new: &Value| {
        let path = difference(old, new)?;
        Some(format!(
            "/{}{path}",
            name.replace('~', "~0").replace('/', "~1")
        ))
    };
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => {
            let names = old.keys().chain(new.keys());
            let state = |of: &serde_json::Map<String, Value>, name| {
                of.get(name).cloned().unwrap_or_default()
            };
            names
                .into_iter()
                .find_map(|name| below(name, &state(old, name), &state(new, name)))
        }
        (Value::Array(old), Value::Array(new)) if old.len() == new.len() => {
            let pairs = old.iter().zip(new).enumerate();
            let mut found = pairs.map(|(at, (old, new))| below(&at.to_string(), old, new));
            found.find_map(|path| path)
        }
        _ => (old != new).then(String::new),
    }
}
