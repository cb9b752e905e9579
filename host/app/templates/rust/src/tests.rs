use pilothouse_sdk::ObjectRef;
use pilothouse_sdk::testing::{FakeCluster, to_json};
use serde_json::Value;

use super::*;

fn original(text: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"namespace": "default", "name": "banner", "labels": {"copy": "true"}},
        "data": {"text": text},
    })
}

fn namespace(name: &str, copies: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": name, "labels": {"copies": copies}},
    })
}

/// Runs what is due. Nothing may fail.
fn run(cluster: &mut FakeCluster) {
    for run in cluster.run_due::<Copies>() {
        assert_eq!(run.error, None, "{:?}", run.key);
    }
}

/// The text of the banner in a Namespace, if it has one.
fn banner(cluster: &FakeCluster, namespace: &str) -> Option<String> {
    let banner = cluster.object(&ObjectRef::new(ConfigMap::KIND, namespace, "banner"))?;
    banner["data"]["text"].as_str().map(str::to_owned)
}

#[test]
fn namespaces_that_want_copies_have_them() {
    let mut cluster = FakeCluster::new(Copies::manifest())
        .with(original("hello"))
        .with(namespace("team-a", "wanted"))
        .with(namespace("team-b", "no"));
    run(&mut cluster);
    assert_eq!(banner(&cluster, "team-a").as_deref(), Some("hello"));
    assert_eq!(banner(&cluster, "team-b"), None);

    let mut cluster = cluster
        .with(namespace("team-a", "no"))
        .with(namespace("team-b", "wanted"));
    run(&mut cluster);
    assert_eq!(banner(&cluster, "team-a"), None);
    assert_eq!(banner(&cluster, "team-b").as_deref(), Some("hello"));
}

#[test]
fn copies_follow_their_original() {
    let mut cluster = FakeCluster::new(Copies::manifest())
        .with(original("hello"))
        .with(namespace("team-a", "wanted"));
    run(&mut cluster);
    let mut cluster = cluster.with(original("goodbye"));
    run(&mut cluster);
    assert_eq!(banner(&cluster, "team-a").as_deref(), Some("goodbye"));

    cluster.delete(&ObjectRef::new(ConfigMap::KIND, "default", "banner"));
    run(&mut cluster);
    assert_eq!(banner(&cluster, "team-a"), None);
}

#[test]
fn the_originals_own_namespace_needs_no_copy() {
    let cluster = FakeCluster::new(Copies::manifest())
        .with(original("hello"))
        .with(namespace("default", "wanted"));
    let outcome = cluster.reconcile::<Copies>("default", "banner").unwrap();
    let action = to_json(&outcome.stages[0].actions[0]);
    assert_eq!(action, json!({"children": {"objects": []}}));
}
