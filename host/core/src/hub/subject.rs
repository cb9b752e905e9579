//! Which objects of a kind have keys that a plugin reconciles, and which changes of them concern
//! it. A pattern that is reconciled is one such kind for each of its own.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::access::scope::{Scope, ScopePart};
use crate::cache::snapshot::{InformerId, Snapshot};
use crate::cache::{Cache, Change};
use crate::model::key::{KeyRef, Kind, ObjectKey};
use crate::model::manifest::Selection;
use crate::model::object::{Object, ViewId};
use crate::model::selector::FieldSelector;
use crate::model::subject_key::SubjectKey;
use crate::reads::read::Read;
use crate::reads::sight::is_visible;

/// A kind that a plugin reconciles.
pub(super) struct SubjectKind {
    /// The kind as its keys share it.
    kind: Arc<Kind>,
    selection: Selection,
    fields: Option<FieldSelector>,
    /// The informers of the kind.
    informers: Vec<InformerId>,
    /// The informers of its companions' kinds.
    companions: BTreeSet<InformerId>,
}

impl SubjectKind {
    /// `kind`: that of the selection, or one of its pattern's.
    pub fn new(kind: Arc<Kind>, selection: &Selection, scope: &Scope) -> Self {
        let fields = selection.fields.as_deref();
        let companions = selection.companions.iter();
        Self {
            fields: fields.and_then(|fields| FieldSelector::parse(&kind, fields).ok()),
            informers: informers(scope, &kind).collect(),
            companions: companions.flat_map(|kind| informers(scope, kind)).collect(),
            kind,
            selection: selection.clone(),
        }
    }

    pub fn kind(&self) -> &Arc<Kind> {
        &self.kind
    }

    /// The key of an object of the kind.
    pub fn key(&self, object: ObjectKey) -> SubjectKey {
        SubjectKey::of(&self.kind, object)
    }

    /// The object of the kind that follows this key, selected or not; the first object if there is
    /// no key.
    pub fn after<'a>(
        &self,
        snapshot: &'a Snapshot,
        key: Option<&ObjectKey>,
    ) -> Option<&'a Arc<Object>> {
        let informers = self.informers.iter();
        let caches = informers.map(|informer| &snapshot.informers[*informer]);
        // With many namespaces, most of them come before the key.
        let may_have = |cache: &&Arc<Cache>| match (&cache.informer_key().namespace, key) {
            (Some(only), Some(key)) => **only >= *key.namespace,
            _ => true,
        };
        let key = key.map(ObjectKey::parts);
        let next = caches.filter(may_have).filter_map(|cache| cache.after(key));
        next.min_by_key(|object| object.key())
    }

    /// How many objects of the kind there are, selected or not.
    pub fn objects(&self, snapshot: &Snapshot) -> usize {
        let informers = self.informers.iter();
        informers
            .map(|informer| snapshot.informers[*informer].len())
            .sum()
    }

    /// Whether a key's object is there, selected or not.
    pub fn is_cached(&self, snapshot: &Snapshot, key: KeyRef<'_>) -> bool {
        self.get(snapshot, key).is_some()
    }

    /// Whether a key's object is there, and selected.
    pub fn is_there(&self, snapshot: &Snapshot, key: KeyRef<'_>) -> bool {
        let object = self.get(snapshot, key);
        object.is_some_and(|object| self.selects(object))
    }

    fn get<'a>(&self, snapshot: &'a Snapshot, key: KeyRef<'_>) -> Option<&'a Arc<Object>> {
        let mut informers = self.informers.iter();
        informers.find_map(|informer| snapshot.informers[*informer].get(key))
    }

    /// The companions whose keys the plugin reconciles.
    pub fn all_companions<'a>(
        &'a self,
        snapshot: &'a Snapshot,
    ) -> impl Iterator<Item = &'a Arc<Object>> {
        let informers = self.companions.iter();
        informers
            .flat_map(|informer| snapshot.informers[*informer].list(None))
            .filter(|object| self.wants_companion(snapshot, object.key()))
    }

    /// The informers whose changes may concern the kind: its own, and those of its companions.
    pub fn concerned_by(&self) -> BTreeSet<InformerId> {
        let own = self.informers.iter();
        own.chain(&self.companions).copied().collect()
    }

    pub fn is_companion(&self, informer: InformerId) -> bool {
        self.companions.contains(&informer)
    }

    /// Whether a key that this informer brings may be a subject's, whatever the state of its
    /// object.
    pub fn may_be(&self, informer: InformerId, key: &ObjectKey) -> bool {
        self.informers.contains(&informer) && self.is_in_namespace(key.parts())
    }

    /// Whether a read made for a key is a read of the key's own object. The result of such a read
    /// changes exactly when a change [touches](Self::is_touched_by) the subject.
    pub fn is_own(&self, read: &Read, key: &ObjectKey) -> bool {
        matches!(read, Read::Object(informer, object) if object == key && self.may_be(*informer, key))
    }

    fn is_in_namespace(&self, key: KeyRef<'_>) -> bool {
        let namespaces = &self.selection.namespaces;
        namespaces.is_empty()
            || namespaces
                .iter()
                .any(|namespace| namespace == key.namespace)
    }

    /// How many bytes of an object are read to decide whether it is selected.
    pub fn bytes_to_read(&self, object: &Object) -> usize {
        self.fields.as_ref().map_or(0, |_| object.json().len())
    }

    pub fn selects(&self, object: &Object) -> bool {
        self.is_in_namespace(object.key())
            && self.selection.labels.matches(object)
            && self
                .fields
                .as_ref()
                .is_none_or(|fields| fields.matches(object.json()))
    }

    /// Whether the key's own object changed in a way that concerns the plugin.
    pub fn is_touched_by(&self, informer: InformerId, change: &Change, view: ViewId) -> bool {
        if !self.informers.contains(&informer) {
            return false;
        }
        let selects =
            |state: &Option<Arc<Object>>| state.as_ref().is_some_and(|object| self.selects(object));
        match (selects(&change.old), selects(&change.new)) {
            (false, false) => false,
            (true, true) => is_visible(change, view),
            _ => true,
        }
    }

    /// The informer that brings the object of this key.
    pub fn informer_of(&self, snapshot: &Snapshot, key: &ObjectKey) -> Option<InformerId> {
        let mut informers = self.informers.iter().copied();
        informers.find(|informer| {
            let only = snapshot.informers[*informer]
                .informer_key()
                .namespace
                .as_deref();
            only.is_none_or(|only| *only == *key.namespace)
        })
    }

    /// Whether an object that this informer no longer shows has left a companion behind.
    pub fn has_left_companion(
        &self,
        snapshot: &Snapshot,
        informer: InformerId,
        key: &ObjectKey,
    ) -> bool {
        let mut companions = self.companions.iter();
        self.may_be(informer, key)
            && companions.any(|id| snapshot.informers[*id].get(key.parts()).is_some())
    }

    /// Whether a companion with this key makes the plugin reconcile the key. It does not if the
    /// subject exists and is not selected, because then the key is not the plugin's.
    pub fn wants_companion(&self, snapshot: &Snapshot, key: KeyRef<'_>) -> bool {
        let subject = self.get(snapshot, key);
        self.is_in_namespace(key) && subject.is_none_or(|subject| self.selects(subject))
    }
}

/// The informers that bring a kind's objects to a plugin.
pub(super) fn informers<'a>(
    scope: &'a Scope,
    kind: &Kind,
) -> impl Iterator<Item = InformerId> + use<'a> {
    let parts = scope
        .kind(kind)
        .map_or(&[] as &[ScopePart], |scope| &scope.parts);
    parts.iter().map(|part| part.informer)
}
