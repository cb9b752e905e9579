//! What the API server sets in `metadata`, and who owns which field, in the fake cluster.

use std::time::Duration;

use pilothouse_sdk::testing::FakeCluster;
use pilothouse_sdk::{
    Action, ActionResult, Apply, Create, Delete, Manifest, ObjectRef, Outcome, Patch, Update, Verb,
};
use serde_json::{Value, json};

const SITES: &str = "example.com/v1/Site";

const DEPLOYMENTS: &str = "apps/v1/Deployment";

fn cluster() -> FakeCluster {
    let verbs = || {
        [
            Verb::Apply,
            Verb::Create,
            Verb::Update,
            Verb::Patch,
            Verb::Delete,
        ]
    };
    let manifest = Manifest::singleton("test", "1.0.0")
        .reads_whole(SITES)
        .reads_whole(DEPLOYMENTS)
        .writes(SITES, verbs())
        .writes_subresource(SITES, "status", verbs());
    FakeCluster::new(manifest).at(Duration::from_secs(86_400))
}

fn site(members: &Value) -> Value {
    let mut object = json!({
        "apiVersion": "example.com/v1", "kind": "Site",
        "metadata": {"namespace": "default", "name": "a"},
    });
    for (name, value) in members.as_object().into_iter().flatten() {
        match value.as_object().filter(|_| name == "metadata") {
            Some(metadata) => metadata.iter().for_each(|(name, value)| {
                object["metadata"][name] = value.clone();
            }),
            None => object[name] = value.clone(),
        }
    }
    object
}

fn key() -> ObjectRef {
    ObjectRef::new(SITES, "default", "a")
}

fn act(cluster: &mut FakeCluster, action: impl Into<Action>) -> ActionResult {
    let effects = cluster.apply("", "", &Outcome::done().with(action));
    let results = effects.into_iter().map(|effect| effect.outcome);
    results.into_iter().next().expect("a result for the action")
}

fn apply(members: &Value) -> Apply {
    Apply::new(&site(members)).expect("JSON is JSON")
}

fn shown(cluster: &FakeCluster) -> &Value {
    cluster.object(&key()).expect("the site is there")
}

fn generation(cluster: &FakeCluster) -> Option<u64> {
    shown(cluster)["metadata"]["generation"].as_u64()
}

#[test]
fn an_object_that_is_added_has_what_the_server_sets() {
    let cluster = cluster().with(site(&json!({"spec": {"size": 1}})));
    let metadata = &shown(&cluster)["metadata"];
    let wanted = json!({
        "namespace": "default", "name": "a", "generation": 1,
        "creationTimestamp": "1970-01-02T00:00:00Z",
        "uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"],
    });
    assert_eq!(*metadata, wanted);
    assert!(metadata["uid"].is_string() && metadata["resourceVersion"].is_string());
}

#[test]
fn an_object_keeps_what_the_test_says_of_it() {
    let given = json!({"uid": "u1", "resourceVersion": "7", "generation": 4,
        "creationTimestamp": "2026-01-02T03:04:05Z"});
    let cluster = cluster().with(site(&json!({"metadata": given, "spec": {}})));
    let metadata = &shown(&cluster)["metadata"];
    for (name, value) in given.as_object().into_iter().flatten() {
        assert_eq!(metadata[name], *value, "{name}");
    }
}

#[test]
fn objects_that_are_added_and_made_have_uids_of_their_own() {
    let other = json!({"metadata": {"name": "b"}});
    let mut cluster = cluster().with(site(&json!({}))).with(site(&other));
    let made = json!({"metadata": {"name": "c"}});
    let create = Create::new(&site(&made)).expect("JSON is JSON");
    assert!(matches!(act(&mut cluster, create), ActionResult::Done(_)));
    let uids = ["a", "b", "c"].map(|name| {
        let object = cluster.object(&key().named(name)).expect("it is there");
        object["metadata"]["uid"].clone()
    });
    assert!(uids.iter().all(Value::is_string));
    assert!(uids[0] != uids[1] && uids[1] != uids[2] && uids[0] != uids[2]);
}

#[test]
fn an_object_that_is_changed_stays_the_same_and_its_generation_moves() {
    let cluster = cluster().with(site(&json!({"spec": {"size": 1}})));
    let before = shown(&cluster)["metadata"].clone();
    let cluster = cluster
        .at(Duration::from_secs(90_000))
        .with(site(&json!({"spec": {"size": 2}})));
    let after = shown(&cluster)["metadata"].clone();
    for name in ["uid", "creationTimestamp"] {
        assert_eq!(before[name], after[name]);
    }
    assert_eq!(after["generation"], 2);
    assert_ne!(before["resourceVersion"], after["resourceVersion"]);

    let labelled = json!({"metadata": {"labels": {"x": "y"}}, "spec": {"size": 2}, "status": {}});
    assert_eq!(generation(&cluster.with(site(&labelled))), Some(2));
}

#[test]
fn another_object_in_the_place_of_one_begins_anew() {
    let cluster = cluster()
        .with(site(&json!({"spec": {"size": 1}})))
        .with(site(&json!({"spec": {"size": 2}})))
        .at(Duration::ZERO)
        .with(site(&json!({"metadata": {"uid": "another"}, "spec": {}})));
    let metadata = &shown(&cluster)["metadata"];
    assert_eq!(metadata["generation"], 1);
    assert_eq!(metadata["creationTimestamp"], "1970-01-01T00:00:00Z");
}

#[test]
fn a_kind_without_a_spec_has_no_generation() {
    let cluster = cluster()
        .with(site(&json!({"data": {"a": "b"}})))
        .with(site(&json!({"data": {"a": "c"}})));
    assert_eq!(generation(&cluster), None);
}

#[test]
fn the_beginning_of_a_deletion_moves_the_generation_once() {
    let kept = json!({"metadata": {"finalizers": ["example.com/f"]}, "spec": {}});
    let mut cluster = cluster().with(site(&kept));
    cluster.delete(&key());
    let metadata = shown(&cluster)["metadata"].clone();
    assert_eq!(metadata["deletionTimestamp"], "1970-01-02T00:00:00Z");
    assert_eq!(metadata["generation"], 2);
    cluster.delete(&key());
    assert_eq!(
        shown(&cluster)["metadata"],
        metadata,
        "a second delete changes nothing"
    );
}

#[test]
fn annotations_move_the_generation_of_a_deployment_alone() {
    let annotated = json!({"metadata": {"annotations": {"a": "b"}}, "spec": {}});
    let cluster = cluster()
        .with(site(&json!({"spec": {}})))
        .with(site(&annotated));
    assert_eq!(generation(&cluster), Some(1));
    let deployment = |annotations: &Value| {
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "spec": {},
            "metadata": {"namespace": "default", "name": "a", "annotations": annotations},
        })
    };
    let cluster = cluster
        .with(deployment(&json!({})))
        .with(deployment(&json!({"a": "b"})));
    let stored = cluster.object(&key().of_kind(DEPLOYMENTS));
    assert_eq!(stored.expect("it is there")["metadata"]["generation"], 2);
}

fn is_conflict(result: &ActionResult) -> bool {
    matches!(result, ActionResult::Conflict(text) if text.contains("another manager: .spec.size"))
}

#[test]
fn a_value_that_somebody_else_has_changed_is_no_longer_the_plugins() {
    let mut cluster = cluster();
    assert!(matches!(
        act(&mut cluster, apply(&json!({"spec": {"size": 1}}))),
        ActionResult::Done(_)
    ));
    let mut cluster = cluster.with(site(&json!({"spec": {"size": 2}})));
    assert!(is_conflict(&act(
        &mut cluster,
        apply(&json!({"spec": {"size": 3}}))
    )));
    // The plugin does not remove it either.
    act(&mut cluster, apply(&json!({"spec": {"colour": "red"}})));
    assert_eq!(shown(&cluster)["spec"], json!({"size": 2, "colour": "red"}));
    act(&mut cluster, apply(&json!({"spec": {"size": 3}})).force());
    assert_eq!(shown(&cluster)["spec"], json!({"size": 3}));
}

#[test]
fn a_value_that_somebody_else_leaves_as_it_is_stays_the_plugins() {
    let mut cluster = cluster();
    act(&mut cluster, apply(&json!({"spec": {"size": 1}})));
    let mut cluster = cluster.with(site(&json!({"spec": {"size": 1, "colour": "red"}})));
    let changed = act(&mut cluster, apply(&json!({"spec": {"size": 3}})));
    assert!(matches!(changed, ActionResult::Done(_)), "{changed:?}");
    act(&mut cluster, apply(&json!({"spec": {"height": 1}})));
    assert_eq!(
        shown(&cluster)["spec"],
        json!({"colour": "red", "height": 1})
    );
}

#[test]
fn a_value_that_both_have_stays_when_the_plugin_leaves_it_out() {
    let mut cluster = cluster().with(site(&json!({"spec": {"size": 1}})));
    act(
        &mut cluster,
        apply(&json!({"spec": {"size": 1, "colour": "red"}})),
    );
    assert!(is_conflict(&act(
        &mut cluster,
        apply(&json!({"spec": {"size": 3}}))
    )));
    act(&mut cluster, apply(&json!({"spec": {"colour": "blue"}})));
    assert_eq!(
        shown(&cluster)["spec"],
        json!({"size": 1, "colour": "blue"})
    );
}

#[test]
fn an_update_or_a_patch_of_the_plugin_is_not_an_apply() {
    let mut cluster = cluster();
    act(&mut cluster, apply(&json!({"spec": {"size": 1}})));
    let patch = Patch::merge(&key(), &json!({"spec": {"size": 2}})).expect("JSON is JSON");
    act(&mut cluster, patch);
    assert!(is_conflict(&act(
        &mut cluster,
        apply(&json!({"spec": {"size": 3}}))
    )));

    act(&mut cluster, apply(&json!({"spec": {"size": 3}})).force());
    let mut whole = shown(&cluster).clone();
    whole["spec"]["size"] = json!(4);
    act(&mut cluster, Update::new(&whole).expect("JSON is JSON"));
    assert!(is_conflict(&act(
        &mut cluster,
        apply(&json!({"spec": {"size": 3}}))
    )));
}

#[test]
fn nothing_of_an_object_is_owned_when_it_is_made_again() {
    let mut cluster = cluster();
    act(&mut cluster, apply(&json!({"spec": {"size": 1}})));
    act(&mut cluster, Delete::new(&key()));
    let mut cluster = cluster.with(site(&json!({"spec": {"size": 1}})));
    assert!(is_conflict(&act(
        &mut cluster,
        apply(&json!({"spec": {"size": 3}}))
    )));
}
