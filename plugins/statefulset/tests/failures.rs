//! What becomes of a StatefulSet when writes fail: upstream's tests of
//! `stateful_set_control_test.go` with an API server that fails.

mod support;

use pilothouse_sdk::Verb;
use pilothouse_sdk::testing::{Failing, WriteError};
use serde_json::json;
use support::{Cluster, notes, set};

const POD: &str = "v1/Pod";
const CLAIM: &str = "v1/PersistentVolumeClaim";
const REVISION: &str = "apps/v1/ControllerRevision";
const SET: &str = "apps/v1/StatefulSet";

/// `CreatePodFailure`: all creations but the first fail for a while.
#[test]
fn a_pod_that_could_not_be_created_is_created_later() {
    let mut cluster = Cluster::new(set(2));
    cluster.fail(
        Failing::next(Verb::Create, POD, WriteError::ServerError)
            .after(1)
            .always(),
    );
    cluster.run();
    cluster.set_pod("web-0", "Running", true);
    assert!(!cluster.try_run().is_empty());
    assert_eq!(cluster.pods(), ["web-0"]);
    assert_eq!(
        cluster.status()["readyReplicas"],
        1,
        "the status is written nevertheless"
    );
    cluster.heal();
    cluster.wait(10);
    cluster.settle();
    assert_eq!(cluster.pods(), ["web-0", "web-1"]);
    let notes = notes(cluster.cluster());
    let is_told = |start: &str| notes.iter().any(|note| note.starts_with(start));
    assert!(
        is_told("Create Pod web-1 in StatefulSet web failed error: "),
        "{notes:?}"
    );
    assert!(
        is_told("Create Pod web-1 in StatefulSet web successful"),
        "{notes:?}"
    );
}

/// `slowStartBatch`: what does not need the claim that is refused comes.
#[test]
fn in_parallel_a_claim_that_is_refused_stops_its_own_pod_alone() {
    let mut parallel = set(4);
    parallel["spec"]["podManagementPolicy"] = json!("Parallel");
    let mut cluster = Cluster::new(parallel);
    cluster.fail(
        Failing::next(Verb::Create, CLAIM, WriteError::Forbidden)
            .after(2)
            .always(),
    );
    assert!(!cluster.try_run().is_empty());
    for _ in 0..3 {
        cluster.wait(1);
        cluster.try_run();
    }
    assert_eq!(cluster.names(CLAIM), ["data-web-0", "data-web-1"]);
    assert_eq!(cluster.pods(), ["web-0", "web-1"]);
}

/// `UpdateSetStatusFailure`.
#[test]
fn pods_come_though_the_status_cannot_be_written() {
    let mut cluster = Cluster::new(set(1));
    cluster.run();
    let status = Failing::next(Verb::Patch, SET, WriteError::ServerError).subresource("status");
    cluster.fail(status.always());
    cluster.edit("/spec/replicas", json!(2));
    cluster.set_pod("web-0", "Running", true);
    assert!(!cluster.try_run().is_empty());
    assert_eq!(cluster.pods(), ["web-0", "web-1"]);
    assert_ne!(cluster.status()["readyReplicas"], 1);
}

/// `NewRevisionDeletePodFailure`.
#[test]
fn a_pod_that_could_not_be_deleted_for_an_update_still_counts() {
    let mut cluster = Cluster::new(set(3));
    cluster.settle();
    cluster.fail(Failing::next(Verb::Delete, POD, WriteError::ServerError).always());
    cluster.edit("/spec/template/spec/containers/0/image", json!("foo"));
    assert!(!cluster.try_run().is_empty());
    cluster.wait(1);
    cluster.try_run();
    let status = cluster.status();
    assert_eq!(status["currentReplicas"], 3);
    assert_ne!(status["currentRevision"], status["updateRevision"]);
    cluster.heal();
    cluster.wait(10);
    cluster.run();
    assert_eq!(cluster.status()["currentReplicas"], 2);
}

/// `getStatefulSetRevisions`: without its revision nothing is written.
#[test]
fn no_pod_is_made_of_a_revision_that_could_not_be_recorded() {
    let mut cluster = Cluster::new(set(1));
    cluster.fail(Failing::next(Verb::Create, REVISION, WriteError::Forbidden).always());
    assert!(!cluster.try_run().is_empty());
    assert!(cluster.pods().is_empty());
    assert!(cluster.status()["updateRevision"].is_null());
    cluster.heal();
    cluster.wait(10);
    cluster.run();
    assert_eq!(cluster.pods(), ["web-0"]);
}
