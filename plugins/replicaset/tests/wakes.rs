//! Which changes run which keys, and what several runs come to, by the host's own rules.

use std::time::Duration;

use pilothouse_sdk::testing::FakeCluster;
use pilothouse_sdk::{Controller, Host, ObjectRef, Time};
use replicaset::ReplicaSetController;
use serde_json::{Value, json};

const KIND: &str = "apps/v1/ReplicaSet";
const POD: &str = "v1/Pod";

fn labels(app: &str) -> Value {
    json!({"app": app})
}

fn set(name: &str, replicas: u32, labels: &Value) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {"namespace": "default", "name": name, "uid": name},
        "spec": {
            "replicas": replicas,
            "template": {"metadata": {"labels": labels}, "spec": {"containers": []}},
            "selector": json!({"matchLabels": labels}),
        },
    })
}

fn pod(name: &str, owner: Option<&str>, labels: &Value) -> Value {
    let owners: Vec<Value> = owner
        .map(|owner| {
            json!({
                "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": owner,
                "controller": true,
            })
        })
        .into_iter()
        .collect();
    json!({
        "apiVersion": "v1", "kind": "Pod", "status": {"phase": "Running"},
        "metadata": {"namespace": "default", "name": name, "labels": labels, "ownerReferences": owners},
    })
}

fn cluster() -> FakeCluster {
    FakeCluster::new(ReplicaSetController::manifest()).at(Time::default().0)
}

/// The keys that the host runs until none is due, each once. None of them fails.
fn run(cluster: &mut FakeCluster) -> Vec<String> {
    let runs = cluster.run_due::<ReplicaSetController>();
    let failed: Vec<_> = runs.iter().filter(|run| run.error.is_some()).collect();
    assert!(failed.is_empty(), "{failed:?}");
    let keys = runs.into_iter().filter_map(|run| run.key);
    let mut names: Vec<String> = keys.map(|set| set.name).collect();
    names.sort();
    names.dedup();
    names
}

fn pods(cluster: &FakeCluster) -> Vec<Value> {
    let host: &dyn Host = cluster;
    let all = host.list(POD, Some("default"), &pilothouse_sdk::Filter::Everything);
    all.expect("pods are read")
}

fn status(cluster: &FakeCluster, name: &str) -> Value {
    let set = cluster.object(&ObjectRef::new(KIND, "default", name));
    set.map(|set| set["status"].clone()).unwrap_or_default()
}

/// Upstream: TestWatchControllers, TestWatchPods, TestUpdatePods, TestDeleteFinalStateUnknown,
/// TestOverlappingRSs, TestPodControllerLookup.
#[test]
fn a_pod_runs_the_sets_that_have_it_had_it_or_could_have_it() {
    let mut cluster = cluster()
        .with(set("a", 1, &labels("a")))
        .with(set("b", 1, &labels("b")))
        .with(pod("one", Some("a"), &labels("a")))
        .with(pod("two", Some("b"), &labels("b")));
    assert_eq!(run(&mut cluster), ["a", "b"]);
    assert_eq!(pods(&cluster).len(), 2);

    let ready = json!([{"type": "Ready", "status": "True"}]);
    let mut one = pod("one", Some("a"), &labels("a"));
    one["status"]["conditions"] = ready;
    let mut cluster = cluster.with(one);
    assert_eq!(run(&mut cluster), ["a"], "its own set");
    assert_eq!(status(&cluster, "a")["readyReplicas"], 1);

    let mut cluster = cluster.with(pod("one", Some("a"), &labels("b")));
    assert_eq!(
        run(&mut cluster),
        ["a", "b"],
        "it is given up, and adopted by the other"
    );
    let count = |cluster: &FakeCluster| pods(cluster).len();
    assert_eq!(
        count(&cluster),
        2,
        "the new set has one too many, the old one too few"
    );

    cluster.delete(&ObjectRef::new(POD, "default", "two"));
    run(&mut cluster);
    assert_eq!(count(&cluster), 2);
    let mut cluster = cluster.with(pod("three", None, &labels("c")));
    assert_eq!(run(&mut cluster), [""; 0], "nobody wants it");
    let other = {
        let mut pod = pod("four", None, &labels("a"));
        pod["metadata"]["namespace"] = "other".into();
        pod
    };
    let mut cluster = cluster.with(other);
    assert_eq!(run(&mut cluster), [""; 0], "it is in another namespace");
}

/// Upstream: TestOverlappingRSs.
#[test]
fn a_pod_of_one_set_is_left_alone_by_others_with_the_same_selector() {
    let sets = (1..10).map(|number| set(&format!("rs{number}"), 1, &labels("a")));
    let mut cluster =
        sets.fold(cluster(), FakeCluster::with)
            .with(pod("pod", Some("rs4"), &labels("a")));
    run(&mut cluster);
    assert_eq!(pods(&cluster).len(), 9);
    run(&mut cluster);
    assert_eq!(pods(&cluster).len(), 9);
}

/// Upstream: TestControllerBurstReplicas, with its own burst of 500.
#[test]
fn at_most_500_pods_are_created_or_deleted_at_once() {
    let mut cluster = cluster().with(set("a", 1_201, &labels("a")));
    for count in [500, 1_000, 1_201] {
        let outcome = cluster.turn::<ReplicaSetController>("default", "a");
        assert!(outcome.is_ok(), "{outcome:?}");
        assert_eq!(pods(&cluster).len(), count);
    }
    let mut cluster = cluster.with(set("a", 0, &labels("a")));
    for count in [701, 201, 0] {
        let outcome = cluster.turn::<ReplicaSetController>("default", "a");
        assert!(outcome.is_ok(), "{outcome:?}");
        assert_eq!(pods(&cluster).len(), count);
    }
}

/// An outcome has at most 4 MiB: pods of many bytes are created in several.
#[test]
fn large_pods_are_created_in_several_outcomes() {
    let mut large = set("a", 500, &labels("a"));
    large["spec"]["template"]["metadata"]["annotations"] = json!({"note": "x".repeat(20_000)});
    let mut cluster = cluster().with(large);
    let outcome = cluster.turn::<ReplicaSetController>("default", "a");
    let first = pods(&cluster).len();
    assert!(outcome.is_ok() && (100..500).contains(&first), "{first}");
    run(&mut cluster);
    assert_eq!(pods(&cluster).len(), 500);
}

/// Upstream: TestDoNotAdoptOrCreateIfBeingDeletedRace. The server has it that the set is being
/// deleted, and no watch has brought that yet.
#[test]
fn a_set_that_is_being_deleted_behind_the_caches_adopts_nothing() {
    let mut deleted = set("a", 1, &labels("a"));
    deleted["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    deleted["metadata"]["finalizers"] = json!(["foregroundDeletion"]);
    let mut cluster = cluster()
        .with(set("a", 1, &labels("a")))
        .with(pod("one", None, &labels("a")))
        .with_unseen(deleted);
    run(&mut cluster);
    let pods = pods(&cluster);
    assert_eq!(pods.len(), 1);
    assert_eq!(pods[0]["metadata"]["ownerReferences"], json!([]));
}

/// A set that another one of its name has replaced has other pods: those of the old one have
/// another owner.
#[test]
fn a_set_that_is_created_again_has_pods_of_its_own() {
    let mut cluster = cluster().with(set("a", 2, &labels("a")));
    run(&mut cluster);
    cluster.delete(&ObjectRef::new(KIND, "default", "a"));
    run(&mut cluster);
    assert_eq!(pods(&cluster).len(), 2, "the garbage collector has them");
    let mut again = set("a", 2, &labels("a"));
    again["metadata"]["uid"] = "again".into();
    let mut cluster = cluster.with(again);
    run(&mut cluster);
    assert_eq!(pods(&cluster).len(), 4);
    assert_eq!(status(&cluster, "a")["replicas"], 2);
}

/// Pods that were given up keep the names that the host would derive again.
#[test]
fn pods_that_are_given_up_are_replaced_by_others_with_other_names() {
    let mut cluster = cluster().with(set("a", 3, &labels("a")));
    run(&mut cluster);
    let given_up = pods(&cluster);
    assert_eq!(given_up.len(), 3);
    for view in given_up {
        let name = view["metadata"]["name"].as_str().unwrap_or_default();
        let pod = cluster.object(&ObjectRef::new(POD, "default", name));
        let mut pod = pod.cloned().unwrap_or_default();
        pod["metadata"]["labels"] = labels("quarantined");
        cluster = cluster.with(pod);
    }
    for milliseconds in [0, 100, 1_000, 10_000] {
        cluster = cluster.at(Duration::from_millis(milliseconds));
        cluster.run_due::<ReplicaSetController>();
    }
    assert_eq!(pods(&cluster).len(), 6);
    assert_eq!(status(&cluster, "a")["replicas"], 3);
}
