//! Jobs that fail, and those that are deleted and made again.

use anyhow::{Result, ensure};
use pilothouse_tests::name_of;
use serde_json::json;

use super::{Jobs, active};

/// `TestFinalizersClearedWhenBackoffLimitExceeded`.
#[tokio::test]
async fn a_large_job_that_fails_early_leaves_no_tracked_pod() -> Result<()> {
    let jobs = Jobs::start().await?;
    let spec = json!({
        "completionMode": "Indexed", "completions": 100, "parallelism": 100, "backoffLimit": 0,
    });
    jobs.create("a", spec).await?;
    let has_one = |pods: &[serde_json::Value]| !pods.is_empty();
    let pods = jobs
        .rig
        .eventually_all("pods", "job-name=a", "some", has_one)
        .await?;
    jobs.end_pod(&name_of(&pods[0]), "Failed", 1).await?;
    let condition = jobs.until_condition("a", "Failed").await?;
    ensure!(condition["reason"] == "BackoffLimitExceeded", "{condition}");
    jobs.until_all_pods_are_free("a").await?;
    let status = jobs.status("a").await?;
    ensure!(
        status["failed"] == 100,
        "each of them is counted once: {status}"
    );
    Ok(())
}

/// `TestJobFailedWithInterrupts`.
#[tokio::test]
async fn a_job_fails_though_the_host_dies_meanwhile() -> Result<()> {
    let mut jobs = Jobs::start().await?;
    let spec = json!({
        "completions": 10, "parallelism": 10, "backoffLimit": 0,
        // On a node pods that are deleted do not go at once.
        "template": {"spec": {"nodeName": "foo"}},
    });
    jobs.create("a", spec).await?;
    jobs.until_pods("a", active(10)).await?;
    let pods = jobs.active_pods("a").await?;
    jobs.end_pod(&name_of(&pods[0]), "Failed", 1).await?;
    for pod in &pods[1..] {
        jobs.end_pod(&name_of(pod), "Succeeded", 0).await?;
    }
    jobs.rig.kill_host().await?;
    jobs.rig.start_host().await?;
    jobs.until_condition("a", "Failed").await?;
    let status = jobs.status("a").await?;
    let count = |name: &str| status[name].as_i64().unwrap_or_default();
    ensure!(count("failed") + count("succeeded") == 10, "{status}");
    Ok(())
}

/// `TestImmediateJobRecreation`.
#[tokio::test]
async fn a_job_that_is_made_again_does_not_wait_for_the_one_before() -> Result<()> {
    let jobs = Jobs::start_with_back_off(60).await?;
    let names = ["a", "b", "c"];
    for name in names {
        jobs.create(name, json!({"completions": 1, "parallelism": 1}))
            .await?;
    }
    for name in names {
        jobs.until(name, active(1)).await?;
        jobs.end(name, "Failed", 1).await?;
        jobs.until(name, active(0).failed(1)).await?;
    }
    for name in names {
        jobs.delete_with("jobs", name, "Background").await?;
        jobs.create(name, json!({"completions": 1, "parallelism": 1}))
            .await?;
    }
    for name in names {
        jobs.until(name, active(1)).await?;
    }
    Ok(())
}

/// `TestManagedBy_RecreatedJob`.
#[tokio::test]
async fn a_job_that_is_made_again_for_another_controller_is_left_alone() -> Result<()> {
    let jobs = Jobs::start().await?;
    jobs.create("a", json!({"completions": 1, "parallelism": 1}))
        .await?;
    jobs.until_pods("a", active(1)).await?;
    jobs.end("a", "Succeeded", 1).await?;
    jobs.delete_with("jobs", "a", "Background").await?;
    jobs.create(
        "a",
        json!({"managedBy": "example.com/custom-job-controller"}),
    )
    .await?;
    jobs.wait_for_mistakes().await;
    let status = jobs.status("a").await?;
    ensure!(
        status.as_object().is_none_or(serde_json::Map::is_empty),
        "{status}"
    );
    Ok(())
}

/// `TestSyncJobPastDeadline`, on a server.
#[tokio::test]
async fn a_job_fails_at_its_deadline() -> Result<()> {
    let jobs = Jobs::start().await?;
    jobs.create("a", json!({"parallelism": 2, "activeDeadlineSeconds": 3}))
        .await?;
    jobs.until_pods("a", active(2)).await?;
    let condition = jobs.until_condition("a", "Failed").await?;
    ensure!(condition["reason"] == "DeadlineExceeded", "{condition}");
    jobs.until_event("a", "DeadlineExceeded").await?;
    jobs.until_pods("a", active(0).failed(2)).await?;
    jobs.until_all_pods_are_free("a").await
}
