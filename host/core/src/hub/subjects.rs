//! The kinds that a plugin reconciles.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::subject::SubjectKind;
use crate::access::scope::Scope;
use crate::cache::snapshot::{InformerId, Snapshot};
use crate::model::key::Kind;
use crate::model::manifest::{Manifest, Selection};
use crate::model::object::Object;
use crate::model::subject_key::SubjectKey;
use crate::reads::read::Read;

/// See the module's documentation.
pub(super) struct Subjects {
    /// In order, and each kind once. Absent kinds have no keys and are left out.
    kinds: Vec<SubjectKind>,
    /// Which of them an informer's changes may concern, by their positions.
    by_informer: BTreeMap<InformerId, Vec<usize>>,
    is_singleton: bool,
    /// The patterns that are reconciled. Which kinds of them are here is up to the scope.
    patterns: Vec<Kind>,
}

impl Subjects {
    /// `before`: the kinds that were reconciled until now. Their keys go on sharing them.
    pub fn new(manifest: &Manifest, scope: &Scope, before: Option<&Self>) -> Self {
        let shared = |kind: &Kind| {
            let known = before.and_then(|before| before.of_kind(kind));
            let known = known.map(|known| known.kind().clone());
            known.unwrap_or_else(|| Arc::new(kind.clone()))
        };
        let selections = manifest.reconciles.iter();
        let mut kinds: Vec<SubjectKind> = selections
            .flat_map(|selection| {
                let kinds = kinds_of(selection, manifest, scope).into_iter();
                kinds.map(|kind| SubjectKind::new(shared(kind), selection, scope))
            })
            .collect();
        kinds.sort_by(|one, other| one.kind().cmp(other.kind()));
        let patterns = manifest.reconciles.iter().map(|selection| &selection.kind);
        let mut by_informer: BTreeMap<InformerId, Vec<usize>> = BTreeMap::new();
        for (position, kind) in kinds.iter().enumerate() {
            for informer in kind.concerned_by() {
                by_informer.entry(informer).or_default().push(position);
            }
        }
        Self {
            kinds,
            by_informer,
            is_singleton: manifest.reconciles.is_empty(),
            patterns: patterns.filter(|kind| kind.is_pattern()).cloned().collect(),
        }
    }

    /// Whether it depends on what the cluster serves which kinds there are.
    pub fn are_of_patterns(&self) -> bool {
        !self.patterns.is_empty()
    }

    /// Whether this kind, if it is read by a pattern, is reconciled.
    pub fn wants(&self, kind: &Kind) -> bool {
        self.patterns.iter().any(|pattern| pattern.includes(kind))
    }

    /// The patterns that are reconciled.
    pub fn patterns(&self) -> &[Kind] {
        &self.patterns
    }

    /// Whether the plugin has a single key, without an object.
    pub fn is_singleton(&self) -> bool {
        self.is_singleton
    }

    pub fn iter(&self) -> impl Iterator<Item = &SubjectKind> {
        self.kinds.iter()
    }

    /// Those that this informer's changes may concern.
    pub fn concerned_by(&self, informer: InformerId) -> impl Iterator<Item = &SubjectKind> {
        let positions = self.by_informer.get(&informer).into_iter().flatten();
        positions.map(|position| &self.kinds[*position])
    }

    /// The kind of a key. `None` for a singleton's key, and for a key of another kind.
    pub fn of(&self, key: &SubjectKey) -> Option<&SubjectKind> {
        self.of_kind(key.kind.as_ref()?)
    }

    fn of_kind(&self, kind: &Kind) -> Option<&SubjectKind> {
        let found = self.kinds.binary_search_by(|own| (**own.kind()).cmp(kind));
        found.ok().map(|position| &self.kinds[position])
    }

    /// Whether this is a key that the plugin can have.
    pub fn has(&self, key: &SubjectKey) -> bool {
        match key.kind {
            Some(_) => self.of(key).is_some(),
            None => self.is_singleton(),
        }
    }

    /// Whether every key that a plugin with these other kinds can have is one of this plugin's.
    pub fn include(&self, others: &Self) -> bool {
        let has_kind = |other: &SubjectKind| self.of_kind(other.kind()).is_some();
        self.is_singleton() == others.is_singleton() && others.iter().all(has_kind)
    }

    /// The object that follows this key, selected or not; the first one if there is no key.
    pub fn after<'a>(
        &'a self,
        snapshot: &'a Snapshot,
        key: Option<&SubjectKey>,
    ) -> Option<(&'a SubjectKind, &'a Arc<Object>)> {
        let own = key.map(|key| (key.kind.as_ref(), &key.object));
        let is_before =
            |subject: &SubjectKind| own.is_some_and(|(kind, _)| Some(subject.kind()) < kind);
        let from = self.kinds.partition_point(is_before);
        self.kinds[from..].iter().find_map(|subject| {
            let own = own.filter(|(kind, _)| *kind == Some(subject.kind()));
            let from = own.map(|(_, object)| object);
            Some((subject, subject.after(snapshot, from)?))
        })
    }

    /// How many objects there are, selected or not.
    pub fn objects(&self, snapshot: &Snapshot) -> usize {
        self.iter().map(|subject| subject.objects(snapshot)).sum()
    }

    /// Whether a key's object is there, selected or not.
    pub fn is_cached(&self, snapshot: &Snapshot, key: &SubjectKey) -> bool {
        let subject = self.of(key);
        subject.is_some_and(|subject| subject.is_cached(snapshot, key.object.parts()))
    }

    /// Whether a key's object is there, and selected.
    pub fn is_there(&self, snapshot: &Snapshot, key: &SubjectKey) -> bool {
        let subject = self.of(key);
        subject.is_some_and(|subject| subject.is_there(snapshot, key.object.parts()))
    }

    /// The informer that brings the object of this key.
    pub fn informer_of(&self, snapshot: &Snapshot, key: &SubjectKey) -> Option<InformerId> {
        self.of(key)?.informer_of(snapshot, &key.object)
    }

    /// Whether a read made for a key is a read of the key's own object.
    pub fn is_own(&self, read: &Read, key: &SubjectKey) -> bool {
        let subject = self.of(key);
        subject.is_some_and(|subject| subject.is_own(read, &key.object))
    }
}

/// The kinds of a selection that have keys: one, but for an absent one; or those of a pattern that
/// have an informer, and those of it that are read by name.
fn kinds_of<'a>(selection: &'a Selection, manifest: &Manifest, scope: &'a Scope) -> Vec<&'a Kind> {
    let kind = &selection.kind;
    if !kind.is_pattern() {
        let is_there = !scope.absent.contains_key(kind);
        return is_there.then_some(kind).into_iter().collect();
    }
    let is_named_there = |kind: &Kind| {
        let mut others = manifest.reconciles.iter();
        others.any(|other| other.kind.is_version_of(kind))
    };
    let named = scope.kinds.keys().filter(|named| !is_named_there(named));
    let read = scope.of_patterns().map(|known| &known.kind).chain(named);
    read.filter(|read| kind.includes(read)).collect()
}
