//! The ConfigMap from run to run, by the host's own rules.

use std::time::Duration;

use bootstrap_signer::BootstrapSigner;
use bootstrap_tokens::SECRETS;
use pilothouse_sdk::testing::{Failing, FakeCluster, WriteError};
use pilothouse_sdk::{Controller, ObjectRef, Verb};
use serde_json::{Value, json};

const CONFIG_MAPS: &str = "v1/ConfigMap";

/// 2026-01-01T00:00:00Z.
const BEGIN: u64 = 1_767_225_600;

fn info(content: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"namespace": "kube-public", "name": "cluster-info"},
        "data": {"kubeconfig": content},
    })
}

fn key() -> ObjectRef {
    ObjectRef::new(SECRETS, "kube-system", "bootstrap-token-abc123")
}

/// A token that expires a minute after the beginning.
fn token() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret", "type": "bootstrap.kubernetes.io/token",
        "metadata": {"namespace": "kube-system", "name": key().name},
        "data": {
            "token-id": "YWJjMTIz", "token-secret": "dG9rZW5TZWNyZXQ=",
            "expiration": "MjAyNi0wMS0wMVQwMDowMTowMFo=", "usage-bootstrap-signing": "dHJ1ZQ==",
        },
    })
}

/// Runs what is due so many seconds after the beginning, and returns the signature.
fn run_at(cluster: FakeCluster, seconds: u64) -> (FakeCluster, Value) {
    let mut cluster = cluster.at(Duration::from_secs(BEGIN + seconds));
    cluster.run_due::<BootstrapSigner>();
    let info = ObjectRef::new(CONFIG_MAPS, "kube-public", "cluster-info");
    let info = cluster.object(&info).expect("nobody deletes it");
    let signature = info["data"]["jws-kubeconfig-abc123"].clone();
    (cluster, signature)
}

fn cluster() -> FakeCluster {
    FakeCluster::new(BootstrapSigner::manifest())
}

#[test]
fn the_signature_follows_the_text_and_goes_with_the_token() {
    let (cluster, none) = run_at(cluster().with(info("payload")), 0);
    assert_eq!(none, Value::Null);
    let (cluster, first) = run_at(cluster.with(token()), 1);
    let wanted = "eyJhbGciOiJIUzI1NiIsImtpZCI6ImFiYzEyMyJ9..\
                  QSxpUG7Q542CirTI2ECPSZjvBOJURUW5a7XqFpNI958";
    assert_eq!(first, wanted);
    let (mut cluster, second) = run_at(cluster.with(info("other")), 2);
    assert!(second.is_string() && second != first, "{second}");
    cluster.delete(&key());
    let (_, none) = run_at(cluster, 3);
    assert_eq!(none, Value::Null);
}

#[test]
fn the_signature_goes_when_the_token_expires() {
    let (cluster, signature) = run_at(cluster().with(info("payload")).with(token()), 59);
    assert!(signature.is_string());
    let (_, none) = run_at(cluster, 60);
    assert_eq!(none, Value::Null);
}

#[test]
fn an_update_that_fails_is_tried_again() {
    let refused = Failing::next(Verb::Update, CONFIG_MAPS, WriteError::Conflict);
    let cluster = cluster().with(info("payload")).with(token());
    let (cluster, none) = run_at(cluster.failing(refused), 0);
    assert_eq!(none, Value::Null);
    let (_, signature) = run_at(cluster, 30);
    assert!(signature.is_string());
}
