//! Pods from run to run, by the host's own rules.

use std::time::Duration;

use ephemeral_volume::EphemeralVolume;
use pilothouse_sdk::testing::{Failing, FakeCluster, WriteError};
use pilothouse_sdk::{Controller, ObjectRef, Verb};
use serde_json::{Value, json};

const CLAIMS: &str = "v1/PersistentVolumeClaim";

fn pod() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "default", "name": "a"},
        "spec": {"volumes": [{"name": "v", "ephemeral": {"volumeClaimTemplate": {
            "spec": {"accessModes": ["ReadWriteOnce"]},
        }}}]},
    })
}

fn claim() -> ObjectRef {
    ObjectRef::new(CLAIMS, "default", "a-v")
}

fn cluster() -> FakeCluster {
    FakeCluster::new(EphemeralVolume::manifest())
}

#[test]
fn a_claim_that_is_deleted_is_there_again() {
    let mut cluster = cluster().with(pod());
    cluster.run_due::<EphemeralVolume>();
    let uid = |cluster: &FakeCluster| cluster.object(&claim()).unwrap()["metadata"]["uid"].clone();
    let first = uid(&cluster);
    cluster.delete(&claim());
    cluster.run_due::<EphemeralVolume>();
    assert_ne!(uid(&cluster), first);
}

#[test]
fn the_claim_of_somebody_else_is_used_by_nobody_until_it_is_gone() {
    let other = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"namespace": "default", "name": "a-v", "labels": {"mine": "yes"}},
    });
    let mut cluster = cluster().with(pod()).with(other);
    let runs = cluster.run_due::<EphemeralVolume>();
    assert!(runs.iter().any(|run| run.error.is_some()), "{runs:?}");
    let labels = |cluster: &FakeCluster| {
        let found = cluster.object(&claim()).unwrap();
        found["metadata"]["labels"].clone()
    };
    assert_eq!(labels(&cluster), json!({"mine": "yes"}));
    cluster.delete(&claim());
    cluster.run_due::<EphemeralVolume>();
    assert_eq!(labels(&cluster), Value::Null);
}

#[test]
fn a_creation_that_fails_is_told_and_tried_again() {
    let refused = Failing::next(Verb::Create, CLAIMS, WriteError::Forbidden).always();
    let mut cluster = cluster().with(pod()).failing(refused);
    cluster.run_due::<EphemeralVolume>();
    assert!(cluster.object(&claim()).is_none());
    let mut cluster = cluster.healed().at(Duration::from_secs(60));
    cluster.run_due::<EphemeralVolume>();
    assert!(cluster.object(&claim()).is_some());
    let [event] = cluster.events() else {
        panic!("{:?}", cluster.events());
    };
    assert_eq!(event.reason, "FailedBinding");
    let begin = "ephemeral volume v: create PVC a-v: ";
    assert!(event.note.starts_with(begin), "{}", event.note);
}
