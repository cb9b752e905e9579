//! Tokens from run to run, by the host's own rules.

use std::time::Duration;

use bootstrap_tokens::SECRETS;
use pilothouse_sdk::testing::{Failing, FakeCluster, WriteError};
use pilothouse_sdk::{Controller, ObjectRef, Verb};
use serde_json::{Value, json};
use token_cleaner::TokenCleaner;

/// 2026-01-01T00:00:00Z.
const BEGIN: u64 = 1_767_225_600;

/// 2026-01-01T00:01:00Z in base64.
const A_MINUTE_LATER: &str = "MjAyNi0wMS0wMVQwMDowMTowMFo=";

/// 2026-01-01T00:02:00Z in base64.
const TWO_MINUTES_LATER: &str = "MjAyNi0wMS0wMVQwMDowMjowMFo=";

fn token(expiration: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret", "type": "bootstrap.kubernetes.io/token",
        "metadata": {"namespace": "kube-system", "name": "bootstrap-token-abc123"},
        "data": {"expiration": expiration},
    })
}

fn cluster() -> FakeCluster {
    FakeCluster::new(TokenCleaner::manifest())
}

/// Runs what is due so many seconds after the beginning. True if the token is there after it.
fn stays_at(cluster: FakeCluster, seconds: u64) -> (FakeCluster, bool) {
    let mut cluster = cluster.at(Duration::from_secs(BEGIN + seconds));
    cluster.run_due::<TokenCleaner>();
    let key = ObjectRef::new(SECRETS, "kube-system", "bootstrap-token-abc123");
    let stays = cluster.object(&key).is_some();
    (cluster, stays)
}

#[test]
fn a_token_is_deleted_at_its_end_and_not_before() {
    let (cluster, stays) = stays_at(cluster().with(token(A_MINUTE_LATER)), 0);
    assert!(stays);
    let (cluster, stays) = stays_at(cluster, 59);
    assert!(stays);
    let (_, stays) = stays_at(cluster, 60);
    assert!(!stays);
}

#[test]
fn a_token_that_is_prolonged_is_deleted_later() {
    let (cluster, _) = stays_at(cluster().with(token(A_MINUTE_LATER)), 0);
    let (cluster, stays) = stays_at(cluster.with(token(TWO_MINUTES_LATER)), 60);
    assert!(stays);
    let (_, stays) = stays_at(cluster, 120);
    assert!(!stays);
}

#[test]
fn a_deletion_that_fails_is_tried_again() {
    let refused = Failing::next(Verb::Delete, SECRETS, WriteError::Forbidden).always();
    let cluster = cluster().with(token(A_MINUTE_LATER)).failing(refused);
    let (cluster, stays) = stays_at(cluster, 61);
    assert!(stays);
    let (_, stays) = stays_at(cluster.healed(), 120);
    assert!(!stays);
}
