//! Normalises an object's text, so that it is the same whichever way the object arrived.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::{ObjectError, applied, definition};
use crate::model::detail::Detail;
use crate::model::fields::{members, push_string};
use crate::model::key::Kind;

/// The annotation in which `kubectl apply` keeps the configuration that was last applied.
pub(crate) const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// An object's normalised text.
pub(super) struct Normalised {
    pub(super) json: String,
    /// How much of the object the text contains.
    pub(super) detail: Detail,
    /// What the managers have applied; see [`applied`].
    pub(super) applied: String,
}

/// Normalises the text of an object. The applies of `managers` are kept only if the whole object
/// is, because an apply can be compared with nothing less.
pub(super) fn normalise(
    kind: &Kind,
    raw: &str,
    wanted: Detail,
    managers: &[String],
) -> Result<Normalised, ObjectError> {
    let members = members(raw)?;
    let detail = check_kind(kind, &members)?.min(wanted);
    let managers = if detail == Detail::Full {
        managers
    } else {
        &[]
    };
    let mut applied = String::new();
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
                applied = push_metadata(&mut out, value.get(), managers)?;
            }
            _ if detail == Detail::Metadata => {}
            "data" | "stringData" if detail == Detail::WithoutValues => {}
            "spec" if detail == Detail::WithoutValues && definition::is_one(kind) => {
                push_member(&mut out, &name, &definition::without_schemas(value.get())?);
            }
            _ => push_member(&mut out, &name, value.get()),
        }
    }
    out.push('}');
    Ok(Normalised {
        json: on_one_line(out),
        detail,
        applied,
    })
}

/// The text without line ends, because a list has each object on a line of its own. Strings have no
/// raw line ends in JSON, so these stand between values.
fn on_one_line(json: String) -> String {
    if json.contains(['\n', '\r']) {
        json.replace(['\n', '\r'], " ")
    } else {
        json
    }
}

/// Checks `apiVersion` and `kind`. List items may lack them. Where they are given they must be
/// those of the wanted kind, or of PartialObjectMetadata.
fn check_kind(wanted: &Kind, members: &[(Cow<'_, str>, &RawValue)]) -> Result<Detail, ObjectError> {
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
        Ok(Detail::Full)
    } else if (&*found.group, &*found.kind) == ("meta.k8s.io", "PartialObjectMetadata") {
        Ok(Detail::Metadata)
    } else {
        Err(ObjectError::OtherKind {
            wanted: wanted.clone(),
            found,
        })
    }
}

/// Writes the normalised metadata, and returns what these managers have applied.
fn push_metadata(
    out: &mut String,
    metadata: &str,
    managers: &[String],
) -> Result<String, serde_json::Error> {
    let mut kept = String::new();
    out.push('{');
    for (name, value) in members(metadata)? {
        match &*name {
            "managedFields" => kept = applied::of_managers(value.get(), managers),
            "annotations" if value.get().contains(LAST_APPLIED) => {
                let mut others = String::from("{");
                for (name, value) in members(value.get())? {
                    if name != LAST_APPLIED {
                        push_member(&mut others, &name, value.get());
                    }
                }
                if others.len() > 1 {
                    others.push('}');
                    push_member(out, &name, &others);
                }
            }
            _ => push_member(out, &name, value.get()),
        }
    }
    out.push('}');
    Ok(kept)
}

pub(super) fn push_member(out: &mut String, name: &str, value: &str) {
    if !out.ends_with('{') {
        out.push(',');
    }
    push_string(out, name);
    out.push(':');
    out.push_str(value);
}
