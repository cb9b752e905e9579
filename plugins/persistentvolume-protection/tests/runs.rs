//! Volumes from run to run, by the host's own rules.

use std::time::Duration;

use persistentvolume_protection::VolumeProtection;
use pilothouse_sdk::testing::{Failing, FakeCluster, WriteError};
use pilothouse_sdk::{Controller, ObjectRef, Verb};
use serde_json::{Value, json};

const VOLUMES: &str = "v1/PersistentVolume";

fn volume(name: &str, phase: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolume",
        "metadata": {"name": name}, "status": {"phase": phase},
    })
}

/// A volume that is being deleted, and that is held by the finalizer alone.
fn deleted(name: &str, phase: &str) -> Value {
    let mut deleted = volume(name, phase);
    deleted["metadata"]["finalizers"] = json!(["kubernetes.io/pv-protection"]);
    deleted["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    deleted
}

fn cluster() -> FakeCluster {
    FakeCluster::new(VolumeProtection::manifest())
}

fn stays(cluster: &FakeCluster, name: &str) -> bool {
    cluster.object(&ObjectRef::new(VOLUMES, "", name)).is_some()
}

#[test]
fn a_volume_goes_when_its_claim_has_released_it() {
    let mut cluster = cluster().with(deleted("v", "Bound"));
    cluster.run_due::<VolumeProtection>();
    assert!(stays(&cluster, "v"));
    let mut cluster = cluster.with(deleted("v", "Released"));
    cluster.run_due::<VolumeProtection>();
    assert!(!stays(&cluster, "v"));
}

#[test]
fn a_volume_that_was_bound_unseen_stays() {
    let mut cluster = cluster().with(deleted("v", "Available"));
    // The watch has not brought it, and the volume is let go only as it was seen.
    cluster = cluster.with_unseen(deleted("v", "Bound"));
    cluster.run_due::<VolumeProtection>();
    assert!(stays(&cluster, "v"));
}

/// `TestPVProtectionController`: "saving PV finalizer fails", "finalizer removal fails".
#[test]
fn a_finalizer_that_cannot_be_changed_is_tried_again() {
    let refused = Failing::next(Verb::Patch, VOLUMES, WriteError::Forbidden).always();
    let mut cluster = cluster()
        .with(volume("new", "Bound"))
        .with(deleted("old", "Released"))
        .failing(refused);
    cluster.run_due::<VolumeProtection>();
    assert!(stays(&cluster, "old"));
    let mut cluster = cluster.at(Duration::from_secs(60)).healed();
    cluster.run_due::<VolumeProtection>();
    assert!(!stays(&cluster, "old"));
    let new = cluster.object(&ObjectRef::new(VOLUMES, "", "new")).unwrap();
    assert_eq!(
        new["metadata"]["finalizers"],
        json!(["kubernetes.io/pv-protection"])
    );
}
