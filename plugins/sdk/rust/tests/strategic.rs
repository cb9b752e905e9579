//! Strategic merge patches in the fake cluster: what needs no schema is done as on a server.

use pilothouse_sdk::testing::FakeCluster;
use pilothouse_sdk::{
    Controller, Failure, Host, Manifest, ObjectRef, Outcome, Patch, Request, Selection, Verb,
};
use serde_json::{Value, json};

const CONFIG_MAP: &str = "v1/ConfigMap";

/// Patches the ConfigMap `other` with what the key's own one says.
struct Patches;

impl Controller for Patches {
    fn manifest() -> Manifest {
        Manifest::new(
            "patches",
            "1",
            Selection::of(CONFIG_MAP).labels("patch=true"),
        )
        .reads_whole(CONFIG_MAP)
        .writes(CONFIG_MAP, [Verb::Patch])
        .writes_subresource(CONFIG_MAP, "status", [Verb::Patch])
    }

    fn reconcile(request: &Request, _host: &dyn Host) -> Result<Outcome, Failure> {
        let Some(object) = request.object::<Value>()? else {
            return Ok(Outcome::done());
        };
        let body: Value =
            serde_json::from_str(object["data"]["body"].as_str().unwrap_or_default())?;
        let mut patch = Patch::strategic(&request.key().named("other"), &body)?;
        if body.get("status").is_some() {
            patch = patch.subresource("status");
        }
        Ok(Outcome::done().with(patch))
    }
}

/// The object `other` after this patch.
fn patched(body: &Value) -> Value {
    let owner = |uid: &str| json!({"apiVersion": "v1", "kind": "Node", "name": uid, "uid": uid});
    let other = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "1", "b": "2"},
        "metadata": {"namespace": "n", "name": "other", "ownerReferences": [owner("x"), owner("y")]},
        "status": {"conditions": [{"type": "A", "status": "True", "reason": "R"}, {"type": "B"}]},
    });
    let patching = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": {"body": body.to_string()},
        "metadata": {"namespace": "n", "name": "one", "uid": "u", "labels": {"patch": "true"}},
    });
    let mut cluster = FakeCluster::new(Patches::manifest())
        .with(other)
        .with(patching);
    let outcome = cluster.turn::<Patches>("n", "one");
    assert!(outcome.is_ok(), "{outcome:?}");
    let other = cluster.object(&ObjectRef::new(CONFIG_MAP, "n", "other"));
    other.cloned().unwrap_or_default()
}

#[test]
fn maps_are_merged_and_owners_by_their_uids() {
    let own = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "one", "uid": "u"});
    let had =
        json!({"apiVersion": "v1", "kind": "Node", "name": "y", "uid": "y", "controller": true});
    let body = json!({
        "metadata": {"ownerReferences": [had, own]}, "data": {"a": null, "c": "3"},
    });
    let other = patched(&body);
    assert_eq!(other["data"], json!({"b": "2", "c": "3"}));
    let owners = other["metadata"]["ownerReferences"].as_array().cloned();
    let owners = owners.unwrap_or_default();
    assert_eq!(owners.len(), 3);
    assert_eq!(owners[0]["uid"], "x");
    assert_eq!(owners[1], had);
    assert_eq!(owners[2], own);
}

#[test]
fn conditions_are_merged_by_their_types() {
    let changed = json!({"type": "A", "status": "False", "reason": null});
    let new = json!({"type": "C", "status": "True"});
    let other = patched(&json!({"status": {"conditions": [changed, new]}}));
    let merged = json!([{"type": "A", "status": "False"}, {"type": "B"}, new]);
    assert_eq!(other["status"]["conditions"], merged);
}

#[test]
#[should_panic(expected = "cannot merge the list .spec.items")]
fn another_list_is_not_guessed_at() {
    patched(&json!({"spec": {"items": [1]}}));
}
