//! One object: its JSON text, normalised, and the small part of it that the host itself reads.
//!
//! The text is held once, however many plugins read the object. What a plugin sees of it (its
//! *view*) is projected when the object enters the cache. Listing therefore copies bytes, and the
//! host can tell that a change is outside of a plugin's view.
//!
//! An object is two allocations: one text, and one list of positions in that text. Everything that
//! the host knows of an object is a piece of that text.

mod applied;
mod definition;
mod header;
mod normalise;
mod text;

use std::borrow::Cow;
use std::collections::HashMap;

use crate::model::detail::Detail;
use crate::model::fields::{FieldPath, Projection, Values, members, string};
use crate::model::key::{KeyRef, Kind, ResourceVersion};
use crate::model::selector::Labels;

pub(crate) use applied::find as find_applied;
pub use header::OwnerReference;
pub(crate) use normalise::LAST_APPLIED;

use header::Header;
use normalise::Normalised;
use text::{Span, Text};

/// The views that are projected and the indexed values that are extracted when an object of a kind
/// is parsed. It grows as plugins are added.
#[derive(Clone, Debug, Default)]
pub struct Schema {
    /// Tells the schemas of a kind apart. A cached object that was projected by an older schema is
    /// projected again.
    generation: u32,
    detail: Detail,
    /// The views, by [`ViewId`]. `None`: no plugin uses this view any more.
    views: Vec<Option<Projection>>,
    /// The paths of each index, by [`IndexId`]. Empty: no plugin uses this index any more.
    indexes: Vec<Vec<FieldPath>>,
    /// Extracts the values of all the indexes.
    values: Values,
    /// The field managers whose applies are kept; see [`Object::applied`].
    managers: Vec<String>,
}

/// The view of a kind that a plugin sees. `None` is the whole object.
pub type ViewId = Option<usize>;

/// Identifies an index of a kind.
pub type IndexId = usize;

/// An object of the cluster at one resourceVersion. Immutable.
#[derive(Debug)]
pub struct Object {
    /// The normalised JSON, followed by the texts that do not occur in it literally: views, and
    /// strings that contain escapes in the JSON.
    text: Box<str>,
    json_end: u32,
    /// The generation of the schema that it was projected by.
    schema_generation: u32,
    detail: Detail,
    resource_version: ResourceVersion,
    header: Header,
    /// What plugins of this host have applied; see [`applied`]. Empty where they have applied
    /// nothing, and then this span is the only cost.
    applied: Span,
    /// Four lists, one after the other:
    /// 1. A piece for each view. They come first because lists read nothing else.
    /// 2. For each index the range of *slots* of its values (not a piece of text).
    /// 3. The slots: the indexed values, for each index sorted and without repetition.
    /// 4. The labels, sorted by key, each as its key and its value.
    spans: Box<[Span]>,
    views: u32,
    indexes: u32,
    labels: u32,
}

/// Bytes that an indexed value takes in its index: a pointer and a number, in a tree whose leaves
/// are two thirds full.
const POSTING_BYTES: usize = 24;

/// The two sides of an object, which have different writers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Side {
    /// All but the status and the fields that the server maintains: resourceVersion and generation.
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
        /// The kind that was asked for.
        wanted: Kind,
        /// The kind that came.
        found: Kind,
    },
    /// The text is longer than four gigabytes.
    #[error("too long")]
    TooLong,
}

impl Schema {
    /// Creates a schema of this detail, these views and these indexes.
    pub fn new(
        generation: u32,
        detail: Detail,
        views: Vec<Option<Projection>>,
        indexes: Vec<Vec<FieldPath>>,
    ) -> Self {
        Self {
            generation,
            detail,
            values: Values::new(indexes.iter().map(Vec::as_slice)),
            views,
            indexes,
            managers: Vec::new(),
        }
    }

    /// The same schema, but it also keeps what these field managers have applied.
    #[must_use]
    pub fn with_managers(mut self, managers: Vec<String>) -> Self {
        self.managers = managers;
        self
    }

    /// Tells the schemas of a kind apart.
    pub fn generation(&self) -> u32 {
        self.generation
    }

    /// How much of an object is kept.
    pub fn detail(&self) -> Detail {
        self.detail
    }

    /// True if the view contains the whole value at this path of names.
    pub(crate) fn shows(&self, view: ViewId, names: &[&str]) -> bool {
        match view {
            None => true,
            Some(view) => {
                let view = self.views.get(view).and_then(Option::as_ref);
                view.is_some_and(|view| view.keeps(names))
            }
        }
    }

    /// True if both schemas have the same views and indexes. How much of an object they keep may
    /// differ.
    pub(crate) fn cuts_as(&self, other: &Self) -> bool {
        self.views == other.views && self.indexes == other.indexes
    }

    /// The paths of each index, in the order of their numbers. Empty: no plugin uses the index.
    pub fn indexes(&self) -> &[Vec<FieldPath>] {
        &self.indexes
    }
}

impl Object {
    /// Reads an object of `kind`, as it is written in a list or a watch event.
    ///
    /// The text is normalised so that an object is one byte string, whichever way it arrived.
    /// `apiVersion` and `kind` come first (the items of a list of built-in kinds lack them).
    /// `metadata.managedFields`, the last-applied annotation and whatever the schema's [`Detail`]
    /// does not keep are left out. A PartialObjectMetadata is read as an object that has only
    /// metadata.
    pub fn parse(kind: &Kind, raw: &str, schema: &Schema) -> Result<Self, ObjectError> {
        let normalised = normalise::normalise(kind, raw, schema.detail, &schema.managers)?;
        let Normalised {
            json,
            detail,
            applied,
        } = normalised;
        Self::cut(json, detail, &applied, schema)
    }

    /// The same object, projected by another schema.
    pub fn recut(&self, schema: &Schema) -> Result<Self, ObjectError> {
        let json = self.json().to_owned();
        Self::cut(json, self.detail, self.piece(self.applied), schema)
    }

    fn cut(
        mut json: String,
        detail: Detail,
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
        place_values(&found, &mut text, &mut spans)?;
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
            detail,
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

    /// What a plugin with this view sees. Empty if the view is none of those that the object was
    /// projected to.
    pub fn view(&self, view: ViewId) -> &str {
        let Some(view) = view else {
            return self.json();
        };
        debug_assert!(view < self.views as usize, "an object is cut to all views");
        self.piece(self.spans[view])
    }

    /// True if the object has this value in this index.
    pub fn is_indexed_by(&self, index: IndexId, value: &str) -> bool {
        self.slot_of(index, value).is_some()
    }

    /// The slot of this value of an index.
    pub(crate) fn slot_of(&self, index: IndexId, value: &str) -> Option<usize> {
        let slots = self.slots(index);
        let found = self.spans[slots.clone()].binary_search_by(|slot| self.piece(*slot).cmp(value));
        found.ok().map(|at| slots.start + at)
    }

    /// The slots of the object's values in this index, in the order of the values. Each is an
    /// argument for [`slot`](Self::slot).
    pub fn slots(&self, index: IndexId) -> std::ops::Range<usize> {
        debug_assert!(
            index < self.indexes as usize,
            "an object is cut to all indexes"
        );
        self.spans[self.views as usize + index].range()
    }

    /// The indexed value in this slot.
    pub fn slot(&self, slot: usize) -> &str {
        self.piece(self.spans[slot])
    }

    /// The object's values in all indexes.
    #[cfg(test)]
    pub fn indexed_values(&self) -> impl Iterator<Item = (IndexId, &str)> {
        let indexes = 0..self.indexes as usize;
        indexes.flat_map(move |index| self.slots(index).map(move |slot| (index, self.slot(slot))))
    }

    /// True if the object was projected by this schema.
    pub fn is_cut_by(&self, schema: &Schema) -> bool {
        self.schema_generation == schema.generation
    }

    /// How much of the object is kept here.
    pub fn detail(&self) -> Detail {
        self.detail
    }

    /// Bytes that the object takes, its postings in indexes included, without what the allocator
    /// rounds up.
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

    /// True if it has a deletion timestamp. It is removed once its finalizers are gone.
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
    /// it, in terms of the object's own apiVersion. `None` also where they are not known: the
    /// object was read before the manager was registered, the object is not kept as a whole, or
    /// some fields are in terms of another apiVersion.
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

    /// True if the other state of the object is known to be the same on this side. False if either
    /// is not kept as a whole: the part that is missing, a Secret's values, may have changed.
    pub fn is_same_on(&self, side: Side, other: &Self) -> bool {
        if self.json() == other.json() {
            return true;
        }
        if (self.detail, other.detail) != (Detail::Full, Detail::Full) {
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

/// True if both are equal except for resourceVersion and generation, which the server counts.
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

/// The paths that every view contains, whatever the manifest names: which object it is, and
/// whether it is being deleted. Whoever did not see that would act on an object that is going.
pub fn identity_paths() -> [FieldPath; 4] {
    [
        ".metadata.namespace",
        ".metadata.name",
        ".metadata.uid",
        ".metadata.deletionTimestamp",
    ]
    .map(|path| FieldPath::parse(path).expect("a constant path"))
}

/// Places indexed values. A value that is escaped in the JSON is copied, but once for all the
/// indexes that have it.
fn place_values(
    found: &[(IndexId, Cow<'_, str>)],
    text: &mut Text<'_>,
    spans: &mut Vec<Span>,
) -> Result<(), ObjectError> {
    let mut copies: HashMap<&str, Span> = HashMap::new();
    for (_, value) in found {
        spans.push(match (value, copies.get(&**value)) {
            (Cow::Owned(_), Some(copy)) => *copy,
            (Cow::Owned(value), None) => {
                let copy = text.place(value)?;
                copies.insert(value, copy);
                copy
            }
            (Cow::Borrowed(value), _) => text.place(value)?,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests;
