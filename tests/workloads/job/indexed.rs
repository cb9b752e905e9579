//! Jobs whose pods have indexes.

use anyhow::{Result, ensure};
use pilothouse_tests::name_of;
use serde_json::json;

use super::{Jobs, active};

/// `TestIndexedJob`.
#[tokio::test]
async fn each_index_is_run_until_it_succeeds() -> Result<()> {
    let jobs = Jobs::start().await?;
    let spec = json!({"parallelism": 3, "completions": 4, "completionMode": "Indexed"});
    jobs.create("a", spec).await?;
    jobs.until_pods("a", active(3)).await?;
    jobs.expect_indexes("a", &[0, 1, 2], "", None).await?;
    jobs.end_index("a", "Succeeded", 1).await?;
    jobs.until_pods("a", active(3).succeeded(1)).await?;
    jobs.expect_indexes("a", &[0, 2, 3], "1", None).await?;
    jobs.end_index("a", "Failed", 2).await?;
    jobs.until_pods("a", active(3).succeeded(1).failed(1))
        .await?;
    jobs.expect_indexes("a", &[0, 2, 3], "1", None).await?;
    jobs.end("a", "Succeeded", 3).await?;
    jobs.until_pods("a", active(0).succeeded(4).failed(1))
        .await?;
    jobs.expect_indexes("a", &[], "0-3", None).await?;
    jobs.until_condition("a", "Complete").await?;
    jobs.until_ended_pods_are_free("a").await
}

/// `TestElasticIndexedJob`.
#[tokio::test]
async fn an_indexed_job_may_become_larger_and_smaller() -> Result<()> {
    let jobs = Jobs::start().await?;
    let resize = |to: i64| json!({"parallelism": to, "completions": to});
    for name in ["up", "down", "down-and-up", "zero"] {
        let mut spec = resize(3);
        spec["completionMode"] = "Indexed".into();
        jobs.create(name, spec).await?;
        jobs.until_pods(name, active(3)).await?;
    }
    jobs.change("up", &resize(4)).await?;
    for index in 0..4 {
        jobs.end_index("up", "Succeeded", index).await?;
    }
    jobs.until_pods("up", active(0).succeeded(4)).await?;
    jobs.expect_indexes("up", &[], "0-3", None).await?;

    jobs.end_index("down", "Succeeded", 1).await?;
    jobs.end_index("down", "Failed", 2).await?;
    jobs.until_pods("down", active(2).succeeded(1).failed(1))
        .await?;
    jobs.expect_indexes("down", &[0, 2], "1", None).await?;
    jobs.change("down", &resize(1)).await?;
    jobs.end_index("down", "Succeeded", 0).await?;
    jobs.until_pods("down", active(0).succeeded(1).failed(1))
        .await?;
    jobs.expect_indexes("down", &[], "0", None).await?;

    jobs.end_index("down-and-up", "Succeeded", 2).await?;
    jobs.until_pods("down-and-up", active(2).succeeded(1))
        .await?;
    jobs.change("down-and-up", &resize(2)).await?;
    jobs.until_pods("down-and-up", active(2)).await?;
    jobs.expect_indexes("down-and-up", &[0, 1], "", None)
        .await?;
    jobs.change("down-and-up", &resize(3)).await?;
    for index in 0..3 {
        jobs.end_index("down-and-up", "Succeeded", index).await?;
    }
    jobs.until_pods("down-and-up", active(0).succeeded(3))
        .await?;
    jobs.expect_indexes("down-and-up", &[], "0-2", None).await?;

    jobs.change("zero", &resize(0)).await?;
    for name in ["up", "down", "down-and-up", "zero"] {
        jobs.until_condition(name, "Complete").await?;
    }
    Ok(())
}

/// `TestBackoffLimitPerIndex_DelayedPodDeletion`.
#[tokio::test]
async fn a_failed_pod_stays_until_its_index_has_another_that_knows_of_it() -> Result<()> {
    let jobs = Jobs::start().await?;
    let spec = json!({
        "parallelism": 1, "completions": 1, "completionMode": "Indexed", "backoffLimitPerIndex": 1,
    });
    jobs.create("a", spec).await?;
    jobs.until_pods("a", active(1)).await?;
    jobs.expect_indexes("a", &[0], "", Some("")).await?;
    let pod = jobs.active_pod_of("a", 0).await?;
    jobs.end_pod(&name_of(&pod), "Failed", 1).await?;
    jobs.delete_with("pods", &name_of(&pod), "Background")
        .await?;
    jobs.until_pods("a", active(1).failed(1)).await?;
    jobs.expect_indexes("a", &[0], "", Some("")).await?;
    let next = jobs.active_pod_of("a", 0).await?;
    let failures = "batch.kubernetes.io/job-index-failure-count";
    ensure!(next["metadata"]["annotations"][failures] == "1", "{next}");
    jobs.end_index("a", "Succeeded", 0).await?;
    jobs.until_pods("a", active(0).failed(1).succeeded(1))
        .await?;
    jobs.until_condition("a", "Complete").await.map(drop)
}

/// `TestBackoffLimitPerIndex_JobPodsCreatedWithExponentialBackoff`.
#[tokio::test]
async fn each_index_has_a_back_off_of_its_own() -> Result<()> {
    let jobs = Jobs::start_with_back_off(2).await?;
    let spec = json!({
        "parallelism": 2, "completions": 2, "completionMode": "Indexed", "backoffLimitPerIndex": 2,
    });
    jobs.create("a", spec).await?;
    jobs.until_pods("a", active(2)).await?;
    for (failed, index) in [(1, 0), (2, 0), (3, 1)] {
        jobs.end_index("a", "Failed", index).await?;
        jobs.until_pods("a", active(2).failed(failed)).await?;
        jobs.expect_indexes("a", &[0, 1], "", Some("")).await?;
    }
    jobs.end_index("a", "Succeeded", 0).await?;
    jobs.until_pods("a", active(1).failed(3).succeeded(1))
        .await?;
    jobs.expect_indexes("a", &[1], "0", Some("")).await?;
    jobs.end_index("a", "Failed", 1).await?;
    jobs.until_pods("a", active(1).failed(4).succeeded(1))
        .await?;
    jobs.end_index("a", "Succeeded", 1).await?;
    jobs.until_pods("a", active(0).failed(4).succeeded(2))
        .await?;
    jobs.expect_indexes("a", &[], "0,1", Some("")).await?;
    jobs.until_condition("a", "Complete").await?;
    for index in ["0", "1"] {
        let mut pods = jobs.pods("a").await?;
        pods.retain(|pod| pod["metadata"]["annotations"][super::INDEX] == index);
        super::expect_exponential_back_off(&pods, 2)?;
    }
    Ok(())
}

/// `TestBackoffLimitPerIndex`.
#[tokio::test]
async fn an_index_fails_for_good_when_it_has_failed_too_often() -> Result<()> {
    let jobs = Jobs::start().await?;
    let spec = |limit: i64| {
        json!({
            "parallelism": 2, "completions": 2, "completionMode": "Indexed",
            "backoffLimitPerIndex": limit,
        })
    };
    jobs.create("succeeds", spec(1)).await?;
    jobs.until_pods("succeeds", active(2)).await?;
    jobs.end_index("succeeds", "Failed", 0).await?;
    jobs.until_pods("succeeds", active(2).failed(1)).await?;
    jobs.expect_indexes("succeeds", &[0, 1], "", Some(""))
        .await?;
    jobs.end("succeeds", "Succeeded", 2).await?;
    jobs.until_condition("succeeds", "Complete").await?;

    jobs.create("fails", spec(1)).await?;
    jobs.until_pods("fails", active(2)).await?;
    jobs.end_index("fails", "Failed", 0).await?;
    jobs.until_pods("fails", active(2).failed(1)).await?;
    jobs.end_index("fails", "Failed", 0).await?;
    jobs.until_pods("fails", active(1).failed(2)).await?;
    jobs.expect_indexes("fails", &[1], "", Some("0")).await?;
    jobs.end_index("fails", "Succeeded", 1).await?;
    let condition = jobs.until_condition("fails", "Failed").await?;
    ensure!(condition["reason"] == "FailedIndexes", "{condition}");
    jobs.expect_indexes("fails", &[], "1", Some("0")).await?;

    let mut most = spec(0);
    most["maxFailedIndexes"] = 0.into();
    jobs.create("most", most).await?;
    jobs.until_pods("most", active(2)).await?;
    jobs.end_index("most", "Failed", 0).await?;
    let condition = jobs.until_condition("most", "Failed").await?;
    ensure!(
        condition["reason"] == "MaxFailedIndexesExceeded",
        "{condition}"
    );
    jobs.until_pods("most", active(0).failed(2)).await?;
    for name in ["succeeds", "fails", "most"] {
        jobs.until_ended_pods_are_free(name).await?;
    }
    Ok(())
}
