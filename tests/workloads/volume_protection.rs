//! The protection of claims and volumes. Upstream has no integration test of it: these are the
//! situations that it is for.

use anyhow::{Result, ensure};
use pilothouse_tests::WorkloadRig;
use serde_json::{Value, json};

const VOLUMES: &str = "/api/v1/persistentvolumes";

fn has_finalizer(object: &Value, name: &str) -> bool {
    let finalizers = object["metadata"]["finalizers"].as_array();
    finalizers.is_some_and(|finalizers| finalizers.iter().any(|one| one == name))
}

fn claim(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
        },
    })
}

#[tokio::test]
async fn a_claim_that_is_deleted_stays_as_long_as_a_pod_on_a_node_uses_it() -> Result<()> {
    let rig = WorkloadRig::start(&["persistentvolumeclaim-protection"]).await?;
    for name in ["used", "free"] {
        rig.create("persistentvolumeclaims", &claim(name)).await?;
        let is_held = |claim: &Value| has_finalizer(claim, "kubernetes.io/pvc-protection");
        rig.eventually("persistentvolumeclaims", name, "protected", is_held)
            .await?;
    }
    let volume = json!({"name": "data", "persistentVolumeClaim": {"claimName": "used"}});
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "user"},
        "spec": {
            "nodeName": "n", "volumes": [volume],
            "containers": [{"name": "container", "image": "pause"}],
        },
    });
    rig.create("pods", &pod).await?;
    for name in ["used", "free"] {
        rig.delete("persistentvolumeclaims", name).await?;
    }
    let free = rig.path("persistentvolumeclaims", "free");
    rig.api()
        .eventually(&free, "gone", |found| found.is_none())
        .await?;
    let used = rig.get("persistentvolumeclaims", "used").await?;
    ensure!(
        has_finalizer(&used, "kubernetes.io/pvc-protection"),
        "{used}"
    );
    rig.delete("pods", "user").await?;
    let used = rig.path("persistentvolumeclaims", "used");
    rig.api()
        .eventually(&used, "gone", |found| found.is_none())
        .await?;
    Ok(())
}

#[tokio::test]
async fn a_volume_that_is_deleted_stays_as_long_as_it_is_bound() -> Result<()> {
    let rig = WorkloadRig::start(&["persistentvolume-protection"]).await?;
    let volume = json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "v"},
        "spec": {
            "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
            "hostPath": {"path": "/tmp/v"},
        },
    });
    rig.api().create(VOLUMES, &volume).await?;
    let path = format!("{VOLUMES}/v");
    let is_held = |found: Option<&Value>| {
        found.is_some_and(|volume| has_finalizer(volume, "kubernetes.io/pv-protection"))
    };
    rig.api().eventually(&path, "protected", is_held).await?;
    let set_phase = |phase: &str| json!({"status": {"phase": phase}});
    let status = format!("{path}/status");
    rig.api().merge(&status, &set_phase("Bound")).await?;
    rig.api().delete(&path).await?;
    let is_terminating = |found: Option<&Value>| {
        found.is_some_and(|volume| !volume["metadata"]["deletionTimestamp"].is_null())
    };
    rig.api()
        .eventually(&path, "terminating", is_terminating)
        .await?;
    rig.api().merge(&status, &set_phase("Released")).await?;
    rig.api()
        .eventually(&path, "gone", |found| found.is_none())
        .await?;
    Ok(())
}
