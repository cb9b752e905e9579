//! `test/integration/podgc`.

use anyhow::{Result, ensure};
use pilothouse_tests::WorkloadRig;
use serde_json::{Value, json};

const PLUGIN: &str = "pod-garbage-collector";

/// With a shorter quarantine and a shorter period than the default, as upstream's test.
async fn start() -> Result<WorkloadRig> {
    let mut rig = WorkloadRig::without_host(&[PLUGIN]).await?;
    let settings = "[config]\ncheckPeriodSeconds = 1\nquarantineSeconds = 1\n";
    rig.configure(PLUGIN, settings)?;
    rig.start_host().await?;
    Ok(rig)
}

async fn create_node(rig: &WorkloadRig, name: &str, is_ready: bool) -> Result<()> {
    let status = if is_ready { "True" } else { "False" };
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}});
    rig.create("nodes", &node).await?;
    let conditions = json!([{"type": "Ready", "status": status}]);
    rig.merge_status("nodes", name, &json!({"conditions": conditions}))
        .await
        .map(drop)
}

/// A pod of a node, which a finalizer keeps if it is to stay.
fn pod(name: &str, node: &str, is_kept: bool) -> Value {
    let finalizers: &[&str] = if is_kept {
        &["test.k8s.io/finalizer"]
    } else {
        &[]
    };
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "finalizers": finalizers},
        "spec": {"nodeName": node, "containers": [{"name": "foo", "image": "bar"}]},
    })
}

fn disruption_target(pod: &Value) -> Option<&Value> {
    let conditions = pod["status"]["conditions"].as_array()?;
    conditions
        .iter()
        .find(|condition| condition["type"] == "DisruptionTarget")
}

/// Waits until the pod is being deleted, and returns it.
async fn until_deleted(rig: &WorkloadRig, name: &str) -> Result<Value> {
    let is_going = |pod: &Value| !pod["metadata"]["deletionTimestamp"].is_null();
    rig.eventually("pods", name, "being deleted", is_going)
        .await
}

fn ensure_node_is_said_to_be_gone(pod: &Value) -> Result<()> {
    let condition = disruption_target(pod).unwrap_or(&Value::Null);
    ensure!(
        condition["status"] == "True"
            && condition["reason"] == "DeletionByPodGC"
            && condition["message"] == "PodGC: node no longer exists"
            && condition["observedGeneration"] == 1
            && condition["lastTransitionTime"].is_string(),
        "{pod}"
    );
    ensure!(pod["status"]["phase"] == "Failed", "{pod}");
    Ok(())
}

/// `TestPodGcOrphanedPodsWithFinalizer`
#[tokio::test]
async fn pods_of_a_node_that_is_gone_fail_unless_they_have_ended() -> Result<()> {
    let rig = start().await?;
    create_node(&rig, "node", true).await?;
    for phase in ["Pending", "Succeeded", "Failed"] {
        let name = phase.to_lowercase();
        rig.create("pods", &pod(&name, "node", true)).await?;
        rig.set_pod_phase(&name, phase).await?;
    }
    rig.delete("nodes", "node").await?;
    ensure_node_is_said_to_be_gone(&until_deleted(&rig, "pending").await?)?;
    for phase in ["Succeeded", "Failed"] {
        let pod = until_deleted(&rig, &phase.to_lowercase()).await?;
        ensure!(pod["status"]["phase"] == phase, "{pod}");
        ensure!(disruption_target(&pod).is_none(), "{pod}");
    }
    Ok(())
}

/// `TestTerminatingOnOutOfServiceNode`
#[tokio::test]
async fn pods_that_are_being_deleted_fail_when_their_node_is_out_of_service() -> Result<()> {
    let rig = start().await?;
    create_node(&rig, "node", false).await?;
    for (name, is_kept) in [("kept", true), ("free", false)] {
        rig.create("pods", &pod(name, "node", is_kept)).await?;
        let path = rig.path("pods", name);
        rig.api().delete_with_grace(&path, 300).await?;
        until_deleted(&rig, name).await?;
    }
    let taint = json!({"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"});
    rig.merge("nodes", "node", &json!({"spec": {"taints": [taint]}}))
        .await?;
    let has_failed = |pod: &Value| pod["status"]["phase"] == "Failed";
    let kept = rig.eventually("pods", "kept", "failed", has_failed).await?;
    ensure!(disruption_target(&kept).is_none(), "{kept}");
    let path = rig.path("pods", "free");
    rig.api()
        .eventually(&path, "gone", |found| found.is_none())
        .await?;
    Ok(())
}

/// `TestPodGcForPodsWithDuplicatedFieldKeys`
#[tokio::test]
async fn pods_with_lists_whose_keys_repeat_fail_as_well() -> Result<()> {
    let rig = start().await?;
    let env = json!([{"name": "XYZ", "value": "1"}, {"name": "XYZ", "value": "2"}]);
    let ports = json!([
        {"containerPort": 93, "hostPort": 9376}, {"containerPort": 93, "hostPort": 9377},
    ]);
    for (name, member, value) in [("env", "env", env), ("ports", "ports", ports)] {
        let mut pod = pod(name, "non-existing-node", true);
        pod["spec"]["containers"][0][member] = value;
        rig.create("pods", &pod).await?;
    }
    for name in ["env", "ports"] {
        ensure_node_is_said_to_be_gone(&until_deleted(&rig, name).await?)?;
    }
    Ok(())
}
