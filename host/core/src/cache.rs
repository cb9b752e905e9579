//! The cache of one kind: objects and indexes as persistent maps, so that a snapshot is a clone and costs nothing.
//!
//! Invariant: the indexes hold exactly the indexed values of the objects. Both change in the same call, and a snapshot taken
//! between two calls sees both before or both after.

use std::sync::Arc;

use imbl::OrdMap;

use crate::fields::{FieldPath, Projection};
use crate::key::{Kind, ObjectKey, ResourceVersion};
use crate::object::{IndexId, Object, Schema, ViewId};

/// What a list-watch says of its objects, in the order it says it.
#[derive(Debug)]
pub enum Delta {
    /// These are all the objects there are.
    Replace(Listing),
    /// The object is new or has changed.
    Upsert(Object),
    /// The object is gone.
    Delete {
        /// Which.
        key: ObjectKey,
        /// That of its deletion.
        resource_version: ResourceVersion,
    },
    /// The object has changed, and cannot be read.
    Unreadable(Unreadable),
    /// Nothing has changed up to this resourceVersion.
    Bookmark(ResourceVersion),
}

impl Delta {
    /// The deletion of which this is the object's last state.
    pub fn delete(last: &Object) -> Self {
        Self::Delete {
            key: last.header.key.clone(),
            resource_version: last.header.resource_version.clone(),
        }
    }
}

/// A complete list.
#[derive(Debug, Default)]
pub struct Listing {
    /// The objects.
    pub objects: Vec<Object>,
    /// Objects that are there and cannot be read.
    pub unreadable: Vec<Unreadable>,
    /// The list's resourceVersion.
    pub resource_version: ResourceVersion,
    /// The server is known to have gone back in time (etcd restored from a snapshot): what is listed counts, however old it is.
    pub is_rollback: bool,
}

/// An object of which only the name can be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// Its key.
    pub key: ObjectKey,
    /// Its resourceVersion, if that can be read.
    pub resource_version: ResourceVersion,
    /// Why the rest cannot, in one line.
    pub reason: String,
}

/// What became of one object. At least one of the two states is there.
#[derive(Clone, Debug)]
pub struct Change {
    /// The state before; none if the object is new to the cache.
    pub old: Option<Arc<Object>>,
    /// The state after; none if it is gone.
    pub new: Option<Arc<Object>>,
}

impl Change {
    /// The object's key.
    pub fn key(&self) -> &ObjectKey {
        let object = self.new.as_ref().or(self.old.as_ref());
        &object.expect("a change has a state").header.key
    }

    /// Both states.
    pub fn states(&self) -> impl Iterator<Item = &Arc<Object>> {
        self.old.iter().chain(&self.new)
    }
}

/// One index: an entry for each indexed value of each object, ordered by value, then key.
///
/// One tree for all values, not a set per value: indexes over many values, like owners, would be mostly empty tree nodes.
type Postings = OrdMap<Posting, Arc<Object>>;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Posting {
    value: Arc<str>,
    key: ObjectKey,
}

impl Posting {
    fn new(value: &Arc<str>, object: &Object) -> Self {
        Self {
            value: value.clone(),
            key: object.header.key.clone(),
        }
    }
}

/// The objects of one kind. Cloning is O(1) and shares everything.
#[derive(Clone)]
pub struct KindCache {
    kind: Kind,
    objects: OrdMap<ObjectKey, Arc<Object>>,
    /// By [`IndexId`].
    indexes: Vec<Postings>,
    schema: Arc<Schema>,
    resource_version: ResourceVersion,
    is_synced: bool,
}

impl KindCache {
    /// An empty cache, not synced yet.
    pub fn new(kind: Kind) -> Self {
        Self {
            kind,
            objects: OrdMap::new(),
            indexes: Vec::new(),
            schema: Arc::default(),
            resource_version: ResourceVersion::default(),
            is_synced: false,
        }
    }

    /// The kind.
    pub fn kind(&self) -> &Kind {
        &self.kind
    }

    /// How objects of this kind are to be parsed now.
    pub fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    /// Whether a complete list has been stored.
    pub fn is_synced(&self) -> bool {
        self.is_synced
    }

    /// The newest resourceVersion stored, bookmarks included.
    pub fn resource_version(&self) -> &ResourceVersion {
        &self.resource_version
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// Whether there are no objects.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// One object.
    pub fn get(&self, key: &ObjectKey) -> Option<&Arc<Object>> {
        self.objects.get(key)
    }

    /// All objects, or those of one namespace, ordered by namespace and name.
    pub fn list<'a>(&'a self, namespace: Option<&'a str>) -> impl Iterator<Item = &'a Arc<Object>> {
        let start = ObjectKey::new(namespace.unwrap_or_default(), "");
        self.objects
            .range(start..)
            .map(|(_, object)| object)
            .take_while(move |object| {
                namespace.is_none_or(|namespace| *object.header.key.namespace == *namespace)
            })
    }

    /// The objects with an indexed value, ordered by namespace and name.
    pub fn list_by_index<'a>(
        &'a self,
        index: IndexId,
        value: &'a str,
    ) -> impl Iterator<Item = &'a Arc<Object>> {
        let start = Posting {
            value: value.into(),
            key: ObjectKey::singleton(),
        };
        let postings = self
            .indexes
            .get(index)
            .map(|postings| postings.range(start..));
        postings
            .into_iter()
            .flatten()
            .take_while(move |(posting, _)| *posting.value == *value)
            .map(|(_, object)| object)
    }

    /// A plugin's view (the whole object, if it names no fields) and its indexes. What is new is made of every object already
    /// here, in one pass; what another plugin has already is shared.
    pub fn add(
        &mut self,
        fields: &[FieldPath],
        indexes: &[Vec<FieldPath>],
    ) -> (ViewId, Vec<IndexId>) {
        let Schema {
            views: mut all_views,
            indexes: mut all_indexes,
            ..
        } = Schema::clone(&self.schema);
        let view = (!fields.is_empty()).then(|| {
            let paths: Vec<FieldPath> = fields
                .iter()
                .cloned()
                .chain(crate::object::identity_paths())
                .collect();
            find_or_push(&mut all_views, Projection::new(&paths))
        });
        let indexes = indexes
            .iter()
            .map(|paths| find_or_push(&mut all_indexes, paths.clone()))
            .collect();
        if (all_views.len(), all_indexes.len())
            != (self.schema.views.len(), self.schema.indexes.len())
        {
            self.recut(all_views, all_indexes);
        }
        (view, indexes)
    }

    fn recut(&mut self, views: Vec<Projection>, indexes: Vec<Vec<FieldPath>>) {
        let generation = self.schema.generation + 1;
        self.schema = Arc::new(Schema {
            generation,
            payload: self.schema.payload,
            views,
            indexes,
        });
        self.indexes = vec![Postings::default(); self.schema.indexes.len()];
        for object in std::mem::take(&mut self.objects)
            .into_iter()
            .map(|(_, object)| object)
        {
            let object = self.cut(object);
            self.post(&object);
            self.objects.insert(object.header.key.clone(), object);
        }
    }

    /// The object as the current schema cuts it.
    fn cut(&self, object: Arc<Object>) -> Arc<Object> {
        if object.is_cut_by(&self.schema) {
            return object;
        }
        Arc::new(
            object
                .recut(&self.schema)
                .expect("an object's text was JSON when it was parsed"),
        )
    }

    /// Stores a delta and says what changed: for a replacement first all that is gone, then the rest in the list's order
    /// (client-go's rule). An object whose resourceVersion and uid are what they were is no change.
    pub fn apply(&mut self, delta: Delta) -> Vec<Change> {
        match delta {
            Delta::Replace(Listing {
                objects,
                resource_version,
                ..
            }) => {
                let changes = self.replace(objects);
                self.is_synced = true;
                self.advance(&resource_version);
                changes
            }
            Delta::Upsert(object) => {
                self.advance(&object.header.resource_version);
                self.upsert(object).into_iter().collect()
            }
            Delta::Delete {
                key,
                resource_version,
            }
            | Delta::Unreadable(Unreadable {
                key,
                resource_version,
                ..
            }) => {
                self.advance(&resource_version);
                self.remove(&key).into_iter().collect()
            }
            Delta::Bookmark(resource_version) => {
                self.advance(&resource_version);
                Vec::new()
            }
        }
    }

    fn advance(&mut self, to: &ResourceVersion) {
        if *to > self.resource_version {
            self.resource_version = to.clone();
        }
    }

    fn replace(&mut self, objects: Vec<Object>) -> Vec<Change> {
        let listed: std::collections::HashSet<&ObjectKey> =
            objects.iter().map(|object| &object.header.key).collect();
        let gone: Vec<ObjectKey> = self
            .objects
            .keys()
            .filter(|key| !listed.contains(key))
            .cloned()
            .collect();
        let removed: Vec<Change> = gone.iter().filter_map(|key| self.remove(key)).collect();
        let stored = objects.into_iter().filter_map(|object| self.upsert(object));
        removed
            .into_iter()
            .chain(stored.collect::<Vec<_>>())
            .collect()
    }

    fn upsert(&mut self, object: Object) -> Option<Change> {
        let new = self.cut(Arc::new(object));
        let old = self.objects.get(&new.header.key).cloned();
        if let Some(old) = &old {
            let (old, new) = (&old.header, &new.header);
            if old.uid == new.uid
                && old.resource_version == new.resource_version
                && !new.resource_version.as_str().is_empty()
            {
                return None;
            }
        }
        if let Some(old) = &old {
            self.unpost(old, Some(&new));
        }
        self.post(&new);
        self.objects.insert(new.header.key.clone(), new.clone());
        Some(Change {
            old,
            new: Some(new),
        })
    }

    fn remove(&mut self, key: &ObjectKey) -> Option<Change> {
        let old = self.objects.remove(key)?;
        self.unpost(&old, None);
        Some(Change {
            old: Some(old),
            new: None,
        })
    }

    fn post(&mut self, object: &Arc<Object>) {
        for (index, postings) in self.indexes.iter_mut().enumerate() {
            for value in object.indexed(index) {
                postings.insert(Posting::new(value, object), object.clone());
            }
        }
    }

    /// Removes the postings of `old`, but not those that `new` is about to replace.
    fn unpost(&mut self, old: &Object, new: Option<&Object>) {
        for (index, postings) in self.indexes.iter_mut().enumerate() {
            let stays =
                |value| new.is_some_and(|new| new.indexed(index).binary_search(value).is_ok());
            for value in old.indexed(index).iter().filter(|value| !stays(value)) {
                postings.remove(&Posting::new(value, old));
            }
        }
    }
}

fn find_or_push<T: PartialEq>(all: &mut Vec<T>, wanted: T) -> usize {
    all.iter()
        .position(|have| *have == wanted)
        .unwrap_or_else(|| {
            all.push(wanted);
            all.len() - 1
        })
}

#[cfg(test)]
#[path = "cache_tests.rs"]
mod tests;
