//! Which changes run which Services, by the host's own rules.

use std::time::Duration;

use endpoints::EndpointsController;
use pilothouse_sdk::testing::FakeCluster;
use pilothouse_sdk::{Controller, ObjectRef, rfc3339};
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

/// Endpoints that somebody else maintains, made at this second of 1970.
fn made_by_hand(second: u64) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Endpoints",
        "metadata": {"namespace": "test", "name": "a",
            "creationTimestamp": rfc3339(Duration::from_secs(second))},
        "subsets": [{"addresses": [{"ip": "192.0.2.1"}], "ports": [{"port": 80}]}],
    })
}

fn at(second: u64) -> FakeCluster {
    FakeCluster::new(EndpointsController::manifest()).at(Duration::from_secs(second))
}

#[test]
fn endpoints_of_a_service_without_selector_go_with_it() {
    let endpoints = ObjectRef::new("v1/Endpoints", "test", "a");
    let mut service = service("a");
    service["spec"]["selector"] = Value::Null;
    let mut cluster = at(1_000).with(made_by_hand(900)).with(service);
    run(&mut cluster);
    assert!(cluster.object(&endpoints).is_some());
    cluster.delete(&endpoints.of_kind("v1/Service"));
    run(&mut cluster);
    assert!(cluster.object(&endpoints).is_none());
}

#[test]
fn endpoints_without_a_service_are_swept_when_a_host_starts_and_not_later() {
    let endpoints = ObjectRef::new("v1/Endpoints", "test", "a");
    let mut cluster = at(1_000).with(made_by_hand(900));
    run(&mut cluster);
    assert!(
        cluster.object(&endpoints).is_none(),
        "left over from before"
    );

    let mut cluster = cluster.with(made_by_hand(999));
    run(&mut cluster);
    assert!(cluster.object(&endpoints).is_some(), "just made");
    let mut changed = made_by_hand(999);
    changed["subsets"][0]["addresses"][0]["ip"] = "192.0.2.2".into();
    let mut cluster = cluster.at(Duration::from_secs(5_000)).with(changed);
    assert_eq!(run(&mut cluster), ["a"], "the change runs it");
    assert!(cluster.object(&endpoints).is_some(), "seen before");

    // A memo is lost when a host starts.
    let left = cluster.object(&endpoints).cloned().unwrap_or_default();
    let mut restarted = at(5_000).with(left);
    run(&mut restarted);
    assert!(restarted.object(&endpoints).is_none());
}

#[test]
fn endpoints_stay_if_the_server_knows_of_a_service_that_no_watch_has_brought() {
    let endpoints = ObjectRef::new("v1/Endpoints", "test", "a");
    let mut service = service("a");
    service["spec"]["selector"] = Value::Null;
    let mut cluster = at(1_000).with(made_by_hand(900)).with_unseen(service);
    run(&mut cluster);
    assert!(cluster.object(&endpoints).is_some());
}

#[test]
fn the_time_of_a_change_is_written_with_it() {
    let time = |second: u64| rfc3339(Duration::from_secs(second));
    let ready = |second: u64| {
        let mut pod = pod("one", "a", "10.0.0.1");
        pod["status"]["conditions"][0]["lastTransitionTime"] = time(second).into();
        pod["status"]["podIPs"][0]["ip"] = format!("10.0.0.{second}").into();
        pod
    };
    let mut service = service("a");
    service["metadata"]["creationTimestamp"] = time(5).into();
    let written = |cluster: &FakeCluster| {
        let endpoints = ObjectRef::new("v1/Endpoints", "test", "a");
        let endpoints = cluster.object(&endpoints).cloned().unwrap_or_default();
        let annotations = &endpoints["metadata"]["annotations"];
        annotations["endpoints.kubernetes.io/last-change-trigger-time"].clone()
    };
    let mut cluster = at(1_000).with(service).with(ready(10));
    run(&mut cluster);
    assert_eq!(written(&cluster), time(5), "the Service is new");
    let mut cluster = cluster.with(ready(20));
    run(&mut cluster);
    assert_eq!(written(&cluster), time(20));
    let mut moved = ready(20);
    moved["status"]["podIPs"][0]["ip"] = "10.0.0.99".into();
    let mut cluster = cluster.with(moved);
    run(&mut cluster);
    assert_eq!(written(&cluster), Value::Null, "nothing says when");
}
