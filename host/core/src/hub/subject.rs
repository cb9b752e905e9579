//! Whose keys a plugin reconciles: which objects, and which changes of them, concern it.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use crate::cache::Change;
use crate::key::{Kind, ObjectKey};
use crate::manifest::Selection;
use crate::object::{Object, ViewId};
use crate::reads::is_visible;
use crate::selector::FieldSelector;
use crate::snapshot::{KindId, Snapshot};

/// A subject that has objects (not the singleton).
pub(super) struct SubjectKind {
    pub kind: KindId,
    selection: Selection,
    fields: Option<FieldSelector>,
    pub companions: BTreeSet<KindId>,
}

impl SubjectKind {
    pub fn new(selection: &Selection, ids: &HashMap<Kind, KindId>) -> Option<Self> {
        Some(Self {
            kind: *ids.get(&selection.kind)?,
            fields: selection
                .fields
                .as_deref()
                .and_then(|fields| FieldSelector::parse(fields).ok()),
            companions: selection
                .companions
                .iter()
                .filter_map(|kind| ids.get(kind).copied())
                .collect(),
            selection: selection.clone(),
        })
    }

    fn is_in_namespace(&self, key: &ObjectKey) -> bool {
        let namespaces = &self.selection.namespaces;
        namespaces.is_empty()
            || namespaces
                .iter()
                .any(|namespace| **namespace == *key.namespace)
    }

    pub fn selects(&self, object: &Object) -> bool {
        self.is_in_namespace(&object.header.key)
            && self.selection.labels.matches(&object.header.labels)
            && self
                .fields
                .as_ref()
                .is_none_or(|fields| fields.matches(object.json()))
    }

    /// Whether the key's own object changed in a way that concerns the plugin.
    pub fn is_touched_by(&self, change: &Change, view: ViewId) -> bool {
        let selects =
            |state: &Option<Arc<Object>>| state.as_ref().is_some_and(|object| self.selects(object));
        match (selects(&change.old), selects(&change.new)) {
            (false, false) => false,
            (true, true) => is_visible(change, view),
            _ => true,
        }
    }

    /// Whether a companion stands for this key: unless the subject is there and not selected, for then it is none of the plugin's.
    pub fn wants_companion(&self, snapshot: &Snapshot, key: &ObjectKey) -> bool {
        let subject = snapshot.kinds[self.kind].get(key);
        self.is_in_namespace(key) && subject.is_none_or(|subject| self.selects(subject))
    }
}
