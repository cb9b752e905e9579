//! Nodes from run to run, by the host's own rules.

use std::time::Duration;

use pilothouse_sdk::testing::{Failing, FakeCluster, WriteError};
use pilothouse_sdk::{Controller, ObjectRef, Verb};
use serde_json::{Value, json};
use ttl::TtlController;

const ANNOTATION: &str = "node.alpha.kubernetes.io/ttl";

fn key(number: usize) -> ObjectRef {
    ObjectRef::new("v1/Node", "", &format!("node-{number}"))
}

fn node(number: usize) -> Value {
    let name = key(number).name;
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
}

fn cluster() -> FakeCluster {
    FakeCluster::new(TtlController::manifest())
}

fn with(cluster: FakeCluster, numbers: std::ops::Range<usize>) -> FakeCluster {
    numbers.map(node).fold(cluster, FakeCluster::with)
}

/// The times of these nodes, in the order of their numbers.
fn times(cluster: &FakeCluster, numbers: std::ops::Range<usize>) -> Vec<Value> {
    let time = |number| {
        let node = cluster.object(&key(number)).expect("the node is there");
        node["metadata"]["annotations"][ANNOTATION].clone()
    };
    numbers.map(time).collect()
}

#[test]
fn the_time_grows_and_shrinks_with_the_cluster_and_stays_in_between() {
    let mut cluster = with(cluster(), 0..100);
    cluster.run_due::<TtlController>();
    assert_eq!(times(&cluster, 0..100), vec!["0"; 100]);
    let mut cluster = with(cluster, 100..101);
    cluster.run_due::<TtlController>();
    assert_eq!(times(&cluster, 0..101), vec!["15"; 101]);
    for number in 90..101 {
        cluster.delete(&key(number));
    }
    let runs = cluster.run_due::<TtlController>();
    assert_eq!(times(&cluster, 0..90), vec!["15"; 90]);
    assert!(runs.iter().all(|run| run.effects.is_empty()), "{runs:?}");
    cluster.delete(&key(89));
    cluster.run_due::<TtlController>();
    assert_eq!(times(&cluster, 0..89), vec!["0"; 89]);
}

#[test]
fn a_node_that_cannot_be_written_keeps_no_other_from_it_and_is_tried_again() {
    let refused = Failing::next(Verb::Patch, "v1/Node", WriteError::Forbidden);
    let refused = refused.named("node-0").always();
    let mut cluster = with(cluster(), 0..3).failing(refused);
    cluster.run_due::<TtlController>();
    assert_eq!(times(&cluster, 0..3), [Value::Null, "0".into(), "0".into()]);
    let mut cluster = cluster.healed().at(Duration::from_secs(60));
    cluster.run_due::<TtlController>();
    assert_eq!(times(&cluster, 0..3), vec!["0"; 3]);
}

#[test]
fn more_nodes_than_one_run_writes_are_written_by_the_next() {
    let mut cluster = with(cluster(), 0..1_200);
    cluster.run_due::<TtlController>();
    assert_eq!(times(&cluster, 0..1_200), vec!["60"; 1_200]);
}
