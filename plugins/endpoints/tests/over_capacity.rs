//! Upstream's `TestSyncServiceOverCapacity`: more addresses than an Endpoints object holds. It is
//! not one of the files under `cases/` because of its size.

use endpoints::EndpointsController;
use pilothouse_sdk::testing::{FakeCluster, to_json};
use pilothouse_sdk::{Controller, ObjectRef};
use serde_json::{Value, json};

const CAPACITY: usize = 1_000;
const ANNOTATION: &str = "endpoints.kubernetes.io/over-capacity";

fn pod(number: usize, is_ready: bool) -> Value {
    let ip = format!("10.0.{}.{}", number / 250, number % 250 + 1);
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"namespace": "test", "name": format!("pod{number}"), "uid": format!("uid{number}"), "labels": {"foo": "bar"}},
        "status": {
            "podIP": ip,
            "podIPs": [{"ip": ip}],
            "conditions": [{"type": "Ready", "status": if is_ready { "True" } else { "False" }}],
        },
    })
}

/// The cluster with a Service over so many pods.
fn cluster(ready: usize, not_ready: usize) -> FakeCluster {
    let service = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"namespace": "test", "name": "foo"},
        "spec": {"selector": {"foo": "bar"}, "ports": [{"port": 80}]},
    });
    let empty = FakeCluster::new(EndpointsController::manifest()).with(service);
    (0..ready + not_ready)
        .map(|number| pod(number, number < ready))
        .fold(empty, FakeCluster::with)
}

fn actions(cluster: &FakeCluster) -> Vec<Value> {
    let key = ObjectRef::new("v1/Service", "test", "foo");
    let outcome = cluster.reconcile_key::<EndpointsController>(&key);
    let outcome = outcome.expect("the controller decides");
    outcome.actions().map(to_json).collect()
}

fn created(cluster: &FakeCluster) -> Value {
    actions(cluster)[0]["create"]["object"].clone()
}

fn count(object: &Value, field: &str) -> usize {
    object["subsets"][0][field].as_array().map_or(0, Vec::len)
}

#[test]
fn only_what_fits_is_written_ready_addresses_first() {
    let rows = [
        (CAPACITY - 3, 4, CAPACITY - 3, 3, true),
        (CAPACITY, 10, CAPACITY, 0, true),
        (CAPACITY + 1, 0, CAPACITY, 0, true),
        (CAPACITY - 1, 0, CAPACITY - 1, 0, false),
        (CAPACITY - 1, 1, CAPACITY - 1, 1, false),
        (CAPACITY, 0, CAPACITY, 0, false),
    ];
    for (ready, not_ready, kept_ready, kept_not_ready, is_truncated) in rows {
        let object = created(&cluster(ready, not_ready));
        assert_eq!(count(&object, "addresses"), kept_ready);
        assert_eq!(count(&object, "notReadyAddresses"), kept_not_ready);
        let annotation = object["metadata"]["annotations"][ANNOTATION].as_str();
        assert_eq!(annotation, is_truncated.then_some("truncated"));
    }
}

/// Upstream sends the same object again on every sync of a Service over capacity.
#[test]
fn truncated_endpoints_are_not_written_again() {
    let over = cluster(CAPACITY + 1, 0);
    let object = created(&over);
    assert!(actions(&over.with(object)).is_empty());
}

#[test]
fn another_value_of_the_annotation_is_corrected_in_place() {
    let over = cluster(CAPACITY + 1, 0);
    let mut object = created(&over);
    object["metadata"]["annotations"][ANNOTATION] = json!("warning");
    let actions = actions(&over.with(object));
    assert_eq!(actions.len(), 1, "one write");
    assert_eq!(
        actions[0]["update"]["object"]["metadata"]["annotations"][ANNOTATION],
        "truncated"
    );
}
