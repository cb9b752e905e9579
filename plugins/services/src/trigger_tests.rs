//! The tests of upstream's `trigger_time_tracker_test.go`, and what a memo adds to them.

use pilothouse_sdk::Metadata;

use super::*;
use crate::pod::{PodCondition, PodStatus};

/// A pod whose readiness has changed at this second.
fn pod(name: &str, second: u64) -> Pod {
    let ready = PodCondition {
        r#type: "Ready".to_owned(),
        status: "True".to_owned(),
        last_transition_time: Some(time(second).to_string()),
    };
    Pod {
        metadata: Metadata {
            name: name.to_owned(),
            ..Metadata::default()
        },
        status: PodStatus {
            conditions: vec![ready],
            ..PodStatus::default()
        },
        ..Pod::default()
    }
}

/// The trigger times, in seconds, of consecutive reconciles of a Service with these pods.
fn triggers(runs: &[(u64, &[(&str, u64)])]) -> Vec<Option<u64>> {
    let mut known: Option<TriggerTimes> = None;
    let runs = runs.iter().map(|(created, pods)| {
        let pods: Vec<Pod> = pods
            .iter()
            .map(|(name, second)| pod(name, *second))
            .collect();
        let times = TriggerTimes::of(Some(time(*created)), &pods);
        let trigger = times.trigger(known.as_ref());
        known = Some(times);
        trigger.map(|trigger| trigger.0.as_secs())
    });
    runs.collect()
}

/// `TestNewServiceNoPods`, `TestNewServiceExistingPods`, `TestServiceDeletedThenAdded`.
#[test]
fn the_first_reconcile_answers_the_creation_of_the_service() {
    assert_eq!(triggers(&[(12, &[])]), [Some(12)]);
    let pods: &[_] = &[("pod1", 10), ("pod2", 11), ("pod3", 15)];
    assert_eq!(triggers(&[(13, pods)]), [Some(13)]);
    let times = TriggerTimes::of(None, &[pod("pod1", 10)]);
    assert_eq!(times.trigger(None), None, "nobody has said when");
}

/// `TestPodsAdded`, `TestPodsUpdated`.
#[test]
fn a_later_one_answers_the_earliest_change() {
    let added: &[_] = &[("pod1", 12), ("pod2", 11)];
    assert_eq!(triggers(&[(10, &[]), (10, added)]), [Some(10), Some(11)]);
    let before: &[_] = &[("pod1", 11), ("pod2", 12), ("pod3", 13)];
    let after: &[_] = &[("pod1", 15), ("pod2", 14), ("pod3", 13)];
    assert_eq!(triggers(&[(10, before), (10, after)]), [Some(10), Some(14)]);
}

/// `TestPodsUpdatedNoOp`, `TestServiceUpdatedNoPodChange`.
#[test]
fn a_reconcile_without_a_new_time_answers_none() {
    let pods: &[_] = &[("pod1", 11), ("pod2", 12)];
    assert_eq!(triggers(&[(10, pods), (10, pods)]), [Some(10), None]);
}

/// `TestPodDeletedThenAdded`.
#[test]
fn a_pod_that_comes_back_is_a_change() {
    let both: &[_] = &[("pod1", 11), ("pod2", 12)];
    let one: &[_] = &[("pod1", 11)];
    let again: &[_] = &[("pod1", 11), ("pod2", 14)];
    let found = triggers(&[(10, both), (10, one), (10, again)]);
    assert_eq!(found, [Some(10), None, Some(14)]);
}

/// The API server cannot change it, but a Service may be deleted and made again between two runs.
#[test]
fn a_service_that_was_made_again_is_a_change() {
    assert_eq!(triggers(&[(10, &[]), (20, &[])]), [Some(10), Some(20)]);
}

#[test]
fn the_times_of_many_pods_fit_into_a_memo_and_the_latest_are_kept() {
    let name = |number: u64| format!("{number:0>50}");
    let pods: Vec<Pod> = (1..=5_000)
        .map(|number| pod(&name(number), number))
        .collect();
    let known = TriggerTimes::of(Some(time(1)), &pods);
    let memo = serde_json::to_string(&known).unwrap();
    assert!(memo.len() < 60 << 10, "{} bytes", memo.len());
    assert!(memo.len() > 32 << 10, "{} bytes", memo.len());
    assert_eq!(serde_json::from_str::<TriggerTimes>(&memo).unwrap(), known);

    let now = TriggerTimes::of(Some(time(1)), &pods);
    assert_eq!(
        now.trigger(Some(&known)),
        None,
        "those left out are as they were"
    );
    let mut changed = pods.clone();
    changed[0] = pod(&name(1), 6_000);
    changed[4_999] = pod(&name(5_000), 7_000);
    let now = TriggerTimes::of(Some(time(1)), &changed);
    assert_eq!(now.trigger(Some(&known)), Some(time(6_000)));
}
