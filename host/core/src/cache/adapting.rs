//! Projects the objects of a cache anew when a plugin comes or goes. This is done on a clone of the
//! cache, which then follows the original.

use std::sync::Arc;

use super::entry::CacheEntry;
use super::{Cache, Change, Subscribed, Subscription};
use crate::cache::tree::Tree;
use crate::model::key::ObjectKey;

impl Cache {
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

    /// Changes the schema to what is needed now.
    fn adapt(&mut self) {
        let schema = self.layout.schema(self.schema.generation() + 1);
        // Objects that come from now on may contain less.
        self.synced = self.synced.map(|synced| synced.min(schema.detail()));
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
        self.indexes = vec![Tree::default(); self.schema.indexes().len()];
        self.bytes = 0;
        let objects = std::mem::take(&mut self.objects);
        for CacheEntry(object) in objects.iter() {
            if let Some(object) = self.cut(object.clone()) {
                self.insert(&object);
            }
        }
    }

    /// Replays a change from another clone of this cache. Returns the change as it is here, where
    /// objects may be projected differently.
    pub(crate) fn follow(&mut self, change: &Change) -> Option<Change> {
        let new = change.new.as_ref();
        let Some(new) = new.and_then(|new| self.cut(new.clone())) else {
            return self.take(change.key());
        };
        let old = self.get(new.key()).cloned();
        Some(self.put(new, old))
    }

    /// Takes over the state of another clone of this cache, whose changes have been replayed, as
    /// far as the changes do not contain it. Returns the keys that have become unreadable or
    /// readable again.
    pub(crate) fn follow_state(&mut self, other: &Self) -> Vec<ObjectKey> {
        self.resource_version = other.resource_version.clone();
        let detail = self.schema.detail();
        self.synced = other.synced.map(|synced| synced.min(detail));
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
}
