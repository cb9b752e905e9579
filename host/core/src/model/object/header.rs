//! The part of an object that the host itself reads: its metadata.

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::Error as _;

use super::ObjectError;
use super::text::{Span, Text};
use crate::model::fields::{members, string};
use crate::model::key::ResourceVersion;

/// The positions of an object's metadata fields. Empty for a field that is missing.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Header {
    pub(super) namespace: Span,
    pub(super) name: Span,
    pub(super) uid: Span,
    /// A JSON number.
    pub(super) generation: Span,
    pub(super) deletion_timestamp: Span,
    /// A JSON array of owner references.
    pub(super) owners: Span,
    /// A JSON array of strings.
    pub(super) finalizers: Span,
}

/// An entry of `metadata.ownerReferences`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "the fields of Kubernetes' OwnerReference")]
pub struct OwnerReference<'a> {
    #[serde(borrow)]
    pub api_version: Cow<'a, str>,
    #[serde(borrow)]
    pub kind: Cow<'a, str>,
    #[serde(borrow)]
    pub name: Cow<'a, str>,
    #[serde(borrow)]
    pub uid: Cow<'a, str>,
    #[serde(default)]
    pub controller: Option<bool>,
}

/// Reads the header, the resourceVersion, and the labels as pairs of key and value, sorted by key.
pub(super) fn read(
    text: &mut Text<'_>,
) -> Result<(Header, ResourceVersion, Vec<Span>), ObjectError> {
    let json = text.json();
    let all = members(json)?;
    let metadata = all.iter().find(|(name, _)| name == "metadata");
    let (_, metadata) = metadata.ok_or_else(|| missing("metadata"))?;
    let mut header = Header::default();
    let mut version = ResourceVersion::default();
    let mut labels = Vec::new();
    let members = members(metadata.get())?;
    let present = members.iter().filter(|(_, value)| value.get() != "null");
    for (name, value) in present {
        let value = value.get();
        match &**name {
            "namespace" => header.namespace = text.place(&string(value)?)?,
            "name" => header.name = text.place(&string(value)?)?,
            "uid" => header.uid = text.place(&string(value)?)?,
            "resourceVersion" => version = ResourceVersion::new(&string(value)?),
            "generation" => {
                serde_json::from_str::<i64>(value)?;
                header.generation = text.place(value)?;
            }
            "deletionTimestamp" => header.deletion_timestamp = text.place(&string(value)?)?,
            "labels" => labels = read_labels(value, text)?,
            "ownerReferences" => {
                owners(value)?;
                header.owners = text.place(value)?;
            }
            "finalizers" => {
                finalizers(value)?;
                header.finalizers = text.place(value)?;
            }
            _ => {}
        }
    }
    if header.name.is_empty() {
        return Err(ObjectError::NoName);
    }
    Ok((header, version, labels))
}

fn missing(field: &'static str) -> serde_json::Error {
    serde_json::Error::missing_field(field)
}

fn read_labels(json: &str, text: &mut Text<'_>) -> Result<Vec<Span>, ObjectError> {
    let mut labels = members(json)?
        .into_iter()
        .map(|(key, value)| Ok((key, string(value.get())?)))
        .collect::<Result<Vec<_>, ObjectError>>()?;
    labels.sort_unstable();
    let mut spans = Vec::with_capacity(labels.len() * 2 + 8);
    for (key, value) in labels {
        spans.push(text.place(&key)?);
        spans.push(text.place(&value)?);
    }
    Ok(spans)
}

/// Parses a JSON array of owner references.
pub(super) fn owners(json: &str) -> Result<Vec<OwnerReference<'_>>, serde_json::Error> {
    list(json)
}

/// Parses a JSON array of finalizers.
pub(super) fn finalizers(json: &str) -> Result<Vec<String>, serde_json::Error> {
    list(json)
}

/// Parses a JSON array. An empty text is an empty list.
fn list<'a, T: Deserialize<'a>>(json: &'a str) -> Result<Vec<T>, serde_json::Error> {
    if json.is_empty() {
        return Ok(Vec::new());
    }
    serde_json::from_str(json)
}
