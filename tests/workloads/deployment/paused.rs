//! Deployments that are paused, and what may be done to them.

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::{Tester, condition, deployment, number, rig};

/// `TestPausedDeployment`
#[tokio::test]
async fn a_paused_deployment_begins_no_rollout() -> Result<()> {
    let rig = rig().await?;
    let mut web = deployment("web", 1);
    web["spec"]["paused"] = true.into();
    web["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = 1.into();
    let tester = Tester::create(&rig, &web).await?;
    tester.observed().await?;
    assert_eq!(tester.sets().await?.len(), 0);

    tester.change(&json!({"paused": false})).await?;
    tester.observed().await?;
    tester.revision_and_image("1", "fakeimage").await?;
    tester.completes().await?;
    assert!(tester.new_set().await?.is_some());

    tester.change(&json!({"paused": true})).await?;
    tester.observed().await?;
    let template = json!({"spec": {"terminationGracePeriodSeconds": 0}});
    tester.change(&json!({"template": template})).await?;
    let paused = tester.observed().await?;
    let progressing = condition(&paused, "Progressing").context("it has a deadline")?;
    assert_eq!(progressing["reason"], "DeploymentPaused");
    let (new, old) = tester.new_and_old_sets().await?;
    assert_eq!(new, None);
    assert_eq!(old.len(), 1);
    let seconds = &old[0]["spec"]["template"]["spec"]["terminationGracePeriodSeconds"];
    assert_eq!(*seconds, 1);
    Ok(())
}

/// `TestScalePausedDeployment`
#[tokio::test]
async fn a_paused_deployment_is_scaled() -> Result<()> {
    let rig = rig().await?;
    let tester = Tester::create(&rig, &deployment("web", 1)).await?;
    tester.revision_and_image("1", "fakeimage").await?;
    tester.completes().await?;
    tester.change(&json!({"paused": true})).await?;
    tester.observed().await?;
    tester.change(&json!({"replicas": 10})).await?;
    tester.observed().await?;
    let set = tester.the_new_set().await?;
    assert_eq!(number(&set, "/spec/replicas"), 10);
    tester.completes().await?;
    Ok(())
}

/// `TestSpecReplicasChange`
#[tokio::test]
async fn a_deployment_is_scaled_and_its_other_changes_are_observed() -> Result<()> {
    let rig = rig().await?;
    let mut web = deployment("web", 1);
    web["spec"]["strategy"] = json!({"type": "Recreate"});
    let tester = Tester::create(&rig, &web).await?;
    for replicas in [2, 0, 1] {
        tester.change(&json!({"replicas": replicas})).await?;
        tester.completes().await?;
        let set = tester.the_new_set().await?;
        assert_eq!(number(&set, "/spec/replicas"), replicas);
    }
    let before = number(&tester.get().await?, "/metadata/generation");
    let changed = tester.change(&json!({"revisionHistoryLimit": 4})).await?;
    assert!(number(&changed, "/metadata/generation") > before);
    tester.observed().await?;
    Ok(())
}

/// `TestDeploymentScaleSubresource`
#[tokio::test]
async fn a_deployment_is_scaled_by_its_subresource() -> Result<()> {
    let rig = rig().await?;
    let tester = Tester::create(&rig, &deployment("web", 2)).await?;
    tester.revision_and_image("1", "fakeimage").await?;
    tester.completes().await?;
    let path = format!("{}/scale", rig.path("deployments", "web"));
    for replicas in [3, 0] {
        let scale = rig.api().get(&path).await?.context("it has a scale")?;
        let have = number(&tester.get().await?, "/spec/replicas");
        assert_eq!(number(&scale, "/spec/replicas"), have);
        let patch = json!({"spec": {"replicas": replicas}});
        rig.api().merge(&path, &patch).await?;
        assert_eq!(number(&tester.get().await?, "/spec/replicas"), replicas);
        let set = tester.the_new_set().await?;
        let name = pilothouse_tests::name_of(&set);
        let is_scaled = |set: &Value| number(set, "/spec/replicas") == replicas;
        rig.eventually("replicasets", &name, "scaled", is_scaled)
            .await?;
    }
    Ok(())
}
