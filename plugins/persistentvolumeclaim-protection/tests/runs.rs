//! Claims from run to run, by the host's own rules.

use persistentvolumeclaim_protection::ClaimProtection;
use pilothouse_sdk::testing::{Failing, FakeCluster, WriteError};
use pilothouse_sdk::{Controller, ObjectRef, Verb};
use serde_json::{Value, json};

const CLAIMS: &str = "v1/PersistentVolumeClaim";

fn claim(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"namespace": "default", "name": name},
    })
}

/// A claim that is being deleted, and that is held by the finalizer alone.
fn deleted(name: &str) -> Value {
    let mut deleted = claim(name);
    deleted["metadata"]["finalizers"] = json!(["kubernetes.io/pvc-protection"]);
    deleted["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    deleted
}

fn pod(name: &str, volume: &Value) -> Value {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"namespace": "default", "name": name, "uid": format!("pod-{name}")},
        "spec": {"nodeName": "n", "volumes": [{"name": "v"}]},
    });
    for (member, value) in volume.as_object().into_iter().flatten() {
        pod["spec"]["volumes"][0][member] = value.clone();
    }
    pod
}

fn user(name: &str, claim: &str) -> Value {
    pod(
        name,
        &json!({"persistentVolumeClaim": {"claimName": claim}}),
    )
}

fn cluster() -> FakeCluster {
    FakeCluster::new(ClaimProtection::manifest())
}

fn run(cluster: &mut FakeCluster) {
    let runs = cluster.run_due::<ClaimProtection>();
    assert!(runs.iter().all(|run| run.error.is_none()), "{runs:?}");
}

fn stays(cluster: &FakeCluster, name: &str) -> bool {
    let key = ObjectRef::new(CLAIMS, "default", name);
    cluster.object(&key).is_some()
}

#[test]
fn a_claim_goes_with_its_last_pod_and_not_before() {
    let mut cluster = cluster()
        .with(deleted("c"))
        .with(user("a", "c"))
        .with(user("b", "c"));
    run(&mut cluster);
    assert!(stays(&cluster, "c"));
    cluster.delete(&ObjectRef::new("v1/Pod", "default", "a"));
    run(&mut cluster);
    assert!(stays(&cluster, "c"));
    cluster.delete(&ObjectRef::new("v1/Pod", "default", "b"));
    run(&mut cluster);
    assert!(!stays(&cluster, "c"));
}

/// `TestPVCProtectionController`: "exists but is not in the Informer's cache yet".
#[test]
fn a_pod_that_no_watch_has_brought_keeps_its_claim() {
    let mut cluster = cluster()
        .with(deleted("c"))
        .with(deleted("free"))
        .with_unseen(user("a", "c"));
    run(&mut cluster);
    assert!(stays(&cluster, "c"));
    assert!(!stays(&cluster, "free"));
}

#[test]
fn a_pod_that_no_watch_has_brought_keeps_the_claim_that_was_made_for_it() {
    let mut made = deleted("a-v");
    made["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "pod-a", "controller": true,
    }]);
    let ephemeral = json!({"ephemeral": {"volumeClaimTemplate": {"spec": {}}}});
    let mut cluster = cluster().with(made).with_unseen(pod("a", &ephemeral));
    run(&mut cluster);
    assert!(stays(&cluster, "a-v"));
    cluster.delete(&ObjectRef::new("v1/Pod", "default", "a"));
    run(&mut cluster);
    assert!(!stays(&cluster, "a-v"));
}

#[test]
fn a_pod_that_gets_a_node_keeps_the_claim_from_then_on() {
    let mut waiting = user("a", "c");
    waiting["spec"]["nodeName"] = Value::Null;
    let mut cluster = cluster().with(claim("c")).with(waiting);
    run(&mut cluster);
    let mut cluster = cluster.with(user("a", "c"));
    cluster.delete(&ObjectRef::new(CLAIMS, "default", "c"));
    run(&mut cluster);
    assert!(stays(&cluster, "c"));
}

/// `TestPVCProtectionController`: "saving PVC finalizer fails", "finalizer removal fails".
#[test]
fn a_finalizer_that_cannot_be_changed_is_tried_again() {
    let refused = Failing::next(Verb::Patch, CLAIMS, WriteError::Forbidden).always();
    let mut cluster = cluster()
        .with(claim("new"))
        .with(deleted("old"))
        .failing(refused);
    cluster.run_due::<ClaimProtection>();
    assert!(stays(&cluster, "old"));
    let mut cluster = cluster.at(std::time::Duration::from_secs(60)).healed();
    run(&mut cluster);
    assert!(!stays(&cluster, "old"));
    let new = cluster.object(&ObjectRef::new(CLAIMS, "default", "new"));
    assert_eq!(
        new.unwrap()["metadata"]["finalizers"],
        json!(["kubernetes.io/pvc-protection"])
    );
}
