//! Jobs that run to completion: with and without parallelism, suspended, restarted.

use anyhow::{Result, ensure};
use serde_json::json;

use super::{Jobs, active};

/// `TestNonParallelJob`.
#[tokio::test]
async fn a_job_of_one_pod_replaces_it_until_it_succeeds_whatever_becomes_of_the_host() -> Result<()>
{
    let mut jobs = Jobs::start().await?;
    jobs.create("a", json!({})).await?;
    jobs.until_pods("a", active(1)).await?;
    jobs.rig.kill_host().await?;
    jobs.rig.start_host().await?;
    jobs.end("a", "Failed", 1).await?;
    jobs.until_pods("a", active(1).failed(1)).await?;
    jobs.until_event("a", "SuccessfulCreate").await?;
    jobs.rig.kill_host().await?;
    jobs.rig.start_host().await?;
    jobs.end("a", "Succeeded", 1).await?;
    let condition = jobs.until_condition("a", "Complete").await?;
    ensure!(condition["reason"] == "CompletionsReached", "{condition}");
    let status = jobs
        .until_pods("a", active(0).failed(1).succeeded(1))
        .await?;
    ensure!(status["completionTime"].is_string(), "{status}");
    jobs.until_event("a", "Completed").await?;
    jobs.until_ended_pods_are_free("a").await
}

/// `TestParallelJob`.
#[tokio::test]
async fn without_completions_the_first_success_begins_the_end() -> Result<()> {
    let jobs = Jobs::start().await?;
    jobs.create("a", json!({"parallelism": 5})).await?;
    jobs.until_pods("a", active(5)).await?;
    for pod in &jobs.active_pods("a").await?[..2] {
        let name = pilothouse_tests::name_of(pod);
        jobs.rig.set_pod_ready(&name, true).await?;
    }
    jobs.until_pods("a", active(5).ready(2)).await?;
    for pod in jobs.active_pods("a").await? {
        if pod["status"]["phase"] == "Running" {
            jobs.end_pod(&pilothouse_tests::name_of(&pod), "Failed", 1)
                .await?;
        }
    }
    jobs.until_pods("a", active(5).failed(2)).await?;
    jobs.end("a", "Succeeded", 1).await?;
    jobs.until_pods("a", active(4).failed(2).succeeded(1))
        .await?;
    jobs.end("a", "Failed", 2).await?;
    jobs.until_pods("a", active(2).failed(4).succeeded(1))
        .await?;
    jobs.end("a", "Succeeded", 2).await?;
    jobs.until_condition("a", "Complete").await?;
    jobs.until_pods("a", active(0).failed(4).succeeded(3))
        .await?;
    jobs.until_ended_pods_are_free("a").await
}

/// `TestParallelJobChangingParallelism`.
#[tokio::test]
async fn pods_that_are_too_many_go_and_are_not_counted() -> Result<()> {
    let jobs = Jobs::start().await?;
    jobs.create("a", json!({"backoffLimit": 2, "parallelism": 5}))
        .await?;
    jobs.until_pods("a", active(5)).await?;
    jobs.change("a", &json!({"parallelism": 2})).await?;
    jobs.until_pods("a", active(2)).await?;
    jobs.until_event("a", "SuccessfulDelete").await?;
    jobs.change("a", &json!({"parallelism": 4})).await?;
    jobs.until_pods("a", active(4)).await?;
    jobs.end("a", "Succeeded", 4).await?;
    jobs.until_condition("a", "Complete").await?;
    jobs.until_pods("a", active(0).succeeded(4)).await?;
    jobs.until_ended_pods_are_free("a").await
}

/// `TestParallelJobWithCompletions`.
#[tokio::test]
async fn pods_are_created_until_enough_have_succeeded() -> Result<()> {
    let jobs = Jobs::start().await?;
    jobs.create("a", json!({"parallelism": 54, "completions": 56}))
        .await?;
    jobs.until_pods("a", active(54)).await?;
    for pod in &jobs.active_pods("a").await?[..52] {
        let name = pilothouse_tests::name_of(pod);
        jobs.rig.set_pod_ready(&name, true).await?;
    }
    jobs.until_pods("a", active(54).ready(52)).await?;
    let ready = jobs.active_pods("a").await?;
    let ready = ready
        .iter()
        .filter(|pod| pod["status"]["phase"] == "Running");
    for pod in ready.take(2) {
        jobs.end_pod(&pilothouse_tests::name_of(pod), "Failed", 1)
            .await?;
    }
    jobs.until_pods("a", active(54).ready(50).failed(2)).await?;
    let mut pods = jobs.active_pods("a").await?;
    pods.sort_by_key(|pod| pod["status"]["phase"] != "Running");
    for pod in &pods[..53] {
        jobs.end_pod(&pilothouse_tests::name_of(pod), "Succeeded", 0)
            .await?;
    }
    jobs.until_pods("a", active(3).failed(2).succeeded(53))
        .await?;
    jobs.end("a", "Succeeded", 3).await?;
    jobs.until_condition("a", "Complete").await?;
    jobs.until_pods("a", active(0).failed(2).succeeded(56))
        .await?;
    jobs.until_ended_pods_are_free("a").await
}

/// `TestSuspendJob`, `TestStartTimeUpdateOnResume`.
#[tokio::test]
async fn a_job_is_suspended_and_resumed() -> Result<()> {
    let jobs = Jobs::start().await?;
    let spec = json!({"parallelism": 2, "completions": 4});
    jobs.create("a", spec.clone()).await?;
    let status = jobs.until_pods("a", active(2)).await?;
    ensure!(status["startTime"].is_string(), "{status}");
    jobs.change("a", &json!({"suspend": true})).await?;
    jobs.until_condition("a", "Suspended").await?;
    jobs.until_pods("a", active(0)).await?;
    jobs.until_event("a", "Suspended").await?;
    jobs.change("a", &json!({"suspend": false})).await?;
    let status = jobs.until_pods("a", active(2)).await?;
    ensure!(status["startTime"].is_string(), "{status}");
    ensure!(status["conditions"][0]["status"] == "False", "{status}");
    jobs.until_event("a", "Resumed").await?;

    let mut spec = spec;
    spec["suspend"] = true.into();
    jobs.create("b", spec).await?;
    jobs.until_condition("b", "Suspended").await?;
    let status = jobs.until_pods("b", active(0)).await?;
    ensure!(status["startTime"].is_null(), "{status}");
    jobs.until_event("b", "Suspended").await?;
    jobs.change("b", &json!({"suspend": false})).await?;
    jobs.until_pods("b", active(2)).await?;
    jobs.until_event("b", "Resumed").await
}

/// `TestSuspendJobWithZeroCompletions`.
#[tokio::test]
async fn a_suspended_job_without_anything_to_do_is_complete() -> Result<()> {
    let jobs = Jobs::start().await?;
    jobs.create("a", json!({"completions": 0, "suspend": true}))
        .await?;
    jobs.until_condition("a", "SuccessCriteriaMet").await?;
    jobs.until_condition("a", "Complete").await.map(drop)
}

/// `TestSuspendJobControllerRestart`.
#[tokio::test]
async fn a_suspended_job_has_no_pods_after_a_restart_either() -> Result<()> {
    let mut jobs = Jobs::start().await?;
    jobs.create(
        "a",
        json!({"parallelism": 2, "completions": 4, "suspend": true}),
    )
    .await?;
    jobs.until_condition("a", "Suspended").await?;
    jobs.rig.kill_host().await?;
    jobs.rig.start_host().await?;
    jobs.wait_for_mistakes().await;
    jobs.until_pods("a", active(0)).await?;
    ensure!(jobs.pods("a").await?.is_empty());
    Ok(())
}

/// `TestNodeSelectorUpdate`, but for what the API server refuses.
#[tokio::test]
async fn the_pods_of_a_resumed_job_are_of_its_template_as_it_is_then() -> Result<()> {
    let jobs = Jobs::start().await?;
    jobs.create("a", json!({"parallelism": 1, "suspend": true}))
        .await?;
    jobs.until_condition("a", "Suspended").await?;
    let spec = json!({"suspend": false, "template": {"spec": {"nodeSelector": {"foo": "bar"}}}});
    jobs.change("a", &spec).await?;
    jobs.until_pods("a", active(1)).await?;
    let pods = jobs.pods("a").await?;
    ensure!(
        pods[0]["spec"]["nodeSelector"]["foo"] == "bar",
        "{}",
        pods[0]
    );
    Ok(())
}

/// `TestJobPodsCreatedWithExponentialBackoff`.
#[tokio::test]
async fn the_replacements_of_failed_pods_wait_longer_and_longer() -> Result<()> {
    let jobs = Jobs::start_with_back_off(2).await?;
    jobs.create("a", json!({})).await?;
    jobs.until_pods("a", active(1)).await?;
    jobs.end("a", "Failed", 1).await?;
    jobs.until_pods("a", active(1).failed(1)).await?;
    jobs.end("a", "Failed", 1).await?;
    jobs.until_pods("a", active(1).failed(2)).await?;
    super::expect_exponential_back_off(&jobs.pods("a").await?, 2)
}

/// `TestManagedBy`.
#[tokio::test]
async fn a_job_that_another_controller_manages_is_left_alone() -> Result<()> {
    let jobs = Jobs::start().await?;
    let other = "example.com/custom-job-controller";
    jobs.create("suspended", json!({"managedBy": other, "suspend": true}))
        .await?;
    jobs.create("other", json!({"managedBy": other})).await?;
    jobs.create("none", json!({})).await?;
    jobs.create("own", json!({"managedBy": "kubernetes.io/job-controller"}))
        .await?;
    jobs.until_pods("none", active(1)).await?;
    jobs.until_pods("own", active(1)).await?;
    jobs.wait_for_mistakes().await;
    for name in ["suspended", "other"] {
        let status = jobs.status(name).await?;
        ensure!(
            status.as_object().is_none_or(serde_json::Map::is_empty),
            "{name}: {status}"
        );
    }
    Ok(())
}
