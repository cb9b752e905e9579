//! Rolling updates: revisions, roll over, scaling at the same time, names that are taken.

use anyhow::{Context, Result, ensure};
use pilothouse_tests::name_of;
use serde_json::{Value, json};

use super::{DESIRED, HASH, REVISION, Tester, deployment, number, rig};

/// The hash of a ReplicaSet, which is in its name and in all its labels.
fn hash_of(set: &Value) -> Result<String> {
    let places = [
        "/metadata/labels",
        "/spec/selector/matchLabels",
        "/spec/template/metadata/labels",
    ];
    let hash = set
        .pointer(places[0])
        .and_then(|labels| labels[HASH].as_str());
    let hash = hash.context("a ReplicaSet has a hash")?;
    let has_it = |place: &str| {
        set.pointer(place)
            .is_some_and(|labels| labels[HASH] == hash)
    };
    ensure!(places.iter().all(|place| has_it(place)), "{set}");
    ensure!(name_of(set).ends_with(hash), "{set}");
    Ok(hash.to_owned())
}

/// `TestNewDeployment`
#[tokio::test]
async fn a_new_deployment_gets_a_replica_set_with_its_annotations_and_a_hash() -> Result<()> {
    const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
    let rig = rig().await?;
    let mut web = deployment("web", 20);
    web["spec"]["minReadySeconds"] = 4.into();
    web["metadata"]["annotations"] =
        json!({"test": "should-copy-to-replica-set", LAST_APPLIED: "should-not-copy"});
    let tester = Tester::create(&rig, &web).await?;
    tester.revision_and_image("1", "fakeimage").await?;
    tester.completes().await?;

    let set = tester.the_new_set().await?;
    let annotations = &set["metadata"]["annotations"];
    assert_eq!(annotations["test"], "should-copy-to-replica-set");
    assert!(annotations[LAST_APPLIED].is_null());
    let hash = hash_of(&set)?;
    let pods = rig.list("pods", "name=test").await?;
    assert_eq!(pods.len(), 20);
    let has_hash = |pod: &Value| pod["metadata"]["labels"][HASH] == hash.as_str();
    assert!(pods.iter().all(has_hash));
    Ok(())
}

/// `TestDeploymentRollingUpdate`
#[tokio::test]
async fn a_deployment_is_rolled_out_and_rolled_over_within_its_limits() -> Result<()> {
    let rig = rig().await?;
    let mut web = deployment("web", 20);
    web["spec"]["minReadySeconds"] = 4.into();
    web["spec"]["strategy"]["rollingUpdate"] = json!({"maxSurge": "25%", "maxUnavailable": "25%"});
    let tester = Tester::create(&rig, &web).await?;
    tester.revision_and_image("1", "fakeimage").await?;
    tester.completes().await?;

    tester.set_image("new-image").await?;
    tester.revision_and_image("2", "new-image").await?;
    tester.completes_within(5, 5).await?;

    // This one is not finished: no pod becomes ready.
    tester.set_image("dont-finish").await?;
    tester.revision_and_image("3", "dont-finish").await?;
    tester.set_image("rollover").await?;
    tester.revision_and_image("4", "rollover").await?;
    tester.completes_within(5, 5).await?;
    let (_, old) = tester.new_and_old_sets().await?;
    assert_eq!(old.len(), 3);
    assert!(
        old.iter().all(|set| number(set, "/spec/replicas") == 0),
        "{old:?}"
    );
    Ok(())
}

/// `TestDeploymentHashCollision`
#[tokio::test]
async fn a_name_that_is_taken_does_not_hold_back_a_rollout() -> Result<()> {
    let rig = rig().await?;
    let mut web = deployment("web", 1);
    web["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = 30.into();
    let tester = Tester::create(&rig, &web).await?;
    let set = tester.revision_and_image("1", "fakeimage").await?;
    let template = json!({"spec": {"terminationGracePeriodSeconds": 5}});
    let patch = json!({"spec": {"template": template}});
    rig.merge("replicasets", &name_of(&set), &patch).await?;
    let has_collided = |deployment: &Value| number(deployment, "/status/collisionCount") == 1;
    tester.eventually("collided", has_collided).await?;
    tester.revision_and_image("2", "fakeimage").await?;
    Ok(())
}

/// `TestScaledRolloutDeployment`
#[tokio::test]
async fn a_change_of_size_and_template_at_once_does_not_block_the_rollout() -> Result<()> {
    let rig = rig().await?;
    let mut web = deployment("web", 10);
    web["spec"]["strategy"]["rollingUpdate"] = json!({"maxSurge": 3, "maxUnavailable": 2});
    let tester = Tester::create(&rig, &web).await?;
    let first = tester.revision_and_image("1", "fakeimage").await?;
    tester.completes().await?;

    // Its pods do not become ready, so it gets stuck.
    tester.set_image("fakeimage2").await?;
    let second = tester.revision_and_image("2", "fakeimage2").await?;
    assert!(number(&tester.get().await?, "/status/availableReplicas") >= 8);
    tester.stable(&first).await?;
    tester.stable(&second).await?;

    let third = scale_and_roll(&tester, 20, "3", "fakeimage3").await?;
    desired_of(&tester, [&first, &second, &third], "20").await?;

    tester.set_image("fakeimage4").await?;
    let fourth = tester.revision_and_image("4", "fakeimage4").await?;
    assert!(number(&tester.get().await?, "/status/availableReplicas") >= 18);
    tester.stable(&third).await?;
    tester.stable(&fourth).await?;

    let fifth = scale_and_roll(&tester, 5, "5", "fakeimage5").await?;
    desired_of(&tester, [&third, &fourth, &fifth], "5").await
}

async fn scale_and_roll(
    tester: &Tester<'_>,
    replicas: u32,
    revision: &str,
    image: &str,
) -> Result<Value> {
    let containers = json!([{"name": "fake-name", "image": image}]);
    let template = json!({"spec": {"containers": containers}});
    let change = json!({"replicas": replicas, "template": template});
    tester.change(&change).await?;
    tester.revision_and_image(revision, image).await?;
    tester.completes().await?;
    tester.the_new_set().await
}

async fn desired_of(tester: &Tester<'_>, sets: [&Value; 3], wanted: &str) -> Result<()> {
    for set in sets {
        let set = tester.rig.get("replicasets", &name_of(set)).await?;
        ensure!(set["metadata"]["annotations"][DESIRED] == wanted, "{set}");
    }
    Ok(())
}

/// The rules of `rollback.go`, for which upstream has no integration test any more.
#[tokio::test]
async fn the_deprecated_annotation_rolls_a_deployment_back() -> Result<()> {
    let rig = rig().await?;
    let tester = Tester::create(&rig, &deployment("web", 2)).await?;
    let first = tester.revision_and_image("1", "fakeimage").await?;
    tester.completes().await?;
    tester.set_image("second").await?;
    tester.revision_and_image("2", "second").await?;
    tester.completes().await?;

    let annotations = json!({"deprecated.deployment.rollback.to": "0"});
    let patch = json!({"metadata": {"annotations": annotations}});
    rig.merge("deployments", "web", &patch).await?;
    let back = tester.revision_and_image("3", "fakeimage").await?;
    assert_eq!(name_of(&back), name_of(&first));
    let annotations = &back["metadata"]["annotations"];
    assert_eq!(
        annotations["deployment.kubernetes.io/revision-history"],
        "1"
    );
    let deployment = tester.completes().await?;
    let annotations = &deployment["metadata"]["annotations"];
    assert!(annotations["deprecated.deployment.rollback.to"].is_null());
    assert_eq!(annotations[REVISION], "3");
    Ok(())
}

/// The rules of `cleanupDeployment`, for which upstream has no integration test.
#[tokio::test]
async fn old_replica_sets_beyond_the_limit_are_deleted() -> Result<()> {
    let rig = rig().await?;
    let mut web = deployment("web", 1);
    web["spec"]["revisionHistoryLimit"] = 1.into();
    let tester = Tester::create(&rig, &web).await?;
    for image in ["b", "c", "d"] {
        tester.completes().await?;
        tester.set_image(image).await?;
    }
    tester.completes().await?;
    let images = |sets: &[Value]| -> Vec<String> {
        let image = |set: &Value| set["spec"]["template"]["spec"]["containers"][0]["image"].clone();
        let mut images: Vec<_> = sets.iter().map(|set| image(set).to_string()).collect();
        images.sort();
        images
    };
    let are_two = |sets: &[Value]| images(sets) == ["\"c\"", "\"d\""];
    rig.eventually_all("replicasets", "name=test", "the last two", are_two)
        .await?;
    Ok(())
}
