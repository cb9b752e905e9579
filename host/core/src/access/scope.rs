//! What a plugin may read, as the hub looks it up.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::cache::snapshot::InformerId;
use crate::cache::{Subscribed, Subscription};
use crate::model::key::Kind;
use crate::reads::source::PatternPart;

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
    /// Kinds that the patterns include and the manifest leaves out.
    pub excepted: BTreeSet<Kind>,
    /// The readable patterns. No two of them include one kind.
    pub patterns: Vec<PatternScope>,
    /// The [kinds that the cluster serves](crate::ServedKind), for a plugin with patterns.
    pub served: Option<ScopePart>,
}

/// A readable pattern. Its kinds get informers when a reconcile asks for them.
#[derive(Clone, Debug)]
pub struct PatternScope {
    /// The pattern.
    pub pattern: Kind,
    /// What the plugin needs of each object of its kinds.
    pub subscription: Subscription,
    /// The plugin's indexes, as in [`KindScope::indexes`].
    pub indexes: BTreeMap<String, usize>,
    /// The kinds that have an informer for the plugin, by group and kind: of one kind a plugin sees
    /// one version.
    pub kinds: BTreeMap<(Arc<str>, Arc<str>), PatternKind>,
    /// The kinds that cannot have one now, and why.
    pub refused: BTreeMap<Kind, Arc<str>>,
    /// The kinds that have had time enough to be listed. Until they are, they are unavailable, and
    /// waited for no longer.
    pub late: BTreeSet<Kind>,
}

/// A kind that a plugin reads by a pattern.
#[derive(Clone, Debug)]
pub struct PatternKind {
    /// The kind, in the version that the server prefers.
    pub kind: Kind,
    /// Its objects.
    pub scope: KindScope,
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
    /// Whether, in a plugin whose keys are divided by namespace, a key can read only the objects of
    /// its own namespace.
    pub is_divisible: bool,
}

impl Scope {
    /// What must be listed before the plugin runs.
    pub(crate) fn required(&self) -> impl Iterator<Item = &ScopePart> {
        let named = self.kinds.values().flat_map(|scope| &scope.parts);
        named.chain(&self.served)
    }

    /// Everything that the plugin subscribes to.
    pub(crate) fn parts(&self) -> impl Iterator<Item = &ScopePart> {
        let of_patterns = self.of_patterns().flat_map(|kind| &kind.scope.parts);
        self.required().chain(of_patterns)
    }

    /// The kind itself if it is readable, otherwise a version of it that is.
    pub(crate) fn readable_as(&self, kind: &Kind) -> Option<&Kind> {
        let exact = self.kinds.get_key_value(kind).map(|(kind, _)| kind);
        let version = || self.kinds.keys().find(|have| have.is_version_of(kind));
        let of_pattern = || self.of_pattern(kind).map(|have| &have.kind);
        exact.or_else(version).or_else(of_pattern)
    }

    /// A readable kind, by its name or by a pattern that has an informer for it.
    pub(crate) fn kind(&self, kind: &Kind) -> Option<&KindScope> {
        let of_pattern = || self.of_pattern(kind).map(|have| &have.scope);
        self.kinds.get(kind).or_else(of_pattern)
    }

    /// The pattern by which a kind is read.
    pub(crate) fn pattern_of(&self, kind: &Kind) -> Option<&PatternScope> {
        // What the manifest names is granted by its name or not at all.
        let named = self
            .kinds
            .keys()
            .chain(&self.ungranted)
            .chain(&self.excepted)
            .chain(self.absent.keys());
        let is_named = { named }.any(|have| have.is_version_of(kind));
        let mut patterns = self.patterns.iter();
        patterns.find(|scope| !is_named && scope.pattern.includes(kind))
    }

    /// As [`pattern_of`](Self::pattern_of), for changing it.
    pub(crate) fn pattern_of_mut(&mut self, kind: &Kind) -> Option<&mut PatternScope> {
        self.pattern_of(kind)?;
        let mut patterns = self.patterns.iter_mut();
        patterns.find(|scope| scope.pattern.includes(kind))
    }

    /// The kind, in whatever version, as it is read by a pattern, if it has an informer.
    pub(crate) fn of_pattern(&self, kind: &Kind) -> Option<&PatternKind> {
        self.pattern_of(kind)?.kind(kind)
    }

    /// What a part of a readable kind's objects is in lists of patterns. `None`: no pattern of the
    /// plugin includes the kind.
    pub(crate) fn pattern_part(&self, kind: &Kind, part: &ScopePart) -> Option<PatternPart> {
        let mut patterns = self.patterns.iter();
        let pattern = patterns.find(|scope| scope.pattern.includes(kind))?;
        let scope = self.kind(kind)?;
        Some(PatternPart::new(pattern, kind, scope, part))
    }

    /// The kinds that are read by patterns and have informers.
    pub(crate) fn of_patterns(&self) -> impl Iterator<Item = &PatternKind> {
        self.patterns.iter().flat_map(|scope| scope.kinds.values())
    }
}

impl PatternScope {
    /// Adds a kind, whose objects this informer delivers. Returns what there was of the kind, in
    /// whatever version.
    pub(crate) fn add(
        &mut self,
        kind: &Kind,
        informer: InformerId,
        subscribed: Subscribed,
    ) -> Option<PatternKind> {
        let part = ScopePart {
            namespace: None,
            informer,
            subscribed,
            is_narrowed: false,
            is_divisible: false,
        };
        let known = PatternKind {
            kind: kind.clone(),
            scope: KindScope {
                parts: vec![part],
                indexes: self.indexes.clone(),
            },
        };
        let name = (kind.group.clone(), kind.kind.clone());
        self.kinds.insert(name, known)
    }

    /// The kind, in whatever version, if it has an informer.
    pub(crate) fn kind(&self, kind: &Kind) -> Option<&PatternKind> {
        let name = (kind.group.clone(), kind.kind.clone());
        self.kinds.get(&name)
    }
}

impl PatternKind {
    /// The informer of its objects.
    pub(crate) fn informer(&self) -> Option<InformerId> {
        self.scope.parts.first().map(|part| part.informer)
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
                is_divisible: false,
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
