//! Which changes run which Deployments, by the host's own rules: upstream's tests of its event
//! handlers in `deployment_controller_test.go`.

use deployment::DeploymentController;
use pilothouse_sdk::testing::FakeCluster;
use pilothouse_sdk::{Controller, ObjectRef};
use serde_json::{Value, json};

const REVISION: &str = "deployment.kubernetes.io/revision";

fn template(image: &str, app: &str) -> Value {
    json!({"metadata": {"labels": {"app": app}}, "spec": {"containers": [{"image": image}]}})
}

/// A Deployment of no pods at revision 1.
fn deployment(name: &str, app: &str, strategy: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {
            "namespace": "test", "name": name, "uid": name, "annotations": {REVISION: "1"},
        },
        "spec": {
            "replicas": 0, "selector": {"matchLabels": {"app": app}},
            "strategy": {"type": strategy}, "template": template("new", app),
        },
    })
}

/// A ReplicaSet with the template of the Deployments of this label.
fn set(name: &str, app: &str, owner: Option<&str>) -> Value {
    let owner = owner.map(|owner| {
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": owner, "uid": owner,
            "controller": true, "blockOwnerDeletion": true})
    });
    json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {
            "namespace": "test", "name": name, "uid": name, "labels": {"app": app},
            "annotations": {REVISION: "1"}, "ownerReferences": Vec::from_iter(owner),
        },
        "spec": {"replicas": 0, "template": template("new", app)},
        "status": {"replicas": 0, "terminatingReplicas": 0},
    })
}

fn pod(name: &str, owner: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"namespace": "test", "name": name, "ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": owner,
                "controller": true},
        ]},
        "status": {"phase": "Running"},
    })
}

fn replica_set(name: &str) -> ObjectRef {
    ObjectRef::new("apps/v1/ReplicaSet", "test", name)
}

fn cluster(objects: impl IntoIterator<Item = Value>) -> FakeCluster {
    let empty = FakeCluster::new(DeploymentController::manifest());
    objects.into_iter().fold(empty, FakeCluster::with)
}

/// The Deployments that the host runs until none is due, each once. None of them fails.
fn run(cluster: &mut FakeCluster) -> Vec<String> {
    let runs = cluster.run_due::<DeploymentController>();
    let failed: Vec<_> = runs.iter().filter(|run| run.error.is_some()).collect();
    assert!(failed.is_empty(), "{failed:?}");
    let keys = runs.into_iter().filter_map(|run| run.key);
    let mut names: Vec<String> = keys.map(|key| key.name).collect();
    names.sort();
    names.dedup();
    names
}

fn owner(cluster: &FakeCluster, name: &str) -> Value {
    let set = cluster.object(&replica_set(name));
    let set = set.cloned().unwrap_or_default();
    set["metadata"]["ownerReferences"][0]["name"].clone()
}

/// Three Deployments that are at rest: two with the same selector.
fn at_rest() -> FakeCluster {
    let mut cluster = cluster([
        deployment("d1", "a", "RollingUpdate"),
        deployment("d2", "a", "RollingUpdate"),
        deployment("d3", "b", "RollingUpdate"),
        set("rs1", "a", Some("d1")),
        set("rs2", "a", Some("d2")),
        set("rs3", "b", Some("d3")),
    ]);
    assert_eq!(run(&mut cluster), ["d1", "d2", "d3"]);
    assert_eq!(run(&mut cluster), [""; 0], "all is as it should be");
    cluster
}

/// `TestAddReplicaSet`, `TestUpdateReplicaSet`, `TestDeleteReplicaSet`. Upstream runs the manager
/// alone; here all run that select the ReplicaSet, and the others decide nothing.
#[test]
fn a_replica_set_runs_those_that_manage_or_select_it() {
    let mut changed = set("rs3", "b", Some("d3"));
    changed["status"]["replicas"] = 1.into();
    let mut cluster = at_rest().with(changed);
    assert_eq!(run(&mut cluster), ["d3"]);
    cluster.delete(&replica_set("rs3"));
    assert_eq!(run(&mut cluster), ["d3"]);
    let mut changed = set("rs1", "a", Some("d1"));
    changed["status"]["replicas"] = 1.into();
    let mut cluster = cluster.with(changed);
    assert_eq!(run(&mut cluster), ["d1", "d2"]);
}

/// `TestAddReplicaSetOrphan`, `TestDeleteReplicaSetOrphan`.
#[test]
fn an_orphan_runs_those_that_select_it_and_one_of_them_adopts_it() {
    let mut orphan = set("rs4", "a", None);
    orphan["spec"]["template"] = template("old", "a");
    let mut cluster = at_rest().with(orphan);
    assert_eq!(run(&mut cluster), ["d1", "d2"]);
    assert_eq!(owner(&cluster, "rs4"), "d1");

    let mut cluster = cluster.with(set("rs5", "c", None));
    cluster.delete(&replica_set("rs5"));
    assert_eq!(run(&mut cluster), [""; 0], "nobody selects it");
}

/// `TestUpdateReplicaSetOrphanWithNewLabels`.
#[test]
fn an_orphan_whose_labels_change_runs_those_that_select_it_now() {
    let mut cluster = at_rest().with(set("rs4", "c", None));
    assert_eq!(run(&mut cluster), [""; 0]);
    let mut cluster = cluster.with(set("rs4", "b", None));
    assert_eq!(run(&mut cluster), ["d3"]);
    assert_eq!(owner(&cluster, "rs4"), "d3");
}

/// `TestUpdateReplicaSetChangeControllerRef`, `TestUpdateReplicaSetRelease`.
#[test]
fn a_replica_set_that_changes_hands_runs_the_old_manager_and_the_new() {
    let mut cluster = at_rest().with(set("rs3", "b", Some("d1")));
    assert_eq!(run(&mut cluster), ["d1", "d3"]);
    // d1 does not select it, and releases it.
    assert_eq!(owner(&cluster, "rs3"), "d3");
    let mut cluster = cluster.with(set("rs2", "a", None));
    assert_eq!(run(&mut cluster), ["d1", "d2"]);
    assert_eq!(owner(&cluster, "rs2"), "d1");
}

/// `TestPodDeletionEnqueuesRecreateDeployment`, `TestPodDeletionDoesntEnqueueRecreateDeployment`
/// and the two with partial ownership: when the last pod is gone, and not before, the new
/// ReplicaSet is made.
#[test]
fn a_recreate_goes_on_when_the_last_old_pod_is_gone() {
    let mut old = set("old", "a", Some("d1"));
    old["spec"]["template"] = template("old", "a");
    let mut recreate = deployment("d1", "a", "Recreate");
    recreate["metadata"]["annotations"][REVISION] = "2".into();
    let objects = [recreate, old, pod("one", "old"), pod("two", "old")];
    let mut cluster = cluster(objects);
    run(&mut cluster);
    let sets = |cluster: &FakeCluster| {
        let host: &dyn pilothouse_sdk::Host = cluster;
        let all = &pilothouse_sdk::Filter::Everything;
        let sets = host.list::<Value>("apps/v1/ReplicaSet", None, all);
        sets.unwrap().len()
    };
    let pod = |name: &str| ObjectRef::new("v1/Pod", "test", name);
    cluster.delete(&pod("one"));
    run(&mut cluster);
    assert_eq!(sets(&cluster), 1, "a pod is left");
    cluster.delete(&pod("two"));
    assert_eq!(run(&mut cluster), ["d1"]);
    assert_eq!(sets(&cluster), 2);
}

#[test]
fn pods_do_not_run_a_deployment_that_is_updated_step_by_step() {
    let mut cluster = at_rest().with(pod("one", "rs1"));
    assert_eq!(run(&mut cluster), [""; 0]);
}
