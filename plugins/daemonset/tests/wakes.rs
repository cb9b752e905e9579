//! Which changes run which DaemonSets, by the host's own rules. After TestUpdateNode, TestAddNode,
//! TestShouldIgnoreNodeUpdate, TestAddPod, TestAddPodOrphan, TestUpdatePod and its like,
//! TestDeletePod, TestDeletePodOrphan and TestDeleteNoDaemonPod of `daemon_controller_test.go`.

use std::collections::BTreeSet;
use std::time::Duration;

use daemonset::DaemonSetController;
use pilothouse_sdk::testing::FakeCluster;
use pilothouse_sdk::{Controller, ObjectRef};
use serde_json::{Value, json};

const NOTHING: [&str; 0] = [];

fn daemon_set(name: &str, labels: &Value, node_selector: &Value) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet",
        "metadata": {"namespace": "default", "name": name, "uid": format!("uid-{name}")},
        "spec": {
            "selector": {"matchLabels": labels}, "updateStrategy": {"type": "OnDelete"},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"nodeSelector": node_selector, "containers": [{"name": "c"}]},
            },
        },
    })
}

fn node(name: &str, labels: &Value) -> Value {
    let metadata = json!({"name": name, "uid": name, "labels": labels});
    json!({"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": {"providerID": "p"}})
}

fn object(kind: &str, name: &str) -> ObjectRef {
    ObjectRef::new(kind, "default", name)
}

/// The DaemonSets that run until none is due, each once.
fn run(cluster: &mut FakeCluster) -> Vec<String> {
    let runs = cluster.run_due::<DaemonSetController>();
    let failed: Vec<_> = runs.iter().filter(|run| run.error.is_some()).collect();
    assert!(failed.is_empty(), "{failed:?}");
    let names = runs.into_iter().filter_map(|run| run.key);
    let mut names: Vec<String> = names.map(|key| key.name).collect();
    names.sort();
    names.dedup();
    names
}

/// The pods of a DaemonSet.
fn pods(cluster: &FakeCluster, owner: &str) -> Vec<Value> {
    let host: &dyn pilothouse_sdk::Host = cluster;
    let all: Vec<Value> = host
        .list(
            "v1/Pod",
            Some("default"),
            &pilothouse_sdk::Filter::Everything,
        )
        .expect("pods are read");
    let is_owned = |pod: &Value| pod["metadata"]["ownerReferences"][0]["name"] == owner;
    let owned = all.into_iter().filter(is_owned).map(|pod| {
        let name = pod["metadata"]["name"].as_str().unwrap_or_default();
        cluster
            .object(&object("v1/Pod", name))
            .cloned()
            .unwrap_or_default()
    });
    owned.collect()
}

/// A cluster with a DaemonSet for all nodes, one for blue nodes, and a node that is not blue; all
/// is as it should be.
fn settled() -> FakeCluster {
    let mut cluster = FakeCluster::new(DaemonSetController::manifest())
        .with(daemon_set("all", &json!({"a": "all"}), &json!({})))
        .with(daemon_set(
            "blue",
            &json!({"a": "blue"}),
            &json!({"color": "blue"}),
        ))
        .with(node("n1", &json!({})));
    assert_eq!(run(&mut cluster), ["all", "blue"]);
    assert_eq!(pods(&cluster, "all").len(), 1);
    assert_eq!(run(&mut cluster), NOTHING, "all is as it should be");
    cluster
}

#[test]
fn a_heartbeat_of_a_node_runs_nothing() {
    let mut beating = node("n1", &json!({}));
    beating["metadata"]["annotations"] = json!({"volumes.kubernetes.io/attached": "true"});
    beating["spec"] = json!({"podCIDR": "10.0.0.0/24", "unschedulable": true});
    beating["status"] = json!({
        "conditions": [{"type": "Ready", "status": "False", "lastHeartbeatTime": "2026-01-01"}],
        "allocatable": {"cpu": "200m"}, "images": [{"names": ["a"]}],
    });
    assert_eq!(run(&mut settled().with(beating)), NOTHING);
}

#[test]
fn a_node_runs_the_daemon_sets_that_it_may_concern() {
    let mut cluster = settled().with(node("n2", &json!({"color": "red"})));
    assert_eq!(run(&mut cluster), ["all"]);
    assert_eq!(pods(&cluster, "all").len(), 2);

    let mut cluster = cluster.with(node("n2", &json!({"color": "blue"})));
    assert_eq!(run(&mut cluster), ["all", "blue"]);
    assert_eq!(pods(&cluster, "blue").len(), 1);

    let mut tainted = node("n2", &json!({"color": "blue"}));
    tainted["spec"]["taints"] = json!([{"key": "a", "effect": "NoExecute"}]);
    let mut cluster = cluster.with(tainted);
    assert_eq!(run(&mut cluster), ["all", "blue"]);
    assert_eq!(pods(&cluster, "all").len(), 1);
    assert_eq!(pods(&cluster, "blue").len(), 0);

    let mut cluster = cluster.with(node("n2", &json!({"color": "red"})));
    assert_eq!(run(&mut cluster), ["all", "blue"]);
    assert_eq!(pods(&cluster, "all").len(), 2);
    assert_eq!(pods(&cluster, "blue").len(), 0);
}

#[test]
fn a_pod_that_is_no_longer_on_a_node_of_the_selector_is_found_and_deleted() {
    let mut cluster = settled().with(node("n2", &json!({"color": "blue"})));
    run(&mut cluster);
    assert_eq!(pods(&cluster, "blue").len(), 1);
    let mut cluster = cluster.with(node("n2", &json!({"color": "red"})));
    assert_eq!(run(&mut cluster), ["all", "blue"]);
    assert_eq!(pods(&cluster, "blue").len(), 0);
}

#[test]
fn what_happens_to_a_pod_runs_its_daemon_set() {
    let cluster = settled();
    let pod = pods(&cluster, "all").remove(0);
    let name = pod["metadata"]["name"]
        .as_str()
        .unwrap_or_default()
        .to_owned();

    let mut ready = pod.clone();
    ready["status"] = json!({"conditions": [{"type": "Ready", "status": "True"}]});
    let mut cluster = cluster.with(ready.clone());
    assert_eq!(run(&mut cluster), ["all"]);
    let status = cluster.object(&object("apps/v1/DaemonSet", "all")).cloned();
    assert_eq!(status.unwrap_or_default()["status"]["numberReady"], 1);

    ready["status"]["podIP"] = "10.0.0.1".into();
    ready["metadata"]["annotations"] = json!({"seen": "by a kubelet"});
    let mut cluster = cluster.with(ready);
    assert_eq!(run(&mut cluster), NOTHING, "of this nothing is read");

    cluster.delete(&object("v1/Pod", &name));
    assert_eq!(run(&mut cluster), ["all"]);
    assert_eq!(pods(&cluster, "all").len(), 1, "another one comes");
}

#[test]
fn a_pod_that_changes_its_owner_runs_both() {
    let cluster = settled();
    let mut pod = pods(&cluster, "all").remove(0);
    pod["metadata"]["labels"]["a"] = "blue".into();
    pod["metadata"]["ownerReferences"][0]["name"] = "blue".into();
    pod["metadata"]["ownerReferences"][0]["uid"] = "uid-blue".into();
    let mut cluster = cluster.with(pod);
    let runs = cluster.run_due::<DaemonSetController>();
    let names: BTreeSet<String> = runs
        .into_iter()
        .filter_map(|run| run.key)
        .map(|key| key.name)
        .collect();
    assert_eq!(names, BTreeSet::from(["all".to_owned(), "blue".to_owned()]));
    assert_eq!(pods(&cluster, "blue").len(), 0, "the node is not blue");
}

/// A pod that somebody has taken away to look at it keeps its name, which the host has derived for
/// this node. The next one gets another.
#[test]
fn a_pod_that_is_taken_away_does_not_keep_its_node_from_another() {
    let cluster = settled();
    let mut pod = pods(&cluster, "all").remove(0);
    pod["metadata"]["labels"]["a"] = "debugged".into();
    let name = pod["metadata"]["name"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    let mut cluster = cluster.with(pod);
    for second in 1..4 {
        cluster.run_due::<DaemonSetController>();
        cluster = cluster.at(Duration::from_secs(second));
    }
    let taken = cluster.object(&object("v1/Pod", &name)).cloned();
    assert_eq!(
        taken.unwrap_or_default()["metadata"]["ownerReferences"],
        json!([])
    );
    let all = pods(&cluster, "all");
    assert_eq!(all.len(), 1);
    assert_ne!(all[0]["metadata"]["name"], name);
    assert_eq!(run(&mut cluster), NOTHING);
}

#[test]
fn an_orphan_runs_those_that_select_it() {
    let mut cluster = settled().with(daemon_set(
        "also",
        &json!({"a": "all"}),
        &json!({"color": "blue"}),
    ));
    run(&mut cluster);
    // It is being deleted, so nobody adopts it.
    let orphan = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "namespace": "default", "name": "orphan", "labels": {"a": "all"},
            "finalizers": ["test/finalizer"], "deletionTimestamp": "2026-01-01T00:00:00Z",
        },
    });
    let mut cluster = cluster.with(orphan);
    assert_eq!(run(&mut cluster), ["all", "also"]);
    cluster.delete(&object("v1/Pod", "orphan"));
}

#[test]
fn pods_of_others_run_nothing() {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"namespace": "default", "name": "other", "labels": {"a": "other"}},
        "spec": {"nodeName": "n1"},
    });
    let mut cluster = settled().with(pod);
    assert_eq!(run(&mut cluster), NOTHING);
    cluster.delete(&object("v1/Pod", "other"));
    assert_eq!(run(&mut cluster), NOTHING);
}

#[test]
fn a_revision_that_is_deleted_is_made_again() {
    let mut cluster = settled();
    let host: &dyn pilothouse_sdk::Host = &cluster;
    let selector = pilothouse_sdk::Filter::labels("a=all");
    let kind = "apps/v1/ControllerRevision";
    let revisions: Vec<Value> = host
        .list(kind, Some("default"), &selector)
        .expect("revisions are read");
    let name = revisions[0]["metadata"]["name"]
        .as_str()
        .unwrap_or_default();
    let revision = object(kind, name);
    cluster.delete(&revision);
    assert_eq!(run(&mut cluster), ["all"]);
    assert!(cluster.object(&revision).is_some());
}

/// Upstream: TestDontDoAnythingIfBeingDeletedRace.
#[test]
fn nothing_is_adopted_by_a_daemon_set_that_the_server_is_deleting() {
    let set = daemon_set("all", &json!({"a": "all"}), &json!({}));
    let mut leaving = set.clone();
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    leaving["metadata"]["finalizers"] = json!(["foregroundDeletion"]);
    let orphan = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"namespace": "default", "name": "orphan", "labels": {"a": "all"}},
    });
    let mut cluster = FakeCluster::new(DaemonSetController::manifest())
        .with(set)
        .with(node("n1", &json!({})))
        .with(orphan)
        .with_unseen(leaving);
    let outcome = cluster.turn::<DaemonSetController>("default", "all");
    let outcome = outcome.expect("the controller decides");
    assert_eq!(outcome.actions().count(), 1, "it would adopt");
    let orphan = cluster.object(&object("v1/Pod", "orphan")).cloned();
    assert!(orphan.unwrap_or_default()["metadata"]["ownerReferences"].is_null());
    let next = cluster.turn::<DaemonSetController>("default", "all");
    assert_eq!(next.expect("the controller decides").actions().count(), 0);
}
