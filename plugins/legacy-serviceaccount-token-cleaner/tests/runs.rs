//! Tokens from run to run, by the host's own rules: `TestLegacyServiceAccountTokenCleanUp` of
//! `test/integration/serviceaccount`, which steps its clock, too.

use std::time::Duration;

use legacy_serviceaccount_token_cleaner::LegacyTokenCleaner;
use pilothouse_sdk::testing::{Failing, FakeCluster, WriteError};
use pilothouse_sdk::{Controller, ObjectRef, Verb};
use serde_json::{Value, json};

/// 2026-01-01T00:00:00Z.
const BEGIN: u64 = 1_767_225_600;
const DAY: u64 = 24 * 60 * 60;

const LAST_USED: &str = "kubernetes.io/legacy-token-last-used";
const INVALID_SINCE: &str = "kubernetes.io/legacy-token-invalid-since";

/// A token of the account `ro`, made at the beginning.
fn token(labels: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token",
        "metadata": {
            "namespace": "ns", "name": "t", "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": labels, "annotations": {"kubernetes.io/service-account.name": "ro"},
        },
    })
}

fn key() -> ObjectRef {
    ObjectRef::new("v1/Secret", "ns", "t")
}

fn account(secrets: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"namespace": "ns", "name": "ro"}, "secrets": secrets,
    })
}

fn pod() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "ns", "name": "p"},
        "spec": {"volumes": [{"name": "v", "secret": {"secretName": "t"}}]},
    })
}

/// A cluster that notes the use of tokens from the beginning, with a period of a day, in which the
/// account names the token.
fn cluster() -> FakeCluster {
    let tracking = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {
            "namespace": "kube-system",
            "name": "kube-apiserver-legacy-service-account-token-tracking",
        },
        "data": {"since": "2026-01-01"},
    });
    FakeCluster::new(LegacyTokenCleaner::manifest())
        .configured(&json!({"cleanUpPeriodSeconds": DAY}))
        .with(tracking)
        .with(account(&json!([{"name": "t"}])))
}

/// Runs what is due on each of these days after the beginning, a little after noon.
fn run_on(mut cluster: FakeCluster, days: std::ops::RangeInclusive<u64>) -> FakeCluster {
    for day in days {
        let time = BEGIN + day * DAY + DAY / 2 + day;
        cluster = cluster.at(Duration::from_secs(time));
        cluster.run_due::<LegacyTokenCleaner>();
    }
    cluster
}

/// Since when the token is not accepted. `None`: it is gone.
fn mark(cluster: &FakeCluster) -> Option<Value> {
    let token = cluster.object(&key())?;
    Some(token["metadata"]["labels"][INVALID_SINCE].clone())
}

#[test]
fn a_token_that_nobody_uses_is_marked_and_then_deleted() {
    let cluster = run_on(
        cluster().with(token(&json!({LAST_USED: "2026-01-01"}))),
        0..=1,
    );
    assert_eq!(mark(&cluster), Some(Value::Null));
    let cluster = run_on(cluster, 2..=2);
    assert_eq!(mark(&cluster), Some("2026-01-03".into()));
    let cluster = run_on(cluster, 3..=3);
    assert!(mark(&cluster).is_some());
    let cluster = run_on(cluster, 4..=4);
    assert_eq!(mark(&cluster), None);
}

#[test]
fn a_token_whose_mark_is_taken_away_and_that_is_used_again_is_marked_later() {
    let cluster = run_on(cluster().with(token(&json!({}))), 0..=2);
    assert_eq!(mark(&cluster), Some("2026-01-03".into()));
    let used = token(&json!({LAST_USED: "2026-01-03", INVALID_SINCE: ""}));
    let cluster = run_on(cluster.with(used), 3..=3);
    assert_eq!(mark(&cluster), Some("".into()));
    let cluster = run_on(cluster, 4..=4);
    assert_eq!(mark(&cluster), Some("2026-01-05".into()));
    let cluster = run_on(cluster, 5..=6);
    assert_eq!(mark(&cluster), None);
}

#[test]
fn a_token_that_was_made_by_hand_or_that_a_pod_mounts_stays() {
    let by_hand = cluster().with(account(&json!([]))).with(token(&json!({})));
    let by_hand = run_on(by_hand, 0..=9);
    assert_eq!(mark(&by_hand), Some(Value::Null));
    let mut mounted = run_on(cluster().with(pod()).with(token(&json!({}))), 0..=9);
    assert_eq!(mark(&mounted), Some(Value::Null));
    mounted.delete(&ObjectRef::new("v1/Pod", "ns", "p"));
    let mounted = run_on(mounted, 10..=10);
    assert_eq!(mark(&mounted), Some("2026-01-11".into()));
}

#[test]
fn what_changes_within_a_day_is_looked_at_when_it_is_over() {
    let mut cluster = run_on(cluster().with(pod()).with(token(&json!({}))), 0..=5);
    cluster.delete(&ObjectRef::new("v1/Pod", "ns", "p"));
    cluster.run_due::<LegacyTokenCleaner>();
    assert_eq!(mark(&cluster), Some(Value::Null));
    let runs = cluster.run_due::<LegacyTokenCleaner>();
    assert!(runs.is_empty(), "{runs:?}");
}

#[test]
fn a_write_that_fails_is_tried_again_the_next_day() {
    let refused = Failing::next(Verb::Patch, "v1/Secret", WriteError::Forbidden);
    let cluster = cluster().with(token(&json!({}))).failing(refused);
    let mut cluster = run_on(cluster, 0..=2);
    assert_eq!(mark(&cluster), Some(Value::Null));
    cluster = cluster.at(Duration::from_secs(BEGIN + 2 * DAY + DAY / 2 + 60));
    cluster.run_due::<LegacyTokenCleaner>();
    assert_eq!(mark(&cluster), Some(Value::Null));
    let cluster = run_on(cluster, 3..=3);
    assert_eq!(mark(&cluster), Some("2026-01-04".into()));
}

#[test]
fn more_tokens_than_one_run_marks_are_marked_by_the_next_at_once() {
    let name = |number: usize| format!("t{number:04}");
    let names: Vec<Value> = (0..1_200)
        .map(|number| json!({"name": name(number)}))
        .collect();
    let tokens = (0..1_200).map(|number| {
        let mut token = token(&json!({}));
        token["metadata"]["name"] = name(number).into();
        token
    });
    let cluster = cluster().with(account(&json!(names)));
    let cluster = run_on(tokens.fold(cluster, FakeCluster::with), 0..=2);
    let mut cluster = cluster.at(Duration::from_secs(BEGIN + 2 * DAY + DAY / 2 + 10));
    cluster.run_due::<LegacyTokenCleaner>();
    let is_marked = |number: &usize| {
        let token = cluster.object(&ObjectRef::new("v1/Secret", "ns", &name(*number)));
        token.is_some_and(|token| token["metadata"]["labels"][INVALID_SINCE] == "2026-01-03")
    };
    assert_eq!((0..1_200).filter(is_marked).count(), 1_200);
}
