//! Parts of an object: what a write can set, what the server maintains, and what the rules of the
//! server ask about.

use std::collections::BTreeMap;

use pilothouse_core::{Kind, ObjectKey};
use serde_json::{Value, json};

use crate::testing::documents::put_member;

/// Fields of `metadata` that only the server sets.
const SERVERS: [&str; 9] = [
    "name",
    "namespace",
    "generateName",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "managedFields",
];

/// The part of a body that a write to the object, or to its subresource `status`, can set.
pub(super) fn own_part(mut object: Value, subresource: Option<&str>) -> Value {
    if subresource.is_some() {
        return json!({"status": object["status"].take()});
    }
    if let Some(members) = object.as_object_mut() {
        members.retain(|name, _| !["apiVersion", "kind", "status"].contains(&name.as_str()));
    }
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|name, _| !SERVERS.contains(&name.as_str()));
        if metadata.is_empty() {
            put_member(&mut object, "metadata", None);
        }
    }
    object
}

/// The result of replacing an object, or its subresource, by another one, limited to what such a
/// write can change.
pub(super) fn replaced(current: &Value, object: Value, subresource: Option<&str>) -> Value {
    if let Some(subresource) = subresource {
        let mut new = current.clone();
        if subresource == "status" {
            put_member(&mut new, "status", object.get("status"));
        }
        return new;
    }
    let mut new = object;
    put_member(&mut new, "status", current.get("status"));
    let Some(have) = current.get("metadata").and_then(Value::as_object) else {
        return new;
    };
    if !new["metadata"].is_object() {
        new["metadata"] = json!({});
    }
    for name in SERVERS {
        put_member(&mut new["metadata"], name, have.get(name));
    }
    if new["metadata"].get("finalizers").is_none() {
        put_member(&mut new["metadata"], "finalizers", have.get("finalizers"));
    }
    new
}

/// The generation that a write to an object leaves. `None`: none, or the one that it has.
///
/// As on the server, it moves with everything but `metadata` and `status`, and when the deletion of
/// the object begins (`rest.BeforeDelete`); that of a Deployment also with its annotations. A new
/// object has one if it has a `spec`.
pub(super) fn generation(kind: &Kind, object: &Value, current: Option<&Value>) -> Option<u64> {
    let Some(current) = current else {
        return object.get("spec").map(|_| 1);
    };
    let before = current["metadata"]["generation"].as_u64()?;
    let differs = |name: &str| current["metadata"].get(name) != object["metadata"].get(name);
    let is_deployment = (&*kind.group, &*kind.kind) == ("apps", "Deployment");
    let is_moved = main_part(current) != main_part(object)
        || differs("deletionTimestamp")
        || (is_deployment && differs("annotations"));
    Some(before + u64::from(is_moved))
}

/// The members of an object, without `metadata` and `status`.
fn main_part(object: &Value) -> BTreeMap<&String, &Value> {
    let members = object.as_object().into_iter().flatten();
    members
        .filter(|(name, _)| !["metadata", "status"].contains(&name.as_str()))
        .collect()
}

pub(super) fn nothing_of(kind: &Kind, key: &ObjectKey) -> Value {
    let mut object = json!({
        "apiVersion": kind.api_version(), "kind": &*kind.kind, "metadata": {"name": &*key.name},
    });
    if !key.namespace.is_empty() {
        object["metadata"]["namespace"] = (*key.namespace).into();
    }
    object
}

/// The resourceVersion of an object. Empty and "0" mean any version and give `None`.
pub(super) fn version_of(object: &Value) -> Option<String> {
    text_of(object, "resourceVersion").filter(|version| version != "0")
}

/// A text in the metadata of an object. `None` if there is none, or if it is empty.
pub(super) fn text_of(object: &Value, field: &str) -> Option<String> {
    let text = object.get("metadata")?.get(field)?.as_str()?;
    Some(text.to_owned()).filter(|text| !text.is_empty())
}

pub(super) fn finalizers_of(object: &Value) -> Vec<Value> {
    let finalizers = object["metadata"]["finalizers"].as_array();
    finalizers.cloned().unwrap_or_default()
}
