//! One object: its JSON text, normalised, and the small part of it that the host itself looks at.
//!
//! The text is held once, however many plugins read the object. What a plugin sees of it (its *view*) is cut when the object
//! enters the cache, so that listing copies bytes and a change outside of a plugin's view is known to be one.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::fields::{FieldPath, Name, Projection, push_string};
use crate::key::{Kind, ObjectKey, ResourceVersion};
use crate::source::Payload;

/// The annotation in which `kubectl apply` keeps what was last applied.
pub(crate) const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// What the host itself needs to know of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields of Kubernetes' ObjectMeta")]
pub struct Header {
    pub key: ObjectKey,
    pub uid: Box<str>,
    pub resource_version: ResourceVersion,
    pub generation: Option<i64>,
    /// Sorted by key.
    pub labels: Box<[(Box<str>, Box<str>)]>,
    pub owners: Box<[OwnerReference]>,
    pub finalizers: Box<[Box<str>]>,
    pub deletion_timestamp: Option<Box<str>>,
}

/// An entry of `metadata.ownerReferences`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields of Kubernetes' OwnerReference")]
pub struct OwnerReference {
    pub kind: Kind,
    pub name: Box<str>,
    pub uid: Box<str>,
    pub is_controller: bool,
}

/// Which views of a kind are cut, and which indexed values are extracted, when an object of it is parsed. Grows as plugins are added.
#[derive(Clone, Debug, Default)]
pub struct Schema {
    /// Distinguishes schemas of a kind: a cached object cut to an older one is cut again.
    pub generation: u64,
    /// How much of the object is kept.
    pub payload: Payload,
    /// By [`ViewId`].
    pub views: Vec<Projection>,
    /// By [`IndexId`].
    pub indexes: Vec<Vec<FieldPath>>,
}

/// Which view of a kind a plugin sees. None is the whole object.
pub type ViewId = Option<usize>;

/// Which index of a kind.
pub type IndexId = usize;

/// An object of the cluster at one resourceVersion. Immutable.
#[derive(Debug)]
pub struct Object {
    /// What the host itself looks at.
    pub header: Header,
    json: Box<str>,
    facets: Facets,
}

/// What a [`Schema`] makes of an object.
#[derive(Debug)]
struct Facets {
    generation: u64,
    views: Box<[Box<str>]>,
    indexed: Box<[Box<[Arc<str>]>]>,
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
}

impl Object {
    /// Reads an object of `kind`, as it stands in a list or a watch event.
    ///
    /// The text is normalised so that one object is one byte string whichever way it arrived: `apiVersion` and `kind` come first
    /// (the items of a list of built-in kinds lack them), `metadata.managedFields` and the last-applied annotation are left out.
    pub fn parse(kind: &Kind, raw: &str, schema: &Schema) -> Result<Self, ObjectError> {
        let json = normalise(kind, raw)?;
        let header = parse_header(&json)?;
        let facets = Facets::cut(&json, schema)?;
        Ok(Self {
            header,
            json: json.into(),
            facets,
        })
    }

    /// The whole object, normalised.
    pub fn json(&self) -> &str {
        &self.json
    }

    /// What a plugin with this view sees.
    pub fn view(&self, view: ViewId) -> &str {
        view.map_or(&self.json, |view| &self.facets.views[view])
    }

    /// The object's values in this index.
    pub fn indexed(&self, index: IndexId) -> &[Arc<str>] {
        &self.facets.indexed[index]
    }

    /// The object's values in all indexes.
    pub fn indexed_values(&self) -> impl Iterator<Item = (IndexId, &Arc<str>)> {
        let indexes = self.facets.indexed.iter().enumerate();
        indexes.flat_map(|(index, values)| values.iter().map(move |value| (index, value)))
    }

    /// Whether the object was cut by this schema.
    pub fn is_cut_by(&self, schema: &Schema) -> bool {
        self.facets.generation == schema.generation
    }

    /// The same object, cut by another schema.
    pub fn recut(&self, schema: &Schema) -> Result<Self, ObjectError> {
        Ok(Self {
            header: self.header.clone(),
            json: self.json.clone(),
            facets: Facets::cut(&self.json, schema)?,
        })
    }
}

impl Facets {
    fn cut(json: &str, schema: &Schema) -> Result<Self, serde_json::Error> {
        let views = schema.views.iter().map(|view| Ok(view.apply(json)?.into()));
        let indexed = schema.indexes.iter().map(|paths| {
            let mut values: Vec<Arc<str>> = paths
                .iter()
                .flat_map(|path| path.values(json))
                .map(Arc::from)
                .collect();
            values.sort();
            values.dedup();
            values.into()
        });
        Ok(Self {
            generation: schema.generation,
            indexed: indexed.collect(),
            views: views.collect::<Result<_, serde_json::Error>>()?,
        })
    }
}

/// The paths every view has, whatever the manifest names.
pub fn identity_paths() -> [FieldPath; 3] {
    [".metadata.namespace", ".metadata.name", ".metadata.uid"]
        .map(|path| FieldPath::parse(path).expect("a constant path"))
}

/// The members of a JSON object in the order they stand, values unread.
struct Members;

impl<'de> DeserializeSeed<'de> for Members {
    type Value = Vec<(Cow<'de, str>, &'de RawValue)>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Members {
    type Value = Vec<(Cow<'de, str>, &'de RawValue)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::with_capacity(8);
        while let Some(name) = map.next_key_seed(Name)? {
            members.push((name, map.next_value()?));
        }
        Ok(members)
    }
}

fn members(json: &str) -> Result<Vec<(Cow<'_, str>, &RawValue)>, serde_json::Error> {
    let mut deserializer = serde_json::Deserializer::from_str(json);
    let members = Members.deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(members)
}

fn normalise(kind: &Kind, raw: &str) -> Result<String, ObjectError> {
    let members = members(raw)?;
    check_kind(kind, &members)?;
    let mut out = String::with_capacity(raw.len() + 64);
    out.push_str("{\"apiVersion\":");
    push_string(&mut out, &kind.api_version());
    out.push_str(",\"kind\":");
    push_string(&mut out, &kind.kind);
    for (name, value) in members {
        match &*name {
            "apiVersion" | "kind" => {}
            "metadata" => {
                out.push_str(",\"metadata\":");
                push_metadata(&mut out, value.get())?;
            }
            _ => push_member(&mut out, &name, value.get()),
        }
    }
    out.push('}');
    Ok(out)
}

/// List items may lack apiVersion and kind; where they stand they must be the wanted ones.
fn check_kind(wanted: &Kind, members: &[(Cow<'_, str>, &RawValue)]) -> Result<(), ObjectError> {
    let text = |name| {
        let value = members.iter().find(|(have, _)| have == name);
        value
            .map(|(_, value)| serde_json::from_str::<String>(value.get()))
            .transpose()
    };
    let (api_version, kind) = (text("apiVersion")?, text("kind")?);
    let found = Kind::from_api_version(
        &api_version.unwrap_or_else(|| wanted.api_version()),
        &kind.unwrap_or_else(|| wanted.kind.to_string()),
    );
    if found == *wanted {
        return Ok(());
    }
    Err(ObjectError::OtherKind {
        wanted: wanted.clone(),
        found,
    })
}

fn push_metadata(out: &mut String, metadata: &str) -> Result<(), serde_json::Error> {
    out.push('{');
    for (name, value) in members(metadata)? {
        match &*name {
            "managedFields" => {}
            "annotations" if value.get().contains(LAST_APPLIED) => {
                let mut kept = String::from("{");
                for (name, value) in members(value.get())? {
                    if name != LAST_APPLIED {
                        push_member(&mut kept, &name, value.get());
                    }
                }
                if kept.len() > 1 {
                    kept.push('}');
                    push_member(out, &name, &kept);
                }
            }
            _ => push_member(out, &name, value.get()),
        }
    }
    out.push('}');
    Ok(())
}

fn push_member(out: &mut String, name: &str, value: &str) {
    if !out.ends_with('{') {
        out.push(',');
    }
    push_string(out, name);
    out.push(':');
    out.push_str(value);
}

#[derive(Deserialize)]
struct RawObject<'a> {
    #[serde(borrow)]
    metadata: RawMetadata<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawMetadata<'a> {
    #[serde(borrow, default)]
    namespace: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    name: Cow<'a, str>,
    #[serde(borrow, default)]
    uid: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    resource_version: Option<Cow<'a, str>>,
    #[serde(default)]
    generation: Option<i64>,
    #[serde(default)]
    labels: Option<std::collections::BTreeMap<Box<str>, Box<str>>>,
    #[serde(default)]
    owner_references: Option<Vec<RawOwner>>,
    #[serde(default)]
    finalizers: Option<Vec<Box<str>>>,
    #[serde(default)]
    deletion_timestamp: Option<Box<str>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawOwner {
    api_version: String,
    kind: String,
    name: Box<str>,
    uid: Box<str>,
    #[serde(default)]
    controller: Option<bool>,
}

fn parse_header(json: &str) -> Result<Header, ObjectError> {
    let RawObject { metadata } = serde_json::from_str(json)?;
    if metadata.name.is_empty() {
        return Err(ObjectError::NoName);
    }
    let owners = metadata
        .owner_references
        .unwrap_or_default()
        .into_iter()
        .map(|owner| OwnerReference {
            kind: Kind::from_api_version(&owner.api_version, &owner.kind),
            name: owner.name,
            uid: owner.uid,
            is_controller: owner.controller.unwrap_or_default(),
        });
    Ok(Header {
        key: ObjectKey::new(
            metadata.namespace.as_deref().unwrap_or_default(),
            &metadata.name,
        ),
        uid: metadata.uid.as_deref().unwrap_or_default().into(),
        resource_version: ResourceVersion::new(
            metadata.resource_version.as_deref().unwrap_or_default(),
        ),
        generation: metadata.generation,
        labels: metadata.labels.unwrap_or_default().into_iter().collect(),
        owners: owners.collect(),
        finalizers: metadata.finalizers.unwrap_or_default().into(),
        deletion_timestamp: metadata.deletion_timestamp,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const POD: &str = r#"{"metadata":{"name":"a","namespace":"default","uid":"u","resourceVersion":"7","generation":2,
        "labels":{"b":"2","a":"1"},"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{}","keep":"yes"},
        "ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"r","uid":"ru","controller":true}],
        "finalizers":["x/y"],"deletionTimestamp":"2026-01-01T00:00:00Z","managedFields":[{"manager":"m"}]},"spec":{"nodeName":"n"}}"#;

    fn pod() -> Kind {
        Kind::new("", "v1", "Pod")
    }

    fn parse(raw: &str) -> Result<Object, ObjectError> {
        Object::parse(&pod(), raw, &Schema::default())
    }

    #[test]
    fn the_header_holds_what_the_host_looks_at() {
        let header = parse(POD).unwrap().header;
        assert_eq!(header.key, ObjectKey::new("default", "a"));
        assert_eq!(
            (
                &*header.uid,
                header.resource_version.as_str(),
                header.generation
            ),
            ("u", "7", Some(2))
        );
        assert_eq!(
            header.labels[0],
            ("a".into(), "1".into()),
            "labels are sorted"
        );
        assert_eq!(header.owners[0].kind, Kind::new("apps", "v1", "ReplicaSet"));
        assert!(header.owners[0].is_controller);
        assert_eq!(&*header.finalizers[0], "x/y");
        assert!(header.deletion_timestamp.is_some());
    }

    #[test]
    fn one_object_is_one_text_whichever_way_it_arrived() {
        let from_watch = POD.replacen('{', r#"{"kind":"Pod","apiVersion":"v1","#, 1);
        assert_eq!(
            parse(POD).unwrap().json(),
            parse(&from_watch).unwrap().json()
        );
    }

    #[test]
    fn managed_fields_and_the_last_applied_annotation_are_left_out() {
        let json = parse(POD).unwrap().json().to_owned();
        assert!(
            !json.contains("managedFields") && !json.contains("last-applied"),
            "{json}"
        );
        assert!(json.contains(r#""annotations":{"keep":"yes"}"#), "{json}");
        assert!(
            json.starts_with(r#"{"apiVersion":"v1","kind":"Pod","metadata":{"#),
            "{json}"
        );
    }

    #[test]
    fn an_object_of_another_kind_is_refused() {
        let status = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure"}"#;
        assert!(matches!(parse(status), Err(ObjectError::OtherKind { .. })));
    }

    #[test]
    fn an_object_that_cannot_be_read_is_an_error() {
        for broken in [
            "{",
            "[]",
            r#"{"metadata":{}}"#,
            r#"{"metadata":{"name":3}}"#,
            r#"{"metadata":{"name":"a","labels":{"a":1}}}"#,
        ] {
            assert!(parse(broken).is_err(), "{broken}");
        }
    }

    #[test]
    fn a_view_and_the_indexed_values_are_cut_by_the_schema() {
        let path = |text| FieldPath::parse(text).unwrap();
        let schema = Schema {
            generation: 1,
            payload: Payload::Full,
            views: vec![Projection::new(&[path(".spec.nodeName")])],
            indexes: vec![vec![path(".spec.nodeName"), path(".metadata.labels[*]")]],
        };
        let object = Object::parse(&pod(), POD, &schema).unwrap();
        assert_eq!(object.view(Some(0)), r#"{"spec":{"nodeName":"n"}}"#);
        let values: Vec<&str> = object.indexed(0).iter().map(|value| &**value).collect();
        assert_eq!(values, ["1", "2", "n"]);
        assert!(!parse(POD).unwrap().is_cut_by(&schema));
        assert_eq!(
            parse(POD).unwrap().recut(&schema).unwrap().view(Some(0)),
            object.view(Some(0))
        );
    }
}
