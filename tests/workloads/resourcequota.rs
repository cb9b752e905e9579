//! `test/integration/quota`, as far as the controller has a part in it: the test API server admits
//! everything. What is left out stands in `plugins/resourcequota/cases/LEFT_OUT.md`.

use anyhow::Result;
use pilothouse_tests::{DEFINITIONS, WorkloadRig, definition};
use serde_json::{Value, json};

const QUOTA: &str = "quota";

/// A pattern is granted by name only.
const GRANTED: &str = r#"
[grants]
reads = [
  "*", "Pod", "Service", "PersistentVolumeClaim",
  "resource.k8s.io/ResourceClaim", "resource.k8s.io/DeviceClass",
]
writes = [{ kind = "ResourceQuota", subresource = "status" }]
"#;

/// A rig with the plugin and these others.
async fn rig(others: &[&str]) -> Result<WorkloadRig> {
    let plugins: Vec<&str> = others.iter().copied().chain(["resourcequota"]).collect();
    let mut rig = WorkloadRig::without_host(&plugins).await?;
    rig.configure("resourcequota", GRANTED)?;
    rig.start_host().await?;
    Ok(rig)
}

async fn create(rig: &WorkloadRig, hard: &Value) -> Result<()> {
    let quota = json!({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": QUOTA},
        "spec": {"hard": hard},
    });
    rig.create("resourcequotas", &quota).await?;
    let has_hard = |quota: &Value| quota["status"]["hard"] == *hard;
    rig.eventually("resourcequotas", QUOTA, "limited", has_hard)
        .await
        .map(drop)
}

async fn until_used(rig: &WorkloadRig, used: &Value) -> Result<()> {
    let is_used = |quota: &Value| quota["status"]["used"] == *used;
    rig.eventually("resourcequotas", QUOTA, &used.to_string(), is_used)
        .await
        .map(drop)
}

/// `TestQuota`: a hundred pods are created, and counted.
#[tokio::test]
async fn a_controller_scales_up_within_a_quota() -> Result<()> {
    let rig = rig(&["replicationcontroller"]).await?;
    create(&rig, &json!({"pods": "1k"})).await?;
    let labels = json!({"foo": "bar"});
    let controller = json!({
        "apiVersion": "v1", "kind": "ReplicationController", "metadata": {"name": "foo"},
        "spec": {
            "replicas": 100, "selector": labels,
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "container", "image": "busybox"}]},
            },
        },
    });
    rig.create("replicationcontrollers", &controller).await?;
    let is_scaled = |controller: &Value| controller["status"]["replicas"] == 100;
    rig.eventually("replicationcontrollers", "foo", "scaled", is_scaled)
        .await?;
    until_used(&rig, &json!({"pods": "100"})).await?;
    let three = json!({"spec": {"replicas": 3}});
    rig.merge("replicationcontrollers", "foo", &three).await?;
    until_used(&rig, &json!({"pods": "3"})).await
}

/// What the controller counts in `TestQuotaLimitService`: node ports and load balancers, as
/// Services come, change their type and go.
#[tokio::test]
async fn services_are_counted_as_they_change() -> Result<()> {
    let rig = rig(&[]).await?;
    let hard = json!({"services": "4", "services.nodeports": "2", "services.loadbalancers": "2"});
    create(&rig, &hard).await?;
    let used = |services: &str, node_ports: &str, load_balancers: &str| {
        json!({
            "services": services, "services.nodeports": node_ports,
            "services.loadbalancers": load_balancers,
        })
    };
    let service = |name: &str, kind: &str, node_ports: bool| {
        json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
            "spec": {
                "type": kind, "ports": [{"port": 80}],
                "allocateLoadBalancerNodePorts": (kind == "LoadBalancer").then_some(node_ports),
            },
        })
    };
    for (name, kind, node_ports, wanted) in [
        ("ports", "NodePort", true, used("1", "1", "0")),
        ("both", "LoadBalancer", true, used("2", "2", "1")),
        ("balancer", "LoadBalancer", false, used("3", "2", "2")),
        ("ip", "ClusterIP", false, used("4", "2", "2")),
    ] {
        rig.create("services", &service(name, kind, node_ports))
            .await?;
        until_used(&rig, &wanted).await?;
    }
    let spec = json!({"spec": {"type": "ClusterIP"}});
    rig.merge("services", "ports", &spec).await?;
    until_used(&rig, &used("4", "1", "2")).await?;
    rig.delete("services", "both").await?;
    until_used(&rig, &used("3", "0", "1")).await
}

/// What `TestQuotaLimitedResourceDenial` waits for, and kinds that are defined later.
#[tokio::test]
async fn objects_of_any_kind_are_counted_once_there_is_the_kind() -> Result<()> {
    let rig = rig(&[]).await?;
    let hard = json!({"count/configmaps": "5", "count/gadgets.example.dev": "5"});
    create(&rig, &hard).await?;
    until_used(&rig, &json!({"count/configmaps": "0"})).await?;
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
    rig.create("configmaps", &map).await?;
    until_used(&rig, &json!({"count/configmaps": "1"})).await?;

    let definition = definition("example.dev", "Gadget");
    rig.api().create(DEFINITIONS, &definition).await?;
    let used = |maps: &str, gadgets: &str| {
        let gadgets = ("count/gadgets.example.dev".to_owned(), gadgets.into());
        let maps = ("count/configmaps".to_owned(), maps.into());
        Value::Object([maps, gadgets].into_iter().collect())
    };
    until_used(&rig, &used("1", "0")).await?;
    let gadget = json!({
        "apiVersion": "example.dev/v1", "kind": "Gadget", "metadata": {"name": "g"},
    });
    let gadgets = format!("/apis/example.dev/v1/namespaces/{}/gadgets", rig.namespace);
    rig.api().create(&gadgets, &gadget).await?;
    until_used(&rig, &used("1", "1")).await?;
    rig.delete("configmaps", "a").await?;
    until_used(&rig, &used("0", "1")).await
}
