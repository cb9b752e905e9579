//! Holds what a list-watch has brought before it replaces another.
//!
//! The other list-watch goes on meanwhile, so that its plugins do not stand still while the new
//! list is fetched, or if the list never comes. By the time the list is complete the other one may
//! have brought later changes, and a cache does not go back in time. Therefore the list is kept
//! here, and kept current by its own watch, until it has caught up with the cache.

use std::collections::BTreeMap;

use pilothouse_core::{Delta, Extent, Listing, Object, ObjectKey, ResourceVersion, Unreadable};

/// See the module's documentation.
#[derive(Default)]
pub struct Stage {
    /// `None` before the first complete list.
    held: Option<Held>,
}

struct Held {
    /// All objects that exist at `version`.
    objects: BTreeMap<ObjectKey, Result<Object, Unreadable>>,
    version: ResourceVersion,
    extent: Extent,
    is_rollback: bool,
}

impl Stage {
    /// Applies a delta as a cache would.
    pub fn add(&mut self, delta: Delta) {
        if let Delta::Replace(listing) = delta {
            self.held = Some(Held::new(listing));
        } else if let Some(held) = &mut self.held {
            held.change(delta);
        }
    }

    /// Takes the whole list, if it has caught up with a cache of this version. After a rollback the
    /// list counts however old it is.
    pub fn take(&mut self, cached: &ResourceVersion) -> Option<Listing> {
        let is_ready = |held: &mut Held| held.is_rollback || !is_older(&held.version, cached);
        self.held.take_if(is_ready).map(Held::into_listing)
    }
}

impl Held {
    fn new(listing: Listing) -> Self {
        let objects = listing.objects.into_iter();
        let readable = objects.map(|object| (object.key().to_key(), Ok(object)));
        let unreadable = listing.unreadable.into_iter();
        let unreadable = unreadable.map(|object| (object.key.clone(), Err(object)));
        Self {
            objects: readable.chain(unreadable).collect(),
            version: listing.resource_version,
            extent: listing.extent,
            is_rollback: listing.is_rollback,
        }
    }

    fn change(&mut self, delta: Delta) {
        match delta {
            Delta::Upsert(object) => {
                self.advance(object.resource_version().clone());
                self.put(object);
            }
            Delta::Read(object) => self.put(object),
            Delta::Delete {
                key,
                resource_version,
            } => {
                if !self.is_ahead(&key, &resource_version) {
                    self.objects.remove(&key);
                }
                self.advance(resource_version);
            }
            Delta::Unreadable(object) => {
                self.advance(object.resource_version.clone());
                self.objects.insert(object.key.clone(), Err(object));
            }
            Delta::Bookmark(version) => self.advance(version),
            Delta::Replace(listing) => *self = Self::new(listing),
        }
    }

    fn put(&mut self, object: Object) {
        let key = object.key().to_key();
        if !self.is_ahead(&key, object.resource_version()) {
            self.objects.insert(key, Ok(object));
        }
    }

    /// True if a newer state of the object is held, because it was read on its own.
    fn is_ahead(&self, key: &ObjectKey, version: &ResourceVersion) -> bool {
        let held = self.objects.get(key).and_then(|held| held.as_ref().ok());
        held.is_some_and(|held| is_older(version, held.resource_version()))
    }

    fn advance(&mut self, version: ResourceVersion) {
        if !version.is_empty() && !is_older(&version, &self.version) {
            self.version = version;
        }
    }

    fn into_listing(self) -> Listing {
        let mut listing = Listing {
            resource_version: self.version,
            extent: self.extent,
            is_rollback: self.is_rollback,
            ..Listing::default()
        };
        for held in self.objects.into_values() {
            match held {
                Ok(object) => listing.objects.push(object),
                Err(object) => listing.unreadable.push(object),
            }
        }
        listing
    }
}

fn is_older(version: &ResourceVersion, than: &ResourceVersion) -> bool {
    version != than && version.is_at_most(than)
}

#[cfg(test)]
mod tests {
    use pilothouse_core::{Kind, Schema};

    use super::*;

    fn version(number: u64) -> ResourceVersion {
        ResourceVersion::new(&number.to_string())
    }

    fn pod(name: &str, version: u64) -> Object {
        let json = format!(
            r#"{{"metadata":{{"name":"{name}","namespace":"n","resourceVersion":"{version}"}}}}"#
        );
        Object::parse(&Kind::new("", "v1", "Pod"), &json, &Schema::default()).unwrap()
    }

    fn listed(names: &[&str], at: u64) -> Delta {
        Delta::Replace(Listing {
            objects: names.iter().map(|name| pod(name, at)).collect(),
            resource_version: version(at),
            ..Listing::default()
        })
    }

    fn states(listing: &Listing) -> Vec<String> {
        let objects = listing.objects.iter();
        let readable =
            objects.map(|object| format!("{}@{}", object.key(), object.resource_version()));
        let unreadable = listing.unreadable.iter();
        let unreadable = unreadable.map(|object| format!("{}?", object.key));
        readable.chain(unreadable).collect()
    }

    #[test]
    fn a_list_is_held_until_it_has_come_as_far_as_the_cache() {
        let mut stage = Stage::default();
        assert!(stage.take(&version(1)).is_none(), "there is none");
        stage.add(Delta::Upsert(pod("early", 3)));
        stage.add(listed(&["a", "b", "c"], 10));
        assert!(stage.take(&version(14)).is_none());
        stage.add(Delta::Upsert(pod("a", 12)));
        stage.add(Delta::delete(&pod("b", 13)));
        assert!(stage.take(&version(14)).is_none());
        stage.add(Delta::Bookmark(version(14)));
        let listing = stage.take(&version(14)).unwrap();
        assert_eq!(listing.resource_version, version(14));
        assert_eq!(states(&listing), ["n/a@12", "n/c@10"]);
        assert!(stage.take(&version(14)).is_none(), "it is taken once");
    }

    #[test]
    fn a_state_that_was_read_on_its_own_is_not_undone_by_older_changes() {
        let mut stage = Stage::default();
        stage.add(listed(&["a", "b"], 10));
        stage.add(Delta::Read(pod("a", 20)));
        stage.add(Delta::Upsert(pod("a", 12)));
        stage.add(Delta::Read(pod("b", 21)));
        stage.add(Delta::delete(&pod("b", 13)));
        assert!(stage.take(&version(14)).is_none(), "it is at 13");
        let listing = stage.take(&version(13)).unwrap();
        assert_eq!(states(&listing), ["n/a@20", "n/b@21"]);
    }

    #[test]
    fn what_cannot_be_read_stays_so_until_it_can() {
        let mut stage = Stage::default();
        let bad = |name: &str, at| Unreadable {
            key: ObjectKey::new("n", name),
            resource_version: version(at),
            reason: "garbled".into(),
        };
        stage.add(listed(&["a", "b"], 10));
        stage.add(Delta::Unreadable(bad("a", 11)));
        stage.add(Delta::Unreadable(bad("b", 12)));
        stage.add(Delta::Upsert(pod("a", 13)));
        let listing = stage.take(&version(13)).unwrap();
        assert_eq!(states(&listing), ["n/a@13", "n/b?"]);
    }

    #[test]
    fn after_a_rollback_a_list_counts_though_it_is_older_than_the_cache() {
        let mut stage = Stage::default();
        stage.add(listed(&["a"], 10));
        let Delta::Replace(mut restored) = listed(&["b"], 5) else {
            unreachable!()
        };
        restored.is_rollback = true;
        stage.add(Delta::Replace(restored));
        let listing = stage.take(&version(100)).unwrap();
        assert_eq!(states(&listing), ["n/b@5"]);
        assert!(listing.is_rollback);
    }
}
