//! Claims that ask for more. Upstream has no integration test of them: this is the situation that
//! the controller is for.

use anyhow::{Result, ensure};
use pilothouse_tests::WorkloadRig;
use serde_json::{Value, json};

const RESIZER: &str = "volume.kubernetes.io/storage-resizer";

#[tokio::test]
async fn a_claim_that_asks_for_more_is_left_to_the_csi_driver_of_its_volume() -> Result<()> {
    let rig = WorkloadRig::start(&["persistentvolume-expander"]).await?;
    let claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "volumeName": "disk",
            "resources": {"requests": {"storage": "1Gi"}},
        },
    });
    let claim = rig.create("persistentvolumeclaims", &claim).await?;
    let volume = json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "disk"},
        "spec": {
            "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
            "awsElasticBlockStore": {"volumeID": "vol-1"},
            "claimRef": {
                "kind": "PersistentVolumeClaim", "namespace": rig.namespace, "name": "data",
                "uid": claim["metadata"]["uid"],
            },
        },
    });
    rig.api()
        .create("/api/v1/persistentvolumes", &volume)
        .await?;
    let bound = json!({"phase": "Bound", "capacity": {"storage": "1Gi"}});
    rig.merge_status("persistentvolumeclaims", "data", &bound)
        .await?;
    let more = json!({"spec": {"resources": {"requests": {"storage": "2Gi"}}}});
    rig.merge("persistentvolumeclaims", "data", &more).await?;
    let has_resizer =
        |claim: &Value| claim["metadata"]["annotations"][RESIZER] == "ebs.csi.aws.com";
    let claim = rig.eventually("persistentvolumeclaims", "data", "left to it", has_resizer);
    let claim = claim.await?;
    ensure!(claim["status"]["phase"] == "Bound", "{claim}");
    let is_told = |events: &[Value]| {
        events
            .iter()
            .any(|event| event["reason"] == "ExternalExpanding")
    };
    rig.eventually_all("events", "", "told", is_told).await?;
    Ok(())
}
