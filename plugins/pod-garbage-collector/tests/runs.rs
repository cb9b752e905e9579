//! Pods from run to run, by the host's own rules.

use std::time::Duration;

use pilothouse_sdk::testing::{Failing, FakeCluster, WriteError};
use pilothouse_sdk::{Controller, ObjectRef, Verb};
use pod_garbage_collector::PodGarbageCollector;
use serde_json::{Value, json};

/// 2026-01-01T00:00:00Z.
const BEGIN: u64 = 1_767_225_600;

fn pod(name: &str, node: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"namespace": "default", "name": name},
        "spec": {"nodeName": node},
        "status": {"phase": "Running"},
    })
}

/// A pod that has ended, so that no status is patched: the cluster in memory cannot merge the list
/// of conditions.
fn ended(name: &str, node: &str) -> Value {
    let mut ended = pod(name, node);
    ended["status"]["phase"] = "Succeeded".into();
    ended
}

fn node(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": name},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    })
}

fn cluster() -> FakeCluster {
    FakeCluster::new(PodGarbageCollector::manifest()).at(Duration::from_secs(BEGIN))
}

fn key(kind: &str, name: &str) -> ObjectRef {
    let namespace = if kind == "v1/Pod" { "default" } else { "" };
    ObjectRef::new(kind, namespace, name)
}

/// Runs what is due so many seconds after the beginning, and returns how many runs that were.
fn run_at(cluster: FakeCluster, seconds: u64) -> (FakeCluster, usize) {
    let mut cluster = cluster.at(Duration::from_secs(BEGIN + seconds));
    let runs = cluster.run_due::<PodGarbageCollector>();
    (cluster, runs.len())
}

fn stays(cluster: &FakeCluster, name: &str) -> bool {
    cluster.object(&key("v1/Pod", name)).is_some()
}

#[test]
fn the_pods_of_a_node_that_is_gone_are_deleted_after_a_quarantine() {
    let cluster = cluster()
        .with(node("n"))
        .with(ended("a", "n"))
        .with(ended("b", "m"))
        .with(node("m"));
    let (mut cluster, _) = run_at(cluster, 0);
    cluster.delete(&key("v1/Node", "n"));
    let (cluster, _) = run_at(cluster, 30);
    assert!(stays(&cluster, "a"));
    let (cluster, _) = run_at(cluster, 69);
    assert!(stays(&cluster, "a"));
    let (cluster, _) = run_at(cluster, 70);
    assert!(!stays(&cluster, "a"));
    assert!(stays(&cluster, "b"), "its node is there");
}

/// `TestGCOrphaned`: "nodes present in client", "node added to client after quarantine".
#[test]
fn a_node_that_no_watch_has_brought_yet_keeps_its_pods() {
    let (cluster, _) = run_at(cluster().with(pod("a", "n")), 0);
    let cluster = cluster.with_unseen(node("n"));
    let (cluster, _) = run_at(cluster, 40);
    let (cluster, _) = run_at(cluster, 400);
    assert!(stays(&cluster, "a"));
    assert_eq!(
        cluster.object(&key("v1/Pod", "a")).unwrap()["status"]["phase"],
        "Running"
    );
}

#[test]
fn a_node_that_comes_back_ends_the_quarantine() {
    let (cluster, _) = run_at(cluster().with(ended("a", "n")), 0);
    let (mut cluster, _) = run_at(cluster.with(node("n")), 30);
    cluster.delete(&key("v1/Node", "n"));
    let (cluster, _) = run_at(cluster, 50);
    let (cluster, _) = run_at(cluster, 89);
    assert!(
        stays(&cluster, "a"),
        "it has been missing for less than 40 s"
    );
    let (cluster, _) = run_at(cluster, 90);
    assert!(!stays(&cluster, "a"));
}

#[test]
fn pods_are_looked_at_every_twenty_seconds_at_most_and_only_if_something_has_changed() {
    let (cluster, runs) = run_at(cluster().with(node("n")).with(pod("a", "n")), 0);
    assert_eq!(runs, 1);
    let (cluster, runs) = run_at(cluster.with(pod("b", "n")), 5);
    assert_eq!(runs, 0, "it is too early");
    let (cluster, runs) = run_at(cluster, 20);
    assert_eq!(runs, 1);
    let (_, runs) = run_at(cluster, 10_000);
    assert_eq!(runs, 0, "nothing has changed");
}

#[test]
fn a_pod_that_cannot_be_made_to_fail_is_not_deleted_and_keeps_no_other_from_it() {
    let refused = Failing::next(Verb::Patch, "v1/Pod", WriteError::Forbidden);
    let refused = refused.subresource("status").named("a").always();
    let stuck = |name: &str| {
        let mut stuck = pod(name, "");
        stuck["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        stuck["metadata"]["finalizers"] = json!(["test/finalizer"]);
        stuck
    };
    let cluster = cluster().with(stuck("a")).with(stuck("b")).failing(refused);
    let (cluster, _) = run_at(cluster, 0);
    let phase = |cluster: &FakeCluster, name: &str| {
        let pod = cluster.object(&key("v1/Pod", name));
        pod.unwrap()["status"]["phase"].clone()
    };
    assert_eq!(phase(&cluster, "a"), "Running");
    assert_eq!(phase(&cluster, "b"), "Failed");

    let (cluster, _) = run_at(cluster.healed(), 60);
    assert_eq!(phase(&cluster, "a"), "Failed");
}

#[test]
fn more_pods_than_one_run_deletes_are_deleted_by_the_next() {
    let config = json!({"terminatedPodThreshold": 10});
    let ended = (0..1_250).map(|number| {
        let mut ended = ended(&format!("p{number:04}"), "n");
        ended["metadata"]["creationTimestamp"] =
            format!("2025-01-01T{:02}:{:02}:00Z", number / 60, number % 60).into();
        ended
    });
    let cluster = cluster().configured(&config).with(node("n"));
    let cluster = ended.fold(cluster, FakeCluster::with);
    let (cluster, _) = run_at(cluster, 0);
    let (cluster, _) = run_at(cluster, 1);
    let (cluster, _) = run_at(cluster, 25);
    let left: Vec<usize> = (0..1_250)
        .filter(|number| stays(&cluster, &format!("p{number:04}")))
        .collect();
    assert_eq!(left, (1_240..1_250).collect::<Vec<_>>());
}
