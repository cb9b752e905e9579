//! Which changes run which Services, by the host's own rules.

use endpoints::EndpointsController;
use pilothouse_sdk::testing::FakeCluster;
use pilothouse_sdk::{Controller, ObjectRef};
use serde_json::{Value, json};

fn service(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"namespace": "test", "name": name},
        "spec": {"selector": {"app": name}, "ports": [{"port": 80}]},
    })
}

fn pod(name: &str, app: &str, ip: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"namespace": "test", "name": name, "labels": {"app": app}},
        "status": {
            "podIP": ip, "podIPs": [{"ip": ip}], "phase": "Running",
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    })
}

/// The Services that the host runs until none is due, each once. None of them fails.
fn run(cluster: &mut FakeCluster) -> Vec<String> {
    let runs = cluster.run_due::<EndpointsController>();
    let failed: Vec<_> = runs.iter().filter(|run| run.error.is_some()).collect();
    assert!(failed.is_empty(), "{failed:?}");
    let mut names: Vec<String> = runs
        .into_iter()
        .filter_map(|run| run.key)
        .map(|service| service.name)
        .collect();
    names.sort();
    names.dedup();
    names
}

fn addresses(cluster: &FakeCluster, name: &str) -> Value {
    let endpoints = ObjectRef::new("v1/Endpoints", "test", name);
    let endpoints = cluster.object(&endpoints).cloned().unwrap_or_default();
    let addresses = endpoints["subsets"][0]["addresses"].as_array().cloned();
    let addresses = addresses.unwrap_or_default();
    addresses
        .iter()
        .map(|address| address["ip"].clone())
        .collect()
}

#[test]
fn a_pod_runs_the_services_that_select_it_or_did_so() {
    let empty = FakeCluster::new(EndpointsController::manifest());
    let mut cluster = empty
        .with(service("a"))
        .with(service("b"))
        .with(pod("one", "a", "10.0.0.1"));
    assert_eq!(run(&mut cluster), ["a", "b"]);
    assert_eq!(addresses(&cluster, "a"), json!(["10.0.0.1"]));
    assert_eq!(run(&mut cluster), [""; 0], "all is as it should be");

    let mut cluster = cluster.with(pod("two", "b", "10.0.0.2"));
    assert_eq!(run(&mut cluster), ["b"]);
    let mut cluster = cluster.with(pod("one", "b", "10.0.0.1"));
    assert_eq!(run(&mut cluster), ["a", "b"], "it has changed sides");
    assert_eq!(addresses(&cluster, "a"), json!([]));
    assert_eq!(addresses(&cluster, "b"), json!(["10.0.0.1", "10.0.0.2"]));
    let mut cluster = cluster.with(pod("three", "c", "10.0.0.3"));
    assert_eq!(run(&mut cluster), [""; 0], "no Service selects it");
}

#[test]
fn endpoints_that_somebody_changes_or_deletes_are_put_right() {
    let empty = FakeCluster::new(EndpointsController::manifest());
    let mut cluster = empty.with(service("a")).with(pod("one", "a", "10.0.0.1"));
    run(&mut cluster);
    let endpoints = ObjectRef::new("v1/Endpoints", "test", "a");
    let mut changed = cluster.object(&endpoints).cloned().unwrap_or_default();
    changed["subsets"][0]["addresses"][0]["ip"] = "10.9.9.9".into();
    let mut cluster = cluster.with(changed);
    assert_eq!(run(&mut cluster), ["a"]);
    assert_eq!(addresses(&cluster, "a"), json!(["10.0.0.1"]));

    cluster.delete(&endpoints);
    assert_eq!(run(&mut cluster), ["a"]);
    assert_eq!(addresses(&cluster, "a"), json!(["10.0.0.1"]));

    cluster.delete(&endpoints.of_kind("v1/Service"));
    assert_eq!(run(&mut cluster), ["a"]);
    assert!(cluster.object(&endpoints).is_none());
}
