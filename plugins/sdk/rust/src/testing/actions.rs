//! Actions in tests: comparing them, and the host's permission check.

use serde_json::{Map, Value, json};

use super::kind_of;
use crate::{Action, EventType, Kind, Manifest, ObjectKey, PatchType, Propagation, Verb};

/// An action as JSON, for comparing: `{"apply": {"object": {…}, "force": true}}`.
///
/// Names are those of the contract. Documents are decoded, so that neither spacing nor the order of members counts, and what is
/// not given is left out.
#[must_use]
pub fn to_json(action: &Action) -> Value {
    let (name, value) = match action {
        Action::Apply(apply) => (
            "apply",
            json!({"object": document(&apply.object), "subresource": apply.subresource, "force": apply.force}),
        ),
        Action::Create(create) => (
            "create",
            json!({"object": document(&create.object), "subresource": create.subresource}),
        ),
        Action::Update(update) => (
            "update",
            json!({"object": document(&update.object), "subresource": update.subresource}),
        ),
        Action::Patch(patch) => (
            "patch",
            json!({
                "kind": kind(&patch.kind),
                "key": key(&patch.key),
                "subresource": patch.subresource,
                "patch-type": patch_type(patch.patch_type),
                "body": document(&patch.body),
            }),
        ),
        Action::Delete(delete) => (
            "delete",
            json!({
                "kind": kind(&delete.kind),
                "key": key(&delete.key),
                "uid": delete.uid,
                "resource-version": delete.resource_version,
                "propagation": delete.propagation.map(propagation),
                "grace-period-seconds": delete.grace_period_seconds,
            }),
        ),
        Action::Event(event) => (
            "event",
            json!({
                "kind": kind(&event.kind),
                "key": key(&event.key),
                "event-type": if event.event_type == EventType::Warning { "warning" } else { "normal" },
                "reason": event.reason,
                "action": event.action,
                "note": event.note,
            }),
        ),
        Action::Finalizer(finalizer) => (
            "finalizer",
            json!({
                "kind": kind(&finalizer.kind),
                "key": key(&finalizer.key),
                "name": finalizer.name,
                "present": finalizer.present,
            }),
        ),
        Action::Children(children) => {
            let objects: Vec<_> = children
                .objects
                .iter()
                .map(|object| document(object))
                .collect();
            ("children", json!({"objects": objects}))
        }
    };
    Value::Object(Map::from_iter([(name.to_owned(), given(value))]))
}

/// Whether the manifest declares this write. Events need no declaration.
pub(super) fn check(action: &Action, manifest: &Manifest) -> Result<(), String> {
    match action {
        Action::Apply(apply) => object_write(
            &apply.object,
            apply.subresource.as_deref(),
            Verb::Apply,
            manifest,
        ),
        Action::Create(create) => object_write(
            &create.object,
            create.subresource.as_deref(),
            Verb::Create,
            manifest,
        ),
        Action::Update(update) => object_write(
            &update.object,
            update.subresource.as_deref(),
            Verb::Update,
            manifest,
        ),
        Action::Patch(patch) => declared(
            &patch.kind,
            patch.subresource.as_deref(),
            Verb::Patch,
            manifest,
        ),
        Action::Delete(delete) => declared(&delete.kind, None, Verb::Delete, manifest),
        Action::Finalizer(finalizer) => declared(&finalizer.kind, None, Verb::Patch, manifest),
        Action::Event(_) => Ok(()),
        Action::Children(children) => children
            .objects
            .iter()
            .try_for_each(|object| child(object, manifest)),
    }
}

fn object_write(
    object: &str,
    subresource: Option<&str>,
    verb: Verb,
    manifest: &Manifest,
) -> Result<(), String> {
    declared(&kind_in(object)?, subresource, verb, manifest)
}

fn declared(
    kind: &Kind,
    subresource: Option<&str>,
    verb: Verb,
    manifest: &Manifest,
) -> Result<(), String> {
    let mut writes = manifest.writes.iter();
    let is_declared = writes.any(|write| {
        write.kind == *kind
            && write.subresource.as_deref() == subresource
            && write.verbs.contains(&verb)
    });
    let part = subresource
        .map(|name| format!("/{name}"))
        .unwrap_or_default();
    if is_declared {
        Ok(())
    } else {
        Err(format!(
            "{verb:?} of {kind}{part} is not among the manifest's writes"
        ))
    }
}

fn child(object: &str, manifest: &Manifest) -> Result<(), String> {
    let kind = kind_in(object)?;
    let is_marked = manifest
        .writes
        .iter()
        .any(|write| write.kind == kind && write.children);
    if is_marked {
        Ok(())
    } else {
        Err(format!(
            "{kind} is not marked children in the manifest's writes"
        ))
    }
}

fn kind_in(object: &str) -> Result<Kind, String> {
    kind_of(&document(object))
        .ok_or_else(|| "an action's object has no apiVersion or kind".to_owned())
}

/// A document that is not JSON stays the text it is, and so equals no document.
fn document(json: &str) -> Value {
    serde_json::from_str(json).unwrap_or_else(|_| Value::from(json))
}

fn given(value: Value) -> Value {
    match value {
        Value::Object(members) => members
            .into_iter()
            .filter(|(_, value)| !value.is_null())
            .collect(),
        other => other,
    }
}

fn kind(kind: &Kind) -> Value {
    json!({"group": kind.group, "version": kind.version, "kind": kind.kind})
}

fn key(key: &ObjectKey) -> Value {
    json!({"namespace": key.namespace, "name": key.name})
}

fn patch_type(patch_type: PatchType) -> &'static str {
    match patch_type {
        PatchType::JsonPatch => "json-patch",
        PatchType::MergePatch => "merge-patch",
        PatchType::StrategicMergePatch => "strategic-merge-patch",
    }
}

fn propagation(propagation: Propagation) -> &'static str {
    match propagation {
        Propagation::Background => "background",
        Propagation::Foreground => "foreground",
        Propagation::Orphan => "orphan",
    }
}
