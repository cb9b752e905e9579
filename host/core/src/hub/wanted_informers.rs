//! What a plugin may read: which informers bring it, and how much of each object it needs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::settings::ControllerSettings;
use crate::access::grants::Grants;
use crate::access::scope::{AbsentKind, KindScope, PatternScope, Scope, ScopePart};
use crate::cache::snapshot::{InformerId, Snapshot};
use crate::cache::{Subscribed, Subscription};
use crate::model::detail::Detail;
use crate::model::fields::FieldPath;
use crate::model::informer_key::InformerKey;
use crate::model::key::Kind;
use crate::model::manifest::{IndexDeclaration, Manifest, ReadDeclaration, Verb};
use crate::model::served_kind::ServedKind;

/// The informers that a declared read needs from the start: one for all namespaces, or one for each
/// namespace, ordered by namespace. A pattern needs none: its kinds get theirs when they are asked
/// for.
pub(super) fn informer_keys(read: &ReadDeclaration) -> Vec<InformerKey> {
    if read.kind.is_pattern() {
        return Vec::new();
    }
    let of_namespace = |namespace: Option<Arc<str>>| InformerKey {
        kind: read.kind.clone(),
        namespace,
        labels: read.labels.clone(),
        fields: read.field_selector.as_deref().map(Arc::from),
    };
    if read.namespaces.is_empty() {
        return vec![of_namespace(None)];
    }
    let mut namespaces = read.namespaces.clone();
    namespaces.sort_unstable();
    namespaces.dedup();
    let namespaces = namespaces
        .iter()
        .map(|namespace| Some(namespace.as_str().into()));
    namespaces.map(of_namespace).collect()
}

/// The granted reads of optional kinds that the cluster does not serve.
pub(super) fn absent(asked: &Manifest, grants: &Grants) -> BTreeMap<Kind, AbsentKind> {
    let reads = grants.absent_reads(asked).into_iter();
    let kinds = reads.map(|read| {
        let indexes = indexes(asked, &read.kind).map(|index| index.name.clone());
        let absent = AbsentKind {
            indexes: indexes.collect(),
            namespaces: read.namespaces.into_iter().collect(),
        };
        (read.kind, absent)
    });
    kinds.collect()
}

/// Adds the plugin's subscriptions (views and indexes) to the caches and returns where they are.
/// `manifest` is the granted part of `asked`. `subscribe` subscribes to the informer of a key,
/// which it makes if there is none.
pub(super) fn join(
    asked: &Manifest,
    manifest: &Manifest,
    settings: &ControllerSettings,
    snapshot: &mut Snapshot,
    mut subscribe: impl FnMut(&mut Snapshot, InformerKey, &Subscription) -> (InformerId, Subscribed),
) -> Scope {
    let manager = &settings.author(&manifest.name).field_manager;
    let is_cluster_scoped = |kind: &Kind| settings.grants.cluster_scoped.contains(kind);
    let mut kinds = BTreeMap::new();
    let (patterns, named): (Vec<_>, Vec<_>) = manifest
        .reads
        .iter()
        .partition(|read| read.kind.is_pattern());
    for read in named {
        let subscription = subscription(manifest, manager, read);
        let mut scope = KindScope {
            parts: Vec::new(),
            indexes: places(manifest, &read.kind),
        };
        for informer_key in informer_keys(read) {
            let namespace = informer_key.namespace.clone();
            let (informer, subscribed) = subscribe(snapshot, informer_key, &subscription);
            scope.parts.push(ScopePart {
                namespace,
                informer,
                subscribed,
                is_narrowed: read.is_narrowed(),
                is_divisible: read.namespaces.is_empty() && !is_cluster_scoped(&read.kind),
            });
        }
        kinds.insert(read.kind.clone(), scope);
    }
    let excepted = manifest.reads.iter().flat_map(|read| read.except.clone());
    let asked = asked.reads.iter().map(|read| &read.kind);
    let is_granted = |kind: &Kind| kinds.contains_key(kind) || has(&patterns, kind);
    let ungranted = asked.filter(|kind| !is_granted(kind)).cloned().collect();
    let served = (!patterns.is_empty()).then(|| {
        let (informer, subscribed) = subscribe(snapshot, served_kinds(), &whole());
        ScopePart {
            namespace: None,
            informer,
            subscribed,
            is_narrowed: false,
            is_divisible: false,
        }
    });
    let patterns = patterns.into_iter().map(|read| PatternScope {
        pattern: read.kind.clone(),
        subscription: subscription(manifest, manager, read),
        indexes: places(manifest, &read.kind),
        kinds: BTreeMap::new(),
        refused: BTreeMap::new(),
        late: BTreeSet::new(),
    });
    Scope {
        excepted: excepted.collect(),
        ungranted,
        absent: BTreeMap::new(),
        patterns: patterns.collect(),
        served,
        kinds,
    }
}

fn has(reads: &[&ReadDeclaration], kind: &Kind) -> bool {
    reads.iter().any(|read| read.kind == *kind)
}

/// The informer of the kinds that the cluster serves. The host itself fills its cache.
pub(super) fn served_kinds() -> InformerKey {
    InformerKey::all(ServedKind::object_kind())
}

/// All of each object, without indexes.
fn whole() -> Subscription {
    Subscription {
        detail: Detail::Full,
        fields: Vec::new(),
        indexes: Vec::new(),
        manager: None,
    }
}

/// The indexes of a kind: its own, and those of a pattern that includes it and has others. So a
/// list by an index of the pattern finds its objects, too.
fn indexes<'a>(
    manifest: &'a Manifest,
    kind: &'a Kind,
) -> impl Iterator<Item = &'a IndexDeclaration> {
    let of = move |wanted: &'a Kind| {
        let indexes = manifest.indexes.iter();
        indexes.filter(move |index| index.kind == *wanted)
    };
    let is_own = move |name: &String| of(kind).any(|own| own.name == *name);
    let of_patterns = manifest.indexes.iter().filter(move |index| {
        !kind.is_pattern() && index.kind.includes(kind) && !is_own(&index.name)
    });
    of(kind).chain(of_patterns)
}

/// The places of a kind's indexes in a subscription, by name.
fn places(manifest: &Manifest, kind: &Kind) -> BTreeMap<String, usize> {
    let places = indexes(manifest, kind).enumerate();
    let places = places.map(|(place, index)| (index.name.clone(), place));
    places.collect()
}

fn subscription(manifest: &Manifest, manager: &str, read: &ReadDeclaration) -> Subscription {
    Subscription {
        detail: detail(manifest, read),
        fields: fields(manifest, read),
        indexes: indexes(manifest, &read.kind)
            .map(|index| paths(&index.paths))
            .collect(),
        manager: applies(manifest, &read.kind).then(|| manager.to_owned()),
    }
}

/// What the plugin sees of each object. In a list of a pattern, each says of which kind it is.
fn fields(manifest: &Manifest, read: &ReadDeclaration) -> Vec<FieldPath> {
    let mut fields = paths(&read.fields);
    let mut reads = manifest.reads.iter();
    let is_of_pattern = reads.any(|of| of.kind.includes(&read.kind));
    if is_of_pattern && !fields.is_empty() {
        fields.extend(paths(&[".apiVersion".to_owned(), ".kind".to_owned()]));
    }
    fields
}

fn applies(manifest: &Manifest, kind: &Kind) -> bool {
    let mut writes = manifest.writes.iter();
    writes.any(|write| write.kind == *kind && write.verbs.contains(&Verb::Apply))
}

/// How much of each object a plugin needs, both for what it sees and for what the host reads on its
/// behalf.
pub(super) fn detail(manifest: &Manifest, read: &ReadDeclaration) -> Detail {
    let kind = &read.kind;
    if kind.is_pattern() {
        return detail_of_pattern(read);
    }
    let indexed = indexes(manifest, kind).flat_map(|index| &index.paths);
    let selection = manifest.selection_of(kind);
    let selected = selection.and_then(|selection| selection.fields.as_deref());
    // A field selector writes paths without the leading dot.
    let selected = selected.iter().flat_map(|fields| fields.split(','));
    let selected = selected
        .filter(|term| !term.is_empty())
        .map(|term| format!(".{term}"));
    let looked_at: Vec<String> = read
        .fields
        .iter()
        .chain(indexed)
        .cloned()
        .chain(selected)
        .collect();
    let sees_all = read.fields.is_empty();
    // Finding out if a write would change anything takes the whole object.
    let compares = manifest.writes.iter().any(|write| {
        let is_compared = |verb: &Verb| !matches!(verb, Verb::Delete | Verb::DeleteCollection);
        write.kind == *kind && write.verbs.iter().any(is_compared)
    });
    // `[*]` has no fixed root, so it may lead anywhere.
    let roots: Vec<Option<String>> = paths(&looked_at)
        .iter()
        .map(|path| path.root().map(str::to_owned))
        .collect();
    let is_metadata = roots.iter().all(|root| root.as_deref() == Some("metadata"));
    let may_be_value = |root: &Option<String>| {
        root.as_deref()
            .is_none_or(|root| matches!(root, "data" | "stringData"))
    };
    if !sees_all && is_metadata && (!compares || kind.is_secret()) {
        return Detail::Metadata;
    }
    if kind.is_secret() && !sees_all && !roots.iter().any(may_be_value) {
        return Detail::WithoutValues;
    }
    Detail::Full
}

/// The same of each object of a pattern. No value of a Secret is kept for it.
fn detail_of_pattern(read: &ReadDeclaration) -> Detail {
    let fields = paths(&read.fields);
    match fields.iter().all(|path| path.root() == Some("metadata")) {
        true => Detail::Metadata,
        false => Detail::WithoutValues,
    }
}

/// All paths of a validated manifest parse.
fn paths(texts: &[String]) -> Vec<FieldPath> {
    texts
        .iter()
        .filter_map(|path| FieldPath::parse(path).ok())
        .collect()
}

#[cfg(test)]
mod tests;
