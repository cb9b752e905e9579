//! Converts actions to JSON, to compare them in tests.

use serde_json::{Map, Value, json};

use crate::{Action, EventType, ObjectRef, PatchType, Propagation};

/// An action as JSON, for comparisons: `{"apply": {"object": {…}, "force": true}}`.
///
/// The names are those of the contract. Documents are decoded, so that neither whitespace nor the
/// order of members matters. Options that are not set are left out.
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
                "object": object_ref(&patch.object),
                "subresource": patch.subresource,
                "patch-type": patch_type(patch.patch_type),
                "body": document(&patch.body),
            }),
        ),
        Action::Delete(delete) => (
            "delete",
            json!({
                "object": object_ref(&delete.object),
                "uid": delete.uid,
                "resource-version": delete.resource_version,
                "propagation": delete.propagation.map(propagation),
                "grace-period-seconds": delete.grace_period_seconds,
            }),
        ),
        Action::DeleteAll(all) => (
            "delete-all",
            json!({
                "kind": all.kind,
                "namespace": all.namespace,
                "labels": all.labels,
                "propagation": all.propagation.map(propagation),
            }),
        ),
        Action::Event(event) => (
            "event",
            json!({
                "object": object_ref(&event.object),
                "event-type": if event.event_type == EventType::Warning { "warning" } else { "normal" },
                "reason": event.reason,
                "action": event.action,
                "note": event.note,
            }),
        ),
        Action::Finalizer(finalizer) => (
            "finalizer",
            json!({
                "object": object_ref(&finalizer.object),
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
        Action::Call(call) => (
            "call",
            json!({
                "source": call.source,
                "method": call.method,
                "path": call.path,
                "body": call.body.as_deref().map(document),
            }),
        ),
    };
    Value::Object(Map::from_iter([(name.to_owned(), given(value))]))
}

/// Decodes a document. One that is not JSON becomes a string, which differs from every valid
/// document.
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

fn object_ref(object: &ObjectRef) -> Value {
    json!({"kind": object.kind, "namespace": object.namespace, "name": object.name})
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
