//! `test/integration/namespace`, and what the unit tests of upstream's controller have no server
//! for.

use anyhow::Result;
use pilothouse_tests::{DEFINITIONS, WorkloadRig, defined_version, definition};
use serde_json::{Value, json};

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

async fn rig() -> Result<WorkloadRig> {
    let mut rig = WorkloadRig::without_host(&[PLUGIN]).await?;
    rig.configure(PLUGIN, SETTINGS)?;
    rig.start_host().await?;
    Ok(rig)
}

/// The path of the rig's namespace.
fn path(rig: &WorkloadRig) -> String {
    format!("/api/v1/namespaces/{}", rig.namespace)
}

async fn until_gone(rig: &WorkloadRig) -> Result<()> {
    let is_gone = |found: Option<&Value>| found.is_none();
    rig.api()
        .eventually(&path(rig), "gone", is_gone)
        .await
        .map(drop)
}

/// Waits until the namespace has conditions with these messages.
async fn until_said(rig: &WorkloadRig, messages: &[(&str, &str)]) -> Result<Value> {
    let says = |namespace: &Value| {
        let conditions = namespace["status"]["conditions"].as_array();
        let conditions: Vec<&Value> = conditions.into_iter().flatten().collect();
        messages.iter().all(|(name, message)| {
            let mut conditions = conditions.iter();
            conditions.any(|it| {
                let said = it["message"].as_str().unwrap_or_default();
                it["type"] == *name && said.starts_with(message)
            })
        })
    };
    let says = |found: Option<&Value>| found.is_some_and(says);
    let found = rig.api().eventually(&path(rig), "described", says).await?;
    Ok(found.unwrap_or_default())
}

fn pod(name: &str, node: Option<&str>) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {
            "nodeName": node, "terminationGracePeriodSeconds": 300,
            "containers": [{"name": "fake-name", "image": "fakeimage"}],
        },
    })
}

fn deployment(name: &str, finalizers: &[&str]) -> Value {
    let labels = json!({"a": "b"});
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name, "finalizers": finalizers},
        "spec": {"selector": {"matchLabels": labels}, "template": {
            "metadata": {"labels": labels},
            "spec": {"containers": [{"name": "fake-name", "image": "fakeimage"}]},
        }},
    })
}

/// `TestNamespaceCondition`, to its end.
#[tokio::test]
async fn the_conditions_say_how_far_the_deletion_is() -> Result<()> {
    let rig = rig().await?;
    rig.create("pods", &pod("pod", None)).await?;
    let held = deployment("deployment", &["custom.io/finalizer"]);
    rig.create("deployments", &held).await?;
    rig.api().delete(&path(&rig)).await?;
    let messages = [
        (
            "NamespaceDeletionGroupVersionParsingFailure",
            "All legacy kube types successfully parsed",
        ),
        (
            "NamespaceDeletionDiscoveryFailure",
            "All resources successfully discovered",
        ),
        (
            "NamespaceDeletionContentFailure",
            "All content successfully deleted, may be waiting on finalization",
        ),
        (
            "NamespaceContentRemaining",
            "Some resources are remaining: deployments.apps has 1 resource instances",
        ),
        (
            "NamespaceFinalizersRemaining",
            "Some content in the namespace has finalizers remaining: custom.io/finalizer in 1 \
             resource instances",
        ),
    ];
    until_said(&rig, &messages).await?;
    let patch = json!({"metadata": {"finalizers": null}});
    rig.merge("deployments", "deployment", &patch).await?;
    until_gone(&rig).await
}

/// Upstream: `deleteAllContent` with pods that end in their own time.
#[tokio::test]
async fn pods_go_first_and_all_else_follows() -> Result<()> {
    let rig = rig().await?;
    rig.create("pods", &pod("running", Some("node"))).await?;
    for number in 0..100 {
        for resource in ["configmaps", "secrets"] {
            let kind = if resource == "secrets" {
                "Secret"
            } else {
                "ConfigMap"
            };
            let name = format!("object-{number}");
            let object = json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}});
            rig.create(resource, &object).await?;
        }
    }
    rig.create("deployments", &deployment("deployment", &[]))
        .await?;
    let other = rig.server.namespace().await?;
    let kept = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kept"}});
    let kept_path = format!("/api/v1/namespaces/{other}/configmaps");
    rig.api().create(&kept_path, &kept).await?;
    rig.api().delete(&path(&rig)).await?;
    let is_ending = |pod: &Value| pod["metadata"]["deletionTimestamp"].is_string();
    rig.eventually("pods", "running", "ending", is_ending)
        .await?;
    let waits = [(
        "NamespaceDeletionContentFailure",
        "All content successfully deleted",
    )];
    until_said(&rig, &waits).await?;
    assert_eq!(rig.list("configmaps", "").await?.len(), 100);
    // The kubelet is done with it.
    rig.delete("pods", "running").await?;
    until_gone(&rig).await?;
    for resource in ["configmaps", "secrets", "deployments", "pods"] {
        assert!(rig.list(resource, "").await?.is_empty(), "{resource}");
    }
    assert!(rig.api().get(&format!("{kept_path}/kept")).await?.is_some());
    Ok(())
}

/// Upstream: `finalizeNamespace`.
#[tokio::test]
async fn an_empty_namespace_keeps_the_finalizers_of_others() -> Result<()> {
    let rig = rig().await?;
    let patch = json!({"spec": {"finalizers": ["example.com/other", "kubernetes"]}});
    let finalize = format!("{}/finalize", path(&rig));
    let mut namespace = rig.api().get(&path(&rig)).await?.unwrap_or_default();
    namespace["spec"] = patch["spec"].clone();
    rig.api().update(&finalize, &namespace).await?;
    rig.api().delete(&path(&rig)).await?;
    let is_left = |found: Option<&Value>| {
        found.is_some_and(|it| it["spec"]["finalizers"] == json!(["example.com/other"]))
    };
    let path = path(&rig);
    let left = rig
        .api()
        .eventually(&path, "left to others", is_left)
        .await?;
    let mut left = left.unwrap_or_default();
    left["spec"]["finalizers"] = json!([]);
    rig.api().update(&finalize, &left).await?;
    until_gone(&rig).await
}

/// Upstream: `listCollection` with an error. The kind is defined while the host runs.
#[tokio::test]
async fn what_cannot_be_listed_is_said_and_holds_the_namespace() -> Result<()> {
    let rig = rig().await?;
    rig.api()
        .create(DEFINITIONS, &definition("example.dev", "Gadget"))
        .await?;
    let gadgets = format!("/apis/example.dev/v1/namespaces/{}/gadgets", rig.namespace);
    let is_served = |found: Option<&Value>| found.is_some();
    rig.api().eventually(&gadgets, "served", is_served).await?;
    let gadget = json!({
        "apiVersion": "example.dev/v1", "kind": "Gadget", "metadata": {"name": "stored"},
    });
    rig.api().create(&gadgets, &gadget).await?;
    let nowhere = json!({
        "strategy": "Webhook", "webhook": {
            "conversionReviewVersions": ["v1"],
            "clientConfig": {"url": "https://127.0.0.1:1/convert"},
        },
    });
    let versions = [defined_version("v2", true), defined_version("v1", false)];
    let broken = json!({"spec": {"conversion": nowhere, "versions": versions}});
    let definition = format!("{DEFINITIONS}/gadgets.example.dev");
    rig.api().merge(&definition, &broken).await?;
    rig.api().delete(&path(&rig)).await?;
    let message = "Failed to delete all resource types, ";
    until_said(&rig, &[("NamespaceDeletionContentFailure", message)]).await?;
    let healed = json!({"spec": {"conversion": {"strategy": "None", "webhook": null}}});
    rig.api().merge(&definition, &healed).await?;
    until_gone(&rig).await
}
