//! How a plugin reads: from one snapshot, only what it may, and every read is remembered.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use crate::key::{Kind, ObjectKey};
use crate::object::{IndexId, Object, ViewId};
use crate::selector::LabelSelector;
use crate::snapshot::{KindId, Snapshot};

/// What one plugin may read, in the host's numbers. The permission check for reads is that a kind is in here.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    /// The readable kinds.
    pub kinds: BTreeMap<Kind, KindScope>,
}

/// One readable kind.
#[derive(Clone, Debug)]
pub struct KindScope {
    /// Its place in a snapshot.
    pub kind: KindId,
    /// The plugin's view of it.
    pub view: ViewId,
    /// The plugin's indexes of it, by name.
    pub indexes: BTreeMap<String, IndexId>,
}

/// One question a reconcile asked of the snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Read {
    /// One object, there or not.
    Object(KindId, ObjectKey),
    /// The objects that match.
    List(KindId, Option<Arc<str>>, Filter),
}

/// Which objects a list is of.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Filter {
    /// All.
    Everything,
    /// Those whose labels match.
    Labels(LabelSelector),
    /// Those with this indexed value.
    Index(IndexId, Arc<str>),
}

/// Which objects a plugin asks for: a [`Filter`] in the plugin's own words.
#[derive(Clone, Debug)]
pub enum ListFilter {
    /// All.
    Everything,
    /// Those whose labels match.
    Labels(LabelSelector),
    /// Those with this value in the index of this name.
    Index(String, String),
}

/// Most different reads of one reconcile. One that needs more should list.
pub const MAX_READS: usize = 10_000;

/// Most bytes of names, selectors and values in the reads of one reconcile.
pub const MAX_READ_BYTES: usize = 1024 * 1024;

impl Read {
    /// Bytes of its texts.
    fn size(&self) -> usize {
        match self {
            Self::Object(_, key) => key.namespace.len() + key.name.len(),
            Self::List(_, namespace, filter) => {
                namespace.as_ref().map_or(0, |namespace| namespace.len()) + filter.size()
            }
        }
    }
}

impl Filter {
    fn size(&self) -> usize {
        match self {
            Self::Everything => 0,
            Self::Labels(selector) => selector.to_string().len(),
            Self::Index(_, value) => value.len(),
        }
    }
}

/// Whether an object could have this key: no name is longer than 253 bytes.
fn is_possible(key: &ObjectKey) -> bool {
    key.name.len() <= 253 && key.namespace.len() <= 253
}

/// Why a read has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The kind is not among the manifest's reads.
    #[error("{0} is not among the manifest's reads")]
    Denied(Kind),
    /// No such index.
    #[error("the manifest declares no index {name:?} of {kind}")]
    UnknownIndex {
        /// The index asked for.
        name: String,
        /// The kind it was asked of.
        kind: Kind,
    },
    /// More is read than is remembered; the guest is stopped.
    #[error(
        "more than {MAX_READS} different reads, or {MAX_READ_BYTES} bytes of them, in one reconcile"
    )]
    TooMany,
    /// Not a JSON Pointer.
    #[error("{0:?} is not a JSON Pointer; it is empty or begins with /")]
    InvalidPointer(String),
}

/// The reading side of one reconcile.
pub struct Reader {
    snapshot: Snapshot,
    scope: Arc<Scope>,
    now_ms: u64,
    reads: BTreeSet<Read>,
    recorded_bytes: usize,
    read_clock: bool,
    subject: Option<OwnSubject>,
}

/// The object whose key is reconciled.
struct OwnSubject {
    kind: KindId,
    key: ObjectKey,
    /// It is there, and the plugin's selection selects it.
    is_selected: bool,
}

impl Reader {
    /// A reader of `snapshot` for a plugin with this scope, at this time (milliseconds since the Unix epoch).
    pub fn new(snapshot: Snapshot, scope: Arc<Scope>, now_ms: u64) -> Self {
        Self {
            snapshot,
            scope,
            now_ms,
            reads: BTreeSet::new(),
            recorded_bytes: 0,
            read_clock: false,
            subject: None,
        }
    }

    /// Says which object is the reconciled one. Once it is no longer selected it is gone, as far as its own reconcile can see:
    /// a plugin cleans up after an object that left its selection as after one that was deleted.
    pub(crate) fn set_subject(
        &mut self,
        kind: KindId,
        key: &ObjectKey,
        selects: impl Fn(&Object) -> bool,
    ) {
        let is_selected = self.snapshot.kinds[kind]
            .get(key)
            .is_some_and(|object| selects(object));
        self.subject = Some(OwnSubject {
            kind,
            key: key.clone(),
            is_selected,
        });
    }

    /// Whether there is no (selected) object of the reconciled key.
    pub(crate) fn is_subject_gone(&self) -> bool {
        self.subject
            .as_ref()
            .is_some_and(|subject| !subject.is_selected)
    }

    /// The snapshot's number.
    pub(crate) fn sequence(&self) -> u64 {
        self.snapshot.sequence
    }

    /// The time of this reconcile, in milliseconds since the Unix epoch. It does not pass.
    pub fn now_ms(&mut self) -> u64 {
        self.read_clock = true;
        self.now_ms
    }

    /// One object as the plugin sees it.
    pub fn get(&mut self, kind: &Kind, key: &ObjectKey) -> Result<Option<&str>, ReadError> {
        let scope = self.scope_of(kind)?;
        let (id, view) = (scope.kind, scope.view);
        if !is_possible(key) {
            return Ok(None);
        }
        self.record(Read::Object(id, key.clone()))?;
        if self.subject.as_ref().is_some_and(|subject| {
            !subject.is_selected && subject.kind == id && subject.key == *key
        }) {
            return Ok(None);
        }
        Ok(self.snapshot.kinds[id]
            .get(key)
            .map(|object| object.view(view)))
    }

    /// One part of an object, by JSON Pointer (RFC 6901), as JSON text.
    pub fn get_part(
        &mut self,
        kind: &Kind,
        key: &ObjectKey,
        pointer: &str,
    ) -> Result<Option<String>, ReadError> {
        if !pointer.is_empty() && !pointer.starts_with('/') {
            return Err(ReadError::InvalidPointer(pointer.to_owned()));
        }
        let object = self.get(kind, key)?;
        let value: Option<Value> = object.and_then(|json| serde_json::from_str(json).ok());
        Ok(value.and_then(|value| value.pointer(pointer).map(Value::to_string)))
    }

    /// The matching objects as one JSON array, ordered by namespace and name.
    pub fn list(
        &mut self,
        kind: &Kind,
        namespace: Option<&str>,
        filter: &ListFilter,
    ) -> Result<String, ReadError> {
        let scope = self.scope_of(kind)?;
        let (id, view) = (scope.kind, scope.view);
        let filter = match filter {
            ListFilter::Everything => Filter::Everything,
            ListFilter::Labels(selector) => Filter::Labels(selector.clone()),
            ListFilter::Index(name, value) => {
                let index = scope
                    .indexes
                    .get(name)
                    .ok_or_else(|| ReadError::UnknownIndex {
                        name: name.clone(),
                        kind: kind.clone(),
                    })?;
                Filter::Index(*index, value.as_str().into())
            }
        };
        let json = self.list_json(id, view, namespace, &filter);
        self.record(Read::List(id, namespace.map(Arc::from), filter))?;
        Ok(json)
    }

    /// Whether the plugin reads this kind.
    pub(crate) fn may_read(&self, kind: &Kind) -> bool {
        self.scope.kinds.contains_key(kind)
    }

    /// The whole object that an action is on, for the host's own decisions. Recorded if the plugin reads the kind: whether the action
    /// is sent depends on it, so the key must run again when it changes.
    ///
    /// The host's own reads are not counted against the guest's: they are bounded by the actions of an outcome, and one that was
    /// refused would look like an object that is not there.
    pub(crate) fn look_at(&mut self, kind: &Kind, key: &ObjectKey) -> Option<Arc<Object>> {
        let id = self.scope.kinds.get(kind)?.kind;
        self.reads.insert(Read::Object(id, key.clone()));
        self.snapshot.kinds[id].get(key).cloned()
    }

    /// The objects with these labels, for deciding on the plugin's behalf: recorded as if the plugin had listed them.
    pub(crate) fn members(&mut self, kind: &Kind, selector: &LabelSelector) -> Vec<Arc<Object>> {
        let Some(scope) = self.scope.kinds.get(kind) else {
            return Vec::new();
        };
        let (id, filter) = (scope.kind, Filter::Labels(selector.clone()));
        let found = matching(&self.snapshot, id, None, &filter)
            .cloned()
            .collect();
        self.reads.insert(Read::List(id, None, filter));
        found
    }

    /// What was asked, for registering with the hub.
    pub fn into_reads(self) -> BTreeSet<Read> {
        self.reads
    }

    /// Whether the reconcile asked for the time: then its answer may be another one later, though nothing it read has changed.
    pub fn depends_on_time(&self) -> bool {
        self.read_clock
    }

    /// Remembers a read, within bounds: what is recorded outlives the guest and its limits.
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

    fn scope_of(&self, kind: &Kind) -> Result<KindScope, ReadError> {
        self.scope
            .kinds
            .get(kind)
            .cloned()
            .ok_or_else(|| ReadError::Denied(kind.clone()))
    }

    fn list_json(
        &self,
        kind: KindId,
        view: ViewId,
        namespace: Option<&str>,
        filter: &Filter,
    ) -> String {
        let mut out = String::from("[");
        for object in matching(&self.snapshot, kind, namespace, filter) {
            if out.len() > 1 {
                out.push(',');
            }
            out.push_str(object.view(view));
        }
        out.push(']');
        out
    }
}

/// The objects of a list, ordered by namespace and name.
pub fn matching<'a>(
    snapshot: &'a Snapshot,
    kind: KindId,
    namespace: Option<&'a str>,
    filter: &'a Filter,
) -> Box<dyn Iterator<Item = &'a Arc<Object>> + 'a> {
    let cache = &snapshot.kinds[kind];
    match filter {
        Filter::Everything => Box::new(cache.list(namespace)),
        Filter::Labels(selector) => Box::new(
            cache
                .list(namespace)
                .filter(|object| selector.matches(&object.header.labels)),
        ),
        Filter::Index(index, value) => {
            Box::new(cache.list_by_index(*index, value).filter(move |object| {
                namespace.is_none_or(|namespace| *object.header.key.namespace == *namespace)
            }))
        }
    }
}
