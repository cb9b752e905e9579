//! Claims from run to run, by the host's own rules.

use std::time::Duration;

use persistentvolume_expander::VolumeExpander;
use pilothouse_sdk::testing::{Failing, FakeCluster, WriteError};
use pilothouse_sdk::{ActionResult, Controller, EffectVerb, Verb};
use serde_json::{Value, json};

const CLAIMS: &str = "v1/PersistentVolumeClaim";

fn claim(requested: &str, capacity: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"namespace": "default", "name": "c", "uid": "u"},
        "spec": {"volumeName": "v", "resources": {"requests": {"storage": requested}}},
        "status": {"phase": "Bound", "capacity": {"storage": capacity}},
    })
}

fn volume(source: &str, uid: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "v"},
        "spec": {"claimRef": {"namespace": "default", "uid": uid}, source: {}},
    })
}

fn cluster() -> FakeCluster {
    FakeCluster::new(VolumeExpander::manifest())
}

fn run(mut cluster: FakeCluster) -> FakeCluster {
    cluster.run_due::<VolumeExpander>();
    cluster
}

/// Runs what is due. True if the claim is told its driver. (The cluster in memory drops all of a
/// write to a status but the status.)
fn run_and_patch(mut cluster: FakeCluster) -> (FakeCluster, bool) {
    let runs = cluster.run_due::<VolumeExpander>();
    let mut effects = runs.iter().flat_map(|run| &run.effects);
    let is_patched = effects.any(|effect| {
        effect.verb == EffectVerb::Patch && matches!(effect.outcome, ActionResult::Done(_))
    });
    (cluster, is_patched)
}

#[test]
fn each_increase_is_told_once() {
    let cluster = run(cluster().with(volume("csi", "u")).with(claim("1Gi", "1Gi")));
    assert!(cluster.events().is_empty());
    let cluster = run(cluster.with(claim("2Gi", "1Gi")));
    assert_eq!(cluster.events().len(), 1);
    let cluster = run(cluster.with(claim("3Gi", "1Gi")));
    assert_eq!(cluster.events().len(), 2);
    let cluster = run(cluster.with(claim("2Gi", "1Gi")));
    let cluster = run(cluster.with(claim("2Gi", "2Gi")));
    assert_eq!(
        cluster.events().len(),
        2,
        "that is no increase, and then enough"
    );
    let cluster = run(cluster.with(claim("3Gi", "2Gi")));
    assert_eq!(cluster.events().len(), 3);
}

#[test]
fn a_claim_whose_volume_comes_to_be_bound_to_it_is_told_then() {
    let before = volume("cinder", "other");
    let (cluster, is_patched) = run_and_patch(cluster().with(before).with(claim("2Gi", "1Gi")));
    assert!(!is_patched && cluster.events().is_empty());
    let (cluster, is_patched) = run_and_patch(cluster.with(volume("cinder", "u")));
    assert!(is_patched);
    assert_eq!(cluster.events().len(), 1);
}

#[test]
fn a_patch_that_fails_is_told_and_tried_again() {
    let refused = Failing::next(Verb::Patch, CLAIMS, WriteError::Forbidden);
    let refused = refused.subresource("status");
    let cluster = cluster()
        .with(volume("azureDisk", "u"))
        .with(claim("2Gi", "1Gi"));
    let (cluster, is_patched) = run_and_patch(cluster.failing(refused));
    assert!(!is_patched);
    let (cluster, is_patched) = run_and_patch(cluster.at(Duration::from_secs(60)));
    assert!(is_patched);
    let events = cluster.events().iter();
    let notes: Vec<&str> = events.map(|event| event.note.as_str()).collect();
    let [first, second] = notes[..] else {
        panic!("{notes:?}");
    };
    let begin = "CSI migration enabled for kubernetes.io/azure-disk";
    assert!(first.starts_with(begin), "{first}");
    assert!(second.starts_with("error setting resizer"), "{second}");
}
