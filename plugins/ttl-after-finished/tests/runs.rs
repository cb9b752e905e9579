//! Jobs from run to run, by the host's own rules.

use std::time::Duration;

use pilothouse_sdk::testing::{Failing, FakeCluster, WriteError};
use pilothouse_sdk::{Controller, ObjectRef, Verb};
use serde_json::{Value, json};
use ttl_after_finished::TtlAfterFinishedController;

/// 2026-01-01T00:00:00Z, when the Job ends.
const END: u64 = 1_767_225_600;

const JOBS: &str = "batch/v1/Job";

fn job(ttl: u32, is_complete: bool) -> Value {
    let status = if is_complete { "True" } else { "False" };
    json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"namespace": "test", "name": "a"},
        "spec": {"ttlSecondsAfterFinished": ttl},
        "status": {"conditions": [{
            "type": "Complete", "status": status, "lastTransitionTime": "2026-01-01T00:00:00Z",
        }]},
    })
}

fn cluster() -> FakeCluster {
    FakeCluster::new(TtlAfterFinishedController::manifest())
}

/// Runs what is due so many seconds after the Job's end. True if the Job is to stay after it.
fn stays_at(cluster: FakeCluster, seconds: u64) -> (FakeCluster, bool) {
    let mut cluster = cluster.at(Duration::from_secs(END + seconds));
    cluster.run_due::<TtlAfterFinishedController>();
    let job = cluster.object(&ObjectRef::new(JOBS, "test", "a"));
    let stays = job.is_some_and(|job| job["metadata"]["deletionTimestamp"].is_null());
    (cluster, stays)
}

#[test]
fn a_job_is_deleted_when_its_time_has_passed_and_not_before() {
    let (cluster, stays) = stays_at(cluster().with(job(60, false)), 0);
    assert!(stays);
    let (cluster, stays) = stays_at(cluster.with(job(60, true)), 1);
    assert!(stays);
    let (cluster, stays) = stays_at(cluster, 59);
    assert!(stays);
    let (_, stays) = stays_at(cluster, 60);
    assert!(!stays);
}

#[test]
fn a_job_whose_time_is_changed_is_deleted_at_the_new_time() {
    let (cluster, _) = stays_at(cluster().with(job(60, true)), 0);
    let (cluster, stays) = stays_at(cluster.with(job(90, true)), 61);
    assert!(stays, "it has been given more time");
    let (_, stays) = stays_at(cluster.with(job(70, true)), 75);
    assert!(!stays, "it has been given less");
}

#[test]
fn a_job_that_has_changed_unseen_is_looked_at_again() {
    let changed = Failing::next(Verb::Delete, JOBS, WriteError::Conflict);
    let (cluster, stays) = stays_at(cluster().with(job(60, true)).failing(changed), 60);
    assert!(stays);
    let (_, stays) = stays_at(cluster, 61);
    assert!(!stays);
}
