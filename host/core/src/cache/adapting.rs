//! What plugins that come and go do to a cache: it is cut anew, on a clone of it, which then follows the original.

use std::sync::Arc;

use super::entry::Entry;
use super::{Cache, Change, Grant, Wish};
use crate::key::ObjectKey;
use crate::tree::Tree;

impl Cache {
    /// A plugin comes, with its view (the whole object, if it names no fields) and its indexes. What is new is made of every
    /// object already here, in one pass; what another plugin has already is shared.
    pub fn join(&mut self, wish: &Wish) -> Grant {
        let grant = Arc::make_mut(&mut self.layout).join(wish);
        self.adapt();
        self.trim();
        grant
    }

    /// A plugin goes. What comes from now on is not cut for it any more; what is here is until [`trim`](Self::trim). Without any
    /// plugin the cache is of no use any more, and is left as it is.
    pub fn leave(&mut self, grant: &Grant) {
        Arc::make_mut(&mut self.layout).leave(grant);
        if self.users() > 0 {
            self.adapt();
        }
    }

    /// From now on objects are cut to what is needed now.
    fn adapt(&mut self) {
        let schema = self.layout.schema(self.schema.generation() + 1);
        // What comes from now on may be less.
        self.synced = self.synced.map(|synced| synced.min(schema.payload()));
        if schema.cuts_as(&self.schema) {
            self.schema = Arc::new(self.layout.schema(self.schema.generation()));
        } else {
            self.schema = Arc::new(schema);
            self.is_loose = true;
        }
    }

    /// Whether there are objects that are not cut to what is needed now.
    pub fn is_loose(&self) -> bool {
        self.is_loose
    }

    /// Cuts every object to what is needed now.
    pub fn trim(&mut self) {
        if !self.is_loose {
            return;
        }
        self.is_loose = false;
        self.indexes = vec![Tree::default(); self.schema.indexes().len()];
        self.bytes = 0;
        let objects = std::mem::take(&mut self.objects);
        for Entry(object) in objects.iter() {
            if let Some(object) = self.cut(object.clone()) {
                self.insert(&object);
            }
        }
    }

    /// Makes a change that another clone of this cache has made. Says what it is here, where objects may be cut otherwise.
    pub(crate) fn follow(&mut self, change: &Change) -> Option<Change> {
        let new = change.new.as_ref();
        let Some(new) = new.and_then(|new| self.cut(new.clone())) else {
            return self.take(change.key());
        };
        let old = self.get(new.key()).cloned();
        Some(self.put(new, old))
    }

    /// Takes over from another clone of this cache, whose changes have been followed, what is not in them. Says which keys have become
    /// unreadable, or are so no more.
    pub(crate) fn follow_state(&mut self, other: &Self) -> Vec<ObjectKey> {
        self.resource_version = other.resource_version.clone();
        let payload = self.schema.payload();
        self.synced = other.synced.map(|synced| synced.min(payload));
        self.stale = other.stale;
        self.repairs = other.repairs;
        self.gone = other.gone.clone();
        // What could not be cut here could there.
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
