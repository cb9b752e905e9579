//! Upstream's tests of packing many endpoints into slices (`reconciler_test.go`), and which changes
//! run which Services. They are not among the files under `cases/` because of their size, or
//! because they are about several runs.

use std::collections::BTreeMap;

use endpointslice::EndpointSliceController;
use pilothouse_sdk::testing::{FakeCluster, to_json};
use pilothouse_sdk::{Controller, ObjectRef};
use serde_json::{Value, json};

const SLICES: &str = "discovery.k8s.io/v1/EndpointSlice";

fn service() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"namespace": "test", "name": "foo", "uid": "test-foo"},
        "spec": {
            "selector": {"foo": "bar"}, "ipFamilies": ["IPv4"],
            "ports": [{"name": "foo", "port": 80, "targetPort": 80, "protocol": "TCP"}],
        },
    })
}

fn pod(number: usize, is_ready: bool) -> Value {
    let ip = format!("10.0.{}.{}", number / 250, number % 250 + 1);
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"namespace": "test", "name": format!("pod{number}"),
            "uid": format!("uid{number}"), "labels": {"foo": "bar"}},
        "spec": {"nodeName": "node-1", "containers": [{}]},
        "status": {
            "podIP": ip, "podIPs": [{"ip": ip}],
            "conditions": [{"type": "Ready", "status": if is_ready { "True" } else { "False" }}],
        },
    })
}

/// The endpoint that a pod has in a slice.
fn endpoint(number: usize, is_ready: bool) -> Value {
    json!({
        "addresses": [pod(number, is_ready)["status"]["podIP"]],
        "conditions": {"ready": is_ready, "serving": is_ready, "terminating": false},
        "nodeName": "node-1",
        "targetRef": {"kind": "Pod", "namespace": "test", "name": format!("pod{number}"),
            "uid": format!("uid{number}")},
    })
}

/// Every third pod is not ready.
fn is_ready(number: usize) -> bool {
    !number.is_multiple_of(3)
}

fn slice(name: &str, endpoints: &[Value]) -> Value {
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {"namespace": "test", "name": name,
            "labels": {
                "kubernetes.io/service-name": "foo",
                "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
                "service.kubernetes.io/headless": "",
            },
            "ownerReferences": [{"apiVersion": "v1", "kind": "Service", "name": "foo",
                "uid": "test-foo", "controller": true, "blockOwnerDeletion": true}]},
        "addressType": "IPv4",
        "ports": [{"name": "foo", "port": 80, "protocol": "TCP"}],
        "endpoints": endpoints,
    })
}

/// A cluster with the Service, a node, and these objects.
fn cluster(objects: impl IntoIterator<Item = Value>) -> FakeCluster {
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1"}});
    let empty = FakeCluster::new(EndpointSliceController::manifest());
    objects
        .into_iter()
        .fold(empty.with(service()).with(node), FakeCluster::with)
}

fn pods(count: usize) -> impl Iterator<Item = Value> {
    (0..count).map(|number| pod(number, is_ready(number)))
}

fn key() -> ObjectRef {
    ObjectRef::new("v1/Service", "test", "foo")
}

/// The writes that a run of the Service decides on, by their verb.
fn writes(cluster: &FakeCluster) -> BTreeMap<String, Vec<Value>> {
    let outcome = cluster.reconcile_key::<EndpointSliceController>(&key());
    let outcome = outcome.expect("the controller decides");
    let mut writes: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for action in outcome.actions().map(to_json) {
        let action = action.as_object().expect("an action has a verb");
        for (verb, body) in action {
            writes
                .entry(verb.clone())
                .or_default()
                .push(body["object"].clone());
        }
    }
    writes
}

/// Of each verb, how many endpoints the slices have that it writes, the most first.
fn sizes(cluster: &FakeCluster) -> BTreeMap<String, Vec<usize>> {
    let writes = writes(cluster).into_iter();
    let sizes = writes.map(|(verb, slices)| {
        let mut sizes: Vec<usize> = slices.iter().map(size).collect();
        sizes.sort_by_key(|size| std::cmp::Reverse(*size));
        (verb, sizes)
    });
    sizes.collect()
}

fn size(slice: &Value) -> usize {
    slice["endpoints"].as_array().map_or(0, Vec::len)
}

fn expected(sizes: &[(&str, &[usize])]) -> BTreeMap<String, Vec<usize>> {
    let sizes = sizes
        .iter()
        .map(|(verb, sizes)| ((*verb).to_owned(), sizes.to_vec()));
    sizes.collect()
}

/// The cluster after the host has run all that is due.
fn settled(mut cluster: FakeCluster) -> FakeCluster {
    let runs = cluster.run_due::<EndpointSliceController>();
    let failed: Vec<_> = runs.iter().filter(|run| run.error.is_some()).collect();
    assert!(failed.is_empty(), "{failed:?}");
    cluster
}

/// What is left to do after the Service was changed.
fn after(cluster: FakeCluster, change: &Value) -> BTreeMap<String, Vec<usize>> {
    let mut changed = service();
    json_patch(&mut changed, change);
    sizes(&cluster.with(changed))
}

/// Replaces members, and members of members.
fn json_patch(object: &mut Value, patch: &Value) {
    let Some(members) = patch.as_object() else {
        *object = patch.clone();
        return;
    };
    for (name, member) in members {
        json_patch(&mut object[name], member);
    }
}

/// `TestReconcileManyPods`, `TestReconcileMaxEndpointsPerSlice`.
#[test]
fn many_pods_fill_slice_after_slice() {
    assert_eq!(
        sizes(&cluster(pods(250))),
        expected(&[("create", &[100, 100, 50])])
    );
    let rows: [(usize, &[usize]); 5] = [
        (50, &[50, 50, 50, 50, 50]),
        (80, &[80, 80, 80, 10]),
        (150, &[150, 100]),
        (250, &[250]),
        (500, &[250]),
    ];
    for (max, slices) in rows {
        let config = json!({"maxEndpointsPerSlice": max});
        let found = sizes(&cluster(pods(250)).configured(&config));
        assert_eq!(found, expected(&[("create", slices)]), "{max}");
    }
}

/// An outcome has at most 4 MiB. What does not fit is written by the next run.
#[test]
fn more_than_fits_into_one_outcome_is_written_by_several() {
    let first = cluster(pods(6_150));
    let created = sizes(&first);
    assert_eq!(created, expected(&[("create", &[100; 60])]));
    let mut second = settled(first);
    assert!(run(&mut second).is_empty());
    assert_eq!(sizes(&second), expected(&[]), "all is as it should be");
    let fewer = after(second, &json!({"spec": {"selector": {"foo": "nobody"}}}));
    assert_eq!(fewer["update"], [0], "the slices go");
    assert_eq!(fewer["delete"].len(), 61);
}

/// `TestReconcile1EndpointSlicePublishNotReadyAddresses`.
#[test]
fn all_are_ready_of_a_service_that_publishes_what_is_not() {
    let mut service = service();
    service["spec"]["publishNotReadyAddresses"] = true.into();
    let writes = writes(&cluster(pods(50)).with(service));
    let endpoints = writes["create"][0]["endpoints"]
        .as_array()
        .expect("endpoints");
    assert_eq!(endpoints.len(), 50);
    assert!(
        endpoints
            .iter()
            .all(|one| one["conditions"]["ready"] == true)
    );
}

/// Two slices that each have a quarter of so many pods.
fn two_quarters(count: usize) -> FakeCluster {
    let every_fourth = |from: usize| {
        let numbers = (from..count - 4).step_by(4);
        let endpoints: Vec<Value> = numbers
            .map(|number| endpoint(number, is_ready(number)))
            .collect();
        endpoints
    };
    let slices = [
        slice("foo-1", &every_fourth(1)),
        slice("foo-2", &every_fourth(3)),
    ];
    cluster(pods(count).chain(slices))
}

/// `TestReconcileEndpointSlicesSomePreexisting`: 62 and 61 are there, 127 are new. One slice is
/// new, and the other 27 are put where there is least room left with them.
#[test]
fn what_is_left_goes_into_the_one_slice_that_becomes_fullest() {
    assert_eq!(
        sizes(&two_quarters(250)),
        expected(&[("create", &[100]), ("update", &[89])])
    );
}

/// `TestReconcileEndpointSlicesSomePreexistingWorseAllocation`: 74 and 74 are there, 152 are new. A
/// second new slice is one write, to fill up both others would be two.
#[test]
fn what_fits_into_no_single_slice_gets_a_new_one() {
    assert_eq!(
        sizes(&two_quarters(300)),
        expected(&[("create", &[100, 52])])
    );
}

/// `TestReconcileEndpointSlicesUpdating`, `TestReconcileEndpointSlicesServicesLabelsUpdating`,
/// `TestReconcileEndpointSlicesServicesReservedLabels`.
#[test]
fn a_change_of_all_slices_is_one_update_of_each() {
    let updates = expected(&[("update", &[100, 100, 50])]);
    let all = || settled(cluster(pods(250)));
    let ports = json!([{"name": "foo", "port": 80, "targetPort": 81, "protocol": "TCP"}]);
    assert_eq!(after(all(), &json!({"spec": {"ports": ports}})), updates);
    assert_eq!(
        after(all(), &json!({"metadata": {"labels": {"foo": "bar"}}})),
        updates
    );
    let reserved = json!({
        "kubernetes.io/service-name": "bad",
        "endpointslice.kubernetes.io/managed-by": "actor",
        "service.kubernetes.io/headless": "invalid",
    });
    let left = after(all(), &json!({"metadata": {"labels": reserved}}));
    assert_eq!(left, expected(&[]));
}

/// `TestReconcileEndpointSlicesRecycling`: ten slices of 30 stay as they are, until all of them
/// must be written: then 300 endpoints are packed into three, and seven go.
#[test]
fn slices_that_are_half_empty_are_packed_when_they_change_anyway() {
    let slices = (0..10).map(|group| {
        let numbers = group * 30..(group + 1) * 30;
        let endpoints: Vec<Value> = numbers
            .map(|number| endpoint(number, is_ready(number)))
            .collect();
        slice(&format!("foo-{group}"), &endpoints)
    });
    let cluster = cluster(pods(300).chain(slices));
    assert_eq!(sizes(&cluster), expected(&[]));
    let ports = json!([{"name": "foo", "port": 80, "targetPort": 81, "protocol": "TCP"}]);
    let found = after(cluster, &json!({"spec": {"ports": ports}}));
    assert_eq!(
        found,
        expected(&[("update", &[100, 100, 100]), ("delete", &[0; 7])])
    );
}

/// `TestReconcileEndpointSlicesUpdatePacking`: of two slices that are written, the fuller one takes
/// all that is new.
#[test]
fn what_is_new_goes_into_the_fullest_slice_that_is_written_anyway() {
    let endpoints = |numbers: std::ops::Range<usize>| {
        let endpoints: Vec<Value> = numbers.map(|number| endpoint(number, true)).collect();
        endpoints
    };
    let slices = [
        slice("foo-1", &endpoints(0..80)),
        slice("foo-2", &endpoints(100..120)),
    ];
    let numbers = (0..80).chain(100..120).chain(200..215);
    let pods = numbers.map(|number| pod(number, !number.is_multiple_of(10) || number >= 200));
    let found = sizes(&cluster(pods.chain(slices)));
    assert_eq!(found, expected(&[("update", &[95, 20])]));
}

/// `TestReconcileEndpointSlicesNamedPorts`: a named port has five numbers, so there are five
/// slices.
#[test]
fn pods_with_other_numbers_of_a_named_port_have_slices_of_their_own() {
    let mut service = service();
    service["spec"]["ports"] = json!([{"port": 80, "targetPort": "http", "protocol": "TCP"}]);
    let pods = (0..300).map(|number| {
        let mut pod = pod(number, is_ready(number));
        let port = json!({"name": "http", "containerPort": 8080 + number % 5, "protocol": "TCP"});
        pod["spec"]["containers"][0]["ports"] = json!([port]);
        pod
    });
    let writes = writes(&cluster(pods).with(service));
    let slices = writes["create"].iter();
    let found: Vec<(usize, Value)> = slices
        .map(|slice| (size(slice), slice["ports"].clone()))
        .collect();
    let port = |number: usize| json!([{"name": "", "port": 8080 + number, "protocol": "TCP"}]);
    let wanted: Vec<(usize, Value)> = (0..5).map(|number| (60, port(number))).collect();
    assert_eq!(found, wanted);
}

/// The Services that the host runs until none is due, each once.
fn run(cluster: &mut FakeCluster) -> Vec<String> {
    let runs = cluster.run_due::<EndpointSliceController>().into_iter();
    let mut names: Vec<String> = runs.filter_map(|run| run.key).map(|key| key.name).collect();
    names.sort();
    names.dedup();
    names
}

/// `TestOnEndpointSliceUpdate`, `TestUpdateNode`, `Test_checkNodeTopologyDistribution`.
#[test]
fn slices_pods_and_nodes_run_the_services_that_have_looked_at_them() {
    let mut other = service();
    other["metadata"]["name"] = "other".into();
    other["metadata"]["uid"] = "test-other".into();
    other["spec"]["selector"]["foo"] = "other".into();
    let mut cluster = settled(cluster([
        other,
        pod(1, true),
        slice("foo-1", &[endpoint(1, true)]),
    ]));
    assert!(run(&mut cluster).is_empty(), "all is as it should be");

    let mut taken = slice("foo-1", &[endpoint(1, true)]);
    taken["metadata"]["labels"]["endpointslice.kubernetes.io/managed-by"] = "another".into();
    let mut cluster = cluster.with(taken);
    assert_eq!(run(&mut cluster), ["foo"], "its slice was taken away");
    let all = ObjectRef::new(SLICES, "test", "foo-1");
    assert!(
        cluster.object(&all).is_some(),
        "the slice is left to the other controller"
    );
    assert_eq!(sizes(&cluster), expected(&[]), "and replaced");

    let mut node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1"}});
    node["metadata"]["labels"]["topology.kubernetes.io/zone"] = "a".into();
    let mut cluster = cluster.with(node);
    assert_eq!(run(&mut cluster), ["foo"], "its pod's node has a zone now");
    let new = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-2"}});
    let mut cluster = cluster.with(new);
    assert!(run(&mut cluster).is_empty(), "nobody has a pod there");

    let mut hinted = service();
    hinted["metadata"]["annotations"] = json!({"service.kubernetes.io/topology-mode": "Auto"});
    let mut cluster = settled(cluster.with(hinted));
    let third = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-3"}});
    cluster = cluster.with(third);
    assert_eq!(run(&mut cluster), ["foo"], "its hints are about all nodes");
}
