//! What a plugin may read, as the hub looks it up.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::cache::Subscribed;
use crate::cache::snapshot::InformerId;
use crate::model::key::Kind;

/// What one plugin may read, in terms of the host's ids. This is the permission check for reads: a
/// kind that is not in here cannot be read.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    /// The readable kinds.
    pub kinds: BTreeMap<Kind, KindScope>,
    /// Kinds that the manifest reads but the operator has not granted.
    pub ungranted: BTreeSet<Kind>,
    /// Optional kinds that are granted and that the cluster does not serve. Reads of them find
    /// nothing. They need not be recorded: once such a kind is served, every key runs again.
    pub absent: BTreeMap<Kind, AbsentKind>,
}

/// A readable kind of which there are no objects, because the cluster does not serve it.
#[derive(Clone, Debug, Default)]
pub struct AbsentKind {
    /// The namespaces that the plugin reads. Empty means all.
    pub namespaces: BTreeSet<String>,
    /// The names of the plugin's indexes of the kind.
    pub indexes: BTreeSet<String>,
}

/// One readable kind.
#[derive(Clone, Debug, Default)]
pub struct KindScope {
    /// The informers that deliver its objects, ordered by namespace: either one for all namespaces,
    /// or one for each namespace that the plugin reads.
    pub parts: Vec<ScopePart>,
    /// The plugin's indexes of the kind, by name. The values are positions in the `indexes` of a
    /// part's [`Subscribed`].
    pub indexes: BTreeMap<String, usize>,
}

/// The objects of a kind that one informer delivers.
#[derive(Clone, Debug)]
pub struct ScopePart {
    /// The informer's namespace. `None` means all.
    pub namespace: Option<Arc<str>>,
    /// The informer's position in a snapshot.
    pub informer: InformerId,
    /// The ids of the plugin's view and indexes.
    pub subscribed: Subscribed,
    /// Whether selectors exclude objects, so that an object may exist although it is not here.
    pub is_narrowed: bool,
}

impl Scope {
    /// The kind itself if it is readable, otherwise a version of it that is.
    pub(crate) fn readable_as(&self, kind: &Kind) -> Option<&Kind> {
        let exact = self.kinds.get_key_value(kind).map(|(kind, _)| kind);
        exact.or_else(|| self.kinds.keys().find(|have| have.is_version_of(kind)))
    }
}

impl KindScope {
    /// All objects of an informer, whole, without indexes.
    pub fn whole(informer: InformerId) -> Self {
        Self {
            parts: vec![ScopePart {
                namespace: None,
                informer,
                subscribed: Subscribed::default(),
                is_narrowed: false,
            }],
            indexes: BTreeMap::new(),
        }
    }

    /// The part that contains the objects of a namespace.
    pub(crate) fn part_of(&self, namespace: &str) -> Option<&ScopePart> {
        let has = |part: &&ScopePart| {
            part.namespace
                .as_ref()
                .is_none_or(|own| **own == *namespace)
        };
        self.parts.iter().find(has)
    }

    /// The parts that a list covers.
    pub(crate) fn parts_of(&self, namespace: Option<&str>) -> Vec<&ScopePart> {
        match namespace {
            Some(namespace) => self.part_of(namespace).into_iter().collect(),
            None => self.parts.iter().collect(),
        }
    }
}
