//! The reads of a reconcile: from one snapshot, only of what the plugin may read, and with every
//! read recorded.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::cache::snapshot::{InformerId, Snapshot};
use crate::cache::{Cache, Subscribed};
use crate::model::fields::part;
use crate::model::key::{Kind, ObjectKey};
use crate::model::object::{IndexId, Object, Side};
use crate::model::selector::LabelSelector;

/// What one plugin may read, in terms of the host's ids. This is the permission check for reads: a
/// kind that is not in here cannot be read.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    /// The readable kinds.
    pub kinds: BTreeMap<Kind, KindScope>,
    /// Kinds that the manifest reads but the operator has not granted.
    pub ungranted: BTreeSet<Kind>,
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
    fn parts_of(&self, namespace: Option<&str>) -> Vec<&ScopePart> {
        match namespace {
            Some(namespace) => self.part_of(namespace).into_iter().collect(),
            None => self.parts.iter().collect(),
        }
    }
}

/// One read that a reconcile made from the snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Read {
    /// One object, whether it exists or not.
    Object(InformerId, ObjectKey),
    /// One side of an object that was applied. Whether the apply must be repeated depends on the
    /// whole of that side, whatever the plugin sees of it.
    Applied(InformerId, ObjectKey, Side),
    /// The objects that match the filter, in one namespace or in all.
    List(InformerId, Option<Arc<str>>, Filter),
}

/// Selects the objects of a list.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Filter {
    /// All objects.
    Everything,
    /// Objects whose labels match.
    Labels(LabelSelector),
    /// Objects with this indexed value.
    Index(IndexId, Arc<str>),
}

/// Selects the objects that a plugin asks for: a [`Filter`] in the plugin's terms.
#[derive(Clone, Debug)]
pub enum ListFilter {
    /// All objects.
    Everything,
    /// Objects whose labels match.
    Labels(LabelSelector),
    /// Objects with this value (second) in the index of this name (first).
    Index(String, String),
}

/// The maximum number of different reads in one reconcile. A plugin that needs more objects should
/// list them.
pub const MAX_READS: usize = 10_000;

/// The maximum number of bytes of names, selectors and values in the reads of one reconcile.
pub const MAX_READ_BYTES: usize = 1024 * 1024;

/// Fuel for each object that a list examines. This and the following costs are chosen so that a
/// read costs about as much fuel as guest instructions that take the same time.
const FUEL_PER_OBJECT: u64 = 200;
/// Fuel for each condition that an object is compared with.
const FUEL_PER_CONDITION: u64 = 40;
/// Fuel for each value of a condition.
const FUEL_PER_VALUE: u64 = 2;
/// Fuel for getting one object, and for recording one read.
const FUEL_PER_READ: u64 = 1_000;
/// Bytes that are copied to the guest for one unit of fuel.
const BYTES_PER_FUEL: u64 = 4;
/// Fuel for each byte that is parsed on the way to a part of an object.
const FUEL_PER_READ_BYTE: u64 = 1;

/// The maximum number of conditions in one selector.
pub const MAX_CONDITIONS: usize = 100;
/// The maximum number of values in all conditions of one selector.
pub const MAX_VALUES: usize = 1_000;

impl Read {
    /// Bytes of the read's texts as they are stored.
    pub(crate) fn size(&self) -> usize {
        match self {
            Self::Object(_, key) | Self::Applied(_, key, _) => key.namespace.len() + key.name.len(),
            Self::List(_, namespace, filter) => {
                namespace.as_ref().map_or(0, |namespace| namespace.len()) + filter.size()
            }
        }
    }
}

impl Filter {
    /// The fuel for comparing one object with the filter.
    fn fuel(&self) -> u64 {
        match self {
            Self::Labels(selector) => {
                let conditions = selector.requirements.len() as u64;
                let values = selector.comparisons() as u64;
                conditions * FUEL_PER_CONDITION + values * FUEL_PER_VALUE
            }
            Self::Everything | Self::Index(..) => 0,
        }
    }

    /// True if one of the [`candidates`] is in the list.
    pub(crate) fn selects(&self, object: &Object, namespace: Option<&str>) -> bool {
        match self {
            Self::Everything => true,
            Self::Labels(selector) => selector.matches(object),
            Self::Index(..) => namespace.is_none_or(|wanted| object.key().namespace == wanted),
        }
    }

    fn size(&self) -> usize {
        match self {
            Self::Everything => 0,
            Self::Labels(selector) => selector.size(),
            Self::Index(_, value) => value.len(),
        }
    }
}

impl Read {
    /// Whether the read's answer from this snapshot is not empty. Each object that is examined is
    /// deducted from `left`. `None` if `left` does not suffice to find out.
    pub(crate) fn has_answer(&self, snapshot: &Snapshot, left: &mut usize) -> Option<bool> {
        let mut examine = || {
            *left = left.checked_sub(1)?;
            Some(())
        };
        match self {
            Self::Object(informer, key) | Self::Applied(informer, key, _) => {
                examine()?;
                Some(snapshot.informers[*informer].get(key.parts()).is_some())
            }
            Self::List(informer, namespace, filter) => {
                let (cache, namespace) = (&snapshot.informers[*informer], namespace.as_deref());
                for object in candidates(cache, namespace, filter) {
                    examine()?;
                    if filter.selects(object, namespace) {
                        return Some(true);
                    }
                }
                Some(false)
            }
        }
    }
}

/// True if an object could have this key. No name is longer than 253 bytes.
fn is_possible(key: &ObjectKey) -> bool {
    key.name.len() <= 253 && key.namespace.len() <= 253
}

/// Why a read has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The kind is not among the manifest's reads.
    #[error("{0} is not among the manifest's reads")]
    Denied(Kind),
    /// The operator has not granted reads of this kind.
    #[error("reads of {0} are not granted; the operator grants them in the plugin's settings")]
    NotGranted(Kind),
    /// The manifest does not read the kind in this namespace, or the operator has not granted it
    /// there.
    #[error("the plugin reads {kind} in other namespaces, not in {namespace:?}")]
    OtherNamespace {
        /// The kind that was asked for.
        kind: Kind,
        /// The namespace that was asked for.
        namespace: String,
    },
    /// The object, or one of the objects of a list, exists but cannot be read. The guest is
    /// stopped, because no answer would be right.
    #[error("{kind} {key} cannot be read: {reason}")]
    Unreadable {
        /// The object's kind.
        kind: Kind,
        /// The object's key.
        key: ObjectKey,
        /// The reason.
        reason: String,
    },
    /// The manifest does not declare this index.
    #[error("the manifest declares no index {name:?} of {kind}")]
    UnknownIndex {
        /// The name of the index.
        name: String,
        /// The kind of which it was asked.
        kind: Kind,
    },
    /// The reconcile has made more reads than are recorded. The guest is stopped.
    #[error(
        "more than {MAX_READS} different reads, or {MAX_READ_BYTES} bytes of them, in one reconcile"
    )]
    TooMany,
    /// The selector is too large, given that every object is compared with all of it. The guest is
    /// stopped.
    #[error("a selector of more than {MAX_CONDITIONS} conditions, or {MAX_VALUES} values")]
    Selector,
    /// A list is longer than the limit of the reader. The guest is stopped.
    #[error("a list of more than {0} bytes, which is all the memory there is for it")]
    TooLarge(usize),
    /// The reads have used all the fuel of the reader. The guest is stopped.
    #[error("all fuel used in a read")]
    OutOfFuel,
    /// The text is not a JSON Pointer.
    #[error("{0:?} is not a JSON Pointer; it is empty or begins with /")]
    InvalidPointer(String),
}

/// Makes and records the reads of one reconcile.
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
}

/// The object whose key is reconciled.
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
        }
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
        let part = self.scope.kinds.get(kind)?.part_of(&key.namespace)?;
        self.cache(part).get(key.parts())
    }

    fn unreadable(&self, kind: &Kind, key: &ObjectKey) -> Option<ReadError> {
        let part = self.scope.kinds.get(kind)?.part_of(&key.namespace)?;
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

    /// One object as the plugin sees it. `None` if it does not exist.
    pub fn get(&mut self, kind: &Kind, key: &ObjectKey) -> Result<Option<&str>, ReadError> {
        let scope = self.scope.clone();
        let part = scope_of(&scope, kind).and_then(|scope| {
            let part = scope.part_of(&key.namespace);
            part.ok_or_else(|| other_namespace(kind, &key.namespace))
        });
        let part = part.inspect_err(|denied| self.note_denied(denied))?;
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

    /// One part of an object, by JSON Pointer (RFC 6901), as JSON text. Works at any depth of
    /// nesting.
    pub fn get_part(
        &mut self,
        kind: &Kind,
        key: &ObjectKey,
        pointer: &str,
    ) -> Result<Option<String>, ReadError> {
        if !pointer.is_empty() && !pointer.starts_with('/') {
            return Err(ReadError::InvalidPointer(pointer.to_owned()));
        }
        // What `get` spends is replaced by the cost of the search.
        let mut fuel = self.fuel;
        let object = self.get(kind, key)?;
        let bytes = object.map_or(0, str::len) as u64;
        // Each name is searched in the value to which the names before it have led.
        let names = 1 + pointer.matches('/').count() as u64;
        let spent = spend(
            &mut fuel,
            FUEL_PER_READ + names * bytes * FUEL_PER_READ_BYTE,
        );
        let found = object.filter(|_| spent.is_ok());
        let found = found
            .and_then(|json| part(json, pointer))
            .map(str::to_owned);
        self.fuel = fuel;
        spent.map(|()| found)
    }

    /// The matching objects as one JSON array, ordered by namespace and name.
    pub fn list(
        &mut self,
        kind: &Kind,
        namespace: Option<&str>,
        filter: &ListFilter,
    ) -> Result<String, ReadError> {
        let scope = self.scope.clone();
        let parts = scope_of(&scope, kind).and_then(|scope| {
            let parts = scope.parts_of(namespace);
            match namespace {
                Some(namespace) if parts.is_empty() => Err(other_namespace(kind, namespace)),
                _ => Ok((scope, parts)),
            }
        });
        let (scope, parts) = parts.inspect_err(|denied| self.note_denied(denied))?;
        if let ListFilter::Labels(selector) = filter
            && !selector.is_within(MAX_CONDITIONS, MAX_VALUES)
        {
            return Err(ReadError::Selector);
        }
        let mut json = String::from("[");
        for part in parts {
            let filter = resolve(scope, part, kind, filter)?;
            spend(&mut self.fuel, FUEL_PER_READ)?;
            // The read is recorded first, which checks the limits. Only then are objects compared
            // with it.
            self.record(Read::List(
                part.informer,
                namespace.map(Arc::from),
                filter.clone(),
            ))?;
            self.push_list(&mut json, part, namespace, &filter)?;
            self.check_readable(kind, part, namespace)?;
        }
        json.push(']');
        Ok(json)
    }

    /// Returns an error if the list covers an unreadable object, because a list without it would be
    /// wrong.
    fn check_readable(
        &self,
        kind: &Kind,
        part: &ScopePart,
        namespace: Option<&str>,
    ) -> Result<(), ReadError> {
        let mut unreadable = self.cache(part).unreadable().iter();
        let of_list = unreadable
            .find(|(key, _)| namespace.is_none_or(|namespace| *key.namespace == *namespace));
        of_list.map_or(Ok(()), |(key, reason)| {
            Err(ReadError::Unreadable {
                kind: kind.clone(),
                key: key.clone(),
                reason: reason.clone(),
            })
        })
    }

    /// The kind itself if the plugin reads it, otherwise a version of it that the plugin reads.
    pub(crate) fn readable_as(&self, kind: &Kind) -> Option<&Kind> {
        self.scope.readable_as(kind)
    }

    /// True if the plugin reads this kind.
    pub(crate) fn may_read(&self, kind: &Kind) -> bool {
        self.scope.kinds.contains_key(kind)
    }

    /// True if the plugin could read an object of this key.
    pub(crate) fn is_in_scope(&self, kind: &Kind, key: &ObjectKey) -> bool {
        let kind = self.readable_as(kind);
        let scope = kind.and_then(|kind| self.scope.kinds.get(kind));
        scope.is_some_and(|scope| scope.part_of(&key.namespace).is_some())
    }

    /// True if the plugin reads the whole value at this path of names, in an object of this key and
    /// in exactly this version of the kind. Of an object that selectors exclude it reads nothing.
    pub(crate) fn shows(&self, kind: &Kind, key: &ObjectKey, names: &[&str]) -> bool {
        let scope = self.scope.kinds.get(kind);
        let part = scope.and_then(|scope| scope.part_of(&key.namespace));
        part.is_some_and(|part| {
            let cache = self.cache(part);
            let is_selected = !part.is_narrowed || cache.get(key.parts()).is_some();
            let is_in_view = cache.schema().shows(part.subscribed.view, names);
            is_selected && part.subscribed.detail.has(names) && is_in_view
        })
    }

    /// True if an object that is missing in the snapshot does not exist, as far as the snapshot can
    /// tell.
    pub(crate) fn knows(&self, kind: &Kind, key: &ObjectKey) -> bool {
        let part = self
            .scope
            .kinds
            .get(kind)
            .and_then(|scope| scope.part_of(&key.namespace));
        part.is_some_and(|part| !part.is_narrowed) && self.unreadable(kind, key).is_none()
    }

    /// True if the object was in the answer of one of the reads.
    pub(crate) fn has_seen(&self, kind: &Kind, key: &ObjectKey) -> bool {
        let kind = self.readable_as(kind);
        let Some(object) = kind.and_then(|kind| self.find(kind, key)) else {
            return false;
        };
        let scope = kind.and_then(|kind| self.scope.kinds.get(kind));
        let part = scope.and_then(|scope| scope.part_of(&key.namespace));
        part.is_some_and(|part| {
            let mut reads = self.reads.iter();
            reads.any(|read| read.informer() == part.informer && read.has(object))
        })
    }

    /// The whole object that an action is about, for the host's own decisions. The read is recorded
    /// if the plugin reads the kind: whether the action is sent depends on the object, so the key
    /// must run again when the object changes.
    ///
    /// The host's own reads do not count against the guest's limits. They are bounded by the number
    /// of actions in an outcome, and a refused read would look like an object that does not exist.
    pub(crate) fn look_at(&mut self, kind: &Kind, key: &ObjectKey) -> Option<Arc<Object>> {
        let part = self.scope.kinds.get(kind)?.part_of(&key.namespace)?;
        let informer = part.informer;
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
        let part = self.scope.kinds.get(kind)?.part_of(&key.namespace)?;
        let informer = part.informer;
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
            found.extend(matching(self.cache(part), None, &filter).cloned());
            self.reads
                .insert(Read::List(part.informer, None, filter.clone()));
        }
        found
    }

    /// Keeps the first denied read, for the audit.
    fn note_denied(&mut self, denied: &ReadError) {
        self.denied.get_or_insert_with(|| denied.clone());
    }

    /// Takes the first denied read.
    pub(crate) fn take_denied(&mut self) -> Option<ReadError> {
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
        part: &ScopePart,
        namespace: Option<&str>,
        filter: &Filter,
    ) -> Result<(), ReadError> {
        let cache = &self.snapshot.informers[part.informer];
        let per_object = FUEL_PER_OBJECT + filter.fuel();
        // All texts are found before any is copied. The processor then waits for the memory of many
        // objects at once, and not for one after the other.
        let mut views: Vec<&str> = Vec::new();
        for object in candidates(cache, namespace, filter) {
            spend(&mut self.fuel, per_object)?;
            if filter.selects(object, namespace) {
                views.push(object.view(part.subscribed.view));
            }
        }
        let size: usize = views.iter().map(|view| view.len() + 1).sum();
        if out.len() + size > self.max_answer_bytes {
            return Err(ReadError::TooLarge(self.max_answer_bytes));
        }
        spend(&mut self.fuel, size as u64 / BYTES_PER_FUEL)?;
        out.reserve(size);
        for view in views {
            if out.len() > 1 {
                out.push(',');
            }
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

fn scope_of<'a>(scope: &'a Scope, kind: &Kind) -> Result<&'a KindScope, ReadError> {
    let found = scope.kinds.get(kind);
    found.ok_or_else(|| match scope.ungranted.contains(kind) {
        true => ReadError::NotGranted(kind.clone()),
        false => ReadError::Denied(kind.clone()),
    })
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

/// The objects of a list, ordered by namespace and name.
pub fn matching<'a>(
    cache: &'a Cache,
    namespace: Option<&'a str>,
    filter: &'a Filter,
) -> impl Iterator<Item = &'a Arc<Object>> {
    candidates(cache, namespace, filter).filter(move |object| filter.selects(object, namespace))
}

/// The objects that are examined for a list. Not all of them need to be in it.
pub(crate) fn candidates<'a>(
    cache: &'a Cache,
    namespace: Option<&'a str>,
    filter: &'a Filter,
) -> Box<dyn Iterator<Item = &'a Arc<Object>> + 'a> {
    match filter {
        Filter::Everything | Filter::Labels(_) => Box::new(cache.list(namespace)),
        Filter::Index(index, value) => Box::new(cache.list_by_index(*index, value)),
    }
}

#[cfg(test)]
mod tests;
