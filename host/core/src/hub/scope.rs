//! What a plugin may read, in the hub's numbers.

use std::collections::{BTreeMap, HashMap};

use crate::cache::KindCache;
use crate::fields::FieldPath;
use crate::key::Kind;
use crate::manifest::Manifest;
use crate::reader::{KindScope, Scope};
use crate::snapshot::KindId;

/// Adds the manifest's views and indexes to the caches and says where they are.
pub(super) fn scope_of(
    manifest: &Manifest,
    kinds: &mut [KindCache],
    ids: &HashMap<Kind, KindId>,
) -> Scope {
    let mut scopes = BTreeMap::new();
    for read in &manifest.reads {
        let Some(&kind) = ids.get(&read.kind) else {
            continue;
        };
        let indexes = || {
            manifest
                .indexes
                .iter()
                .filter(|index| index.kind == read.kind)
        };
        let index_paths: Vec<Vec<FieldPath>> = indexes().map(|index| paths(&index.paths)).collect();
        let (view, index_ids) = kinds[kind].add(&paths(&read.fields), &index_paths);
        let names = indexes().map(|index| index.name.clone());
        let scope = KindScope {
            kind,
            view,
            indexes: names.zip(index_ids).collect(),
        };
        scopes.insert(read.kind.clone(), scope);
    }
    Scope { kinds: scopes }
}

/// A validated manifest's paths all parse.
fn paths(texts: &[String]) -> Vec<FieldPath> {
    texts
        .iter()
        .filter_map(|path| FieldPath::parse(path).ok())
        .collect()
}
