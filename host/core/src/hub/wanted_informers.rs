//! What a plugin may read: which informers bring it, and how much of each object it needs.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::access::grants::Grants;
use crate::access::scope::{AbsentKind, KindScope, Scope, ScopePart};
use crate::cache::Subscription;
use crate::cache::snapshot::{InformerId, Snapshot};
use crate::model::detail::Detail;
use crate::model::fields::FieldPath;
use crate::model::informer_key::InformerKey;
use crate::model::key::Kind;
use crate::model::manifest::{Manifest, ReadDeclaration, Verb};

/// The informers that a declared read needs: one for all namespaces, or one for each namespace,
/// ordered by namespace.
pub(super) fn informer_keys(read: &ReadDeclaration) -> Vec<InformerKey> {
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
/// `manifest` is the granted part of `asked`. `informer` finds or creates the informer of a key.
/// `manager` is the field manager that the plugin applies as.
pub(super) fn join(
    asked: &Manifest,
    manifest: &Manifest,
    manager: &str,
    snapshot: &mut Snapshot,
    mut informer: impl FnMut(&mut Snapshot, InformerKey) -> InformerId,
) -> Scope {
    let mut kinds = BTreeMap::new();
    for read in &manifest.reads {
        let subscription = subscription(manifest, manager, read);
        let mut scope = KindScope {
            parts: Vec::new(),
            indexes: indexes(manifest, &read.kind)
                .enumerate()
                .map(|(place, index)| (index.name.clone(), place))
                .collect(),
        };
        for informer_key in informer_keys(read) {
            let namespace = informer_key.namespace.clone();
            let informer = informer(snapshot, informer_key);
            scope.parts.push(ScopePart {
                namespace,
                informer,
                subscribed: snapshot.cache_mut(informer).join(&subscription),
                is_narrowed: read.is_narrowed(),
            });
        }
        kinds.insert(read.kind.clone(), scope);
    }
    let asked = asked.reads.iter().map(|read| &read.kind);
    let ungranted = asked.filter(|kind| !kinds.contains_key(kind)).cloned();
    Scope {
        ungranted: ungranted.collect(),
        absent: BTreeMap::new(),
        kinds,
    }
}

fn indexes<'a>(
    manifest: &'a Manifest,
    kind: &'a Kind,
) -> impl Iterator<Item = &'a crate::model::manifest::IndexDeclaration> {
    manifest
        .indexes
        .iter()
        .filter(move |index| index.kind == *kind)
}

fn subscription(manifest: &Manifest, manager: &str, read: &ReadDeclaration) -> Subscription {
    Subscription {
        detail: detail(manifest, read),
        fields: paths(&read.fields),
        indexes: indexes(manifest, &read.kind)
            .map(|index| paths(&index.paths))
            .collect(),
        manager: applies(manifest, &read.kind).then(|| manager.to_owned()),
    }
}

fn applies(manifest: &Manifest, kind: &Kind) -> bool {
    let mut writes = manifest.writes.iter();
    writes.any(|write| write.kind == *kind && write.verbs.contains(&Verb::Apply))
}

/// How much of each object a plugin needs, both for what it sees and for what the host reads on its
/// behalf.
pub(super) fn detail(manifest: &Manifest, read: &ReadDeclaration) -> Detail {
    let kind = &read.kind;
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

/// All paths of a validated manifest parse.
fn paths(texts: &[String]) -> Vec<FieldPath> {
    texts
        .iter()
        .filter_map(|path| FieldPath::parse(path).ok())
        .collect()
}

#[cfg(test)]
mod tests;
