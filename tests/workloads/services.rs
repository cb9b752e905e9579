//! What the tests of the controllers of endpoints have in common: Services, and pods with
//! addresses.

use anyhow::Result;
use pilothouse_tests::WorkloadRig;
use serde_json::{Value, json};

/// The selector of a Service's slices.
pub fn slices_of(service: &str) -> String {
    format!("kubernetes.io/service-name={service}")
}

/// A Service of two ports over the pods with the label `foo=bar`, with these members of its `spec`;
/// null takes one away.
pub fn service(name: &str, spec: &Value) -> Value {
    let mut service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "labels": {"foo": "bar"}},
        "spec": {
            "selector": {"foo": "bar"},
            "ports": [
                {"name": "port-1338", "port": 1338, "protocol": "TCP", "targetPort": 1338},
                {"name": "port-1337", "port": 1337, "protocol": "TCP", "targetPort": 1337},
            ],
        },
    });
    for (name, member) in spec.as_object().into_iter().flatten() {
        service["spec"][name] = member.clone();
    }
    service
}

/// Creates a running pod with the label `foo=bar` on the node `fake-node`, with this address; it is
/// ready, or is not.
pub async fn create_pod(rig: &WorkloadRig, name: &str, ip: &str, is_ready: bool) -> Result<Value> {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"foo": "bar"}},
        "spec": {
            "nodeName": "fake-node",
            "containers": [{"name": "fake-name", "image": "fakeimage"}],
        },
    });
    rig.create("pods", &pod).await?;
    let condition = json!({"type": "Ready", "status": if is_ready { "True" } else { "False" }});
    let status = json!({
        "phase": "Running", "conditions": [condition], "podIP": ip, "podIPs": [{"ip": ip}],
    });
    rig.merge_status("pods", name, &status).await
}

/// Creates the node on which the pods are.
pub async fn create_node(rig: &WorkloadRig) -> Result<()> {
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "fake-node"}});
    rig.create("nodes", &node).await.map(drop)
}

/// Deletes a pod with a grace period, so that it stays and is being deleted.
pub async fn terminate(rig: &WorkloadRig, pod: &str) -> Result<()> {
    let path = rig.path("pods", pod);
    rig.api().delete_with_grace(&path, 30).await
}
