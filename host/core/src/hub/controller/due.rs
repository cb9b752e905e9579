//! The keys that one plugin is to run: those in its queue, those of a sweep, and what has queued
//! them.

use std::time::Duration;

use super::changed::KeyedChange;
use super::loops::{Begun, LoopingKey, Loops, WrittenState};
use super::sweep::{Sweep, SweepStep};
use crate::cache::snapshot::{InformerId, Snapshot};
use crate::cache::{Cache, Change};
use crate::hub::duties::Duty;
use crate::hub::subject::SubjectKind;
use crate::hub::subjects::Subjects;
use crate::model::key::ResourceVersion;
use crate::model::subject_key::SubjectKey;
use crate::queue::backoff::Backoff;
use crate::queue::{LOW, NORMAL, Priority, Taken, Time, WorkQueue};

/// See the module's documentation.
pub(super) struct DueKeys {
    pub queue: WorkQueue,
    /// The shards whose keys are run. No key of another shard is in the queue.
    duty: Duty,
    /// The reconciles that subjects are still to have, in the order in which they began; empty when
    /// every subject has had its own. There is one over all subjects, and one for each set of
    /// shards gained since: no two have a shard in common.
    sweeps: Vec<Sweep>,
    /// The keys that are queued by their own writes.
    loops: Loops,
}

/// The result of [`DueKeys::next`].
pub(super) enum NextKey {
    Taken(Taken),
    /// There may be a key: ask again.
    NotYet,
    None,
}

impl DueKeys {
    pub fn new(duty: Duty) -> Self {
        Self {
            queue: WorkQueue::new(Backoff::default()),
            duty,
            sweeps: Vec::new(),
            loops: Loops::default(),
        }
    }

    /// The shards whose keys are run.
    pub fn duty(&self) -> &Duty {
        &self.duty
    }

    /// Begins a sweep, so that every subject is reconciled. A singleton is queued instead.
    pub fn start(&mut self, subjects: &Subjects, snapshot: &Snapshot, now: Time) {
        // All but the first have only what this one reaches anyway.
        let before = std::mem::take(&mut self.sweeps).into_iter().next();
        let all = self.duty.clone();
        self.begin_sweep(before, all, subjects, snapshot, now);
    }

    fn begin_sweep(
        &mut self,
        before: Option<Sweep>,
        of: Duty,
        subjects: &Subjects,
        snapshot: &Snapshot,
        now: Time,
    ) {
        if subjects.is_singleton() {
            let key = SubjectKey::singleton();
            if of.has(&key) {
                self.queue.add(&key, NORMAL, now);
            }
        } else if !of.is_empty() {
            let objects = subjects.objects(snapshot);
            let sweep = Sweep::begin(before, of, objects, &mut self.queue, now);
            self.sweeps.push(sweep);
        }
    }

    /// From now on only keys of this duty are run, which is a part of the present one. Everything
    /// about other keys is forgotten.
    pub fn lose(&mut self, kept: &Duty) {
        self.duty = kept.clone();
        self.sweeps.retain_mut(|sweep| sweep.keep(kept));
        self.queue.retain(|key| kept.has(key));
        self.loops.retain(|key| kept.has(key));
    }

    /// From now on the keys of this duty are run. Those of `gained`, which are new in it, get a
    /// first run, unless the plugin only finishes what is due.
    pub fn gain(
        &mut self,
        duty: Duty,
        gained: Duty,
        subjects: &Subjects,
        snapshot: &Snapshot,
        now: Time,
    ) {
        self.duty = duty;
        if !self.queue.is_draining() {
            self.begin_sweep(None, gained, subjects, snapshot, now);
        }
    }

    /// Queues a key, if it is run here.
    pub fn add(&mut self, key: &SubjectKey, priority: Priority, now: Time) {
        if self.duty.has(key) {
            self.queue.add(key, priority, now);
        }
    }

    /// Queues a key because of a change.
    pub fn wake(
        &mut self,
        key: &SubjectKey,
        changed: KeyedChange<'_>,
        priority: Priority,
        now: Time,
    ) {
        if self.duty.has(key) && self.loops.caused(key, changed, priority) {
            self.queue.add(key, priority, now);
        }
    }

    /// Queues a key because of something other than a change of an object, or an unknown change.
    pub fn wake_otherwise(&mut self, key: &SubjectKey, priority: Priority, now: Time) {
        if self.duty.has(key) {
            self.loops.caused_otherwise(key);
            self.queue.add(key, priority, now);
        }
    }

    /// Queues a key because its own object has changed, unless a sweep reaches the key anyway:
    /// during the first list that need not be told of new subjects.
    pub fn wake_subject(
        &mut self,
        subject: &SubjectKind,
        changed: KeyedChange<'_>,
        priority: Priority,
        now: Time,
    ) {
        let KeyedChange { key, change, .. } = changed;
        let key = subject.key(key.clone());
        if priority == LOW && self.is_swept(subject, &key, change) {
            return;
        }
        self.wake(&key, changed, priority, now);
        let is_pending = self.queue.is_pending(&key);
        for sweep in self.sweeps.iter_mut().filter(|_| is_pending) {
            sweep.note_queued(&key, change.new.is_some());
        }
    }

    /// Whether the sweep will reconcile this new subject anyway.
    fn is_swept(&self, subject: &SubjectKind, key: &SubjectKey, change: &Change) -> bool {
        let mut sweeps = self.sweeps.iter();
        let new = change.new.as_ref();
        sweeps.any(|sweep| sweep.is_to_run(key)) && new.is_some_and(|new| subject.selects(new))
    }

    /// An object has changed that may be a subject.
    pub fn note_change(&mut self, subject: &SubjectKind, changed: KeyedChange<'_>) {
        let KeyedChange {
            informer,
            key,
            change,
            ..
        } = changed;
        if self.sweeps.is_empty() || !subject.may_be(informer, key) {
            return;
        }
        let key = subject.key(key.clone());
        for sweep in &mut self.sweeps {
            sweep.note_change(&key, change.old.is_some(), change.new.is_some());
        }
    }

    /// Hands out the next key in order, queued or swept.
    pub fn next(&mut self, subjects: &Subjects, snapshot: &Snapshot, now: Time) -> NextKey {
        while let Some(sweep) = self.sweeps.first_mut()
            && self.queue.is_first(sweep.place(), now)
        {
            match sweep.next(subjects, snapshot) {
                SweepStep::Key(key) => {
                    let waited = sweep.waited(now);
                    self.loops.caused_otherwise(&key);
                    if let Some(taken) = self.queue.visit(&key, LOW, now) {
                        return NextKey::Taken(Taken { waited, ..taken });
                    }
                }
                SweepStep::NotYet => return NextKey::NotYet,
                SweepStep::End => drop(self.sweeps.remove(0)),
            }
        }
        let Some(taken) = self.queue.next(now) else {
            return NextKey::None;
        };
        for sweep in &mut self.sweeps {
            sweep.note_queued(&taken.key, subjects.is_cached(snapshot, &taken.key));
        }
        NextKey::Taken(taken)
    }

    /// Whether there may be a key to run now.
    pub fn has_key(&self, now: Time) -> bool {
        !self.sweeps.is_empty() || self.queue.is_ready(now)
    }

    /// When there may be a key to run.
    pub fn next_ready(&self) -> Option<Time> {
        match self.sweeps.is_empty() {
            false => Some(Time::ZERO),
            true => self.queue.next_ready(),
        }
    }

    /// Puts a key back if it was queued once too often by its own writes alone. Returns whether it
    /// did.
    pub fn slow_down(&mut self, taken: &Taken, now: Time) -> bool {
        if self.queue.is_draining() {
            return false;
        }
        let Some(delay) = self.loops.wait(&taken.key, now) else {
            return false;
        };
        self.queue.add_after(&taken.key, delay, taken.priority, now);
        self.queue.done(&taken.key, now);
        true
    }

    /// A run of a key begins.
    pub fn begin(&mut self, key: &SubjectKey) -> Begun {
        self.loops.begin(key)
    }

    /// A run has only asked about objects that no watch brings. The key runs again after this
    /// delay, with this priority, and goes on with the reconcile unless something else queues it
    /// before.
    pub fn asked(&mut self, key: &SubjectKey, delay: Duration, priority: Priority, now: Time) {
        self.loops.asked(key);
        self.queue.add_after(key, delay, priority, now);
    }

    /// The outcome of a running key is known. If it is settled, what it writes does not queue the
    /// key.
    pub fn decided(&mut self, key: &SubjectKey, is_settled: bool) {
        self.loops.decided(key, is_settled);
    }

    /// A reconcile has ended and has written these states; all its writes have succeeded, or not.
    /// Returns the key if it is now found to loop.
    pub fn wrote(
        &mut self,
        key: &SubjectKey,
        wrote: Vec<WrittenState>,
        has_succeeded: bool,
        snapshot: &Snapshot,
        now: Time,
    ) -> Option<LoopingKey> {
        let ended = self.loops.end(key, wrote, has_succeeded);
        self.loops.trim(snapshot);
        self.add_again(key, ended.again, now);
        ended.looping
    }

    /// An informer's cache has been listed; `before` is its version before. Queues the keys that
    /// have written an object which has gone unseen.
    pub fn listed(
        &mut self,
        informer: InformerId,
        before: &ResourceVersion,
        cache: &Cache,
        now: Time,
    ) {
        for key in self.loops.bereft(informer, before, cache) {
            self.wake_otherwise(&key, NORMAL, now);
        }
    }

    /// A reconcile has ended and could write nothing.
    pub fn wrote_nothing(&mut self, key: &SubjectKey, now: Time) {
        let again = self.loops.forget(key);
        self.add_again(key, again, now);
    }

    /// Queues a key if something other than its own writes concerned it while it ran.
    fn add_again(&mut self, key: &SubjectKey, again: Option<Priority>, now: Time) {
        if let Some(priority) = again {
            self.add(key, priority, now);
        }
    }

    /// The server has gone back in time: others may write the states that keys have written.
    pub fn forget_written(&mut self) {
        self.loops.forget_written();
    }

    /// Forgets everything about a key except its position.
    pub fn forget(&mut self, key: &SubjectKey) {
        self.queue.forget(key);
        self.loops.forget(key);
    }

    /// Forgets all keys but those that a plugin with these kinds can have.
    pub fn retain(&mut self, subjects: &Subjects) {
        self.queue.retain(|key| subjects.has(key));
        self.loops.retain(|key| subjects.has(key));
        if subjects.is_singleton() {
            self.sweeps.clear();
        }
    }

    /// A new version is installed: what slowed a key down does not count against it.
    pub fn end_slowness(&mut self, now: Time) {
        self.queue.end_cool_downs();
        self.queue.end_not_before();
        for (key, priority) in self.loops.take_withheld() {
            self.add(&key, priority, now);
        }
    }

    /// From now on only what is due is finished.
    pub fn drain(&mut self, snapshot: &Snapshot) {
        self.queue.drain();
        let sweeps = self.sweeps.iter_mut();
        sweeps.for_each(|sweep| sweep.finish(snapshot));
    }

    /// How many keys are remembered for what they have written.
    #[cfg(test)]
    pub fn cycles(&self) -> usize {
        self.loops.len()
    }

    pub fn is_empty(&self) -> bool {
        self.queue.is_empty() && self.sweeps.is_empty()
    }

    /// How many objects a sweep has not reached yet, selected or not.
    pub fn swept(&self) -> usize {
        self.sweeps.iter().map(Sweep::left).sum()
    }

    /// The looping keys, in order.
    pub fn looping(&self) -> impl ExactSizeIterator<Item = LoopingKey> {
        self.loops.looping()
    }
}
