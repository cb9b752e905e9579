//! One object: its JSON text, normalised, and the small part of it that the host itself looks at.
//!
//! The text is held once, however many plugins read the object. What a plugin sees of it (its *view*) is cut when the object
//! enters the cache, so that listing copies bytes and a change outside of a plugin's view is known to be one.
//!
//! An object is two allocations: one text, and one list of where in it things are. Everything the host knows of an object is
//! a piece of that text.

mod applied;
mod header;
mod normalise;
mod text;

use crate::fields::{FieldPath, Projection, Values, members, string};
use crate::key::{KeyRef, Kind, ResourceVersion};
use crate::selector::Labels;
use crate::source::Payload;

pub(crate) use applied::find as find_applied;
pub use header::OwnerReference;
pub(crate) use normalise::LAST_APPLIED;

use header::Header;
use normalise::Normalised;
use text::{Span, Text};

/// Which views of a kind are cut, and which indexed values are extracted, when an object of it is parsed. Grows as plugins are added.
#[derive(Clone, Debug, Default)]
pub struct Schema {
    /// Distinguishes schemas of a kind: a cached object cut to an older one is cut again.
    generation: u32,
    payload: Payload,
    /// By [`ViewId`]. None: nobody has this view any more.
    views: Vec<Option<Projection>>,
    /// By [`IndexId`]. Empty: nobody has this index any more.
    indexes: Vec<Vec<FieldPath>>,
    /// Of all the indexes.
    values: Values,
    /// The field managers whose applies are kept; see [`Object::applied`].
    managers: Vec<String>,
}

/// Which view of a kind a plugin sees. None is the whole object.
pub type ViewId = Option<usize>;

/// Which index of a kind.
pub type IndexId = usize;

/// An object of the cluster at one resourceVersion. Immutable.
#[derive(Debug)]
pub struct Object {
    /// The normalised JSON, and after it what does not stand in it as it is: views, and strings that have escapes there.
    text: Box<str>,
    json_end: u32,
    /// Of the schema that it was cut by.
    schema_generation: u32,
    payload: Payload,
    resource_version: ResourceVersion,
    header: Header,
    /// What plugins of this host have applied; see [`applied`]. Empty, and nothing but this, where
    /// they have applied nothing.
    applied: Span,
    /// A piece for each view, in the first place because lists read nothing else; then for each index the *slots* of its values (not a
    /// piece of text); then the slots: the indexed values, of each index sorted and without repetition; then the labels, sorted
    /// by key, each as key and value.
    spans: Box<[Span]>,
    views: u32,
    indexes: u32,
    labels: u32,
}

/// Of an indexed value, its place in the index: a pointer and a number, in a tree whose leaves are
/// two thirds full.
const POSTING_BYTES: usize = 24;

/// The two sides of an object, which have different writers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Side {
    /// All but the status and what the server keeps: resourceVersion, generation.
    Main,
    /// The status.
    Status,
}

/// Why a text is not an object.
#[derive(Debug, thiserror::Error)]
pub enum ObjectError {
    /// Not JSON, or a metadata field of the wrong type.
    #[error("not an object: {0}")]
    Json(#[from] serde_json::Error),
    /// `metadata.name` is missing or empty.
    #[error("metadata.name is missing")]
    NoName,
    /// The object is of another kind than the one asked for: a Table, a Status.
    #[error("is a {found}, not a {wanted}")]
    OtherKind {
        /// What was asked for.
        wanted: Kind,
        /// What came.
        found: Kind,
    },
    /// More than four gigabytes.
    #[error("too long")]
    TooLong,
}

impl Schema {
    /// Of this payload, these views and these indexes.
    pub fn new(
        generation: u32,
        payload: Payload,
        views: Vec<Option<Projection>>,
        indexes: Vec<Vec<FieldPath>>,
    ) -> Self {
        Self {
            generation,
            payload,
            values: Values::new(indexes.iter().map(Vec::as_slice)),
            views,
            indexes,
            managers: Vec::new(),
        }
    }

    /// That also keeps what these field managers have applied.
    #[must_use]
    pub fn with_managers(mut self, managers: Vec<String>) -> Self {
        self.managers = managers;
        self
    }

    /// Distinguishes schemas of a kind.
    pub fn generation(&self) -> u32 {
        self.generation
    }

    /// How much of an object is kept.
    pub fn payload(&self) -> Payload {
        self.payload
    }

    /// Whether a view has the value at the end of these names, whole.
    pub(crate) fn shows(&self, view: ViewId, names: &[&str]) -> bool {
        match view {
            None => true,
            Some(view) => {
                let view = self.views.get(view).and_then(Option::as_ref);
                view.is_some_and(|view| view.keeps(names))
            }
        }
    }

    /// Whether it makes the same of an object, but for how much of it is kept.
    pub(crate) fn cuts_as(&self, other: &Self) -> bool {
        self.views == other.views && self.indexes == other.indexes
    }

    /// By [`IndexId`]. Empty: nobody has this index any more.
    pub fn indexes(&self) -> &[Vec<FieldPath>] {
        &self.indexes
    }
}

impl Object {
    /// Reads an object of `kind`, as it stands in a list or a watch event.
    ///
    /// The text is normalised so that one object is one byte string whichever way it arrived: `apiVersion` and `kind` come first
    /// (the items of a list of built-in kinds lack them), `metadata.managedFields` and the last-applied annotation are left out,
    /// and so is what the schema's [`Payload`] does not keep. A PartialObjectMetadata is read as an object without anything but metadata.
    pub fn parse(kind: &Kind, raw: &str, schema: &Schema) -> Result<Self, ObjectError> {
        let normalised = normalise::normalise(kind, raw, schema.payload, &schema.managers)?;
        let Normalised {
            json,
            payload,
            applied,
        } = normalised;
        Self::cut(json, payload, &applied, schema)
    }

    /// The same object, cut by another schema.
    pub fn recut(&self, schema: &Schema) -> Result<Self, ObjectError> {
        let json = self.json().to_owned();
        Self::cut(json, self.payload, self.piece(self.applied), schema)
    }

    fn cut(
        mut json: String,
        payload: Payload,
        applied: &str,
        schema: &Schema,
    ) -> Result<Self, ObjectError> {
        let mut text = Text::new(&json)?;
        let (header, resource_version, labels) = header::read(&mut text)?;
        let applied = text.append(|_, tail| {
            tail.push_str(applied);
            Ok(())
        })?;
        let mut spans = Vec::new();
        for view in &schema.views {
            spans.push(match view {
                Some(view) => text.append(|json, out| view.cut(json, out))?,
                None => Span::default(),
            });
        }
        let mut found = schema.values.find(&json);
        found.sort_unstable();
        found.dedup();
        let mut slot = spans.len() + schema.indexes.len();
        for index in 0..schema.indexes.len() {
            let count = found.iter().filter(|(at, _)| *at == index).count();
            spans.push(Span::new(slot, count)?);
            slot += count;
        }
        for (_, value) in found {
            spans.push(text.place(&value)?);
        }
        spans.extend(&labels);
        let count = |count: usize| u32::try_from(count).map_err(|_| ObjectError::TooLong);
        let json_end = count(json.len())?;
        let tail = text.into_tail();
        json.reserve_exact(tail.len());
        json.push_str(&tail);
        Ok(Self {
            text: json.into(),
            json_end,
            schema_generation: schema.generation,
            payload,
            resource_version,
            header,
            applied,
            views: count(schema.views.len())?,
            indexes: count(schema.indexes.len())?,
            labels: count(labels.len() / 2)?,
            spans: spans.into(),
        })
    }

    /// The whole object, normalised.
    pub fn json(&self) -> &str {
        &self.text[..self.json_end as usize]
    }

    /// What a plugin with this view sees. Of a view that the object was not cut to, nothing.
    pub fn view(&self, view: ViewId) -> &str {
        let Some(view) = view else {
            return self.json();
        };
        debug_assert!(view < self.views as usize, "an object is cut to all views");
        self.piece(self.spans[view])
    }

    /// Whether it is in this index with this value.
    pub fn is_indexed_by(&self, index: IndexId, value: &str) -> bool {
        self.slot_of(index, value).is_some()
    }

    /// Where this value of an index is.
    pub(crate) fn slot_of(&self, index: IndexId, value: &str) -> Option<usize> {
        let slots = self.slots(index);
        let found = self.spans[slots.clone()].binary_search_by(|slot| self.piece(*slot).cmp(value));
        found.ok().map(|at| slots.start + at)
    }

    /// Where the object's values of this index are: numbers for [`slot`](Self::slot), in the order of the values.
    pub fn slots(&self, index: IndexId) -> std::ops::Range<usize> {
        debug_assert!(
            index < self.indexes as usize,
            "an object is cut to all indexes"
        );
        self.spans[self.views as usize + index].range()
    }

    /// One indexed value.
    pub fn slot(&self, slot: usize) -> &str {
        self.piece(self.spans[slot])
    }

    /// The object's values in all indexes.
    #[cfg(test)]
    pub fn indexed_values(&self) -> impl Iterator<Item = (IndexId, &str)> {
        let indexes = 0..self.indexes as usize;
        indexes.flat_map(move |index| self.slots(index).map(move |slot| (index, self.slot(slot))))
    }

    /// Whether the object was cut by this schema.
    pub fn is_cut_by(&self, schema: &Schema) -> bool {
        self.schema_generation == schema.generation
    }

    /// How much of the object is here.
    pub fn payload(&self) -> Payload {
        self.payload
    }

    /// Bytes it takes, its places in indexes among them, not counting what allocating rounds up.
    pub fn size(&self) -> usize {
        let others = self.views as usize + self.indexes as usize + self.labels as usize * 2;
        let postings = (self.spans.len() - others) * POSTING_BYTES;
        size_of::<Self>() + self.text.len() + size_of_val(&*self.spans) + postings
    }

    /// Namespace and name.
    pub fn key(&self) -> KeyRef<'_> {
        KeyRef {
            namespace: self.piece(self.header.namespace),
            name: self.piece(self.header.name),
        }
    }

    /// `metadata.uid`; empty if there is none.
    pub fn uid(&self) -> &str {
        self.piece(self.header.uid)
    }

    /// `metadata.resourceVersion`.
    pub fn resource_version(&self) -> &ResourceVersion {
        &self.resource_version
    }

    /// `metadata.generation`.
    pub fn generation(&self) -> Option<i64> {
        self.piece(self.header.generation).parse().ok()
    }

    /// Whether it has a deletion timestamp: it goes once its finalizers are gone.
    pub fn is_being_deleted(&self) -> bool {
        !self.header.deletion_timestamp.is_empty()
    }

    /// `metadata.deletionTimestamp`, RFC 3339; empty if there is none.
    pub fn deletion_timestamp(&self) -> &str {
        self.piece(self.header.deletion_timestamp)
    }

    /// `metadata.ownerReferences`.
    pub fn owners(&self) -> Vec<OwnerReference<'_>> {
        header::owners(self.piece(self.header.owners)).unwrap_or_default()
    }

    /// `metadata.finalizers`.
    pub fn finalizers(&self) -> Vec<String> {
        header::finalizers(self.piece(self.header.finalizers)).unwrap_or_default()
    }

    /// The fields (fieldsV1) that this manager has applied to the object, or to this subresource of
    /// it, in terms of its own apiVersion. None also where that is not known: the object came
    /// before the manager did, or is not here as a whole, or some fields are in terms of another
    /// apiVersion.
    pub fn applied(&self, manager: &str, subresource: Option<&str>) -> Option<&str> {
        let entries = self.piece(self.applied);
        if entries.is_empty() {
            return None;
        }
        let members = members(self.json()).ok()?;
        let (_, version) = members.iter().find(|(name, _)| name == "apiVersion")?;
        let version = string(version.get()).ok()?;
        applied::find(entries, manager, subresource, &version)
    }

    /// Whether another state of the object is the same on this side. What is not here, a Secret's
    /// values, may be what has changed.
    pub fn is_same_on(&self, side: Side, other: &Self) -> bool {
        if self.json() == other.json() {
            return true;
        }
        if (self.payload, other.payload) != (Payload::Full, Payload::Full) {
            return false;
        }
        let sides = (members(self.json()), members(other.json()));
        let (Ok(own), Ok(other)) = sides else {
            return false;
        };
        let is_on = |name: &str| (name == "status") == (side == Side::Status);
        let own = own.iter().filter(|(name, _)| is_on(name));
        let other = other.iter().filter(|(name, _)| is_on(name));
        own.clone().count() == other.clone().count()
            && own.zip(other).all(|((name, own), (other_name, other))| {
                let (own, other) = (own.get(), other.get());
                name == other_name
                    && (own == other || (name == "metadata" && is_same_metadata(own, other)))
            })
    }

    /// The labels, sorted by key.
    pub fn labels(&self) -> impl Iterator<Item = (&str, &str)> {
        let pairs = self.label_spans().iter();
        pairs.map(|[key, value]| (self.piece(*key), self.piece(*value)))
    }

    fn label_spans(&self) -> &[[Span; 2]] {
        let start = self.spans.len() - self.labels as usize * 2;
        self.spans[start..].as_chunks().0
    }

    fn piece(&self, span: Span) -> &str {
        &self.text[span.range()]
    }
}

/// But for what the server counts.
fn is_same_metadata(one: &str, other: &str) -> bool {
    let kept = |metadata| {
        let all = members(metadata).ok()?;
        let said = all.into_iter();
        let said = said.filter(|(name, _)| !matches!(&**name, "resourceVersion" | "generation"));
        Some(
            said.map(|(name, value)| (name, value.get()))
                .collect::<Vec<_>>(),
        )
    };
    kept(one).is_some_and(|one| Some(one) == kept(other))
}

impl Labels for Object {
    fn label(&self, key: &str) -> Option<&str> {
        let labels = self.label_spans();
        let at = labels.binary_search_by(|[name, _]| self.piece(*name).cmp(key));
        at.ok().map(|at| self.piece(labels[at][1]))
    }
}

/// The paths every view has, whatever the manifest names.
pub fn identity_paths() -> [FieldPath; 3] {
    [".metadata.namespace", ".metadata.name", ".metadata.uid"]
        .map(|path| FieldPath::parse(path).expect("a constant path"))
}

#[cfg(test)]
#[path = "object_tests.rs"]
mod tests;
