//! Pods that are being deleted while a Deployment is rolled out or scaled. They have a node, and so
//! they stay until their grace period is over.

use anyhow::Result;
use pilothouse_tests::name_of;
use serde_json::{Value, json};

use super::{DESIRED, MAX, REVISION, Tester, deployment, is_terminating, number, rig};

const GRACE: u32 = 300;

fn on_a_node(name: &str, replicas: u32) -> Value {
    let mut deployment = deployment(name, replicas);
    let spec = &mut deployment["spec"]["template"]["spec"];
    spec["nodeName"] = "fake-node".into();
    spec["terminationGracePeriodSeconds"] = GRACE.into();
    deployment
}

impl Tester<'_> {
    /// Begins to delete some pods of a ReplicaSet.
    async fn terminate(&self, set: &Value, count: usize) -> Result<()> {
        for pod in self.pods_of(set).await?.iter().take(count) {
            let path = self.rig.path("pods", &name_of(pod));
            self.rig.api().delete_with_grace(&path, GRACE).await?;
        }
        Ok(())
    }

    /// Deletes the pods of a ReplicaSet that are being deleted, at once.
    async fn remove_terminating(&self, set: &Value) -> Result<()> {
        for pod in self
            .pods_of(set)
            .await?
            .iter()
            .filter(|pod| is_terminating(pod))
        {
            self.rig.delete("pods", &name_of(pod)).await?;
        }
        Ok(())
    }

    async fn roll_out_another_template(&self) -> Result<()> {
        let container = json!({"name": "fake-name", "image": "fakeimage",
            "env": [{"name": "deploy2", "value": "true"}]});
        let template = json!({"spec": {"containers": [container]}});
        self.change(&json!({"template": template})).await.map(drop)
    }
}

/// `TestRecreateDeploymentForPodReplacement`, with the feature gate that is on by default. What
/// `TestTerminatingReplicasDeploymentStatus` checks with that gate on is in it.
#[tokio::test]
async fn a_recreate_waits_for_the_end_of_pods_that_are_being_deleted() -> Result<()> {
    let rig = rig().await?;
    let mut web = on_a_node("web", 6);
    web["spec"]["strategy"] = json!({"type": "Recreate"});
    let tester = Tester::create(&rig, &web).await?;
    tester.completes().await?;
    let first = tester.the_new_set().await?;

    tester.roll_out_another_template().await?;
    tester.counts([0, 0, 0, 0, 0, 6]).await?;
    assert_eq!(tester.new_set().await?, None, "old pods still run");
    tester.remove_terminating(&first).await?;
    tester.counts([6, 6, 0, 0, 6, 0]).await?;
    let second = tester.the_new_set().await?;

    tester.terminate(&second, 1).await?;
    tester.counts([6, 6, 0, 0, 6, 1]).await?;
    tester.change(&json!({"replicas": 7})).await?;
    tester.counts([7, 7, 0, 0, 7, 1]).await?;
    tester.change(&json!({"replicas": 5})).await?;
    tester.counts([5, 5, 0, 0, 5, 3]).await?;
    tester.completes().await?;
    tester.counts([5, 5, 5, 5, 0, 3]).await?;
    tester.remove_terminating(&second).await?;
    tester.counts([5, 5, 5, 5, 0, 0]).await?;
    Ok(())
}

/// `TestRollingUpdateAndProportionalScalingForDeploymentPodReplacement`, with the feature gate that
/// is on by default.
#[tokio::test]
async fn a_rolling_update_does_not_wait_for_pods_and_is_scaled_in_proportion() -> Result<()> {
    let rig = rig().await?;
    let mut web = on_a_node("web", 100);
    web["spec"]["strategy"]["rollingUpdate"] = json!({"maxSurge": 20, "maxUnavailable": 0});
    let tester = Tester::create(&rig, &web).await?;
    tester.completes().await?;
    let first = tester.the_new_set().await?;
    tester.terminate(&first, 15).await?;
    tester.counts([100, 100, 85, 85, 15, 15]).await?;
    tester.completes().await?;

    tester.roll_out_another_template().await?;
    tester.counts([120, 20, 100, 100, 20, 15]).await?;
    let second = tester.the_new_set().await?;
    tester.terminate(&second, 1).await?;
    tester.counts([120, 20, 100, 100, 20, 16]).await?;
    tester.change(&json!({"replicas": 120})).await?;
    tester.counts([140, 23, 100, 100, 40, 16]).await?;
    for (set, size) in [(&first, 117), (&second, 23)] {
        let set = rig.get("replicasets", &name_of(set)).await?;
        assert_eq!(number(&set, "/spec/replicas"), size);
    }
    notes(&tester, [&first, &second]).await?;

    tester
        .completes_while(async |_| {
            tester.remove_terminating(&first).await?;
            tester.remove_terminating(&second).await
        })
        .await?;
    notes(&tester, [&first, &second]).await
}

/// The annotations of both ReplicaSets are those of 120 pods with a surge of 20.
async fn notes(tester: &Tester<'_>, sets: [&Value; 2]) -> Result<()> {
    for (set, revision) in sets.into_iter().zip(["1", "2"]) {
        let set = tester.rig.get("replicasets", &name_of(set)).await?;
        let wanted = json!({DESIRED: "120", MAX: "140", REVISION: revision});
        assert_eq!(set["metadata"]["annotations"], wanted);
    }
    Ok(())
}
