//! A cluster of many pods, as the controllers of workloads leave it.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use futures::future::try_join_all;
use pilothouse_tests::{
    Api, Change, Doings, Fan, Host, Kubelets, Server, all_of, containers, create_namespace, define,
    follow, now, path_of, plugin_directory,
};
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{sleep, timeout};

const NAMESPACES: usize = 10;
const NODES: u32 = 100;
/// Of a Deployment.
const PODS_EACH: usize = 10;
/// Pods of a namespace that are not of Deployments.
const OTHER_PODS: usize = 6;
/// Of a namespace, of each kind that stands for its kind only.
const OTHERS: usize = 20;
/// One Deployment of so many has a budget.
const BUDGETS: usize = 10;

const IMAGE: &str = "example.dev/web:1";

/// The controllers that make pods.
const MAKERS: [&str; 6] = [
    "daemonset",
    "deployment",
    "job",
    "replicaset",
    "replicationcontroller",
    "statefulset",
];

/// How long the next pod may take to be ready.
const PATIENCE: Duration = Duration::from_secs(120);

/// How often a node renews its lease, as kubelets do.
const RENEWAL: Duration = Duration::from_secs(10);
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";

/// Fills the cluster, with at least so many pods, and waits until all of them are ready and nothing
/// is left to do for those who make them. Returns how many there are.
pub async fn build(server: &Server, pods: usize) -> Result<usize> {
    let api = &server.api;
    define(api, &["Gadget", "Widget"]).await?;
    let deployments = pods.div_ceil(PODS_EACH);
    let nodes = (0..NODES).map(|number| create_node(api, number));
    all_of(nodes).await?;
    let namespaces = (0..NAMESPACES).map(|number| create_team(api, number));
    all_of(namespaces).await?;
    all_of((0..deployments).map(|number| create_deployment(api, number))).await?;
    let pods = deployments * PODS_EACH + NAMESPACES * OTHER_PODS;
    let plugins = plugin_directory(&MAKERS);
    let host = Host::ready(plugins.path(), server.kubeconfig()).await?;
    let mut fan = Fan::default();
    let (of_kubelets, of_pods) = (fan.receiver(), fan.receiver());
    let follows = ["nodes", "pods"].map(|resource| {
        let collection = format!("/api/v1/{resource}");
        follow(api.clone(), resource, collection, fan.clone())
    });
    let kubelets = Kubelets::new(api.clone(), Doings::default(), 1).run(of_kubelets);
    let work = async {
        until_ready(of_pods, pods).await?;
        crate::until_settled(server, &host, MAKERS.len()).await
    };
    tokio::select! {
        done = work => done.with_context(|| host.log())?,
        Err(error) = try_join_all(follows) => return Err(error),
        never = kubelets => match never {},
    };
    Ok(pods)
}

fn team(number: usize) -> String {
    format!("team-{}", number % NAMESPACES)
}

async fn until_ready(mut changes: UnboundedReceiver<Change>, count: usize) -> Result<()> {
    let mut ready = BTreeSet::new();
    while ready.len() < count {
        let Ok(change) = timeout(PATIENCE, changes.recv()).await else {
            bail!(
                "{} of {count} pods are ready, and no more become so",
                ready.len()
            );
        };
        let change = change.context("the watches go on")?;
        let conditions = change.object["status"]["conditions"].as_array();
        let mut conditions = conditions.into_iter().flatten();
        let is_ready = conditions.any(|one| one["type"] == "Ready" && one["status"] == "True");
        if change.resource == "pods" && is_ready {
            let uid = change.object["metadata"]["uid"].as_str();
            ready.insert(uid.unwrap_or_default().to_owned());
        }
    }
    Ok(())
}

async fn create_node(api: &Api, number: u32) -> Result<()> {
    let name = format!("node-{number}");
    let node = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": {"bench.dev/node": name}},
    });
    let created = api.create("/api/v1/nodes", &node).await?;
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": name, "ownerReferences": [{
            "apiVersion": "v1", "kind": "Node", "name": name, "uid": created["metadata"]["uid"],
        }]},
        "spec": {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": renewal()},
    });
    api.create(LEASES, &lease).await.map(drop)
}

/// Renews the leases of all nodes, evenly, until it fails.
pub async fn renew_leases(api: &Api) -> Result<Infallible> {
    for number in (0..NODES).cycle() {
        let renewed = json!({"spec": {"renewTime": renewal()}});
        api.merge(&format!("{LEASES}/node-{number}"), &renewed)
            .await?;
        sleep(RENEWAL / NODES).await;
    }
    bail!("there are no nodes")
}

/// The time, as leases have it.
fn renewal() -> String {
    now().replace('Z', ".000000Z")
}

/// Creates a namespace with some objects of many kinds.
async fn create_team(api: &Api, number: usize) -> Result<()> {
    let namespace = team(number);
    create_namespace(api, &namespace).await?;
    let spec = |labels: &Value| json!({"metadata": {"labels": labels}, "spec": pod_spec("Always")});
    let labelled = |app: &str, replicas: usize| {
        let labels = json!({"app": app});
        json!({
            "replicas": replicas, "selector": {"matchLabels": labels}, "template": spec(&labels),
        })
    };
    let rc = json!({"app": "old"});
    let pinned = json!({
        "selector": {"matchLabels": {"app": "agent"}},
        "template": {"metadata": {"labels": {"app": "agent"}}, "spec": {
            "containers": containers(IMAGE), "nodeSelector": {"bench.dev/node": "node-0"},
        }},
    });
    let mut set = labelled("db", 2);
    set["serviceName"] = "db".into();
    let job = json!({"template": {"spec": pod_spec("Never")}});
    let quota = json!({"hard": {
        "pods": "100k", "requests.cpu": "100k", "services": "10k", "configmaps": "1k",
        "persistentvolumeclaims": "1k", "count/deployments.apps": "10k",
        "count/gadgets.bench.dev": "10k",
    }});
    let old = json!({"replicas": 2, "selector": rc, "template": spec(&rc)});
    let cron = json!({
        "schedule": "0 0 1 1 *", "suspend": true, "jobTemplate": {"spec": job},
    });
    let apps = "/apis/apps/v1";
    for (group, resource, kind, spec) in [
        ("/api/v1", "resourcequotas", "ResourceQuota", quota),
        (
            "/api/v1",
            "replicationcontrollers",
            "ReplicationController",
            old,
        ),
        (apps, "daemonsets", "DaemonSet", pinned),
        (apps, "statefulsets", "StatefulSet", set),
        ("/apis/batch/v1", "jobs", "Job", job),
        ("/apis/batch/v1", "cronjobs", "CronJob", cron),
    ] {
        create(api, group, &namespace, resource, kind, "one", spec).await?;
    }
    for number in 0..OTHERS {
        let name = format!("other-{number}");
        let claim = json!({
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
        });
        let custom = json!({"image": IMAGE, "arguments": ["--one", "--two"]});
        for (group, resource, kind, spec) in [
            ("/api/v1", "configmaps", "ConfigMap", Value::Null),
            ("/api/v1", "secrets", "Secret", Value::Null),
            ("/api/v1", "serviceaccounts", "ServiceAccount", Value::Null),
            (
                "/api/v1",
                "persistentvolumeclaims",
                "PersistentVolumeClaim",
                claim,
            ),
            ("/apis/bench.dev/v1", "gadgets", "Gadget", custom.clone()),
            ("/apis/bench.dev/v1", "widgets", "Widget", custom),
        ] {
            create(api, group, &namespace, resource, kind, &name, spec).await?;
        }
    }
    Ok(())
}

/// Creates an object; without a spec if it is null.
async fn create(
    api: &Api,
    group: &str,
    namespace: &str,
    resource: &str,
    kind: &str,
    name: &str,
    spec: Value,
) -> Result<()> {
    let version = group
        .trim_start_matches("/apis/")
        .trim_start_matches("/api/");
    let mut object = json!({
        "apiVersion": version, "kind": kind, "metadata": {"name": name},
    });
    if !spec.is_null() {
        object["spec"] = spec;
    }
    let path = format!("{group}/namespaces/{namespace}/{resource}");
    api.create(&path, &object).await.map(drop)
}

/// Creates a Deployment with its Service, and a budget for some.
async fn create_deployment(api: &Api, number: usize) -> Result<()> {
    let (namespace, name) = (team(number), format!("web-{number}"));
    let labels = json!({"app": name});
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {
            "replicas": PODS_EACH, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod_spec("Always")},
        },
    });
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
        "spec": {"selector": labels, "ports": [{"name": "http", "port": 80, "targetPort": "http"}]},
    });
    let mut objects = vec![("deployments", deployment), ("services", service)];
    if number.is_multiple_of(BUDGETS) {
        let budget = json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name},
            "spec": {"minAvailable": PODS_EACH / 2, "selector": {"matchLabels": labels}},
        });
        objects.push(("poddisruptionbudgets", budget));
    }
    for (resource, object) in objects {
        api.create(&path_of(&namespace, resource, ""), &object)
            .await?;
    }
    Ok(())
}

fn pod_spec(restart: &str) -> Value {
    json!({"restartPolicy": restart, "containers": containers(IMAGE)})
}
