//! Which ReplicaSets a Deployment has.

use anyhow::Result;
use pilothouse_tests::{WorkloadRig, name_of};
use serde_json::{Value, json};

use super::{Tester, deployment, number, rig};

fn controller(set: &Value) -> Option<&Value> {
    let owners = set["metadata"]["ownerReferences"].as_array()?;
    owners.iter().find(|owner| owner["controller"] == true)
}

/// A Deployment of one pod that is complete, and its ReplicaSet.
async fn complete<'a>(rig: &'a WorkloadRig, name: &str) -> Result<(Tester<'a>, Value)> {
    let tester = Tester::create(rig, &deployment(name, 1)).await?;
    tester.revision_and_image("1", "fakeimage").await?;
    tester.completes().await?;
    let set = tester.the_new_set().await?;
    Ok((tester, set))
}

/// `TestOverlappingDeployments`
#[tokio::test]
async fn deployments_with_the_same_selector_do_not_disturb_each_other() -> Result<()> {
    let rig = rig().await?;
    let (first, first_set) = complete(&rig, "first").await?;
    let (_, second_set) = complete(&rig, "second").await?;
    assert_ne!(first_set["metadata"]["uid"], second_set["metadata"]["uid"]);
    first.change(&json!({"replicas": 2})).await?;
    first.completes().await?;
    for (set, wanted) in [(first_set, 2), (second_set, 1)] {
        let set = rig.get("replicasets", &name_of(&set)).await?;
        assert_eq!(number(&set, "/spec/replicas"), wanted);
    }
    Ok(())
}

/// `TestGeneralReplicaSetAdoption`
#[tokio::test]
async fn a_replica_set_that_nobody_manages_is_adopted_whatever_other_owners_it_has() -> Result<()> {
    let rig = rig().await?;
    let (tester, set) = complete(&rig, "web").await?;
    let uid = tester.get().await?["metadata"]["uid"].clone();
    let other =
        json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "u-1"});
    let own = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": uid});
    for (owner, count) in [(other, 2), (own, 1)] {
        let owners = json!({"metadata": {"ownerReferences": [owner]}});
        rig.merge("replicasets", &name_of(&set), &owners).await?;
        let is_adopted = |set: &Value| controller(set).is_some_and(|owner| owner["uid"] == uid);
        let set = rig
            .eventually("replicasets", &name_of(&set), "adopted", is_adopted)
            .await?;
        let owners = set["metadata"]["ownerReferences"].as_array();
        assert_eq!(owners.map(Vec::len), Some(count), "{set}");
    }
    Ok(())
}

/// `TestReplicaSetOrphaningAndAdoptionWhenLabelsChange`
#[tokio::test]
async fn a_replica_set_whose_labels_change_is_released_and_adopted_again() -> Result<()> {
    let rig = rig().await?;
    let (tester, set) = complete(&rig, "web").await?;
    let uid = tester.get().await?["metadata"]["uid"].clone();
    let is_mine = |set: &Value| controller(set).is_some_and(|owner| owner["uid"] == uid);
    assert!(is_mine(&set));
    let name = name_of(&set);

    let labels = json!({"name": null, "pod-template-hash": null, "new-name": "new-test"});
    let other = json!({"metadata": {"labels": labels}});
    rig.merge("replicasets", &name, &other).await?;
    rig.eventually("replicasets", &name, "released", |set| {
        controller(set).is_none()
    })
    .await?;
    let is_new = |sets: &[Value]| {
        let mut new = sets.iter().filter(|set| is_mine(set));
        new.any(|new| new["metadata"]["uid"] != set["metadata"]["uid"])
    };
    rig.eventually_all("replicasets", "name=test", "new", is_new)
        .await?;

    let back = json!({"metadata": {"labels": {"name": "test", "new-name": null}}});
    rig.merge("replicasets", &name, &back).await?;
    rig.eventually("replicasets", &name, "adopted", is_mine)
        .await?;
    Ok(())
}
