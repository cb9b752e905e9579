//! Which keys of a plugin are queued, and when: first runs, resyncs, and the keys that a change
//! concerns.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::Controller;
use super::sweep::Sweep;
use crate::cache::Change;
use crate::cache::snapshot::{InformerId, Snapshot};
use crate::hub::reconcile::PluginVersion;
use crate::hub::subject::informers;
use crate::model::key::{Kind, ObjectKey};
use crate::model::object::{Object, ViewId};
use crate::plan::children;
use crate::queue::{LOW, NORMAL, Priority, Time};
use crate::reads::sight::is_visible;

impl Controller {
    /// Begins a sweep, so that every subject is reconciled. A singleton is queued instead.
    pub fn start(&mut self, snapshot: &Snapshot, now: Time) {
        let Some(subject) = &self.subject else {
            self.queue.add(&ObjectKey::singleton(), NORMAL, now);
            return;
        };
        let (before, objects) = (self.sweep.take(), subject.objects(snapshot));
        self.sweep = Some(Sweep::begin(before, objects, &mut self.queue, now));
    }

    /// Begins a sweep if a resync is due: client-go's resync, which replays the local store.
    pub fn resync(&mut self, snapshot: &Snapshot, now: Time) {
        let is_due = self
            .resync
            .as_mut()
            .is_some_and(|resync| resync.is_due(now));
        if is_due && self.is_started {
            self.start(snapshot, now);
        }
    }

    /// Once all kinds are synced, queues the keys of what subjects that are gone have left behind.
    /// Not earlier, because a missing subject may only not have been listed yet.
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
        // Keys of existing subjects run anyway.
        let is_left = |key: &ObjectKey| {
            let mut subject = self.subject.iter();
            !subject.any(|subject| subject.is_there(snapshot, key.parts()))
        };
        let keys = keys(companions).chain(children);
        let keys: Vec<ObjectKey> = keys.filter(is_left).collect();
        for key in keys {
            self.queue.add(&key, LOW, now);
        }
    }

    fn children_informers(&self) -> impl Iterator<Item = InformerId> {
        let PluginVersion {
            permissions, scope, ..
        } = &*self.version;
        let kinds = permissions.children.iter();
        kinds.flat_map(|kind| informers(scope, kind))
    }

    /// Queues the keys that a change of this key's object concerns: those that read the object, the
    /// key of the object itself, and the key whose child it is.
    pub fn wake(
        &mut self,
        snapshot: &Snapshot,
        informer: InformerId,
        key: &ObjectKey,
        change: &Change,
        priority: Priority,
        now: Time,
    ) {
        let Some(view) = self
            .subscriptions
            .get(&informer)
            .map(|subscribed| subscribed.view)
        else {
            return;
        };
        if change.new.is_none() || change.goes_back() {
            let kind = snapshot.informers[informer].kind();
            self.version.applied.forget(kind, key);
        }
        if let (Some(sweep), Some(subject)) = (&mut self.sweep, &self.subject)
            && subject.may_be(informer, key)
        {
            sweep.note_change(key, change.old.is_some(), change.new.is_some());
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
        let is_subject = self.is_subject(snapshot, informer, key, change, view);
        // During the first list the sweep will reach a new subject anyway, so it need not be
        // queued.
        if is_subject && !(priority == LOW && self.is_swept(key, change)) {
            self.loops.caused(key, informer, change);
            self.queue.add(key, priority, now);
            let is_pending = self.queue.is_pending(key);
            if let Some(sweep) = self.sweep.as_mut().filter(|_| is_pending) {
                sweep.note_queued(key, change.new.is_some());
            }
        }
        self.wake_owner(informer, change, priority, now);
    }

    /// Whether a change makes the plugin reconcile the object's own key.
    fn is_subject(
        &self,
        snapshot: &Snapshot,
        informer: InformerId,
        key: &ObjectKey,
        change: &Change,
        view: ViewId,
    ) -> bool {
        self.subject.as_ref().is_some_and(|subject| {
            let is_companion = self.is_started
                && subject.is_companion(informer)
                && is_visible(change, view)
                && subject.wants_companion(snapshot, key.parts());
            // A subject that was not selected is not the plugin's, but a companion that it leaves
            // behind may be.
            let has_left = || {
                self.is_started
                    && change.new.is_none()
                    && subject.has_left_companion(snapshot, informer, key)
            };
            is_companion || subject.is_touched_by(informer, change, view) || has_left()
        })
    }

    /// Queues the key whose child a new object is.
    fn wake_owner(&mut self, informer: InformerId, change: &Change, priority: Priority, now: Time) {
        if self.is_started
            && change.old.is_none()
            && self
                .children_informers()
                .any(|children| children == informer)
        {
            // The key's object may have gone before the child came. Then no recorded read leads to
            // it any more.
            let child = change.new.as_ref();
            let owner = child.and_then(|child| children::key_of(self.name(), child));
            if let Some(key) = &owner {
                self.loops.caused(key, informer, change);
                self.queue.add(key, priority, now);
            }
        }
    }

    /// Whether the sweep will reconcile this new subject anyway.
    fn is_swept(&self, key: &ObjectKey, change: &Change) -> bool {
        let is_there = || {
            let (subject, new) = (self.subject.as_ref(), change.new.as_ref());
            subject
                .zip(new)
                .is_some_and(|(subject, new)| subject.selects(new))
        };
        let sweep = self.sweep.as_ref();
        sweep.is_some_and(|sweep| sweep.is_to_run(key)) && is_there()
    }

    /// Whether a change is one of the plugin's own applies whose answer has already arrived. Such a
    /// change is no drift. Otherwise a plugin that applies the time would run for ever.
    fn is_own_apply(
        &self,
        snapshot: &Snapshot,
        informer: InformerId,
        key: &ObjectKey,
        change: &Change,
    ) -> bool {
        let kind = snapshot.informers[informer].kind();
        let applied = &self.version.applied;
        change
            .new
            .as_ref()
            .is_some_and(|new| applied.has_left(kind, key, new.resource_version()))
    }

    /// Forgets what the plugin has applied to objects of a kind.
    pub fn forget_applied(&self, kind: &Kind) {
        self.version.applied.forget_kind(kind);
    }

    /// Some of an informer's objects have become unreadable, or readable again, at this sequence
    /// number.
    pub fn note_turned(&mut self, informer: InformerId, sequence: u64) {
        if self.subscriptions.contains_key(&informer) {
            self.turned_at = sequence;
        }
    }

    /// Queues the keys that asked for an object which has become unreadable, or readable again: its
    /// own key, and the keys with a result that contained it or should have.
    pub fn wake_reader(
        &mut self,
        informer: InformerId,
        key: &ObjectKey,
        priority: Priority,
        now: Time,
    ) {
        if !self.subscriptions.contains_key(&informer) {
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

/// The keys of objects that are ordered by namespace. Keys of one namespace share its name.
fn keys<'a>(objects: impl Iterator<Item = &'a Arc<Object>>) -> impl Iterator<Item = ObjectKey> {
    objects.scan(ObjectKey::singleton(), |last, object| {
        *last = object.key().to_key_beside(last);
        Some(last.clone())
    })
}
