//! What the status says while a Deployment does not get on.

use anyhow::{Context, Result};
use http::Method;
use pilothouse_tests::proxy::{Answer, writes};
use serde_json::json;

use super::{Tester, condition, deployment, is_ready, rig};

/// `TestFailedDeployment`
#[tokio::test]
async fn a_rollout_without_progress_has_failed_until_it_is_complete() -> Result<()> {
    let rig = rig().await?;
    let mut web = deployment("web", 1);
    web["spec"]["progressDeadlineSeconds"] = 3.into();
    let tester = Tester::create(&rig, &web).await?;
    let failed = tester
        .condition_with_reason("Progressing", "ProgressDeadlineExceeded")
        .await?;
    let progressing = condition(&failed, "Progressing").context("it is there")?;
    assert_eq!(progressing["status"], "False");
    tester.completes().await?;
    tester
        .condition_with_reason("Progressing", "NewReplicaSetAvailable")
        .await?;
    Ok(())
}

/// `TestDeploymentAvailableCondition`
#[tokio::test]
async fn pods_are_available_only_after_they_have_been_ready_for_some_time() -> Result<()> {
    let rig = rig().await?;
    let mut web = deployment("web", 10);
    web["spec"]["minReadySeconds"] = 3600.into();
    web["spec"]["progressDeadlineSeconds"] = 7200.into();
    let tester = Tester::create(&rig, &web).await?;
    tester.counts([10, 10, 0, 0, 10, 0]).await?;
    let unavailable = "MinimumReplicasUnavailable";
    tester
        .condition_with_reason("Available", unavailable)
        .await?;

    let pods = rig.eventually_pods("name=test", 10).await?;
    assert!(!pods.iter().any(is_ready));
    tester.mark_ready().await?;
    tester.counts([10, 10, 10, 0, 10, 0]).await?;
    tester
        .condition_with_reason("Available", unavailable)
        .await?;

    tester.change(&json!({"minReadySeconds": 1})).await?;
    tester.observed().await?;
    tester
        .condition_with_reason("Available", "MinimumReplicasAvailable")
        .await?;
    tester.counts([10, 10, 10, 10, 0, 0]).await?;
    Ok(())
}

/// The rules of `getNewReplicaSet` about a create that fails, for which upstream has no integration
/// test: the API server says why, and the Deployment's status repeats it until it works.
#[tokio::test]
async fn a_replica_set_that_the_server_refuses_is_told_in_its_words() -> Result<()> {
    let rig = rig().await?;
    let creates = writes("replicasets").method(Method::POST);
    let refused = rig.proxy.on(creates).answer(Answer::status(403));
    let tester = Tester::create(&rig, &deployment("web", 1)).await?;
    let failed = tester
        .condition_with_reason("Progressing", "ReplicaSetCreateError")
        .await?;
    let progressing = condition(&failed, "Progressing").context("it is there")?;
    let message = progressing["message"].as_str().unwrap_or_default();
    assert!(
        message.starts_with("Failed to create new replica set \"web-"),
        "{message}"
    );
    assert!(
        message.ends_with("403 made up by the test's proxy"),
        "{message}"
    );
    refused.lift();
    tester.completes().await?;
    tester
        .condition_with_reason("Progressing", "NewReplicaSetAvailable")
        .await?;
    Ok(())
}
