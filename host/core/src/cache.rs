//! The cache of one informer: objects and indexes as persistent trees. A snapshot of it is a clone,
//! which shares everything and costs nothing.
//!
//! Guarantees:
//! - The indexes hold exactly the indexed values of the objects. Both change in the same call, and
//!   a snapshot taken between two calls sees both before or both after.
//! - The cache never goes back in time. An object, a deletion or a list that is older than what the
//!   cache shows is dropped and counted, and a deleted object does not reappear. A deletion needs
//!   no tombstone for that: changes come in the order of their versions, so whatever is not newer
//!   than everything that has come is old. An object that was fetched and found gone does need a
//!   tombstone, because its deletion is still to come. The only exception is a server that is known
//!   to have been rolled back: its lists are accepted.

mod delta;
mod entry;
mod layout;
pub mod snapshot;
mod stored;
pub mod tree;

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use crate::model::detail::Detail;
use crate::model::extent::Extent;
use crate::model::informer_key::InformerKey;
use crate::model::key::{KeyRef, Kind, ObjectKey, ResourceVersion};
use crate::model::label_bits::WantedBits;
use crate::model::object::{IndexId, Object, Schema};
use crate::model::served_kind::ServedKind;

pub use delta::{Change, Delta, Listing, Unreadable};
pub use layout::{Subscribed, Subscription};

use layout::Layout;
use stored::StoredObjects;

/// The objects of one informer. Cloning is O(1) and shares everything.
#[derive(Clone, Debug)]
pub struct Cache {
    informer_key: Arc<InformerKey>,
    objects: StoredObjects,
    /// Objects that exist but of which only the key can be read, and the reason.
    unreadable: Arc<BTreeMap<ObjectKey, String>>,
    /// Objects that were fetched and found gone. What the list-watch has yet to deliver of them is
    /// old. An entry ends with the object's deletion, with another object of the same name, or with
    /// a list that lacks the object, provided that this event is not itself older.
    gone: Arc<BTreeMap<ObjectKey, Gone>>,
    /// Keys that have become unreadable or readable again since [`take_turned`](Self::take_turned)
    /// was last called.
    turned: Vec<ObjectKey>,
    layout: Arc<Layout>,
    schema: Arc<Schema>,
    /// Some objects are not projected by the current schema: they have views that no plugin uses
    /// any more, and indexes that no plugin uses any more still hold postings.
    is_loose: bool,
    resource_version: ResourceVersion,
    /// How much the last complete list contained. `None` before the first list.
    synced: Option<Extent>,
    /// How often something older than the cached state was dropped.
    stale: u64,
    /// How often a wrong cached state was corrected.
    repairs: u64,
}

/// An object that was found gone, while its deletion is still to come from the list-watch.
#[derive(Clone, Debug)]
struct Gone {
    uid: Box<str>,
    /// The version of its last state in this cache; empty if there was none. Any state of this name
    /// that is not newer is older than the deletion, whichever object it belongs to.
    last: ResourceVersion,
}

impl Gone {
    fn includes(&self, object: &Object) -> bool {
        *self.uid == *object.uid() || object.resource_version().is_at_most(&self.last)
    }
}

impl Cache {
    /// Creates an empty cache that is not synced yet.
    pub fn new(informer_key: InformerKey) -> Self {
        Self {
            informer_key: Arc::new(informer_key),
            objects: StoredObjects::default(),
            unreadable: Arc::default(),
            gone: Arc::default(),
            turned: Vec::new(),
            layout: Arc::default(),
            schema: Arc::default(),
            is_loose: false,
            resource_version: ResourceVersion::default(),
            synced: None,
            stale: 0,
            repairs: 0,
        }
    }

    /// Which objects this cache holds.
    pub fn informer_key(&self) -> &InformerKey {
        &self.informer_key
    }

    /// The kind of the objects.
    pub fn kind(&self) -> &Kind {
        &self.informer_key.kind
    }

    /// Whether its objects describe the kinds that the cluster serves, and are the host's own.
    pub(crate) fn is_of_served_kinds(&self) -> bool {
        *self.kind() == ServedKind::object_kind()
    }

    /// The schema by which objects are to be parsed now.
    pub fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    /// True if a complete list with at least this much has been stored.
    pub fn is_synced(&self, extent: impl Into<Extent>) -> bool {
        let extent = extent.into();
        let synced = self.synced;
        extent.namespaces.is_none() || synced.is_some_and(|synced| synced.covers(extent))
    }

    /// True if no complete list has been stored yet.
    pub fn is_initial(&self) -> bool {
        self.synced.is_none()
    }

    /// The newest resourceVersion stored, bookmarks included.
    pub fn resource_version(&self) -> &ResourceVersion {
        &self.resource_version
    }

    /// The number of objects.
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// True if there are no objects.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// Bytes of the objects, with their views and postings.
    pub fn bytes(&self) -> usize {
        self.objects.bytes()
    }

    /// How many plugins use this cache.
    pub fn users(&self) -> usize {
        self.layout.users()
    }

    /// How often something older than the cached state was dropped.
    pub fn stale(&self) -> u64 {
        self.stale
    }

    /// Counts a state that was dropped as too old before it reached this cache.
    pub(crate) fn note_stale(&mut self) {
        self.stale += 1;
    }

    /// Objects that exist but of which only the key can be read, and the reason.
    pub fn unreadable(&self) -> &Arc<BTreeMap<ObjectKey, String>> {
        &self.unreadable
    }

    /// One object.
    pub fn get(&self, key: KeyRef<'_>) -> Option<&Arc<Object>> {
        self.objects.get(key)
    }

    /// All objects, or those of one namespace, ordered by namespace and name.
    pub fn list<'a>(
        &'a self,
        namespace: Option<&'a str>,
    ) -> impl Iterator<Item = &'a Arc<Object>> + use<'a> {
        self.objects.list(namespace, None)
    }

    /// The first object after this key, in the order of namespace and name. Without a key, the
    /// first object.
    pub fn after(&self, key: Option<KeyRef<'_>>) -> Option<&Arc<Object>> {
        self.objects.after(key)
    }

    /// As [`list`](Self::list), but only the objects after this key.
    pub fn list_after<'a>(
        &'a self,
        namespace: Option<&'a str>,
        after: Option<KeyRef<'a>>,
    ) -> impl Iterator<Item = &'a Arc<Object>> + use<'a> {
        self.objects.list(namespace, after)
    }

    /// Of the objects of [`list_after`](Self::list_after), those that a label selector with these
    /// bits may select. `None` stands for some dozen others that have been passed over.
    pub(crate) fn list_by_labels_after<'a>(
        &'a self,
        namespace: Option<&'a str>,
        wanted: WantedBits,
        after: Option<KeyRef<'a>>,
    ) -> impl Iterator<Item = Option<&'a Arc<Object>>> + use<'a> {
        self.objects.list_by_labels(namespace, wanted, after)
    }

    /// The objects that have this value in an index, ordered by namespace and name.
    pub fn list_by_index<'a>(
        &'a self,
        index: IndexId,
        value: &'a str,
    ) -> impl Iterator<Item = &'a Arc<Object>> + use<'a> {
        self.objects.list_by_index(index, value, None)
    }

    /// As [`list_by_index`](Self::list_by_index), but only the objects after this key.
    pub fn list_by_index_after<'a>(
        &'a self,
        index: IndexId,
        value: &'a str,
        after: Option<KeyRef<'a>>,
    ) -> impl Iterator<Item = &'a Arc<Object>> + use<'a> {
        self.objects.list_by_index(index, value, after)
    }

    /// Projects the object by the current schema. An object that can no longer be projected becomes
    /// unreadable.
    fn cut(&mut self, object: Arc<Object>) -> Option<Arc<Object>> {
        if object.is_cut_by(&self.schema) {
            return Some(object);
        }
        match object.recut(&self.schema) {
            Ok(object) => Some(Arc::new(object)),
            Err(error) => {
                self.set_unreadable(&object.key().to_key(), Some(error.to_string()));
                None
            }
        }
    }

    /// Adds a plugin, with its view (the whole object, if it names no fields) and its indexes.
    /// Whatever is new is made for every cached object in one pass. What another plugin already has
    /// is shared.
    pub fn join(&mut self, subscription: &Subscription) -> Subscribed {
        let subscribed = Arc::make_mut(&mut self.layout).join(subscription);
        self.adapt();
        self.trim();
        subscribed
    }

    /// Removes a plugin. New objects are no longer projected for it. Cached objects still are until
    /// [`trim`](Self::trim). A cache without any plugin is of no use any more and is left as it is.
    pub fn leave(&mut self, subscribed: &Subscribed) {
        Arc::make_mut(&mut self.layout).leave(subscribed);
        if self.users() > 0 {
            self.adapt();
        }
    }

    /// Some objects may contain no more than this.
    fn lack_above(&mut self, detail: Detail) {
        if let Some(synced) = &mut self.synced {
            synced.detail = synced.detail.min(detail);
        }
    }

    /// Changes the schema to what is needed now.
    fn adapt(&mut self) {
        let schema = self.layout.schema(self.schema.generation() + 1);
        // Objects that come from now on may contain less.
        self.lack_above(schema.detail());
        // Cached objects are projected like this already. The generation stays, so that none is
        // projected again.
        if schema.cuts_as(&self.schema) {
            self.schema = Arc::new(self.layout.schema(self.schema.generation()));
        } else {
            self.schema = Arc::new(schema);
            self.is_loose = true;
        }
    }

    /// True if some objects are not projected by the current schema.
    pub fn is_loose(&self) -> bool {
        self.is_loose
    }

    /// Projects every object by the current schema, if some are not.
    pub fn trim(&mut self) {
        if !self.is_loose {
            return;
        }
        self.is_loose = false;
        let anew = StoredObjects::with_indexes(self.schema.indexes().len());
        let objects = std::mem::replace(&mut self.objects, anew);
        for object in objects.all() {
            if let Some(object) = self.cut(object.clone()) {
                self.objects.insert(&object);
            }
        }
    }

    /// Replays a change from another clone of this cache. Returns the change as it is here, where
    /// objects may be projected differently.
    pub(crate) fn follow(&mut self, change: &Change) -> Option<Change> {
        let new = change.new.as_ref();
        let Some(new) = new.and_then(|new| self.cut(new.clone())) else {
            return self.objects.take(change.key());
        };
        let old = self.get(new.key()).cloned();
        Some(self.objects.put(new, old))
    }

    /// Takes over the state of another clone of this cache, whose changes have been replayed, as
    /// far as the changes do not contain it. Returns the keys that have become unreadable or
    /// readable again.
    pub(crate) fn follow_state(&mut self, other: &Self) -> Vec<ObjectKey> {
        self.resource_version = other.resource_version.clone();
        self.synced = other.synced;
        self.lack_above(self.schema.detail());
        self.stale = other.stale;
        self.repairs = other.repairs;
        self.gone = other.gone.clone();
        // These could not be projected here, but could in the other cache.
        let is_own = |(key, _): &(&ObjectKey, &String)| {
            other.get(key.parts()).is_some() && self.get(key.parts()).is_none()
        };
        let own = self.unreadable.iter().filter(is_own);
        let own = own.map(|(key, reason)| (key.clone(), reason.clone()));
        let mut now = other.unreadable.clone();
        for (key, reason) in own {
            Arc::make_mut(&mut now).insert(key, reason);
        }
        let before = std::mem::replace(&mut self.unreadable, now);
        self.turned_since(&before)
    }

    /// Stores a delta and returns what changed. For a replacement the deletions come first, then
    /// the other changes in the list's order (client-go's rule). An object with an unchanged
    /// resourceVersion and uid is no change, unless the server has gone back in time and the text
    /// differs.
    pub fn apply(&mut self, delta: Delta) -> Vec<Change> {
        let change = match delta {
            Delta::Replace(listing) => return self.replace(listing),
            Delta::Upsert(object) => {
                if !self.advance_past(&object.resource_version().clone()) {
                    return Vec::new();
                }
                self.upsert(object)
            }
            Delta::Read(object) => self.overlay(object),
            Delta::Delete {
                key,
                resource_version,
            } => {
                let is_repeated = resource_version == self.resource_version;
                if is_repeated && !self.has_at(key.parts(), &resource_version) {
                    return Vec::new();
                }
                if !is_repeated && !self.advance_past(&resource_version) {
                    return Vec::new();
                }
                self.forget_gone(key.parts(), &resource_version);
                self.set_unreadable(&key, None);
                self.remove(key.parts(), &resource_version)
            }
            Delta::Unreadable(Unreadable {
                key,
                resource_version,
                reason,
            }) => {
                if !self.advance_past(&resource_version) {
                    return Vec::new();
                }
                self.set_unreadable(&key, Some(reason));
                self.remove(key.parts(), &resource_version)
            }
            Delta::Bookmark(resource_version) => {
                self.advance(&resource_version);
                None
            }
        };
        change.into_iter().collect()
    }

    /// Stores an object that was read on its own, because the list-watch is behind or delivered the
    /// object in an unreadable form. This does not advance the cache's version: earlier changes are
    /// still to come, and those of this object that are older will be dropped.
    pub fn overlay(&mut self, object: Object) -> Option<Change> {
        let is_past = object.resource_version().is_at_most(&self.resource_version);
        if is_past && !self.is_unreadable(object.key()) {
            return None;
        }
        self.upsert(object)
    }

    /// Removes an object that was fetched on its own and found gone. `uid` identifies it in case it
    /// is not in the cache, because the list-watch has yet to deliver it.
    pub fn overlay_gone(&mut self, key: &ObjectKey, uid: Option<&str>) -> Option<Change> {
        self.set_unreadable(key, None);
        let change = self.objects.take(key.parts());
        let last = change.as_ref().and_then(|change| change.old.as_ref());
        let uid = last.map(|last| last.uid()).or(uid);
        // Without a uid the deleted object could not be told from a new one of the same name.
        if let Some(uid) = uid.filter(|uid| !uid.is_empty()) {
            let before = self.gone.get(key).map(|gone| &gone.last);
            let version = last.map(|last| last.resource_version()).or(before);
            let gone = Gone {
                uid: uid.into(),
                last: version.cloned().unwrap_or_default(),
            };
            Arc::make_mut(&mut self.gone).insert(key.clone(), gone);
        }
        change
    }

    /// Stores an object that was read on its own and differs from the cached state, although by its
    /// version the cache has already passed it.
    pub fn repair(&mut self, object: Object) -> Option<Change> {
        let old = self.get(object.key()).cloned();
        let is_newer = old
            .as_ref()
            .is_some_and(|old| is_after(old, &object.resource_version().clone()));
        let is_same = old.as_ref().is_some_and(|old| is_same_text(old, &object));
        if is_newer || is_same || self.is_gone(&object) {
            return None;
        }
        let is_past = object.resource_version().is_at_most(&self.resource_version);
        let change = self.store(object, old, true);
        self.repairs += u64::from(is_past && change.is_some());
        change
    }

    /// Removes an object that is in the cache but no longer exists.
    pub fn repair_gone(&mut self, key: &ObjectKey, uid: Option<&str>) -> Option<Change> {
        self.get(key.parts())?;
        self.repairs += 1;
        self.overlay_gone(key, uid)
    }

    /// How often a wrong cached state was corrected.
    pub fn repairs(&self) -> u64 {
        self.repairs
    }

    /// The version of an object in this cache.
    pub fn version_of(&self, key: &ObjectKey) -> Option<&ResourceVersion> {
        let object = self.get(key.parts());
        object.map(|object| object.resource_version())
    }

    /// True if the cache has a newer state of this object.
    pub fn is_newer_than(&self, object: &Object) -> bool {
        let here = self.get(object.key());
        here.is_some_and(|here| is_after(here, object.resource_version()))
    }

    /// True if this is a state of an object that was fetched and found gone.
    fn is_gone(&self, object: &Object) -> bool {
        let gone = || self.gone.get(&object.key().to_key());
        !self.gone.is_empty() && gone().is_some_and(|gone| gone.includes(object))
    }

    /// Ends the tombstone for this name, if the list-watch has reached a version beyond the
    /// object's last state.
    fn forget_gone(&mut self, key: KeyRef<'_>, at: &ResourceVersion) {
        let gone = || self.gone.get(&key.to_key());
        if !self.gone.is_empty() && gone().is_some_and(|gone| !at.is_at_most(&gone.last)) {
            Arc::make_mut(&mut self.gone).remove(&key.to_key());
        }
    }

    /// Takes the keys that have become unreadable or readable again since the last call.
    pub(crate) fn take_turned(&mut self) -> Vec<ObjectKey> {
        std::mem::take(&mut self.turned)
    }

    fn is_unreadable(&self, key: KeyRef<'_>) -> bool {
        !self.unreadable.is_empty() && self.unreadable.contains_key(&key.to_key())
    }

    fn advance(&mut self, to: &ResourceVersion) {
        // Opaque versions cannot be compared. The one that came last counts.
        let is_news = !to.is_empty() && !to.is_at_most(&self.resource_version);
        if is_news {
            self.resource_version = to.clone();
        }
    }

    /// Whether it has an object at exactly this version. Some aggregated servers send a deletion
    /// with the version at which the object was stored.
    fn has_at(&self, key: KeyRef<'_>, version: &ResourceVersion) -> bool {
        let object = self.get(key);
        object.is_some_and(|object| object.resource_version() == version)
    }

    /// Advances to this version and returns true. If the cache has already reached it, counts it as
    /// stale and returns false.
    fn advance_past(&mut self, to: &ResourceVersion) -> bool {
        let is_stale = to.is_at_most(&self.resource_version);
        self.stale += u64::from(is_stale);
        self.advance(to);
        !is_stale
    }

    fn replace(&mut self, listing: Listing) -> Vec<Change> {
        let Listing {
            objects,
            unreadable,
            resource_version,
            extent,
            is_rollback,
        } = listing;
        // A list older than the cache is dropped, unless the server is known to have been rolled
        // back.
        let is_older = resource_version < self.resource_version
            && resource_version.is_at_most(&self.resource_version);
        if is_older && !is_rollback {
            self.stale += 1;
            return Vec::new();
        }
        let until = (!is_rollback).then_some(&resource_version);
        let brought = objects.iter().map(Object::detail).min();
        let objects = self.without_gone(objects, until);
        let mut changes = self.remove_unlisted(&objects, until);
        self.replace_unreadable(unreadable);
        for object in objects {
            let old = self.get(object.key()).cloned();
            // Nothing else in the cache can be newer than the list. If a listed object is older
            // than its cached state, it comes from a server that was restored from a backup, with
            // versions that continue from where they were.
            let is_ahead = |old: &Arc<Object>| until.is_some_and(|until| is_after(old, until));
            if !old.as_ref().is_some_and(is_ahead) {
                changes.extend(self.store(object, old, is_rollback));
            }
        }
        if is_rollback {
            self.resource_version = resource_version;
        } else {
            self.advance(&resource_version);
        }
        // The detail is what was asked for, unless less has arrived: the list may already have
        // been under way when the wanted detail changed.
        self.synced = Some(extent);
        self.lack_above(brought.unwrap_or(extent.detail));
        changes
    }

    /// Drops the objects from a list that are known to be gone, because the list is older than
    /// their deletion. Ends the tombstones that the list has passed. `until` is the list's version,
    /// if it counts.
    fn without_gone(
        &mut self,
        mut objects: Vec<Object>,
        until: Option<&ResourceVersion>,
    ) -> Vec<Object> {
        if self.gone.is_empty() {
            return objects;
        }
        let gone = std::mem::take(&mut self.gone);
        let Some(until) = until else {
            return objects;
        };
        let is_later = |gone: &Gone| *until != gone.last && until.is_at_most(&gone.last);
        let later = gone.iter().filter(|(_, gone)| is_later(gone));
        let mut still: BTreeMap<ObjectKey, Gone> = later
            .map(|(key, gone)| (key.clone(), gone.clone()))
            .collect();
        objects.retain(|object| {
            let known = gone.get_key_value(&object.key().to_key());
            let known = known.filter(|(_, gone)| gone.includes(object));
            still.extend(known.map(|(key, gone)| (key.clone(), gone.clone())));
            known.is_none()
        });
        self.gone = Arc::new(still);
        objects
    }

    fn replace_unreadable(&mut self, unreadable: Vec<Unreadable>) {
        let now = unreadable
            .into_iter()
            .map(|object| (object.key, object.reason));
        let now: BTreeMap<ObjectKey, String> = now.collect();
        let before = std::mem::replace(&mut self.unreadable, Arc::new(now));
        let turned = self.turned_since(&before);
        self.turned.extend(turned);
    }

    /// Removes the objects that are not in the list. If the list has a version that counts, objects
    /// newer than it stay.
    fn remove_unlisted(
        &mut self,
        listed: &[Object],
        until: Option<&ResourceVersion>,
    ) -> Vec<Change> {
        let listed: HashSet<KeyRef<'_>> = listed.iter().map(Object::key).collect();
        let is_newer = |object: &Object| until.is_some_and(|until| is_after(object, until));
        let objects = self.objects.all().cloned();
        let gone: Vec<Arc<Object>> = objects
            .filter(|object| !listed.contains(&object.key()) && !is_newer(object))
            .collect();
        gone.iter()
            .filter_map(|object| self.objects.take(object.key()))
            .collect()
    }

    /// Stores an object, unless the cache has a newer state of it or it is known to be gone.
    fn upsert(&mut self, object: Object) -> Option<Change> {
        if self.is_gone(&object) {
            self.stale += 1;
            return None;
        }
        self.forget_gone(object.key(), object.resource_version());
        let old = self.get(object.key()).cloned();
        let is_older = |old: &Arc<Object>| is_after(old, object.resource_version());
        if old.as_ref().is_some_and(is_older) {
            return None;
        }
        self.store(object, old, false)
    }

    /// Replaces `old`, the cached state, with an object. After a rollback the server may give the
    /// same version to two different states, so the texts are compared as well.
    fn store(
        &mut self,
        object: Object,
        old: Option<Arc<Object>>,
        is_rollback: bool,
    ) -> Option<Change> {
        let object = Arc::new(object);
        let Some(new) = self.cut(object.clone()) else {
            return self.objects.take(object.key());
        };
        let is_same =
            |old: &Arc<Object>| is_same(old, &new) && (!is_rollback || old.json() == new.json());
        if old.as_ref().is_some_and(is_same) {
            return None;
        }
        if !self.unreadable.is_empty() {
            self.set_unreadable(&new.key().to_key(), None);
        }
        Some(self.objects.put(new, old))
    }

    /// Keys that are unreadable either now or before, but not both.
    fn turned_since(&self, before: &BTreeMap<ObjectKey, String>) -> Vec<ObjectKey> {
        let now = &self.unreadable;
        let gone = before.keys().filter(|key| !now.contains_key(*key));
        let come = now.keys().filter(|key| !before.contains_key(*key));
        gone.chain(come).cloned().collect()
    }

    /// Removes an object, unless the cache has a newer state of it.
    fn remove(&mut self, key: KeyRef<'_>, at: &ResourceVersion) -> Option<Change> {
        let is_newer = self.get(key).is_some_and(|old| is_after(old, at));
        if is_newer {
            None
        } else {
            self.objects.take(key)
        }
    }

    fn set_unreadable(&mut self, key: &ObjectKey, reason: Option<String>) {
        let was = self.unreadable.contains_key(key);
        if was != reason.is_some() {
            self.turned.push(key.clone());
        }
        match reason {
            Some(reason) => drop(Arc::make_mut(&mut self.unreadable).insert(key.clone(), reason)),
            None if was => drop(Arc::make_mut(&mut self.unreadable).remove(key)),
            None => {}
        }
    }
}

/// True if the object is newer than this version.
fn is_after(object: &Object, version: &ResourceVersion) -> bool {
    version != object.resource_version() && version.is_at_most(object.resource_version())
}

/// True if the texts are equal, or equal as JSON values.
fn is_same_text(old: &Object, new: &Object) -> bool {
    let parse = |object: &Object| serde_json::from_str::<serde_json::Value>(object.json()).ok();
    old.json() == new.json() || parse(old) == parse(new)
}

/// True if both are the same state of the same object, with the same amount of it kept.
fn is_same(old: &Object, new: &Object) -> bool {
    old.uid() == new.uid()
        && old.resource_version() == new.resource_version()
        && old.detail() == new.detail()
        && !new.resource_version().is_empty()
}

#[cfg(test)]
mod tests;
