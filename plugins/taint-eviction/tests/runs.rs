//! Pods from run to run, by the host's own rules.
//!
//! The pods have the condition `DisruptionTarget` already: the cluster in memory cannot merge the
//! list of conditions.

use std::time::Duration;

use pilothouse_sdk::testing::{Failing, FakeCluster, WriteError};
use pilothouse_sdk::{Controller, ObjectRef, Verb};
use serde_json::{Value, json};
use taint_eviction::TaintEviction;

/// 2026-01-01T00:00:00Z.
const BEGIN: u64 = 1_767_225_600;

const PODS: &str = "v1/Pod";

fn pod(name: &str, node: Option<&str>, seconds: Option<i64>) -> Value {
    let mut toleration = json!({"key": "t", "operator": "Exists"});
    if let Some(seconds) = seconds {
        toleration["tolerationSeconds"] = seconds.into();
    }
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"namespace": "default", "name": name},
        "spec": {"nodeName": node, "tolerations": [toleration]},
        "status": {"conditions": [{
            "type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager",
            "message": "Taint manager: deleting due to NoExecute taint",
        }]},
    })
}

fn node(taints: &[&str]) -> Value {
    let taint = |key: &&str| json!({"key": key, "effect": "NoExecute"});
    let taints: Vec<Value> = taints.iter().map(taint).collect();
    json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"},
        "spec": {"taints": taints},
    })
}

fn cluster() -> FakeCluster {
    FakeCluster::new(TaintEviction::manifest()).at(Duration::from_secs(BEGIN))
}

/// Runs what is due so many seconds after the beginning.
fn run_at(cluster: FakeCluster, seconds: u64) -> FakeCluster {
    let mut cluster = cluster.at(Duration::from_secs(BEGIN + seconds));
    cluster.run_due::<TaintEviction>();
    cluster
}

/// True if the pod is there and is not being deleted.
fn stays(cluster: &FakeCluster, name: &str) -> bool {
    let pod = cluster.object(&ObjectRef::new(PODS, "default", name));
    pod.is_some_and(|pod| pod["metadata"]["deletionTimestamp"].is_null())
}

fn notes(cluster: &FakeCluster) -> Vec<&str> {
    let events = cluster.events().iter();
    events.map(|event| event.note.as_str()).collect()
}

#[test]
fn a_pod_is_deleted_when_it_has_tolerated_a_taint_long_enough() {
    let cluster = cluster()
        .with(node(&[]))
        .with(pod("a", Some("n"), Some(60)));
    let cluster = run_at(cluster, 0);
    let cluster = run_at(cluster.with(node(&["t"])), 10);
    let cluster = run_at(cluster, 69);
    assert!(stays(&cluster, "a"));
    let cluster = run_at(cluster, 70);
    assert!(!stays(&cluster, "a"));
    assert_eq!(notes(&cluster), ["Marking for deletion Pod default/a"]);
}

#[test]
fn a_taint_that_is_removed_in_time_and_comes_back_begins_anew() {
    let cluster = cluster()
        .with(node(&["t"]))
        .with(pod("a", Some("n"), Some(60)));
    let cluster = run_at(cluster, 0);
    let cluster = run_at(cluster.with(node(&[])), 30);
    let cluster = run_at(cluster.with(node(&["t"])), 40);
    let cluster = run_at(cluster, 99);
    assert!(stays(&cluster, "a"));
    let cluster = run_at(cluster, 100);
    assert!(!stays(&cluster, "a"));
    let wanted = [
        "Cancelling deletion of Pod default/a",
        "Marking for deletion Pod default/a",
    ];
    assert_eq!(notes(&cluster), wanted);
}

/// `TestEventualConsistency`.
#[test]
fn a_pod_that_comes_to_a_node_with_a_taint_is_deleted() {
    let cluster = cluster().with(node(&["other"])).with(pod("a", None, None));
    let cluster = run_at(cluster, 0);
    assert!(stays(&cluster, "a"));
    let cluster = run_at(cluster.with(pod("a", Some("n"), None)), 1);
    assert!(!stays(&cluster, "a"));
}

#[test]
fn a_pod_that_is_being_deleted_is_not_deleted_again() {
    let mut slow = pod("a", Some("n"), None);
    slow["metadata"]["finalizers"] = json!(["test/finalizer"]);
    let cluster = run_at(cluster().with(node(&["other"])).with(slow), 0);
    assert!(!stays(&cluster, "a"));
    let mut cluster = cluster.with(node(&["other", "more"]));
    let runs = cluster.run_due::<TaintEviction>();
    assert!(
        !runs.is_empty() && runs.iter().all(|run| run.effects.is_empty()),
        "{runs:?}"
    );
}

#[test]
fn a_deletion_that_fails_is_tried_again_and_told_once() {
    let refused = Failing::next(Verb::Delete, PODS, WriteError::Forbidden).always();
    let cluster = cluster()
        .with(node(&["t"]))
        .with(pod("a", Some("n"), Some(60)))
        .failing(refused);
    let cluster = run_at(run_at(cluster, 0), 60);
    assert!(stays(&cluster, "a"));
    let cluster = run_at(cluster.healed(), 90);
    assert!(!stays(&cluster, "a"));
    assert_eq!(notes(&cluster), ["Marking for deletion Pod default/a"]);
}
