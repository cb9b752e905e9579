//! What is too large for the files under `cases/`, or is about several runs.

use endpointslicemirroring::EndpointSliceMirroringController;
use pilothouse_sdk::testing::{FakeCluster, to_json};
use pilothouse_sdk::{Controller, ObjectRef};
use serde_json::{Value, json};

fn service() -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"namespace": "test", "name": "foo"}})
}

fn endpoints(ready: usize, not_ready: usize) -> Value {
    let address = |number: usize| json!({"ip": format!("10.0.{}.{}", number / 250, number % 250)});
    let ready_ones: Vec<Value> = (0..ready).map(address).collect();
    let others: Vec<Value> = (ready..ready + not_ready).map(address).collect();
    json!({
        "apiVersion": "v1", "kind": "Endpoints", "metadata": {"namespace": "test", "name": "foo"},
        "subsets": [
            {"addresses": ready_ones, "notReadyAddresses": others, "ports": [{"port": 80}]},
        ],
    })
}

fn cluster(objects: impl IntoIterator<Item = Value>) -> FakeCluster {
    let empty = FakeCluster::new(EndpointSliceMirroringController::manifest());
    objects.into_iter().fold(empty, FakeCluster::with)
}

fn actions(cluster: &FakeCluster) -> Vec<Value> {
    let key = ObjectRef::new("v1/Endpoints", "test", "foo");
    let outcome = cluster.reconcile_key::<EndpointSliceMirroringController>(&key);
    let outcome = outcome.expect("the controller decides");
    outcome.actions().map(to_json).collect()
}

/// How many endpoints the slice has that is created: ready ones, and all.
fn sizes(created: &Value) -> (usize, usize) {
    let endpoints = created["create"]["object"]["endpoints"].as_array();
    let endpoints = endpoints.expect("a slice is created");
    let ready = endpoints
        .iter()
        .filter(|one| one["conditions"]["ready"] == true);
    (ready.count(), endpoints.len())
}

/// `TestSyncEndpoints`, the rows of 1,000 and 1,001 addresses.
#[test]
fn a_thousand_addresses_of_a_subset_are_mirrored_ready_ones_first() {
    let full = actions(&cluster([service(), endpoints(1_000, 0)]));
    assert_eq!((full.len(), sizes(&full[0])), (1, (1_000, 1_000)));

    let over = actions(&cluster([service(), endpoints(998, 3)]));
    assert_eq!((over.len(), sizes(&over[0])), (2, (998, 1_000)));
    let event = &over[1]["event"];
    assert_eq!(event["reason"], "TooManyAddressesToMirror");
    let note = "A max of 1000 addresses can be mirrored to EndpointSlices per Endpoints subset. \
                1 addresses were skipped";
    assert_eq!(event["note"], note);
}

/// `TestReconcile`, "Endpoints with 2 subsets, 1 exceeding maxEndpointsPerSubset".
#[test]
fn the_operator_can_set_the_limit_and_it_is_of_each_subset() {
    let mut endpoints = endpoints(2, 0);
    let more = json!({
        "addresses": [{"ip": "10.0.1.1"}, {"ip": "10.0.1.2"}, {"ip": "10.0.1.3"}],
        "ports": [{"port": 3000}],
    });
    endpoints["subsets"]
        .as_array_mut()
        .expect("subsets")
        .push(more);
    let limited = cluster([service(), endpoints]).configured(&json!({"maxEndpointsPerSubset": 2}));
    let actions = actions(&limited);
    assert_eq!(actions.len(), 3);
    assert_eq!((sizes(&actions[0]), sizes(&actions[1])), ((2, 2), (2, 2)));
    assert_eq!(actions[2]["event"]["reason"], "TooManyAddressesToMirror");
}

/// The keys that the host runs until none is due, each once.
fn run(cluster: &mut FakeCluster) -> Vec<String> {
    let runs = cluster.run_due::<EndpointSliceMirroringController>();
    let failed: Vec<_> = runs.iter().filter(|run| run.error.is_some()).collect();
    assert!(failed.is_empty(), "{failed:?}");
    let keys = runs.into_iter().filter_map(|run| run.key);
    let mut kinds: Vec<String> = keys.map(|key| key.kind).collect();
    kinds.sort();
    kinds.dedup();
    kinds
}

const SLICES: &str = "discovery.k8s.io/v1/EndpointSlice";

/// The name of the slice that is written.
fn mirrored(cluster: &mut FakeCluster) -> ObjectRef {
    let runs = cluster.run_due::<EndpointSliceMirroringController>();
    let mut effects = runs.into_iter().flat_map(|run| run.effects);
    let slice = effects.find(|effect| effect.object.kind == SLICES);
    slice.expect("a slice is written").object
}

#[test]
fn a_slice_follows_its_endpoints_and_goes_with_them() {
    let mut cluster = cluster([service(), endpoints(2, 0)]);
    let slice = mirrored(&mut cluster);
    assert!(run(&mut cluster).is_empty(), "all is as it should be");

    let mut cluster = cluster.with(endpoints(3, 0));
    assert_eq!(mirrored(&mut cluster), slice, "it is changed in place");
    let found = cluster.object(&slice).cloned().unwrap_or_default();
    assert_eq!(found["endpoints"].as_array().map(Vec::len), Some(3));

    cluster.delete(&ObjectRef::new("v1/Endpoints", "test", "foo"));
    run(&mut cluster);
    assert!(cluster.object(&slice).is_none(), "it has gone with them");
}

#[test]
fn a_slice_goes_and_comes_with_the_service() {
    let mut cluster = cluster([service(), endpoints(2, 0)]);
    let slice = mirrored(&mut cluster);
    let mut selecting = service();
    selecting["spec"] = json!({"selector": {"a": "b"}});
    let mut cluster = cluster.with(selecting);
    run(&mut cluster);
    assert!(cluster.object(&slice).is_none(), "somebody else's task now");
    let mut cluster = cluster.with(service());
    let slice = mirrored(&mut cluster);
    cluster.delete(&ObjectRef::new("v1/Service", "test", "foo"));
    run(&mut cluster);
    assert!(cluster.object(&slice).is_none());
}

#[test]
fn a_slice_that_somebody_changes_or_deletes_is_put_right() {
    let mut cluster = cluster([service(), endpoints(2, 0)]);
    let slice = mirrored(&mut cluster);
    let mut changed = cluster.object(&slice).cloned().unwrap_or_default();
    changed["endpoints"] = json!([]);
    let mut cluster = cluster.with(changed);
    run(&mut cluster);
    let found = cluster.object(&slice).cloned().unwrap_or_default();
    assert_eq!(found["endpoints"].as_array().map(Vec::len), Some(2));
    cluster.delete(&slice);
    let slice = mirrored(&mut cluster);
    assert!(cluster.object(&slice).is_some());
}

/// Endpoints went while no host was running.
#[test]
fn a_slice_without_endpoints_is_found_when_a_host_starts() {
    let mut before = cluster([service(), endpoints(2, 0)]);
    let slice = mirrored(&mut before);
    let left = before.object(&slice).cloned().unwrap_or_default();
    let mut restarted = cluster([service(), left.clone()]);
    run(&mut restarted);
    assert!(restarted.object(&slice).is_none());

    let mut unseen = cluster([service(), left]).with_unseen(endpoints(2, 0));
    run(&mut unseen);
    assert!(
        unseen.object(&slice).is_some(),
        "the server knows of Endpoints"
    );
}
