//! Which keys of a plugin have something to do.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::Seat;
use crate::cache::Change;
use crate::children;
use crate::hub::subject::informers;
use crate::hub::turn::Controller;
use crate::key::{Kind, ObjectKey};
use crate::object::Object;
use crate::queue::{LOW, NORMAL, Priority, Time};
use crate::reads::is_visible;
use crate::snapshot::{InformerId, Snapshot};

impl Seat {
    /// Queues a first run for every subject that is already cached.
    pub fn start(&mut self, snapshot: &Snapshot, now: Time) {
        let Some(subject) = &self.subject else {
            self.queue.add(&ObjectKey::singleton(), NORMAL, now);
            return;
        };
        for key in keys(subject.all(snapshot)) {
            self.loops.caused_otherwise(&key);
            self.queue.add(&key, LOW, now);
        }
    }

    /// Queues every subject, if it is time for that: client-go's resync, a replay of the local store.
    pub fn resync(&mut self, snapshot: &Snapshot, now: Time) {
        let is_due = self
            .resync
            .as_mut()
            .is_some_and(|resync| resync.is_due(now));
        if is_due && self.is_started {
            self.start(snapshot, now);
        }
    }

    /// Once all kinds are synced: queues the keys of what subjects that are gone have left behind. Not earlier, when a subject
    /// may only not have been listed yet.
    pub fn start_when_synced(&mut self, snapshot: &Snapshot, now: Time) {
        if self.is_started || !self.is_synced(snapshot) {
            return;
        }
        self.is_started = true;
        let subject = self.subject.iter();
        let companions = subject.flat_map(|subject| subject.all_companions(snapshot));
        let children = self
            .children_informers()
            .flat_map(|informer| snapshot.informers[informer].list(None));
        let children = children.filter_map(|object| children::key_of(self.name(), object));
        let keys: Vec<ObjectKey> = keys(companions).chain(children).collect();
        for key in keys {
            self.queue.add(&key, LOW, now);
        }
    }

    fn children_informers(&self) -> impl Iterator<Item = InformerId> {
        let Controller {
            permissions, scope, ..
        } = &*self.controller;
        let kinds = permissions.children.iter();
        kinds.flat_map(|kind| informers(scope, kind))
    }

    /// Queues the keys that a change of the object of this key concerns: those that read it, the key of the object itself, and the one whose child it is.
    pub fn wake(
        &mut self,
        snapshot: &Snapshot,
        informer: InformerId,
        key: &ObjectKey,
        change: &Change,
        priority: Priority,
        now: Time,
    ) {
        let Some(view) = self.grants.get(&informer).map(|grant| grant.view) else {
            return;
        };
        if change.new.is_none() || change.goes_back() {
            let kind = snapshot.informers[informer].kind();
            self.controller.applied.forget(kind, key);
        }
        let touched = self.reads.touched(informer, key, change, view);
        self.share.charge(touched.comparisons);
        for key in touched.keys {
            self.loops.caused(key, informer, change);
            self.queue.add(key, priority, now);
        }
        let drifted = self.reads.drifted(informer, key, change);
        if !drifted.is_empty() && !self.is_own_apply(snapshot, informer, key, change) {
            for key in drifted {
                self.loops.caused(key, informer, change);
                self.queue.add(key, priority, now);
            }
        }
        let is_subject = self.subject.as_ref().is_some_and(|subject| {
            let is_companion = self.is_started
                && subject.is_companion(informer)
                && is_visible(change, view)
                && subject.wants_companion(snapshot, key.parts());
            // A subject that was not selected is none of the plugin's; what it leaves behind may be.
            let has_left = || {
                self.is_started
                    && change.new.is_none()
                    && subject.has_left_companion(snapshot, informer, key)
            };
            is_companion || subject.is_touched_by(informer, change, view) || has_left()
        });
        if is_subject {
            self.loops.caused(key, informer, change);
            self.queue.add(key, priority, now);
        }
        if self.is_started
            && change.old.is_none()
            && self
                .children_informers()
                .any(|children| children == informer)
        {
            // Its key may have gone before the child came; then nobody reads it any more.
            let child = change.new.as_ref();
            let owner = child.and_then(|child| children::key_of(self.name(), child));
            if let Some(key) = &owner {
                self.loops.caused(key, informer, change);
                self.queue.add(key, priority, now);
            }
        }
    }

    /// Whether a change is an apply of the plugin's own, as far as its answer has come already:
    /// that is no drift. Otherwise a plugin that applies the time would run for ever.
    fn is_own_apply(
        &self,
        snapshot: &Snapshot,
        informer: InformerId,
        key: &ObjectKey,
        change: &Change,
    ) -> bool {
        let kind = snapshot.informers[informer].kind();
        let applied = &self.controller.applied;
        change
            .new
            .as_ref()
            .is_some_and(|new| applied.has_left(kind, key, new.resource_version()))
    }

    /// What the plugin has applied to objects of a kind says nothing of them any more.
    pub fn forget_applied(&self, kind: &Kind) {
        self.controller.applied.forget_kind(kind);
    }

    /// Some of an informer's objects have become unreadable, or are so no more, with this change of the caches.
    pub fn note_turned(&mut self, informer: InformerId, sequence: u64) {
        if self.grants.contains_key(&informer) {
            self.turned_at = sequence;
        }
    }

    /// Queues the keys that asked for an object which has become unreadable, or is so no more: its own, and those with an answer that
    /// it was, or should have been, in.
    pub fn wake_reader(
        &mut self,
        informer: InformerId,
        key: &ObjectKey,
        priority: Priority,
        now: Time,
    ) {
        if !self.grants.contains_key(&informer) {
            return;
        }
        let subject = self.subject.as_ref();
        let is_own = subject.is_some_and(|subject| subject.may_be(informer, key));
        let readers = self.reads.about(informer, key).into_iter();
        let keys: BTreeSet<ObjectKey> = readers.chain(is_own.then_some(key)).cloned().collect();
        for key in keys {
            self.loops.caused_otherwise(&key);
            self.queue.add(&key, priority, now);
        }
    }
}

/// The keys of objects that come by namespace. Those of one namespace hold its name once.
fn keys<'a>(objects: impl Iterator<Item = &'a Arc<Object>>) -> impl Iterator<Item = ObjectKey> {
    objects.scan(ObjectKey::singleton(), |last, object| {
        *last = object.key().to_key_beside(last);
        Some(last.clone())
    })
}
