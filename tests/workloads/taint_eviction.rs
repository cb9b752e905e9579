//! `test/integration/node`, as far as it is about the taint eviction controller. The test taints
//! the nodes, as the node lifecycle controller would, and gives the pods their tolerations, as
//! admission would.

use std::time::Duration;

use anyhow::{Result, ensure};
use pilothouse_tests::WorkloadRig;
use serde_json::{Value, json};
use tokio::time::Instant;

/// A host with the plugin, and three nodes.
async fn start() -> Result<WorkloadRig> {
    let rig = WorkloadRig::start(&["taint-eviction"]).await?;
    for number in 0..3 {
        let node = json!({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": format!("node-{number}")},
        });
        rig.create("nodes", &node).await?;
    }
    Ok(rig)
}

/// Creates a pod on the node that is tainted later.
async fn create_pod(rig: &WorkloadRig, name: &str, tolerations: &Value) -> Result<()> {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {
            "nodeName": "node-1", "tolerations": tolerations,
            "terminationGracePeriodSeconds": 30,
            "containers": [{"name": "container", "image": "pause"}],
        },
    });
    rig.create("pods", &pod).await?;
    rig.set_pod_ready(name, true).await
}

async fn taint(rig: &WorkloadRig, key: &str) -> Result<()> {
    let patch = json!({"spec": {"taints": [{"key": key, "effect": "NoExecute"}]}});
    rig.merge("nodes", "node-1", &patch).await.map(drop)
}

fn not_ready_for(seconds: i64) -> Value {
    json!([{
        "key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute",
        "tolerationSeconds": seconds,
    }])
}

fn is_terminating(pod: &Value) -> bool {
    !pod["metadata"]["deletionTimestamp"].is_null()
}

fn condition<'a>(pod: &'a Value, name: &str) -> Option<&'a Value> {
    let mut conditions = pod["status"]["conditions"].as_array()?.iter();
    conditions.find(|condition| condition["type"] == name)
}

/// `TestEvictionForNoExecuteTaintAddedByUser`
#[tokio::test]
async fn the_pods_of_a_node_that_a_user_taints_are_deleted_and_say_why() -> Result<()> {
    let rig = start().await?;
    create_pod(&rig, "testpod", &json!([])).await?;
    taint(&rig, "CustomTaintByUser").await?;
    let pod = rig.eventually("pods", "testpod", "being deleted", is_terminating);
    let pod = pod.await?;
    let target = condition(&pod, "DisruptionTarget").unwrap_or(&Value::Null);
    ensure!(
        target["status"] == "True"
            && target["reason"] == "DeletionByTaintManager"
            && target["message"] == "Taint manager: deleting due to NoExecute taint"
            && target["observedGeneration"] == 1,
        "{pod}"
    );
    ensure!(condition(&pod, "Ready").is_some(), "others stay: {pod}");
    ensure!(pod["metadata"]["deletionGracePeriodSeconds"] == 30, "{pod}");
    let is_told = |events: &[Value]| {
        let is_it = |event: &Value| {
            event["reason"] == "TaintManagerEviction" && event["regarding"]["name"] == "testpod"
        };
        events.iter().any(is_it)
    };
    rig.eventually_all("events", "", "told", is_told).await?;
    Ok(())
}

/// `TestTaintBasedEvictions`: "NodeNotReady and 0 tolerationseconds", "200 tolerationseconds"; and
/// a pod whose time runs out.
#[tokio::test]
async fn pods_of_a_node_that_is_not_ready_go_when_their_time_has_run_out() -> Result<()> {
    let rig = start().await?;
    for (name, seconds) in [("none", 0), ("short", 2), ("long", 200)] {
        create_pod(&rig, name, &not_ready_for(seconds)).await?;
    }
    let begin = Instant::now();
    taint(&rig, "node.kubernetes.io/not-ready").await?;
    for name in ["none", "short"] {
        let gone = rig.eventually("pods", name, "being deleted", is_terminating);
        gone.await?;
    }
    ensure!(begin.elapsed() >= Duration::from_secs(2), "it was early");
    let long = rig.get("pods", "long").await?;
    ensure!(!is_terminating(&long), "{long}");
    Ok(())
}
