//! The body that replicaset and replicationcontroller share, through both of them: which changes
//! run which keys, and what several runs come to, by the host's own rules.

use std::time::Duration;

use pilothouse_sdk::testing::FakeCluster;
use pilothouse_sdk::{Controller, Host, ObjectRef, Time};
use replicaset::ReplicaSetController;
use replicationcontroller::ReplicationControllerController;
use serde_json::{Value, json};

const POD: &str = "v1/Pod";

/// One of the two kinds, with its controller.
trait Subject: Controller {
    const API_VERSION: &'static str;
    const KIND: &'static str;
    /// The selector of a set of pods with these labels, as this kind has it.
    fn selector(labels: &Value) -> Value;

    fn key(name: &str) -> ObjectRef {
        let kind = format!("{}/{}", Self::API_VERSION, Self::KIND);
        ObjectRef::new(&kind, "default", name)
    }
}

impl Subject for ReplicaSetController {
    const API_VERSION: &'static str = "apps/v1";
    const KIND: &'static str = "ReplicaSet";

    fn selector(labels: &Value) -> Value {
        json!({"matchLabels": labels})
    }
}

impl Subject for ReplicationControllerController {
    const API_VERSION: &'static str = "v1";
    const KIND: &'static str = "ReplicationController";

    fn selector(labels: &Value) -> Value {
        labels.clone()
    }
}

/// Has each of these functions tested with both.
macro_rules! test_both {
    ($($test:ident)*) => {
        mod as_replicaset {
            $(#[test] fn $test() { super::$test::<super::ReplicaSetController>(); })*
        }
        mod as_replicationcontroller {
            $(#[test] fn $test() { super::$test::<super::ReplicationControllerController>(); })*
        }
    };
}

test_both! {
    a_pod_runs_the_sets_that_have_it_had_it_or_could_have_it
    a_pod_of_one_set_is_left_alone_by_others_with_the_same_selector
    at_most_500_pods_are_created_or_deleted_at_once
    large_pods_are_created_in_several_outcomes
    a_set_that_is_being_deleted_behind_the_caches_adopts_nothing
    a_set_that_is_created_again_has_pods_of_its_own
    pods_that_are_given_up_are_replaced_by_others_with_other_names
}

fn labels(app: &str) -> Value {
    json!({"app": app})
}

fn set<C: Subject>(name: &str, replicas: u32, labels: &Value) -> Value {
    json!({
        "apiVersion": C::API_VERSION, "kind": C::KIND,
        "metadata": {"namespace": "default", "name": name, "uid": name},
        "spec": {
            "replicas": replicas,
            "template": {"metadata": {"labels": labels}, "spec": {"containers": []}},
            "selector": C::selector(labels),
        },
    })
}

fn pod<C: Subject>(name: &str, owner: Option<&str>, labels: &Value) -> Value {
    let owners: Vec<Value> = owner
        .map(|owner| {
            json!({
                "apiVersion": C::API_VERSION, "kind": C::KIND, "name": owner, "uid": owner,
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

fn cluster<C: Subject>() -> FakeCluster {
    FakeCluster::new(C::manifest()).at(Time::default().0)
}

/// The keys that the host runs until none is due, each once. None of them fails.
fn run<C: Subject>(cluster: &mut FakeCluster) -> Vec<String> {
    let runs = cluster.run_due::<C>();
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

fn status<C: Subject>(cluster: &FakeCluster, name: &str) -> Value {
    let set = cluster.object(&C::key(name));
    set.map(|set| set["status"].clone()).unwrap_or_default()
}

/// Upstream: TestWatchControllers, TestWatchPods, TestUpdatePods, TestDeleteFinalStateUnknown,
/// TestOverlappingRSs, TestPodControllerLookup.
fn a_pod_runs_the_sets_that_have_it_had_it_or_could_have_it<C: Subject>() {
    let mut cluster = cluster::<C>()
        .with(set::<C>("a", 1, &labels("a")))
        .with(set::<C>("b", 1, &labels("b")))
        .with(pod::<C>("one", Some("a"), &labels("a")))
        .with(pod::<C>("two", Some("b"), &labels("b")));
    assert_eq!(run::<C>(&mut cluster), ["a", "b"]);
    assert_eq!(pods(&cluster).len(), 2);

    let ready = json!([{"type": "Ready", "status": "True"}]);
    let mut one = pod::<C>("one", Some("a"), &labels("a"));
    one["status"]["conditions"] = ready;
    let mut cluster = cluster.with(one);
    assert_eq!(run::<C>(&mut cluster), ["a"], "its own set");
    assert_eq!(status::<C>(&cluster, "a")["readyReplicas"], 1);

    let mut cluster = cluster.with(pod::<C>("one", Some("a"), &labels("b")));
    assert_eq!(
        run::<C>(&mut cluster),
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
    run::<C>(&mut cluster);
    assert_eq!(count(&cluster), 2);
    let mut cluster = cluster.with(pod::<C>("three", None, &labels("c")));
    assert_eq!(run::<C>(&mut cluster), [""; 0], "nobody wants it");
    let other = {
        let mut pod = pod::<C>("four", None, &labels("a"));
        pod["metadata"]["namespace"] = "other".into();
        pod
    };
    let mut cluster = cluster.with(other);
    assert_eq!(
        run::<C>(&mut cluster),
        [""; 0],
        "it is in another namespace"
    );
}

/// Upstream: TestOverlappingRSs.
fn a_pod_of_one_set_is_left_alone_by_others_with_the_same_selector<C: Subject>() {
    let sets = (1..10).map(|number| set::<C>(&format!("rs{number}"), 1, &labels("a")));
    let mut cluster = sets.fold(cluster::<C>(), FakeCluster::with).with(pod::<C>(
        "pod",
        Some("rs4"),
        &labels("a"),
    ));
    run::<C>(&mut cluster);
    assert_eq!(pods(&cluster).len(), 9);
    run::<C>(&mut cluster);
    assert_eq!(pods(&cluster).len(), 9);
}

/// Upstream: TestControllerBurstReplicas, with its own burst of 500.
fn at_most_500_pods_are_created_or_deleted_at_once<C: Subject>() {
    let mut cluster = cluster::<C>().with(set::<C>("a", 1_201, &labels("a")));
    for count in [500, 1_000, 1_201] {
        let outcome = cluster.turn::<C>("default", "a");
        assert!(outcome.is_ok(), "{outcome:?}");
        assert_eq!(pods(&cluster).len(), count);
    }
    let mut cluster = cluster.with(set::<C>("a", 0, &labels("a")));
    for count in [701, 201, 0] {
        let outcome = cluster.turn::<C>("default", "a");
        assert!(outcome.is_ok(), "{outcome:?}");
        assert_eq!(pods(&cluster).len(), count);
    }
}

/// An outcome has at most 4 MiB: pods of many bytes are created in several.
fn large_pods_are_created_in_several_outcomes<C: Subject>() {
    let mut large = set::<C>("a", 500, &labels("a"));
    large["spec"]["template"]["metadata"]["annotations"] = json!({"note": "x".repeat(20_000)});
    let mut cluster = cluster::<C>().with(large);
    let outcome = cluster.turn::<C>("default", "a");
    let first = pods(&cluster).len();
    assert!(outcome.is_ok() && (100..500).contains(&first), "{first}");
    run::<C>(&mut cluster);
    assert_eq!(pods(&cluster).len(), 500);
}

/// Upstream: TestDoNotAdoptOrCreateIfBeingDeletedRace. The server has it that the set is being
/// deleted, and no watch has brought that yet.
fn a_set_that_is_being_deleted_behind_the_caches_adopts_nothing<C: Subject>() {
    let mut deleted = set::<C>("a", 1, &labels("a"));
    deleted["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    deleted["metadata"]["finalizers"] = json!(["foregroundDeletion"]);
    let mut cluster = cluster::<C>()
        .with(set::<C>("a", 1, &labels("a")))
        .with(pod::<C>("one", None, &labels("a")))
        .with_unseen(deleted);
    run::<C>(&mut cluster);
    let pods = pods(&cluster);
    assert_eq!(pods.len(), 1);
    assert_eq!(pods[0]["metadata"]["ownerReferences"], json!([]));
}

/// A set that another one of its name has replaced has other pods: those of the old one have
/// another owner.
fn a_set_that_is_created_again_has_pods_of_its_own<C: Subject>() {
    let mut cluster = cluster::<C>().with(set::<C>("a", 2, &labels("a")));
    run::<C>(&mut cluster);
    cluster.delete(&C::key("a"));
    run::<C>(&mut cluster);
    assert_eq!(pods(&cluster).len(), 2, "the garbage collector has them");
    let mut again = set::<C>("a", 2, &labels("a"));
    again["metadata"]["uid"] = "again".into();
    let mut cluster = cluster.with(again);
    run::<C>(&mut cluster);
    assert_eq!(pods(&cluster).len(), 4);
    assert_eq!(status::<C>(&cluster, "a")["replicas"], 2);
}

/// Pods that were given up keep the names that the host would derive again.
fn pods_that_are_given_up_are_replaced_by_others_with_other_names<C: Subject>() {
    let mut cluster = cluster::<C>().with(set::<C>("a", 3, &labels("a")));
    run::<C>(&mut cluster);
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
        cluster.run_due::<C>();
    }
    assert_eq!(pods(&cluster).len(), 6);
    assert_eq!(status::<C>(&cluster, "a")["replicas"], 3);
}
