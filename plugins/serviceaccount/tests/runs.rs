//! Namespaces from run to run, by the host's own rules.

use pilothouse_sdk::testing::FakeCluster;
use pilothouse_sdk::{Controller, ObjectRef};
use serde_json::{Value, json};
use serviceaccount::ServiceAccountController;

fn namespace(name: &str, phase: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": name}, "status": {"phase": phase},
    })
}

fn account(namespace: &str, name: &str) -> ObjectRef {
    ObjectRef::new("v1/ServiceAccount", namespace, name)
}

/// Runs what is due, and returns how many runs that were. None of them fails.
fn run(cluster: &mut FakeCluster) -> usize {
    let runs = cluster.run_due::<ServiceAccountController>();
    assert!(runs.iter().all(|run| run.error.is_none()), "{runs:?}");
    runs.len()
}

#[test]
fn a_service_account_that_is_deleted_is_there_again() {
    let mut cluster = FakeCluster::new(ServiceAccountController::manifest())
        .with(namespace("one", "Active"))
        .with(namespace("two", "Active"));
    assert!(run(&mut cluster) > 0);
    let uid = |cluster: &FakeCluster| {
        let found = cluster.object(&account("one", "default"));
        found.map(|found| found["metadata"]["uid"].clone())
    };
    let first = uid(&cluster);
    assert!(first.is_some() && cluster.object(&account("two", "default")).is_some());

    cluster.delete(&account("one", "default"));
    assert!(run(&mut cluster) > 0);
    let second = uid(&cluster);
    assert!(second.is_some() && second != first);
    assert_eq!(run(&mut cluster), 0);
}

#[test]
fn a_namespace_that_is_being_deleted_loses_it_for_good() {
    let mut cluster =
        FakeCluster::new(ServiceAccountController::manifest()).with(namespace("one", "Active"));
    run(&mut cluster);
    let mut cluster = cluster.with(namespace("one", "Terminating"));
    cluster.delete(&account("one", "default"));
    run(&mut cluster);
    assert!(cluster.object(&account("one", "default")).is_none());
}

#[test]
fn other_service_accounts_run_nothing() {
    let mut cluster =
        FakeCluster::new(ServiceAccountController::manifest()).with(namespace("one", "Active"));
    run(&mut cluster);
    let other = json!({
        "apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"namespace": "one", "name": "other"},
    });
    let mut cluster = cluster.with(other);
    assert_eq!(run(&mut cluster), 0);
}
