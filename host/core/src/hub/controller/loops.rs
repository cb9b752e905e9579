//! Keys that are woken by their own writes, again and again.
//!
//! A controller that writes the time into a status never comes to rest: each write is a change,
//! which runs the key, which writes again. The host sees what wakes a key and what the key wrote,
//! so it can tell. A reconcile is *self-triggered* if every change that queued its key is one that
//! the key's last reconcile wrote. One self-triggered reconcile after a write is usual and finds
//! nothing to do. An outcome can say that it would (`is_settled` of
//! [`FollowUp`](crate::FollowUp)): then there is none, and the key does not run for what the
//! outcome itself has written. A key loops if [`SLOW_AFTER`] of them in a row write the same object
//! again. It is then slowed down, like a key that keeps asking for a short requeue, and reported. A
//! change by anybody else still runs it at once.
//!
//! A run that only asks about objects which no watch brings ([`crate::reads::fetched`]) decides
//! nothing, so the run that is told the answers is the same reconcile: caused by the same, and told
//! them only if nothing else has queued the key since.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use serde_json::Value;

use super::changed::KeyedChange;
use super::records::REQUEUE_STREAK;
use crate::cache::snapshot::{InformerId, Snapshot};
use crate::cache::{Cache, Change};
use crate::model::key::{ObjectKey, ResourceVersion};
use crate::model::subject_key::SubjectKey;
use crate::queue::{Priority, Time};

/// After this many self-triggered reconciles in a row that wrote the same object, a key is slowed
/// down.
pub const SLOW_AFTER: u32 = 10;

/// Maximum number of distinct changes kept that queue a key while it runs, when it is not known yet
/// which of them are its own.
const MAX_CAUSES: usize = 1024;

/// A state of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WrittenState {
    pub informer: InformerId,
    pub key: ObjectKey,
    pub version: ResourceVersion,
}

impl WrittenState {
    /// The state that a change has led to; `None` if the object is gone.
    fn after(changed: KeyedChange<'_>) -> Option<Self> {
        let new = changed.change.new.as_ref()?;
        Some(Self {
            informer: changed.informer,
            key: changed.key.clone(),
            version: new.resource_version().clone(),
        })
    }

    fn is_same_object(&self, other: &Self) -> bool {
        (self.informer, &self.key) == (other.informer, &other.key)
    }

    /// Whether no change to this state can come any more.
    fn is_passed(&self, snapshot: &Snapshot) -> bool {
        let cache = snapshot.informers.get(self.informer);
        cache.is_none_or(|cache| self.is_in(cache.resource_version()))
    }

    /// Whether a cache of this version has come to the state, or further.
    fn is_in(&self, version: &ResourceVersion) -> bool {
        self.version == *version || self.version.is_at_most(version)
    }

    /// Whether a list that has brought its cache further than `before` shows no such object.
    fn is_gone(&self, cache: &Cache, before: &ResourceVersion) -> bool {
        !self.is_in(before)
            && self.is_in(cache.resource_version())
            && cache.get(self.key.parts()).is_none()
    }
}

/// See the module's documentation. Holds only keys that run or whose last reconcile wrote
/// something: a change that queues any other key is not the key's own.
#[derive(Debug, Default)]
pub(super) struct Loops {
    keys: HashMap<SubjectKey, Cycle>,
    /// The keys among them that loop, so that listing these walks no others.
    looping: BTreeSet<SubjectKey>,
    /// At this number of keys, those are dropped that nothing of their own can queue any more.
    trim_at: usize,
}

/// Below this number of keys none is dropped.
const TRIM_FROM: usize = if cfg!(test) { 8 } else { 1024 };

#[derive(Debug, Default)]
struct Cycle {
    /// The changes that have queued the key since it was last handed out. While the key runs, it is
    /// not known yet which of them are its own: a watch can be faster than the answer to the write.
    /// Afterwards all of them are.
    causes: Vec<WrittenState>,
    is_running: bool,
    /// Its last run has decided nothing, and the next one is told what that has asked about.
    is_asking: bool,
    /// What the outcome of its last reconcile has written does not queue it.
    is_settled: bool,
    /// Set while the key runs with such an outcome: a cause that is perhaps its own write would
    /// queue it with this priority.
    withheld: Option<Priority>,
    /// Something other than the key's own writes has queued it.
    is_foreign: bool,
    /// What its last reconcile wrote.
    wrote: Vec<WrittenState>,
    /// What triggered the running reconcile, if that is self-triggered.
    trigger: Vec<WrittenState>,
    /// Consecutive self-triggered reconciles that rewrote an object which had triggered them.
    runs: u32,
    /// How long the key has to wait, set when it first has to.
    until: Option<Time>,
    /// The first field in which its last write differed from the state before.
    field: String,
}

impl Cycle {
    fn is_self_triggered(&self) -> bool {
        !self.is_foreign && !self.causes.is_empty()
    }

    /// Something other than the key's own writes has queued it, so the causes no longer matter.
    fn is_caused_otherwise(&mut self) {
        self.is_foreign = true;
        self.causes = Vec::new();
    }

    /// Whether a change to this state may be one that the key has written.
    fn may_be_own(&self, state: &WrittenState) -> bool {
        match self.is_running {
            true => self.causes.len() < MAX_CAUSES,
            false => self.wrote.contains(state),
        }
    }

    /// Whether forgetting the cycle changes nothing.
    fn is_over(&self, snapshot: &Snapshot) -> bool {
        let is_idle = !self.is_running && !self.is_asking;
        let is_idle = is_idle && self.causes.is_empty() && self.runs == 0;
        is_idle && self.wrote.iter().all(|state| state.is_passed(snapshot))
    }
}

/// A key that its own writes keep running.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoopingKey {
    /// The key.
    pub key: SubjectKey,
    /// Consecutive reconciles that were triggered only by the key's own writes.
    pub runs: u32,
    /// The field that changes, as a JSON Pointer into the object that the key writes; empty if not
    /// known.
    pub field: String,
}

/// What is known of a run when its key is handed out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Begun {
    /// Whether nothing but the key's own last writes has caused the reconcile.
    pub is_self_triggered: bool,
    /// Whether the run goes on with the reconcile of the last one, which has only asked about
    /// objects: nothing else has queued the key since that began.
    pub goes_on: bool,
}

/// What the end of a reconcile has shown.
#[derive(Debug, Default)]
pub(super) struct Ended {
    /// The key, if it is now found to loop.
    pub looping: Option<LoopingKey>,
    /// The priority with which it is to be queued, if something other than its own writes has been
    /// withheld while it ran.
    pub again: Option<Priority>,
}

impl Loops {
    /// A change concerns a key. Returns whether it is to be queued now.
    pub fn caused(
        &mut self,
        key: &SubjectKey,
        changed: KeyedChange<'_>,
        priority: Priority,
    ) -> bool {
        let Some(cycle) = self.keys.get_mut(key) else {
            return true;
        };
        let state = WrittenState::after(changed).filter(|state| {
            // What may hide somebody else's change has to be looked at.
            let is_known = changed.is_step || !cycle.is_settled;
            !cycle.is_foreign && is_known && cycle.may_be_own(state)
        });
        let Some(state) = state else {
            cycle.is_caused_otherwise();
            return true;
        };
        if cycle.is_settled && !cycle.is_running {
            return false;
        }
        if cycle.is_settled {
            cycle.withheld = cycle.withheld.max(Some(priority));
        }
        if !cycle.causes.contains(&state) {
            if cycle.runs + 1 >= SLOW_AFTER {
                cycle.field = first_difference(changed.change).unwrap_or_default();
            }
            cycle.causes.push(state);
        }
        !cycle.is_settled
    }

    /// The outcome of a running key is known, and nothing has been written yet.
    pub fn decided(&mut self, key: &SubjectKey, is_settled: bool) {
        if let Some(cycle) = self.keys.get_mut(key) {
            cycle.is_settled = is_settled;
        }
    }

    /// Something other than a change of an object, or an unknown change, queues a key.
    pub fn caused_otherwise(&mut self, key: &SubjectKey) {
        if let Some(cycle) = self.keys.get_mut(key) {
            cycle.is_caused_otherwise();
        }
    }

    /// How long a key that is due still has to wait; `None` if it may run. Later changes by its own
    /// writes make this neither longer nor shorter.
    pub fn wait(&mut self, key: &SubjectKey, now: Time) -> Option<Duration> {
        let cycle = self.keys.get_mut(key)?;
        // What goes on has waited before it began.
        if cycle.runs < SLOW_AFTER || !cycle.is_self_triggered() || cycle.is_asking {
            return None;
        }
        let delay = REQUEUE_STREAK.delay(cycle.runs - SLOW_AFTER + 1);
        let until = *cycle.until.get_or_insert(now + delay);
        (now < until).then(|| until - now)
    }

    /// A key is handed out.
    pub fn begin(&mut self, key: &SubjectKey) -> Begun {
        let cycle = self.keys.entry(key.clone()).or_default();
        let begun = Begun {
            is_self_triggered: cycle.is_self_triggered(),
            goes_on: cycle.is_asking && !cycle.is_foreign,
        };
        let causes = std::mem::take(&mut cycle.causes);
        cycle.trigger = if begun.is_self_triggered {
            causes
        } else {
            vec![]
        };
        if !begun.is_self_triggered {
            cycle.runs = 0;
            self.looping.remove(key);
        }
        cycle.wrote.clear();
        cycle.is_foreign = false;
        cycle.is_running = true;
        cycle.is_asking = false;
        cycle.is_settled = false;
        cycle.until = None;
        begun
    }

    /// A run has decided nothing, because it has asked about objects that no watch brings. They are
    /// fetched, and the next run goes on with the reconcile, for the same causes. What its last
    /// outcome wrote had been shown before it began, so any change since is by others.
    pub fn asked(&mut self, key: &SubjectKey) {
        let Some(cycle) = self.keys.get_mut(key) else {
            return;
        };
        cycle.is_running = false;
        cycle.is_asking = true;
        match cycle.causes.is_empty() {
            true => cycle.causes = std::mem::take(&mut cycle.trigger),
            false => cycle.is_caused_otherwise(),
        }
    }

    /// A reconcile has ended and has written these states. If one of its writes has failed, the
    /// outcome is not settled, whatever it says.
    pub fn end(
        &mut self,
        key: &SubjectKey,
        wrote: Vec<WrittenState>,
        has_succeeded: bool,
    ) -> Ended {
        if wrote.is_empty() {
            return Ended {
                looping: None,
                again: self.forget(key),
            };
        }
        let Some(cycle) = self.keys.get_mut(key) else {
            return Ended::default();
        };
        let is_rewritten =
            |before: &WrittenState| wrote.iter().any(|state| state.is_same_object(before));
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
        cycle.is_settled &= has_succeeded;
        let mut again = cycle.withheld.take();
        if !cycle.causes.iter().all(|cause| cycle.wrote.contains(cause)) {
            cycle.is_caused_otherwise();
        } else if cycle.is_settled {
            cycle.causes.clear();
            again = None;
        }
        Ended {
            looping: (cycle.runs == SLOW_AFTER).then(|| looping(key, cycle)),
            again,
        }
    }

    /// The keys that have written an object which a list does not show: somebody has deleted it
    /// before any watch has brought it, so no change tells. `before`: the version of the informer's
    /// cache before the list.
    pub fn bereft(
        &self,
        informer: InformerId,
        before: &ResourceVersion,
        cache: &Cache,
    ) -> Vec<SubjectKey> {
        if cache.informer_key().is_narrowed() {
            return Vec::new();
        }
        let is_gone =
            |state: &WrittenState| state.informer == informer && state.is_gone(cache, before);
        let keys = self.keys.iter();
        let bereft = keys.filter(|(_, cycle)| cycle.wrote.iter().any(is_gone));
        bereft.map(|(key, _)| key.clone()).collect()
    }

    /// Drops the keys that nothing of their own can queue any more, if there are many keys.
    pub fn trim(&mut self, snapshot: &Snapshot) {
        if self.keys.len() > self.trim_at.max(TRIM_FROM) {
            self.keys.retain(|_, cycle| !cycle.is_over(snapshot));
            self.trim_at = self.keys.len() * 2;
        }
    }

    /// How many keys are remembered.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// The server has gone back in time: others may write the states that keys have written, and
    /// what it has answered may be so no more.
    pub fn forget_written(&mut self) {
        for cycle in self.keys.values_mut() {
            cycle.wrote.clear();
            cycle.is_caused_otherwise();
        }
    }

    /// Forgets a key. Returns the priority with which it is to be queued.
    pub fn forget(&mut self, key: &SubjectKey) -> Option<Priority> {
        self.looping.remove(key);
        self.keys.remove(key)?.withheld
    }

    /// Forgets all keys. Returns those that are to be queued, each with its priority.
    pub fn take_withheld(&mut self) -> Vec<(SubjectKey, Priority)> {
        let keys = std::mem::take(self).keys.into_iter();
        keys.filter_map(|(key, cycle)| Some((key, cycle.withheld?)))
            .collect()
    }

    /// Forgets all keys but these.
    pub fn retain(&mut self, is_kept: impl Fn(&SubjectKey) -> bool) {
        self.keys.retain(|key, _| is_kept(key));
        self.looping.retain(is_kept);
    }

    /// The looping keys, in order.
    pub fn looping(&self) -> impl ExactSizeIterator<Item = LoopingKey> {
        let keys = self.looping.iter();
        keys.map(|key| looping(key, &self.keys[key]))
    }
}

fn looping(key: &SubjectKey, cycle: &Cycle) -> LoopingKey {
    LoopingKey {
        key: key.clone(),
        runs: cycle.runs,
        field: cycle.field.clone(),
    }
}

/// The first place where two states of an object differ, apart from what the server changes with
/// each write.
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
