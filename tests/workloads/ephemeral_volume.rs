//! The claims of ephemeral volumes. Upstream has no integration test of them: this is the situation
//! that the controller is for.

use anyhow::{Result, ensure};
use pilothouse_tests::WorkloadRig;
use serde_json::{Value, json};

#[tokio::test]
async fn a_pod_gets_the_claims_of_its_ephemeral_volumes_and_owns_them() -> Result<()> {
    let rig = WorkloadRig::start(&["ephemeral-volume"]).await?;
    let spec = json!({
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
    });
    let template = json!({"metadata": {"labels": {"app": "db"}}, "spec": spec});
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "db"},
        "spec": {
            "containers": [{"name": "container", "image": "pause"}],
            "volumes": [{"name": "data", "ephemeral": {"volumeClaimTemplate": template}}],
        },
    });
    let pod = rig.create("pods", &pod).await?;
    let path = rig.path("persistentvolumeclaims", "db-data");
    let claim = rig
        .api()
        .eventually(&path, "there", |found| found.is_some());
    let claim = claim.await?.unwrap_or_default();
    let owner = &claim["metadata"]["ownerReferences"][0];
    ensure!(
        owner["uid"] == pod["metadata"]["uid"] && owner["controller"] == true,
        "{claim}"
    );
    ensure!(
        claim["metadata"]["labels"] == json!({"app": "db"}),
        "{claim}"
    );
    ensure!(claim["spec"]["resources"] == spec["resources"], "{claim}");

    rig.api().delete(&path).await?;
    let uid = &claim["metadata"]["uid"];
    let is_another =
        |found: Option<&Value>| found.is_some_and(|found| found["metadata"]["uid"] != *uid);
    rig.api()
        .eventually(&path, "there again", is_another)
        .await?;
    Ok(())
}
