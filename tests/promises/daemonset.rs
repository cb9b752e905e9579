//! The daemonset plugin in a large cluster.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use pilothouse_core::{ObjectKey, Plugin, SubjectKey};
use pilothouse_tests::{guest, rehearse};
use pilothouse_wasm::{Engine, EngineOptions, LimitPolicy};
use serde_json::{Map, Value, json};

const NODES: usize = 5_000;

/// A node as clouds have them.
fn node(number: usize) -> Value {
    let name = format!("node-{number:05}");
    let label = |key: &str, value: &str| (key.to_owned(), Value::from(value));
    let mut labels = Map::from_iter([
        label("kubernetes.io/hostname", &name),
        label("kubernetes.io/os", "linux"),
        label("kubernetes.io/arch", "amd64"),
        label("node.kubernetes.io/instance-type", "standard-8"),
        label("topology.kubernetes.io/region", "somewhere-1"),
        label("topology.kubernetes.io/zone", ["a", "b", "c"][number % 3]),
    ]);
    labels.extend((0..14).map(|n| label(&format!("cloud.example.com/label-{n}"), "some-value")));
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {
            "name": name, "uid": format!("uid-{name}"), "resourceVersion": "1", "labels": labels,
        },
        "spec": {"taints": [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]},
    })
}

fn daemon_set() -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet",
        "metadata": {"namespace": "default", "name": "agent", "uid": "uid", "resourceVersion": "1"},
        "spec": {
            "selector": {"matchLabels": {"a": "b"}},
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}},
            "template": template("new"),
        },
    })
}

fn template(image: &str) -> Value {
    json!({
        "metadata": {"labels": {"a": "b"}},
        "spec": {"containers": [{"name": "c", "image": image, "args": ["x".repeat(4_000)]}]},
    })
}

fn owners() -> Value {
    json!([{
        "apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "uid",
        "controller": true, "blockOwnerDeletion": true,
    }])
}

fn pod(number: usize) -> Value {
    let node = format!("node-{number:05}");
    let required = json!({"nodeSelectorTerms": [{"matchFields": [
        {"key": "metadata.name", "operator": "In", "values": [node]},
    ]}]});
    let since = "2026-01-01T00:00:00Z";
    let conditions = ["PodScheduled", "Initialized", "ContainersReady", "Ready"]
        .map(|name| json!({"type": name, "status": "True", "lastTransitionTime": since}));
    let mut pod = template("old");
    pod["apiVersion"] = "v1".into();
    pod["kind"] = "Pod".into();
    pod["metadata"] = json!({
        "namespace": "default", "name": format!("agent-{number:05}"),
        "uid": format!("uid-{number}"),
        "resourceVersion": "1", "creationTimestamp": "2026-01-01T00:00:00Z",
        "ownerReferences": owners(),
        "labels": {"a": "b", "controller-revision-hash": "old"},
    });
    pod["spec"]["nodeName"] = node.into();
    pod["spec"]["affinity"] = json!({"nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": required,
    }});
    pod["status"] = json!({"phase": "Running", "conditions": conditions});
    pod
}

fn revision(hash: &str, number: i64, image: &str) -> Value {
    let mut template = template(image);
    template["$patch"] = "replace".into();
    json!({
        "apiVersion": "apps/v1", "kind": "ControllerRevision",
        "metadata": {
            "namespace": "default", "name": format!("agent-{hash}"), "uid": format!("uid-{hash}"),
            "resourceVersion": "1", "ownerReferences": owners(),
            "labels": {"a": "b", "controller-revision-hash": hash},
        },
        "data": {"spec": {"template": template}}, "revision": number,
    })
}

/// How many actions each stage has, in a cluster of this many nodes with these pods.
fn stages(pods: usize) -> Result<Vec<usize>> {
    let engine = Engine::new(&EngineOptions::default())?;
    let file = std::fs::read(guest("daemonset"))?;
    let plugin = Arc::new(pilothouse_wasm::load(
        &engine,
        &file,
        &LimitPolicy::default(),
    )?);
    let objects = (0..NODES).map(node).chain((0..pods).map(pod)).chain([
        daemon_set(),
        revision("old", 1, "old"),
        revision("new", 2, "new"),
    ]);
    let objects: Vec<Value> = objects.collect();
    let kind = Arc::new("apps/v1/DaemonSet".parse()?);
    let key = SubjectKey::of(&kind, ObjectKey::new("default", "agent"));
    let now = Duration::from_secs(1_800_000_000);
    let mut rehearsal = rehearse(plugin.clone(), &objects, &key, now)?;
    let request = rehearsal.request.clone();
    let outcome = plugin.reconcile(&request, &mut rehearsal.reader)?;
    println!("{pods} pods: {} of fuel", plugin.totals().fuel);
    drop(rehearsal.execution(&outcome)?);
    Ok(outcome
        .stages
        .iter()
        .map(|stage| stage.actions.len())
        .collect())
}

/// A rollout on as many nodes as Kubernetes supports is decided within the default limits, and what
/// is created at once fits into an outcome.
#[test]
fn a_daemon_set_on_five_thousand_nodes_is_within_the_limits() -> Result<()> {
    assert_eq!(stages(0)?, [250, 1], "pods and the status");
    assert_eq!(stages(NODES)?, [1, 1], "one old pod and the status");
    Ok(())
}
