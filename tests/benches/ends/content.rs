//! A namespace is emptied.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use pilothouse_tests::{Api, Host, Server, all_of, create_namespace, define, plugin_directory};
use serde_json::{Value, json};

use crate::census::Census;
use crate::usage::Reading;
use crate::{counting_server, until_gone, until_idle};

const PLUGIN: &str = "namespace";
const SETTINGS: &str = r#"
[grants]
reads = ["*", "Pod", "apiregistration.k8s.io/APIService"]
writes = [
  { kind = "*", verbs = ["delete", "deletecollection"] },
  { kind = "Pod", verbs = ["delete", "deletecollection"] },
  { kind = "Namespace", subresource = "status", verbs = ["update"] },
  { kind = "Namespace", subresource = "finalize", verbs = ["update"] },
]
"#;

const DOOMED: &str = "doomed";
const KEPT: &str = "kept";
/// Of what the doomed namespace has, the other has this part.
const KEPT_PART: usize = 10;

/// Kinds that the server knows: group and version, plural and kind.
const BUILT_IN: [(&str, &str, &str); 8] = [
    ("v1", "configmaps", "ConfigMap"),
    ("v1", "secrets", "Secret"),
    ("v1", "serviceaccounts", "ServiceAccount"),
    ("v1", "services", "Service"),
    ("v1", "pods", "Pod"),
    ("apps/v1", "deployments", "Deployment"),
    ("apps/v1", "replicasets", "ReplicaSet"),
    ("batch/v1", "jobs", "Job"),
];

const CUSTOM: [(&str, &str); 4] = [
    ("databases", "Database"),
    ("gateways", "Gateway"),
    ("queues", "Queue"),
    ("topics", "Topic"),
];

/// Empties a namespace of so many objects, a third of them custom, and prints what it takes.
pub async fn measure(objects: usize) -> Result<()> {
    let kinds = BUILT_IN.len() + CUSTOM.len();
    println!("ends: a namespace of {objects} objects of {kinds} kinds is emptied");
    let server = counting_server().await?;
    define(&server.api, &CUSTOM.map(|(_, kind)| kind)).await?;
    for (namespace, count) in [(DOOMED, objects), (KEPT, objects.div_ceil(KEPT_PART))] {
        create_namespace(&server.api, namespace).await?;
        all_of((0..count).map(|number| create(&server.api, namespace, number))).await?;
    }
    let plugins = plugin_directory(&[PLUGIN]);
    std::fs::write(plugins.path().join(format!("{PLUGIN}.toml")), SETTINGS)?;
    let host = Host::ready(plugins.path(), server.kubeconfig()).await?;
    empty(&server, &host, objects)
        .await
        .with_context(|| host.log())?;
    server.stop().await
}

async fn empty(server: &Server, host: &Host, objects: usize) -> Result<()> {
    until_idle(host, PLUGIN).await?;
    let before = Census::take(&server.api).await?;
    let path = format!("/api/v1/namespaces/{DOOMED}");
    let namespace = server.api.get(&path).await?.context("it was created")?;
    let uid = namespace["metadata"]["uid"].as_str();
    let content = before.0.iter();
    let content = content.filter(|(_, entry)| entry.namespace == DOOMED);
    let mut gone: BTreeSet<String> = content.map(|(uid, _)| uid.clone()).collect();
    ensure!(
        gone.len() == objects,
        "{} objects were to be created, and there are {}",
        objects,
        gone.len()
    );
    gone.extend(uid.map(str::to_owned));
    let began = Reading::of(server, host).await?;
    server.api.delete(&path).await?;
    until_gone(&server.api, &path).await?;
    let usage = Reading::of(server, host).await?.since(&began, objects);
    Census::take(&server.api)
        .await?
        .is_without(&gone, &before)?;
    println!("  {usage}\n    of the time 5 s are the wait before the first look, as upstream's");
    Ok(())
}

async fn create(api: &Api, namespace: &str, number: usize) -> Result<()> {
    let kinds = BUILT_IN.len() + CUSTOM.len();
    let (version, plural, kind) = match number % kinds {
        place if place < BUILT_IN.len() => BUILT_IN[place],
        place => {
            let (plural, kind) = CUSTOM[place - BUILT_IN.len()];
            ("bench.dev/v1", plural, kind)
        }
    };
    let mut object = json!({
        "apiVersion": version, "kind": kind, "metadata": {"name": format!("n{number}")},
    });
    match kind {
        "ConfigMap" | "Secret" | "ServiceAccount" => {}
        "Service" => object["spec"] = json!({"ports": [{"port": 80}]}),
        "Pod" => object["spec"] = pod_spec("Always"),
        "Job" => object["spec"] = json!({"template": {"spec": pod_spec("Never")}}),
        "Deployment" | "ReplicaSet" => object["spec"] = workload_spec(),
        _ => object["spec"] = json!({"image": "registry/bench:1.2.3", "size": number}),
    }
    let api_path = if version == "v1" { "api" } else { "apis" };
    let path = format!("/{api_path}/{version}/namespaces/{namespace}/{plural}");
    api.create(&path, &object).await.map(drop)
}

fn workload_spec() -> Value {
    let labels = json!({"app": "bench"});
    json!({
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": pod_spec("Always")},
    })
}

fn pod_spec(restart: &str) -> Value {
    json!({
        "restartPolicy": restart,
        "containers": [{"name": "main", "image": "registry/bench:1.2.3"}],
    })
}
