//! The reads of a reconcile: from one snapshot, only of what the plugin may read, and with every
//! read recorded.

mod patterns;
mod unwatched;

pub use patterns::KnownKind;

use std::collections::BTreeSet;
use std::sync::Arc;

use super::error::{MAX_CONDITIONS, MAX_READ_BYTES, MAX_READS, MAX_VALUES, ReadError};
use super::fetched::{FetchedObjects, UnwatchedObject};
use super::read::{Filter, Read, candidates, matching};
use super::source::{Origin, Source};
use crate::access::scope::{AbsentKind, KindScope, Scope, ScopePart};
use crate::cache::Cache;
use crate::cache::snapshot::{InformerId, Snapshot};
use crate::model::key::{KeyRef, Kind, ObjectKey};
use crate::model::object::{Object, Side, ViewId};
use crate::model::query::ListFilter;
use crate::model::selector::LabelSelector;

/// An object that the host has read for a decision of its own.
pub(crate) struct Located {
    /// The informer that brings it.
    pub informer: InformerId,
    /// Where it is, if it is there.
    pub cache: Arc<Cache>,
    /// What the plugin sees of it.
    pub view: ViewId,
}

/// Objects that the host has listed for a decision of its own.
pub(crate) struct Listed {
    /// The informer that brings them.
    pub informer: InformerId,
    /// Where they are.
    pub cache: Arc<Cache>,
    /// What selects them there.
    pub filter: Filter,
}

/// The part of a list that is still to be read.
struct Page<'a> {
    /// Only objects after this one. Of a list of one kind only the key counts.
    after: Option<(&'a Kind, KeyRef<'a>)>,
    /// At most this many objects.
    left: usize,
}

impl<'a> Page<'a> {
    fn whole() -> Self {
        Self {
            after: None,
            left: usize::MAX,
        }
    }

    /// The key after which the objects of a kind are wanted, in a list that is ordered by kinds.
    /// `None`: none of them.
    fn after_in(&self, kind: &Kind, is_of_pattern: bool) -> Option<Option<KeyRef<'a>>> {
        match self.after {
            Some((last, key)) if !is_of_pattern || last == kind => Some(Some(key)),
            Some((last, _)) if kind < last => None,
            _ => Some(None),
        }
    }
}

/// What a list covers: the objects of one informer.
struct ListPart<'a> {
    kind: Kind,
    part: &'a ScopePart,
    /// What selects them there.
    filter: Filter,
}

/// Fuel for each object that a list examines, or for many that it passes over. This and the
/// following costs are chosen so that a read costs about as much fuel as guest instructions that
/// take the same time.
const FUEL_PER_OBJECT: u64 = 200;
/// Fuel for getting one object, and for recording one read.
const FUEL_PER_READ: u64 = 1_000;
/// Bytes that are copied to the guest for one unit of fuel.
const BYTES_PER_FUEL: u64 = 4;

/// True if an object could have this key. No name is longer than 253 bytes.
fn is_possible(key: &ObjectKey) -> bool {
    key.name.len() <= 253 && key.namespace.len() <= 253
}

/// Makes and records the reads of one reconcile.
#[derive(Clone)]
pub struct Reader {
    snapshot: Snapshot,
    scope: Arc<Scope>,
    now_ms: u64,
    reads: BTreeSet<Read>,
    recorded_bytes: usize,
    read_clock: bool,
    denied: Option<ReadError>,
    subject: Option<OwnSubject>,
    max_answer_bytes: usize,
    fuel: u64,
    /// The kinds of patterns that were asked about and are not listed yet.
    unseen: BTreeSet<Kind>,
    /// What the API server has said of objects that no watch brings.
    fetched: FetchedObjects,
    /// The objects that were asked about, that no watch brings, and that are not fetched yet.
    unfetched: Vec<UnwatchedObject>,
    /// The only namespace whose objects are read, of kinds that can be divided by it.
    kept_to: Option<Arc<str>>,
}

/// The object whose key is reconciled.
#[derive(Clone)]
struct OwnSubject {
    kind: Kind,
    key: ObjectKey,
    /// It exists, and the plugin's selection includes it.
    is_selected: bool,
    /// It may exist, but cannot be read.
    is_unreadable: bool,
}

impl Reader {
    /// Creates a reader of `snapshot` for a plugin with this scope, at this time (milliseconds
    /// since the Unix epoch).
    pub fn new(snapshot: Snapshot, scope: Arc<Scope>, now_ms: u64) -> Self {
        Self {
            snapshot,
            scope,
            now_ms,
            reads: BTreeSet::new(),
            recorded_bytes: 0,
            read_clock: false,
            denied: None,
            subject: None,
            max_answer_bytes: usize::MAX,
            fuel: u64::MAX,
            unseen: BTreeSet::new(),
            fetched: FetchedObjects::default(),
            unfetched: Vec::new(),
            kept_to: None,
        }
    }

    /// From now on only this namespace can be read, of kinds that have namespaces: the plugin's
    /// keys are divided by namespace, and the snapshot may not have the others.
    pub(crate) fn keep_to(&mut self, namespace: &str) {
        self.kept_to = Some(namespace.into());
    }

    /// Limits the fuel that reads may use from now on. Once it is used up they fail with
    /// [`ReadError::OutOfFuel`].
    pub fn set_fuel(&mut self, fuel: u64) {
        self.fuel = fuel;
    }

    /// The fuel that is left.
    pub fn fuel(&self) -> u64 {
        self.fuel
    }

    /// Limits the bytes of a list from now on. A longer one fails with [`ReadError::TooLarge`]
    /// before it is assembled.
    pub fn limit_answers(&mut self, max_bytes: usize) {
        self.max_answer_bytes = max_bytes;
    }

    /// Sets the object that is reconciled. If it is not selected any more, its own reconcile sees
    /// it as deleted. A plugin thus cleans up after an object that left its selection in the same
    /// way as after a deleted one.
    pub(crate) fn set_subject(
        &mut self,
        kind: &Kind,
        key: &ObjectKey,
        selects: impl Fn(&Object) -> bool,
    ) {
        let object = self.find(kind, key);
        self.subject = Some(OwnSubject {
            kind: kind.clone(),
            is_selected: object.is_some_and(|object| selects(object)),
            is_unreadable: self.unreadable(kind, key).is_some(),
            key: key.clone(),
        });
    }

    /// Finds an object without recording the read. For checks of the host from which the plugin
    /// learns nothing.
    pub(crate) fn find(&self, kind: &Kind, key: &ObjectKey) -> Option<&Arc<Object>> {
        self.cache(self.part_of(kind, key)?).get(key.parts())
    }

    /// Where an object of this key would be, if the plugin reads the kind there and it is listed.
    fn part_of(&self, kind: &Kind, key: &ObjectKey) -> Option<&ScopePart> {
        // A plugin runs only when the kinds that it names are listed.
        if let Some(named) = self.scope.kinds.get(kind) {
            let part = named.part_of(&key.namespace)?;
            return self.can_read(part, Some(&key.namespace)).then_some(part);
        }
        let of_pattern = self.scope.of_pattern(kind)?;
        let part = of_pattern.scope.part_of(&key.namespace);
        part.filter(|part| self.is_listed(part))
    }

    /// True if the objects of a namespace can be read in a part of the scope; `None`: of all.
    fn can_read(&self, part: &ScopePart, namespace: Option<&str>) -> bool {
        let kept_to = self.kept_to.as_deref().filter(|_| part.is_divisible);
        kept_to.is_none_or(|own| namespace == Some(own))
    }

    /// Refuses a read of a namespace that is not the key's own.
    fn check_own(
        &mut self,
        kind: &Kind,
        part: &ScopePart,
        namespace: Option<&str>,
    ) -> Result<(), ReadError> {
        if self.can_read(part, namespace) {
            return Ok(());
        }
        let denied = ReadError::NotOwnNamespace {
            kind: kind.clone(),
            own: self.kept_to.as_deref().unwrap_or_default().to_owned(),
        };
        self.note_denied(&denied);
        Err(denied)
    }

    /// True if the snapshot has all objects of a part of the scope.
    fn is_listed(&self, part: &ScopePart) -> bool {
        self.cache(part).is_synced(part.subscribed.detail)
    }

    fn unreadable(&self, kind: &Kind, key: &ObjectKey) -> Option<ReadError> {
        let part = self.part_of(kind, key)?;
        let reason = self.cache(part).unreadable().get(key)?;
        Some(ReadError::Unreadable {
            kind: kind.clone(),
            key: key.clone(),
            reason: reason.clone(),
        })
    }

    fn cache(&self, part: &ScopePart) -> &Cache {
        &self.snapshot.informers[part.informer]
    }

    /// True if the object of the reconciled key does not exist or is not selected.
    pub(crate) fn is_subject_gone(&self) -> bool {
        self.subject
            .as_ref()
            .is_some_and(|subject| !subject.is_selected && !subject.is_unreadable)
    }

    /// The sequence number of the snapshot.
    pub(crate) fn sequence(&self) -> u64 {
        self.snapshot.sequence
    }

    /// The time of this reconcile, in milliseconds since the Unix epoch. It stays the same
    /// throughout.
    pub fn now_ms(&mut self) -> u64 {
        self.read_clock = true;
        self.now_ms
    }

    /// One object as the plugin sees it. `None` if it does not exist. One that no watch brings is
    /// fetched first: the reconcile ends, and its key runs again with the answer.
    pub fn get(&mut self, kind: &Kind, key: &ObjectKey) -> Result<Option<&str>, ReadError> {
        let scope = self.scope.clone();
        if let Some(absent) = scope.absent.get(kind) {
            self.find_nothing(kind, absent, Some(&key.namespace), None)?;
            return Ok(None);
        }
        let kind_scope = match self.scope_of(&scope, kind) {
            Err(error @ ReadError::Unavailable { .. }) => {
                let (pattern, kind) = self.unwatched(&scope, kind).ok_or(error)?;
                return self.get_unwatched(pattern, kind, key);
            }
            found => found?,
        };
        let Some(kind_scope) = kind_scope else {
            return Ok(None);
        };
        let part = kind_scope.part_of(&key.namespace);
        let part = part.ok_or_else(|| other_namespace(kind, &key.namespace));
        let part = part.inspect_err(|denied| self.note_denied(denied))?;
        self.check_own(kind, part, Some(&key.namespace))?;
        spend(&mut self.fuel, FUEL_PER_READ)?;
        if !is_possible(key) {
            return Ok(None);
        }
        let is_gone = self.subject.as_ref().is_some_and(|subject| {
            let is_gone = !subject.is_selected && !subject.is_unreadable;
            is_gone && subject.kind == *kind && subject.key == *key
        });
        if is_gone {
            // This need not be recorded. Only the object's being selected again alters this answer,
            // and that queues the key anyway.
            return Ok(None);
        }
        self.record(Read::Object(part.informer, key.clone()))?;
        if let Some(error) = self.unreadable(kind, key) {
            return Err(error);
        }
        let object = self.snapshot.informers[part.informer].get(key.parts());
        let json = object.map(|object| object.view(part.subscribed.view));
        let bytes = json.map_or(0, str::len) as u64;
        spend(&mut self.fuel, bytes / BYTES_PER_FUEL)?;
        Ok(json)
    }

    /// The matching objects as one JSON array, ordered by namespace and name. Each stands on a line
    /// of its own, so that a guest can decode one after the other. Of a pattern, they are the
    /// objects of all its kinds that can be listed, ordered by kind first.
    pub fn list(
        &mut self,
        kind: &Kind,
        namespace: Option<&str>,
        filter: &ListFilter,
    ) -> Result<String, ReadError> {
        self.list_part(kind, namespace, filter, Page::whole())
    }

    /// Those objects of a [list](Self::list) that come after this one, at most `limit` of them. The
    /// whole list counts as read: whoever reads a page reads the others too, and all of them are
    /// one read.
    pub fn list_page(
        &mut self,
        kind: &Kind,
        namespace: Option<&str>,
        filter: &ListFilter,
        after: Option<(&Kind, KeyRef<'_>)>,
        limit: u32,
    ) -> Result<String, ReadError> {
        if limit == 0 {
            return Err(ReadError::EmptyPage);
        }
        let left = usize::try_from(limit).unwrap_or(usize::MAX);
        self.list_part(kind, namespace, filter, Page { after, left })
    }

    fn list_part(
        &mut self,
        kind: &Kind,
        namespace: Option<&str>,
        filter: &ListFilter,
        mut page: Page<'_>,
    ) -> Result<String, ReadError> {
        let scope = self.scope.clone();
        let mut json = String::from("[");
        for part in self.record_any_list(&scope, kind, namespace, filter)? {
            if let Some(after) = page.after_in(&part.kind, kind.is_pattern()) {
                self.push_list(&mut json, &part, namespace, after, &mut page.left)?;
            }
            self.check_readable(&part, namespace)?;
        }
        if json.len() > 1 {
            json.push('\n');
        }
        json.push(']');
        Ok(json)
    }

    /// Records a list of a kind or a pattern.
    fn record_any_list<'a>(
        &mut self,
        scope: &'a Scope,
        kind: &Kind,
        namespace: Option<&str>,
        filter: &ListFilter,
    ) -> Result<Vec<ListPart<'a>>, ReadError> {
        match kind.is_pattern() {
            true => self.record_pattern_list(scope, kind, namespace, filter),
            false => self.record_list(scope, kind, namespace, filter),
        }
    }

    /// Records a list of one kind: in each part of the scope that it covers, with the filter in the
    /// host's ids. This checks the limits; only then are objects compared with it.
    fn record_list<'a>(
        &mut self,
        scope: &'a Scope,
        kind: &Kind,
        namespace: Option<&str>,
        filter: &ListFilter,
    ) -> Result<Vec<ListPart<'a>>, ReadError> {
        if let Some(absent) = scope.absent.get(kind) {
            self.find_nothing(kind, absent, namespace, Some(filter))?;
            return Ok(Vec::new());
        }
        let Some(kind_scope) = self.scope_of(scope, kind)? else {
            return Ok(Vec::new());
        };
        let parts = kind_scope.parts_of(namespace);
        if let Some(namespace) = namespace.filter(|_| parts.is_empty()) {
            let denied = other_namespace(kind, namespace);
            self.note_denied(&denied);
            return Err(denied);
        }
        for part in &parts {
            self.check_own(kind, part, namespace)?;
        }
        check_selector(filter)?;
        let parts = parts.into_iter();
        let parts = parts.map(|part| self.record_part(kind_scope, part, kind, namespace, filter));
        parts.collect()
    }

    fn record_part<'a>(
        &mut self,
        scope: &KindScope,
        part: &'a ScopePart,
        kind: &Kind,
        namespace: Option<&str>,
        filter: &ListFilter,
    ) -> Result<ListPart<'a>, ReadError> {
        let filter = resolve(scope, part, kind, filter)?;
        spend(&mut self.fuel, FUEL_PER_READ)?;
        let read = Read::list(part.informer, namespace.map(Arc::from), filter.clone());
        self.record(read)?;
        Ok(ListPart {
            kind: kind.clone(),
            part,
            filter,
        })
    }

    /// Makes a read of a kind that the cluster does not serve. It fails if it would fail otherwise.
    fn find_nothing(
        &mut self,
        kind: &Kind,
        absent: &AbsentKind,
        namespace: Option<&str>,
        filter: Option<&ListFilter>,
    ) -> Result<(), ReadError> {
        let is_read =
            |namespace: &str| absent.namespaces.is_empty() || absent.namespaces.contains(namespace);
        if let Some(namespace) = namespace.filter(|namespace| !is_read(namespace)) {
            let denied = other_namespace(kind, namespace);
            self.note_denied(&denied);
            return Err(denied);
        }
        spend(&mut self.fuel, FUEL_PER_READ)?;
        filter.map_or(Ok(()), check_selector)?;
        match filter {
            Some(ListFilter::Index(name, _)) if !absent.indexes.contains(name) => {
                Err(ReadError::UnknownIndex {
                    name: name.clone(),
                    kind: kind.clone(),
                })
            }
            _ => Ok(()),
        }
    }

    /// Returns an error if the list covers an unreadable object, because a list without it would be
    /// wrong.
    fn check_readable(
        &self,
        list: &ListPart<'_>,
        namespace: Option<&str>,
    ) -> Result<(), ReadError> {
        let mut unreadable = self.cache(list.part).unreadable().iter();
        let of_list = unreadable
            .find(|(key, _)| namespace.is_none_or(|namespace| *key.namespace == *namespace));
        of_list.map_or(Ok(()), |(key, reason)| {
            Err(ReadError::Unreadable {
                kind: list.kind.clone(),
                key: key.clone(),
                reason: reason.clone(),
            })
        })
    }

    /// Reads an object for the host's own decisions, as if the plugin had read it. `None`: no
    /// object can have this key.
    pub(crate) fn locate(
        &mut self,
        kind: &Kind,
        key: &ObjectKey,
    ) -> Result<Option<Located>, ReadError> {
        let scope = self.scope.clone();
        if let Some((_, kind)) = self.unwatched(&scope, kind) {
            let reason = "get has the API server's own answer, and there is nothing to confirm";
            return Err(ReadError::Unavailable {
                kind,
                reason: reason.to_owned(),
            });
        }
        self.get(kind, key)?;
        let part = self.part_of(kind, key).filter(|_| is_possible(key));
        Ok(part.map(|part| Located {
            informer: part.informer,
            cache: self.snapshot.informers[part.informer].clone(),
            view: part.subscribed.view,
        }))
    }

    /// Lists objects for the host's own decisions, as if the plugin had listed them: for each
    /// informer that brings some, where they are.
    pub(crate) fn listed(
        &mut self,
        kind: &Kind,
        namespace: Option<&str>,
        filter: &ListFilter,
    ) -> Result<Vec<Listed>, ReadError> {
        let scope = self.scope.clone();
        let mut parts = self.record_any_list(&scope, kind, namespace, filter)?;
        if kind.is_pattern() && namespace.is_some_and(|namespace| !namespace.is_empty()) {
            // A server has no path for them.
            let elsewhere = self.without_namespaces(&scope, kind)?;
            parts.retain(|part| !elsewhere.contains(&part.kind));
        }
        for part in &parts {
            self.check_readable(part, namespace)?;
        }
        let listed = parts.into_iter().map(|list| Listed {
            informer: list.part.informer,
            cache: self.snapshot.informers[list.part.informer].clone(),
            filter: list.filter,
        });
        Ok(listed.collect())
    }

    /// The kind itself if the plugin reads it, otherwise a version of it that the plugin reads.
    pub(crate) fn readable_as(&self, kind: &Kind) -> Option<&Kind> {
        self.scope.readable_as(kind)
    }

    /// True if the plugin reads this kind.
    pub(crate) fn may_read(&self, kind: &Kind) -> bool {
        self.scope.kind(kind).is_some()
    }

    /// True if the plugin could read an object of this key.
    pub(crate) fn is_in_scope(&self, kind: &Kind, key: &ObjectKey) -> bool {
        let kind = self.readable_as(kind);
        kind.is_some_and(|kind| self.part_of(kind, key).is_some())
    }

    /// True if the plugin reads the whole value at this path of names, in an object of this key and
    /// in exactly this version of the kind. Of an object that selectors exclude it reads nothing.
    pub(crate) fn shows(&self, kind: &Kind, key: &ObjectKey, names: &[&str]) -> bool {
        self.part_of(kind, key).is_some_and(|part| {
            let cache = self.cache(part);
            let is_selected = !part.is_narrowed || cache.get(key.parts()).is_some();
            let is_in_view = cache.schema().shows(part.subscribed.view, names);
            is_selected && part.subscribed.detail.has(names) && is_in_view
        })
    }

    /// True if an object that is missing in the snapshot does not exist, as far as the snapshot can
    /// tell.
    pub(crate) fn knows(&self, kind: &Kind, key: &ObjectKey) -> bool {
        let part = self.part_of(kind, key);
        part.is_some_and(|part| !part.is_narrowed) && self.unreadable(kind, key).is_none()
    }

    /// True if the object was in the answer of one of the reads.
    pub(crate) fn has_seen(&self, kind: &Kind, key: &ObjectKey) -> bool {
        let kind = self.readable_as(kind);
        let Some(object) = kind.and_then(|kind| self.find(kind, key)) else {
            return false;
        };
        let part = kind.and_then(|kind| Some((kind, self.part_of(kind, key)?)));
        part.is_some_and(|(kind, part)| {
            let of_pattern = self.scope.pattern_part(kind, part);
            let origin = Origin {
                informer: part.informer,
                view: part.subscribed.view,
                of_pattern: of_pattern.as_ref(),
            };
            let sources: Vec<Source> = origin.sources().collect();
            let mut reads = self.reads.iter();
            reads.any(|read| sources.contains(&read.source()) && read.has(object, origin))
        })
    }

    /// The whole object that an action is about, for the host's own decisions. The read is recorded
    /// if the plugin reads the kind: whether the action is sent depends on the object, so the key
    /// must run again when the object changes.
    ///
    /// The host's own reads do not count against the guest's limits. They are bounded by the number
    /// of actions in an outcome, and a refused read would look like an object that does not exist.
    pub(crate) fn look_at(&mut self, kind: &Kind, key: &ObjectKey) -> Option<Arc<Object>> {
        let informer = self.part_of(kind, key)?.informer;
        self.reads.insert(Read::Object(informer, key.clone()));
        self.snapshot.informers[informer].get(key.parts()).cloned()
    }

    /// Like [`look_at`](Self::look_at), for an object that is applied. What was applied counts as
    /// read, whatever fields the plugin sees, and nothing else does.
    pub(crate) fn look_at_applied(
        &mut self,
        kind: &Kind,
        key: &ObjectKey,
        subresource: Option<&str>,
    ) -> Option<Arc<Object>> {
        let informer = self.part_of(kind, key)?.informer;
        let side = match subresource {
            Some("status") => Side::Status,
            _ => Side::Main,
        };
        self.reads
            .insert(Read::Applied(informer, key.clone(), side));
        self.snapshot.informers[informer].get(key.parts()).cloned()
    }

    /// The objects with these labels, for decisions on the plugin's behalf. Recorded as if the
    /// plugin had listed them.
    pub(crate) fn members(&mut self, kind: &Kind, selector: &LabelSelector) -> Vec<Arc<Object>> {
        let filter = Filter::Labels(selector.clone());
        let scope = self.scope.clone();
        let parts = scope.kinds.get(kind).map_or(&[][..], |scope| &scope.parts);
        let mut found = Vec::new();
        for part in parts {
            let kept_to = self.kept_to.as_deref().filter(|_| part.is_divisible);
            found.extend(matching(self.cache(part), kept_to, &filter).cloned());
            let namespace = kept_to.map(Arc::from);
            self.reads
                .insert(Read::list(part.informer, namespace, filter.clone()));
        }
        found
    }

    /// Keeps the first denied read, for the audit.
    fn note_denied(&mut self, denied: &ReadError) {
        self.denied.get_or_insert_with(|| denied.clone());
    }

    /// Takes the first denied read.
    pub fn take_denied(&mut self) -> Option<ReadError> {
        self.denied.take()
    }

    /// The recorded reads, for registering them with the hub.
    pub fn into_reads(self) -> BTreeSet<Read> {
        self.reads
    }

    /// True if the reconcile asked for the time. Its outcome may then differ later, although
    /// nothing that it read has changed.
    pub fn depends_on_time(&self) -> bool {
        self.read_clock
    }

    /// Records a read, within limits: what is recorded outlives the guest and the guest's own
    /// limits.
    fn record(&mut self, read: Read) -> Result<(), ReadError> {
        let size = read.size();
        if !self.reads.contains(&read) {
            if self.reads.len() >= MAX_READS || self.recorded_bytes + size > MAX_READ_BYTES {
                return Err(ReadError::TooMany);
            }
            self.recorded_bytes += size;
            self.reads.insert(read);
        }
        Ok(())
    }

    fn push_list(
        &mut self,
        out: &mut String,
        list: &ListPart<'_>,
        namespace: Option<&str>,
        after: Option<KeyRef<'_>>,
        left: &mut usize,
    ) -> Result<(), ReadError> {
        let ListPart { part, filter, .. } = list;
        let cache = &self.snapshot.informers[part.informer];
        let per_object = FUEL_PER_OBJECT + filter.fuel();
        // All texts are found before any is copied. The processor then waits for the memory of many
        // objects at once, and not for one after the other.
        let mut views: Vec<&str> = Vec::new();
        for object in candidates(cache, namespace, filter, after) {
            if *left == 0 {
                break;
            }
            spend(&mut self.fuel, per_object)?;
            if let Some(object) = object.filter(|object| filter.selects(object, namespace)) {
                views.push(object.view(part.subscribed.view));
                *left -= 1;
            }
        }
        let size: usize = views.iter().map(|view| view.len() + 2).sum();
        if out.len() + size > self.max_answer_bytes {
            return Err(ReadError::TooLarge(self.max_answer_bytes));
        }
        spend(&mut self.fuel, size as u64 / BYTES_PER_FUEL)?;
        out.reserve(size);
        for view in views {
            out.push_str(if out.len() > 1 { ",\n" } else { "\n" });
            out.push_str(view);
        }
        Ok(())
    }
}

fn spend(fuel: &mut u64, more: u64) -> Result<(), ReadError> {
    let left = fuel.checked_sub(more);
    *fuel = left.unwrap_or_default();
    left.map(drop).ok_or(ReadError::OutOfFuel)
}

/// Refuses a selector that is too large.
fn check_selector(filter: &ListFilter) -> Result<(), ReadError> {
    match filter {
        ListFilter::Labels(selector) if !selector.is_within(MAX_CONDITIONS, MAX_VALUES) => {
            Err(ReadError::Selector)
        }
        _ => Ok(()),
    }
}

fn other_namespace(kind: &Kind, namespace: &str) -> ReadError {
    ReadError::OtherNamespace {
        kind: kind.clone(),
        namespace: namespace.to_owned(),
    }
}

/// Translates the plugin's filter into the host's ids.
fn resolve(
    scope: &KindScope,
    part: &ScopePart,
    kind: &Kind,
    filter: &ListFilter,
) -> Result<Filter, ReadError> {
    Ok(match filter {
        ListFilter::Everything => Filter::Everything,
        ListFilter::Labels(selector) => Filter::Labels(selector.clone()),
        ListFilter::Index(name, value) => {
            let place = scope.indexes.get(name);
            let index = place.and_then(|place| part.subscribed.indexes.get(*place));
            let index = index.ok_or_else(|| ReadError::UnknownIndex {
                name: name.clone(),
                kind: kind.clone(),
            })?;
            Filter::Index(*index, value.as_str().into())
        }
    })
}

#[cfg(test)]
mod tests;
