//! The version of a plugin that is installed: which keys are its own, what it sees, and which
//! changes concern it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::changed::KeyedChange;
use crate::access::scope::{Scope, ScopePart};
use crate::cache::Subscribed;
use crate::cache::snapshot::{InformerId, Snapshot};
use crate::hub::duties::Duty;
use crate::hub::gate::{Awaited, Sign};
use crate::hub::reconcile::{PluginVersion, RunningKey};
use crate::hub::subject::{SubjectKind, informers};
use crate::hub::subjects::Subjects;
use crate::model::division::DividedBy;
use crate::model::extent::Extent;
use crate::model::informer_key::InformerKey;
use crate::model::key::{Kind, ObjectKey};
use crate::model::manifest::Manifest;
use crate::model::object::{Object, ViewId};
use crate::model::served_kind::ServedKind;
use crate::model::subject_key::SubjectKey;
use crate::plan::accepted::{AcceptedWrite, Trace};
use crate::plan::children;
use crate::reads::read::Read;
use crate::reads::reader::Reader;
use crate::reads::sight::is_visible;
use crate::reads::source::{Origin, PatternPart};

/// See the module's documentation.
pub(super) struct InstalledVersion {
    version: Arc<PluginVersion>,
    /// The plugin's subscription to each informer it uses.
    subscriptions: BTreeMap<InformerId, Subscribed>,
    /// What the informers are in lists of its patterns.
    pattern_parts: BTreeMap<InformerId, PatternPart>,
    subjects: Subjects,
    /// All its kinds are synced, and the keys that can be known only then have been returned.
    is_started: bool,
}

impl InstalledVersion {
    pub fn new(version: PluginVersion) -> Self {
        let PluginVersion {
            manifest, scope, ..
        } = &version;
        Self {
            subscriptions: subscriptions(scope),
            subjects: Subjects::new(manifest, scope, None),
            pattern_parts: pattern_parts(scope),
            is_started: false,
            version: Arc::new(version),
        }
    }

    /// This version, which has been prepared, in the place of another one.
    pub fn in_place_of(&self, before: &Self) -> Self {
        let mut version = (*self.version).clone();
        // Another field manager owns nothing of what the previous one applied.
        if version.author.field_manager == before.version.author.field_manager {
            version.applied = before.version.applied.clone();
        }
        Self {
            is_started: self.is_started,
            ..Self::new(version)
        }
    }

    pub fn version(&self) -> &Arc<PluginVersion> {
        &self.version
    }

    pub fn manifest(&self) -> &Manifest {
        &self.version.manifest
    }

    pub fn subjects(&self) -> &Subjects {
        &self.subjects
    }

    pub fn subscriptions(&self) -> &BTreeMap<InformerId, Subscribed> {
        &self.subscriptions
    }

    pub fn uses(&self, informer: InformerId) -> bool {
        self.subscriptions.contains_key(&informer)
    }

    /// The view through which the plugin sees an informer's objects: all of each object if it is
    /// `None`, or if the plugin does not use the informer.
    pub fn view_of(&self, informer: InformerId) -> ViewId {
        self.subscriptions.get(&informer)?.view
    }

    /// How the plugin sees what an informer brings.
    pub fn origin(&self, informer: InformerId) -> Origin<'_> {
        Origin {
            informer,
            view: self.view_of(informer),
            of_pattern: self.pattern_parts.get(&informer),
        }
    }

    /// What a read asks of each informer. Of a pattern these are the informers of its kinds. Of an
    /// informer that has ended nothing is asked.
    pub fn reads_of_informers<'a>(&'a self, read: &'a Read) -> impl Iterator<Item = Read> + 'a {
        let informer = read.informer().filter(|informer| self.uses(*informer));
        let own = informer.map(|_| read.clone());
        let parts = self.pattern_parts.iter();
        let of_pattern = parts.filter_map(|(informer, part)| part.part_of(read, *informer));
        own.into_iter().chain(of_pattern)
    }

    /// The informers whose objects are in lists of its patterns while the cluster serves these
    /// kinds, as far as they have listed.
    pub fn in_lists(&self, served: &BTreeMap<Kind, ServedKind>) -> BTreeSet<InformerId> {
        let scope = &self.version.scope;
        let is_served = |kind: &Kind| served.values().any(|have| have.kind.is_version_of(kind));
        let named = scope.kinds.iter().filter(|(kind, _)| is_served(kind));
        let can_be_listed = |kind: &Kind| served.get(kind).is_some_and(ServedKind::is_watchable);
        let of_patterns = scope.of_patterns();
        let of_patterns = of_patterns.filter(|known| can_be_listed(&known.kind));
        let scopes = named.map(|(_, scope)| scope);
        let scopes = scopes.chain(of_patterns.map(|known| &known.scope));
        let informers = scopes.flat_map(|scope| &scope.parts);
        let informers = informers.map(|part| part.informer);
        informers
            .filter(|informer| self.pattern_parts.contains_key(informer))
            .collect()
    }

    /// Whether the informer tells which kinds the cluster serves.
    pub fn tells_kinds(&self, informer: InformerId) -> bool {
        let served = self.version.scope.served.as_ref();
        served.is_some_and(|part| part.informer == informer)
    }

    /// Whether the kinds of its patterns have the informers that they had when a reconcile began.
    pub fn has_kinds_of(&self, held: &RunningKey) -> bool {
        Arc::ptr_eq(&held.version.scope, &self.version.scope)
    }

    /// Whether the manifest asks to run one key at a time. Its keys then see each other's writes. A
    /// lower limit set by the operator does not count: it does not tell what the keys depend on.
    pub fn is_serial(&self) -> bool {
        self.manifest().limits.concurrency == Some(1)
    }

    /// Whether a reconcile began on this version.
    pub fn is_of(&self, held: &RunningKey) -> bool {
        Arc::ptr_eq(&held.version.installation, &self.version.installation)
    }

    /// Whether both are the same file, perhaps with other settings.
    pub fn is_same_plugin(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.version.plugin, &other.version.plugin)
    }

    /// Whether what its keys of these shards can read is there.
    pub fn is_synced(&self, snapshot: &Snapshot, duty: &Duty) -> bool {
        let mut required = self.version.scope.required();
        required.all(|part| snapshot.informers[part.informer].is_synced(extent(part, duty)))
    }

    /// What the plugin reads.
    pub fn scope(&self) -> &Scope {
        &self.version.scope
    }

    /// Changes what is known of the kinds of its patterns, but not which of them have informers.
    pub fn note_in_scope(&mut self, change: impl FnOnce(&mut Scope)) {
        let version = Arc::make_mut(&mut self.version);
        change(Arc::make_mut(&mut version.scope));
    }

    /// Changes which kinds of its patterns have informers: linear in all of them, so that it is to
    /// be called once for many kinds. Reconciles that have begun stay those of this version.
    pub fn change_scope(&mut self, change: impl FnOnce(&mut Scope)) {
        self.note_in_scope(change);
        let version = &self.version;
        self.subscriptions = subscriptions(&version.scope);
        self.pattern_parts = pattern_parts(&version.scope);
        if self.subjects.are_of_patterns() {
            let before = Some(&self.subjects);
            self.subjects = Subjects::new(&version.manifest, &version.scope, before);
        }
    }

    pub fn is_started(&self) -> bool {
        self.is_started
    }

    /// Whether all kinds are synced for the first time: then what is
    /// [left behind](Self::left_behind) can be told.
    pub fn start_when_synced(&mut self, snapshot: &Snapshot, duty: &Duty) -> bool {
        let starts = !self.is_started && self.is_synced(snapshot, duty);
        self.is_started |= starts;
        starts
    }

    /// The keys of what subjects that are gone have left behind. To be asked once all kinds are
    /// synced: earlier, a missing subject may only not have been listed yet.
    pub fn left_behind(&self, snapshot: &Snapshot) -> Vec<SubjectKey> {
        let companions = self.subjects.iter().flat_map(|subject| {
            let keys = keys(subject.all_companions(snapshot));
            keys.map(|key| subject.key(key))
        });
        let children = self
            .children_informers()
            .flat_map(|informer| snapshot.informers[informer].list(None));
        let children = children.filter_map(|object| self.owner_of(object));
        // Keys of existing subjects run anyway.
        let is_left = |key: &SubjectKey| !self.subjects.is_there(snapshot, key);
        companions.chain(children).filter(is_left).collect()
    }

    fn children_informers(&self) -> impl Iterator<Item = InformerId> {
        let PluginVersion {
            permissions, scope, ..
        } = &*self.version;
        let kinds = permissions.children.iter();
        kinds.flat_map(|kind| informers(scope, kind))
    }

    /// The key whose child an object is.
    fn owner_of(&self, object: &Arc<Object>) -> Option<SubjectKey> {
        let kinds = self.subjects.iter().map(SubjectKind::kind);
        children::owner_of(&self.manifest().name, kinds, object)
    }

    /// The key whose child a new object is. The key's object may have gone before the child came.
    /// Then no recorded read leads to it any more.
    pub fn owner_of_new(&self, changed: KeyedChange<'_>) -> Option<SubjectKey> {
        let KeyedChange {
            informer, change, ..
        } = changed;
        let is_new = self.is_started && change.old.is_none();
        let is_child = is_new && self.children_informers().any(|id| id == informer);
        self.owner_of(change.new.as_ref().filter(|_| is_child)?)
    }

    /// Whether the plugin may see the object of a key. A singleton's key has none.
    pub fn is_mine(&self, key: &SubjectKey) -> bool {
        let Some(subject) = self.subjects.of(key) else {
            return self.subjects.has(key);
        };
        let scope = self.version.scope.kind(subject.kind());
        scope.is_some_and(|scope| scope.part_of(&key.object.namespace).is_some())
    }

    /// The kinds of which a change makes the plugin reconcile the key with the object's name.
    pub fn touched_subjects(
        &self,
        snapshot: &Snapshot,
        changed: KeyedChange<'_>,
    ) -> impl Iterator<Item = &SubjectKind> {
        let KeyedChange {
            informer,
            key,
            change,
            ..
        } = changed;
        let view = self.view_of(informer);
        self.subjects.concerned_by(informer).filter(move |subject| {
            let is_companion = self.is_started
                && subject.is_companion(informer)
                && is_visible(change, view)
                && subject.wants_companion(snapshot, key.parts());
            // A subject that was not selected is not the plugin's, but a companion that it leaves
            // behind may be.
            let has_left = || {
                self.is_started
                    && change.new.is_none()
                    && subject.has_left_companion(snapshot, informer, key)
            };
            is_companion || subject.is_touched_by(informer, change, view) || has_left()
        })
    }

    /// Whether a read need not be recorded, because whatever touches it wakes the key anyway. Many
    /// controllers read nothing else for most of their keys.
    pub fn is_own(&self, read: &Read, key: &SubjectKey) -> bool {
        self.subjects.is_own(read, key)
    }

    /// What a guest reads of this snapshot for this key, if the plugin's keys are so divided.
    pub fn reader(
        &self,
        snapshot: &Snapshot,
        key: &SubjectKey,
        by: DividedBy,
        wall_clock_ms: u64,
    ) -> Reader {
        let scope = self.version.scope.clone();
        let mut reader = Reader::new(snapshot.clone(), scope, wall_clock_ms);
        if by == DividedBy::Namespace {
            reader.keep_to(&key.object.namespace);
        }
        if let Some(subject) = self.subjects.of(key) {
            reader.set_subject(subject.kind(), &key.object, |object| {
                subject.selects(object)
            });
        }
        reader
    }

    /// Whether a change is one of the plugin's own applies whose answer has already arrived. Such a
    /// change is no drift. Otherwise a plugin that applies the time would run for ever.
    pub fn is_own_apply(&self, snapshot: &Snapshot, changed: KeyedChange<'_>) -> bool {
        let kind = snapshot.informers[changed.informer].kind();
        let new = changed.change.new.as_ref();
        let applied = &self.version.applied;
        new.is_some_and(|new| applied.has_left(kind, changed.key, new.resource_version()))
    }

    /// Forgets what the plugin has applied to all objects.
    pub fn forget_all_applied(&self) {
        self.version.applied.clear();
    }

    /// Forgets what the plugin has applied to objects of a kind.
    pub fn forget_applied(&self, kind: &Kind) {
        self.version.applied.forget_kind(kind);
    }

    /// Forgets what the plugin has applied to an object, if a change has ended that.
    pub fn forget_ended_apply(&self, snapshot: &Snapshot, changed: KeyedChange<'_>) {
        let change = changed.change;
        if change.new.is_none() || change.goes_back() {
            let kind = snapshot.informers[changed.informer].kind();
            self.version.applied.forget(kind, changed.key);
        }
    }

    /// Forgets the applies of objects that had already gone from the caches when the applies were
    /// remembered.
    pub fn forget_gone_applies(&self, accepted: &[AcceptedWrite], snapshot: &Snapshot) {
        let PluginVersion { scope, applied, .. } = &*self.version;
        for AcceptedWrite { kind, key, trace } in accepted {
            let scope = scope.kind(kind);
            let part = scope.and_then(|scope| scope.part_of(&key.namespace));
            let cache = part.map(|part| &snapshot.informers[part.informer]);
            if let (Some(cache), Trace::Version(version)) = (cache, trace)
                && version.is_at_most(cache.resource_version())
                && cache.get(key.parts()).is_none()
            {
                applied.forget(kind, key);
            }
        }
    }

    /// How an accepted write becomes visible to the plugin's keys of these shards, if they can read
    /// the object in any version.
    pub fn awaited(&self, accepted: &AcceptedWrite, duty: &Duty) -> Option<Awaited> {
        let kind = self.version.scope.readable_as(&accepted.kind)?;
        let scope = self.version.scope.kind(kind)?;
        let part = scope.part_of(&accepted.key.namespace)?;
        if !extent(part, duty).namespaces.has(&accepted.key.namespace) {
            return None;
        }
        Some(Awaited {
            informer: part.informer,
            key: accepted.key.clone(),
            sign: match &accepted.trace {
                Trace::Version(version) => Sign::Version(version.clone()),
                Trace::Deletion(uid) => Sign::Deletion(uid.as_str().into()),
                Trace::End(uid) => Sign::End(uid.as_str().into()),
                Trace::Unknown | Trace::Unshown => Sign::Unknown,
            },
        })
    }

    /// What it reads by name, and whether each of these informers is synced for its keys of these
    /// shards.
    pub fn reads(&self, snapshot: &Snapshot, duty: &Duty) -> Vec<(InformerKey, bool)> {
        let kinds = self.version.scope.kinds.values();
        let reads = kinds.flat_map(|scope| &scope.parts).map(|part| {
            let cache = &snapshot.informers[part.informer];
            let is_synced = cache.is_synced(extent(part, duty));
            (cache.informer_key().clone(), is_synced)
        });
        reads.collect()
    }

    /// The kinds of its patterns that have an informer, and whether each is listed.
    pub fn of_patterns(&self, snapshot: &Snapshot) -> Vec<(Kind, bool)> {
        let kinds = self.version.scope.of_patterns().map(|known| {
            let mut parts = known.scope.parts.iter();
            let is_listed = parts
                .all(|part| snapshot.informers[part.informer].is_synced(part.subscribed.detail));
            (known.kind.clone(), is_listed)
        });
        kinds.collect()
    }

    /// Its part of the caches: each informer's bytes, shared evenly among the plugins that use it.
    pub fn cached_bytes(&self, snapshot: &Snapshot) -> usize {
        let informers = self.subscriptions.keys();
        let caches = informers.map(|informer| &snapshot.informers[*informer]);
        caches
            .map(|cache| cache.bytes() / cache.users().max(1))
            .sum()
    }
}

/// How much of an informer's objects the keys of these shards can read.
pub(super) fn extent(part: &ScopePart, duty: &Duty) -> Extent {
    let whole = Extent::from(part.subscribed.detail);
    let is_divided = part.is_divisible && duty.division().by == DividedBy::Namespace;
    match is_divided {
        true => Extent {
            namespaces: duty.namespaces(),
            ..whole
        },
        false => whole,
    }
}

/// The plugin's subscription to each informer of its scope.
fn subscriptions(scope: &Scope) -> BTreeMap<InformerId, Subscribed> {
    let subscriptions = scope
        .parts()
        .map(|part| (part.informer, part.subscribed.clone()));
    subscriptions.collect()
}

/// What the informers of its scope are in lists of its patterns.
fn pattern_parts(scope: &Scope) -> BTreeMap<InformerId, PatternPart> {
    let named = scope.kinds.iter();
    let of_patterns = scope.of_patterns().map(|known| (&known.kind, &known.scope));
    let kinds = named.chain(of_patterns);
    let parts = kinds.flat_map(|(kind, of_kind)| {
        let parts = of_kind.parts.iter();
        parts.filter_map(move |part| Some((part.informer, scope.pattern_part(kind, part)?)))
    });
    parts.collect()
}

/// The keys of objects that are ordered by namespace. Keys of one namespace share its name.
fn keys<'a>(objects: impl Iterator<Item = &'a Arc<Object>>) -> impl Iterator<Item = ObjectKey> {
    objects.scan(ObjectKey::singleton(), |last, object| {
        *last = object.key().to_key_beside(last);
        Some(last.clone())
    })
}
