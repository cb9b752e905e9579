//! Owners and dependents of kinds that are defined while the collector runs.

use anyhow::Result;
use pilothouse_tests::{DEFINITIONS, WorkloadRig, defined_version, definition};
use serde_json::{Value, json};

use super::{config_map, delete, owner, pod, rc, rig, rig_without_host, until_gone, until_seen};

pub fn gadgets(rig: &WorkloadRig) -> String {
    format!("/apis/example.dev/v1/namespaces/{}/gadgets", rig.namespace)
}

/// Defines the kind, and waits until the server serves it.
pub async fn define(rig: &WorkloadRig) -> Result<()> {
    rig.api()
        .create(DEFINITIONS, &definition("example.dev", "Gadget"))
        .await?;
    let is_served = |found: Option<&Value>| found.is_some();
    rig.api()
        .eventually(&gadgets(rig), "served", is_served)
        .await
        .map(drop)
}

pub async fn gadget(rig: &WorkloadRig, name: &str, owners: &[Value]) -> Result<Value> {
    let gadget = json!({
        "apiVersion": "example.dev/v1", "kind": "Gadget",
        "metadata": {"name": name, "ownerReferences": owners},
    });
    rig.api().create(&gadgets(rig), &gadget).await
}

async fn delete_gadget(rig: &WorkloadRig, name: &str) -> Result<()> {
    let path = format!("{}/{name}", gadgets(rig));
    let foreground = json!({"propagationPolicy": "Foreground"});
    rig.api().delete_with(&path, &foreground).await?;
    until_gone(rig, &path).await
}

/// `TestCustomResourceCascadingDeletion`.
#[tokio::test]
async fn custom_objects_own_custom_objects() -> Result<()> {
    let rig = rig().await?;
    define(&rig).await?;
    let parent = gadget(&rig, "owner", &[]).await?;
    let mut blocking = owner(&parent);
    blocking["blockOwnerDeletion"] = true.into();
    gadget(&rig, "dependent", &[blocking]).await?;
    delete_gadget(&rig, "owner").await?;
    let left = rig
        .api()
        .get(&format!("{}/dependent", gadgets(&rig)))
        .await?;
    assert_eq!(left, None, "the owner has waited for it");
    Ok(())
}

/// `TestMixedRelationships`.
#[tokio::test]
async fn custom_and_built_in_objects_own_each_other() -> Result<()> {
    let rig = rig().await?;
    define(&rig).await?;
    let custom = gadget(&rig, "owner", &[]).await?;
    let mut of_custom = owner(&custom);
    of_custom["blockOwnerDeletion"] = true.into();
    rig.create("configmaps", &config_map("dependent", &[of_custom]))
        .await?;
    let core = rig.create("configmaps", &config_map("owner", &[])).await?;
    let mut of_core = owner(&core);
    of_core["blockOwnerDeletion"] = true.into();
    gadget(&rig, "dependent", &[of_core]).await?;
    delete_gadget(&rig, "owner").await?;
    let left = rig.api().get(&rig.path("configmaps", "dependent")).await?;
    assert_eq!(left, None);
    delete(&rig, "configmaps", "owner", "Foreground").await?;
    until_gone(&rig, &rig.path("configmaps", "owner")).await?;
    let left = rig
        .api()
        .get(&format!("{}/dependent", gadgets(&rig)))
        .await?;
    assert_eq!(left, None);
    Ok(())
}

/// `TestCRDDeletionCascading`. Upstream waits until the collector has seen the kind.
#[tokio::test]
async fn what_an_object_owned_goes_when_its_kind_is_removed() -> Result<()> {
    let rig = rig().await?;
    for _ in 0..2 {
        define(&rig).await?;
        let parent = gadget(&rig, "owner", &[]).await?;
        let dependent = config_map("dependent", &[owner(&parent)]);
        rig.create("configmaps", &dependent).await?;
        // Once this one is gone, the kind is known, and the owner seen.
        let mut missing = owner(&parent);
        missing["uid"] = "missing".into();
        missing["name"] = "missing".into();
        gadget(&rig, "lost", &[missing]).await?;
        until_gone(&rig, &format!("{}/lost", gadgets(&rig))).await?;
        let path = format!("{DEFINITIONS}/gadgets.example.dev");
        rig.api().delete(&path).await?;
        until_gone(&rig, &path).await?;
        until_gone(&rig, &rig.path("configmaps", "dependent")).await?;
    }
    Ok(())
}

/// `TestCascadingDeleteOnCRDConversionFailure`.
#[tokio::test]
async fn a_kind_that_cannot_be_listed_holds_up_nobody() -> Result<()> {
    let mut rig = rig_without_host().await?;
    define(&rig).await?;
    gadget(&rig, "stored", &[]).await?;
    let nowhere = json!({
        "strategy": "Webhook", "webhook": {
            "conversionReviewVersions": ["v1"],
            "clientConfig": {"url": "https://127.0.0.1:1/convert"},
        },
    });
    let versions = [defined_version("v2", true), defined_version("v1", false)];
    let broken = json!({"spec": {"conversion": nowhere, "versions": versions}});
    let path = format!("{DEFINITIONS}/gadgets.example.dev");
    rig.api().merge(&path, &broken).await?;
    rig.start_host().await?;
    let doomed = rig.create("replicationcontrollers", &rc("doomed")).await?;
    rig.create("pods", &pod("lost", &[owner(&doomed)])).await?;
    until_seen(&rig, "first").await?;
    delete(&rig, "replicationcontrollers", "doomed", "Background").await?;
    until_gone(&rig, &rig.path("pods", "lost")).await
}
