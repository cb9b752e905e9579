//! `test/integration/replicaset`, and what the host's gate has to hold.

use std::time::Duration;

use anyhow::{Context, Result};
use http::Method;
use pilothouse_tests::name_of;
use pilothouse_tests::proxy::{Answer, watches, writes};
use serde_json::{Value, json};

use crate::replicas::{self, LABELS, Sets};

#[tokio::test]
async fn orphans_are_adopted_and_foreign_pods_are_not() -> Result<()> {
    replicas::adoption(Sets::replicasets_without_host().await?).await
}

#[tokio::test]
async fn the_number_of_pods_follows_the_spec() -> Result<()> {
    replicas::scaling(Sets::replicasets().await?).await
}

#[tokio::test]
async fn pods_that_fail_or_are_being_deleted_are_replaced() -> Result<()> {
    replicas::deleting_and_failed_pods(Sets::replicasets().await?).await
}

#[tokio::test]
async fn sets_with_the_same_selector_have_pods_of_their_own() -> Result<()> {
    replicas::overlapping_sets(Sets::replicasets().await?).await
}

#[tokio::test]
async fn a_pod_whose_labels_change_is_given_up_and_adopted_again() -> Result<()> {
    replicas::labels_that_change(Sets::replicasets().await?).await
}

#[tokio::test]
async fn a_pod_that_loses_its_controller_is_adopted_again() -> Result<()> {
    replicas::wrong_owners_are_patched(Sets::replicasets().await?).await
}

#[tokio::test]
async fn the_status_counts_ready_and_available_pods() -> Result<()> {
    replicas::ready_and_available(Sets::replicasets().await?).await
}

#[tokio::test]
async fn a_ready_pod_becomes_available_after_its_time() -> Result<()> {
    replicas::a_ready_pod_becomes_available(Sets::replicasets().await?).await
}

#[tokio::test]
async fn it_is_scaled_through_the_subresource() -> Result<()> {
    replicas::scale_subresource(Sets::replicasets().await?).await
}

#[tokio::test]
async fn of_too_many_orphans_some_are_deleted() -> Result<()> {
    replicas::extra_pods(Sets::replicasets_without_host().await?).await
}

#[tokio::test]
async fn the_status_counts_pods_with_all_labels_of_the_template() -> Result<()> {
    replicas::fully_labeled(Sets::replicasets().await?).await
}

/// `TestPodDeletionCost`. The feature cannot be disabled here.
#[tokio::test]
async fn pods_that_cost_more_are_deleted_last() -> Result<()> {
    let cases = [
        (Some(["1000", "100"]), 0),
        (Some(["100", "100"]), 1),
        (None, 1),
    ];
    for (costs, remaining) in cases {
        // A namespace and a host of its own, as upstream: a host that has seen the end of the last
        // case's pod, but not yet that of its set, rightly creates another pod.
        let sets = Sets::replicasets().await?;
        sets.create("set", 2).await?;
        let pods = sets.rig.eventually_pods(LABELS, 2).await?;
        for (number, pod) in pods.iter().enumerate() {
            if let Some(costs) = costs {
                let cost = json!({"controller.kubernetes.io/pod-deletion-cost": costs[number]});
                sets.set_metadata(&name_of(pod), "annotations", &cost)
                    .await?;
            }
            // They are ready since the same time. That the set counts them shows that the host has
            // seen all of it.
            let restarts = [5, 0][number];
            let status = json!({
                "phase": "Running", "containerStatuses": [
                    {"name": "fake-name", "image": "i", "imageID": "i", "ready": true, "restartCount": restarts},
                ],
                "conditions": [
                    {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"},
                ],
            });
            sets.rig
                .merge_status("pods", &name_of(pod), &status)
                .await?;
        }
        sets.until_status("set", &json!({"readyReplicas": 2}))
            .await?;
        sets.scale("set", 1).await?;
        let left = sets.rig.eventually_pods(LABELS, 1).await?;
        assert_eq!(
            left[0]["metadata"]["uid"],
            pods[remaining]["metadata"]["uid"]
        );
    }
    Ok(())
}

/// `TestReplicaSetsAppsV1DefaultGCPolicy`: nobody adds a finalizer.
#[tokio::test]
async fn a_set_that_is_deleted_has_its_own_finalizers_only() -> Result<()> {
    let sets = Sets::replicasets().await?;
    let mut set = sets.set("set", 2);
    let finalizers = json!(["kube.io/dummy-finalizer"]);
    set["metadata"]["finalizers"] = finalizers.clone();
    sets.create_object(&set).await?;
    sets.rig.eventually_pods(LABELS, 2).await?;
    sets.rig.delete("replicasets", "set").await?;
    let set = sets.rig.get("replicasets", "set").await?;
    assert!(set["metadata"]["deletionTimestamp"].is_string());
    assert_eq!(set["metadata"]["finalizers"], finalizers);
    let patch = json!({"metadata": {"finalizers": null}});
    sets.rig.merge("replicasets", "set", &patch).await?;
    assert_eq!(
        sets.rig
            .api()
            .get(&sets.rig.path("replicasets", "set"))
            .await?,
        None
    );
    Ok(())
}

/// `TestTerminatingReplicas`. The feature cannot be disabled here.
#[tokio::test]
async fn the_status_counts_pods_that_are_being_deleted() -> Result<()> {
    let sets = Sets::replicasets().await?;
    let mut set = sets.set("set", 5);
    let spec = &mut set["spec"]["template"]["spec"];
    spec["nodeName"] = "fake-node".into();
    spec["terminationGracePeriodSeconds"] = 300.into();
    sets.create_object(&set).await?;
    sets.until_status("set", &json!({"terminatingReplicas": 0}))
        .await?;
    let pods = sets.rig.eventually_pods(LABELS, 5).await?;
    for pod in &pods {
        sets.set_ready(pod, true, 0).await?;
    }
    sets.ask_to_delete(&pods[0]).await?;
    sets.ask_to_delete(&pods[1]).await?;
    let wanted = json!({"replicas": 5, "terminatingReplicas": 2});
    sets.until_status("set", &wanted).await?;
    sets.rig.delete("pods", &name_of(&pods[0])).await?;
    let wanted = json!({"replicas": 5, "terminatingReplicas": 1});
    sets.until_status("set", &wanted).await?;
    sets.rig.eventually_pods(LABELS, 6).await.map(drop)
}

/// Upstream counts with expectations which pods it has created and not seen yet. Here the host
/// holds the key until its caches show them: however late the watch is, there is never one pod too
/// many.
#[tokio::test]
async fn a_late_watch_makes_no_surplus_pod() -> Result<()> {
    let sets = Sets::replicasets().await?;
    let late = sets.rig.proxy.on(watches("pods"));
    let late = late.delay_lines(Duration::from_millis(1500));
    sets.create("set", 500).await?;
    assert_eq!(creations(&sets).await?, 500);
    // Pods that others delete are replaced one by one.
    let pods = sets.rig.eventually_pods(LABELS, 500).await?;
    for pod in pods.iter().step_by(10) {
        sets.rig.delete("pods", &name_of(pod)).await?;
    }
    sets.until_status("set", &json!({"replicas": 500})).await?;
    sets.rig.eventually_pods(LABELS, 500).await?;
    assert_eq!(creations(&sets).await?, 550);
    sets.scale("set", 20).await?;
    sets.rig.eventually_pods(LABELS, 20).await?;
    assert!(late.hits() >= 1_000, "the watch was not late");
    late.lift();
    sets.scale("set", 40).await?;
    sets.rig.eventually_pods(LABELS, 40).await?;
    assert_eq!(creations(&sets).await?, 570);
    // 50 by the test, 480 by the controller.
    assert_eq!(sets.rig.server.requests("delete", "pods").await?, 530);
    Ok(())
}

/// How many pods were ever asked for.
async fn creations(sets: &Sets) -> Result<u64> {
    sets.rig.server.requests("create", "pods").await
}

/// What a user sees of a quota, or of a webhook that refuses pods: a condition and Events with the
/// server's words, until pods are created.
#[tokio::test]
async fn a_failure_to_create_pods_is_told_until_it_ends() -> Result<()> {
    let sets = Sets::replicasets().await?;
    let words = "pods \"set-x\" is forbidden: exceeded quota: pods=2";
    let refusal = json!({
        "apiVersion": "v1", "kind": "Status", "status": "Failure", "reason": "Forbidden",
        "code": 403, "message": words,
    });
    let creates = writes("pods").method(Method::POST);
    let quota = sets.rig.proxy.on(creates).after(1);
    let quota = quota.answer(Answer::json(403, &refusal));
    sets.rig.create("replicasets", &sets.set("set", 3)).await?;
    let failure = |set: &Value| {
        let conditions = set["status"]["conditions"].as_array();
        let is_failure = |condition: &&Value| condition["type"] == "ReplicaFailure";
        conditions.and_then(|all| all.iter().find(is_failure).cloned())
    };
    let rig = &sets.rig;
    let has_failed = |set: &Value| failure(set).is_some() && set["status"]["replicas"] == 1;
    let set = rig
        .eventually("replicasets", "set", "failed", has_failed)
        .await?;
    let failure_told = failure(&set).context("there is one")?;
    assert_eq!(failure_told["status"], "True");
    assert_eq!(failure_told["reason"], "FailedCreate");
    let message = failure_told["message"].as_str().unwrap_or_default();
    assert_eq!(message, words);
    let told = |reason: &'static str, note: String| {
        move |events: &[Value]| {
            events.iter().any(|event| {
                let is_told = event["note"].as_str().is_some_and(|is| is.contains(&note));
                event["reason"] == reason && is_told && event["regarding"]["name"] == "set"
            })
        }
    };
    let refused = told("FailedCreate", format!("Error creating: {words}"));
    rig.eventually_all("events", "", "of the failure", refused)
        .await?;
    quota.lift();
    sets.until_status("set", &json!({"replicas": 3})).await?;
    let is_over = |set: &Value| failure(set).is_none();
    rig.eventually("replicasets", "set", "without a failure", is_over)
        .await?;
    for pod in rig.eventually_pods(LABELS, 3).await? {
        let created = told(
            "SuccessfulCreate",
            format!("Created pod: {}", name_of(&pod)),
        );
        rig.eventually_all("events", "", "of each pod", created)
            .await?;
    }
    sets.scale("set", 0).await?;
    let deleted = told("SuccessfulDelete", "Deleted pod: set-".to_owned());
    rig.eventually_all("events", "", "of the deletions", deleted)
        .await?;
    Ok(())
}
