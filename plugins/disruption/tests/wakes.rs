//! Which changes run which keys, and what several runs come to, by the host's own rules.

use std::time::Duration;

use disruption::DisruptionController;
use pilothouse_sdk::testing::{Failing, FakeCluster, WriteError};
use pilothouse_sdk::{Controller, ObjectRef, Verb};
use serde_json::{Value, json};

const BUDGET: &str = "policy/v1/PodDisruptionBudget";
const POD: &str = "v1/Pod";

fn budget(name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"namespace": "default", "name": name}, "spec": spec,
    })
}

fn pod(name: &str, app: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "namespace": "default", "name": name, "labels": {"app": app},
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "StatefulSet", "name": "set", "uid": "set",
                "controller": true,
            }],
        },
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    })
}

fn set(replicas: u32) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet",
        "metadata": {"namespace": "default", "name": "set", "uid": "set"},
        "spec": {"replicas": replicas},
    })
}

fn cluster() -> FakeCluster {
    FakeCluster::new(DisruptionController::manifest()).at(Duration::from_secs(1_000_000))
}

fn selecting(app: &str) -> Value {
    json!({"maxUnavailable": 1, "selector": {"matchLabels": {"app": app}}})
}

/// The budgets that the host runs until none is due, each once. No run fails.
fn run(cluster: &mut FakeCluster) -> Vec<String> {
    let runs = cluster.run_due::<DisruptionController>();
    let failed: Vec<_> = runs.iter().filter(|run| run.error.is_some()).collect();
    assert!(failed.is_empty(), "{failed:?}");
    let keys = runs.into_iter().filter_map(|run| run.key);
    let budgets = keys.filter(|key| key.kind == BUDGET);
    let mut names: Vec<String> = budgets.map(|key| key.name).collect();
    names.sort();
    names.dedup();
    names
}

fn status(cluster: &FakeCluster, name: &str) -> Value {
    let budget = cluster.object(&ObjectRef::new(BUDGET, "default", name));
    budget
        .map(|budget| budget["status"].clone())
        .unwrap_or_default()
}

fn allowed(cluster: &FakeCluster, name: &str) -> Value {
    status(cluster, name)["disruptionsAllowed"].clone()
}

#[test]
fn a_change_runs_the_budgets_that_have_counted_what_has_changed() {
    let mut cluster = cluster()
        .with(set(2))
        .with(budget("a", &selecting("a")))
        .with(budget("b", &selecting("b")))
        .with(pod("one", "a"))
        .with(pod("two", "a"));
    assert_eq!(run(&mut cluster), ["a", "b"]);
    assert_eq!(allowed(&cluster, "a"), 1);

    let mut unready = pod("one", "a");
    unready["status"]["conditions"] = json!([{"type": "Ready", "status": "False"}]);
    let mut cluster = cluster.with(unready);
    assert_eq!(run(&mut cluster), ["a"]);
    assert_eq!(allowed(&cluster, "a"), 0);

    let mut cluster = cluster.with(set(1));
    assert_eq!(run(&mut cluster), ["a"], "the scale");
    assert_eq!(allowed(&cluster, "a"), 1);

    let mut cluster = cluster.with(pod("two", "b"));
    assert_eq!(run(&mut cluster), ["a", "b"], "the labels");
    assert_eq!(allowed(&cluster, "b"), 1);
    assert_eq!(allowed(&cluster, "a"), 0);

    cluster.delete(&ObjectRef::new(POD, "default", "two"));
    assert_eq!(run(&mut cluster), ["b"]);
    assert_eq!(allowed(&cluster, "b"), 0);
}

#[test]
fn a_custom_scale_runs_the_budgets_that_have_counted_it() {
    let definition = |path: &str| {
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "racks.example.com"},
            "spec": {
                "group": "example.com", "scope": "Namespaced",
                "names": {"plural": "racks", "kind": "Rack"},
                "versions": [{
                    "name": "v1", "served": true,
                    "subresources": {"scale": {"specReplicasPath": path}},
                }],
            },
        })
    };
    let rack = |replicas: u32, seen: u32| {
        json!({
            "apiVersion": "example.com/v1", "kind": "Rack",
            "metadata": {"namespace": "default", "name": "rack", "uid": "rack"},
            "spec": {"replicas": replicas, "places": 1}, "status": {"seen": seen},
        })
    };
    let of_rack = |name: &str| {
        let mut pod = pod(name, "a");
        let owner = &mut pod["metadata"]["ownerReferences"][0];
        *owner = json!({
            "apiVersion": "example.com/v1", "kind": "Rack", "name": "rack", "uid": "rack",
            "controller": true,
        });
        pod
    };
    let mut cluster = cluster()
        .with(definition(".spec.replicas"))
        .with(rack(2, 0))
        .with(budget("a", &selecting("a")))
        .with(budget("b", &selecting("b")))
        .with(of_rack("one"))
        .with(of_rack("two"));
    run(&mut cluster);
    assert_eq!(allowed(&cluster, "a"), 1);
    let mut cluster = cluster.with(rack(3, 0));
    assert_eq!(run(&mut cluster), ["a"]);
    assert_eq!(allowed(&cluster, "a"), 0);
    assert_eq!(status(&cluster, "a")["expectedPods"], 3);
    let mut cluster = cluster.with(rack(3, 1));
    assert_eq!(run(&mut cluster), [""; 0], "the status");
    let mut cluster = cluster.with(definition(".spec.places"));
    assert_eq!(run(&mut cluster), ["a"], "the definition");
    assert_eq!(status(&cluster, "a")["expectedPods"], 1);
}

/// Upstream's recheck queue.
#[test]
fn a_pod_that_was_not_deleted_counts_again_when_its_time_is_over() {
    let mut with_entry = budget("a", &json!({"minAvailable": 1, "selector": {}}));
    with_entry["status"] = json!({"disruptedPods": {"one": "1970-01-12T13:46:30Z"}});
    let mut cluster = cluster()
        .with(with_entry)
        .with(pod("one", "a"))
        .with(pod("two", "a"));
    run(&mut cluster);
    assert_eq!(allowed(&cluster, "a"), 0);
    let mut cluster = cluster.at(Duration::from_secs(1_000_110));
    assert_eq!(run(&mut cluster), [""; 0], "the last moment");
    assert_eq!(allowed(&cluster, "a"), 0);
    let mut cluster = cluster.at(Duration::from_millis(1_000_110_001));
    assert_eq!(run(&mut cluster), ["a"]);
    assert_eq!(allowed(&cluster, "a"), 1);
    assert_eq!(status(&cluster, "a")["disruptedPods"], json!({}));
    let reasons: Vec<String> = cluster
        .events()
        .iter()
        .map(|event| event.reason.clone())
        .collect();
    assert_eq!(reasons, ["NotDeleted"]);
}

#[test]
fn a_stale_condition_is_set_back_when_its_time_is_over() {
    let mut target = pod("one", "a");
    target["status"]["conditions"] = json!([{
        "type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI",
        "lastTransitionTime": "1970-01-12T13:46:40Z",
    }]);
    let mut cluster = cluster().with(target);
    run(&mut cluster);
    let condition = |cluster: &FakeCluster| {
        let pod = cluster.object(&ObjectRef::new(POD, "default", "one"));
        pod.map(|pod| pod["status"]["conditions"][0]["status"].clone())
    };
    assert_eq!(condition(&cluster), Some("True".into()));
    let mut cluster = cluster.at(Duration::from_secs(1_000_120));
    run(&mut cluster);
    assert_eq!(condition(&cluster), Some("False".into()));
}

/// Upstream: the error path of `sync`.
#[test]
fn while_the_status_cannot_be_written_nothing_is_allowed() {
    let refused = || Failing::next(Verb::Patch, BUDGET, WriteError::Invalid).subresource("status");
    let spec = json!({"minAvailable": 1, "selector": {}});
    let mut before = budget("a", &spec);
    before["status"] = json!({"disruptionsAllowed": 5});
    // All but the second write of the status, which allows nothing.
    let mut cluster = cluster()
        .with(before)
        .with(pod("one", "a"))
        .with(pod("two", "a"))
        .failing(refused())
        .failing(refused().after(1).always());
    let runs = cluster.run_due::<DisruptionController>();
    assert!(runs.iter().any(|run| run.error.is_some()));
    assert_eq!(allowed(&cluster, "a"), 5);
    let mut cluster = cluster.at(Duration::from_millis(1_000_000_005));
    cluster.run_due::<DisruptionController>();
    let written = status(&cluster, "a");
    assert_eq!(written["disruptionsAllowed"], 0);
    assert_eq!(written["conditions"][0]["reason"], "SyncFailed");
    // The first of these runs is the fail-safe of the third write, and has nothing to write.
    let mut cluster = cluster.healed().at(Duration::from_secs(1_000_010));
    cluster.run_due::<DisruptionController>();
    let mut cluster = cluster.at(Duration::from_secs(1_000_020));
    cluster.run_due::<DisruptionController>();
    assert_eq!(allowed(&cluster, "a"), 1);
    assert_eq!(
        status(&cluster, "a")["conditions"][0]["reason"],
        "SufficientPods"
    );
}
