//! Plugins share the host's watches, and can use kinds that are defined later.

use std::time::Duration;

use anyhow::Result;
use pilothouse_tests::{DEFINITIONS, Host, HostOptions, Server, plugin_directory};
use serde_json::json;

#[tokio::test]
async fn plugins_that_read_the_same_kind_share_one_watch() -> Result<()> {
    let server = Server::start().await?;
    if !server.is_own() {
        return Ok(());
    }
    // All three plugins read ConfigMaps, each with a view of its own.
    let plugins = plugin_directory(&["hello-rust", "hello-python", "misbehaving"]);
    let mut host = Host::ready(plugins.path(), server.kubeconfig()).await?;
    // When the host is ready the kind has been listed, but its watch may not be open yet.
    let mut open = server.open_watches("configmaps").await?;
    for _ in 0..100 {
        if open > 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
        open = server.open_watches("configmaps").await?;
    }
    assert_eq!(open, 1, "{}", host.log());
    host.kill().await?;
    Ok(())
}

#[tokio::test]
async fn a_kind_that_is_defined_later_is_picked_up() -> Result<()> {
    let server = Server::start().await?;
    let namespace = server.namespace().await?;
    let plugins = plugin_directory(&["widgets"]);
    let options = HostOptions {
        plugins: plugins.path().into(),
        kubeconfig: server.kubeconfig().into(),
        ..HostOptions::default()
    };
    let mut host = Host::start(&options).await?;
    let waiting = host
        .eventually("widgets.wasm", "waiting", |plugin| {
            plugin["state"] == "waiting"
        })
        .await?;
    let reason = waiting["reason"].as_str().unwrap_or_default();
    assert!(reason.contains("example.dev/v1/Widget"), "{reason}");
    host.wait_until_ready().await?;

    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "widgets.example.dev"},
        "spec": {
            "group": "example.dev", "scope": "Namespaced", "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}}, "schema": {"openAPIV3Schema": {
                "type": "object", "properties": {
                    "spec": {"type": "object", "properties": {"size": {"type": "integer"}}},
                    "status": {"type": "object", "properties": {"observedSize": {"type": "integer"}}},
                },
            }}}],
        },
    });
    server.api.create(DEFINITIONS, &definition).await?;
    host.eventually("widgets.wasm", "running", |plugin| {
        plugin["state"] == "running"
    })
    .await?;

    let widget = json!({"apiVersion": "example.dev/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": {"size": 3}});
    let collection = format!("/apis/example.dev/v1/namespaces/{namespace}/widgets");
    server.api.create(&collection, &widget).await?;
    let config_map = format!("/api/v1/namespaces/{namespace}/configmaps/a");
    server
        .api
        .eventually(&config_map, "written", |found| {
            found.is_some_and(|found| found["data"]["size"] == "3")
        })
        .await?;
    let is_reported = |found: Option<&serde_json::Value>| {
        found.is_some_and(|found| found["status"]["observedSize"] == 3)
    };
    server
        .api
        .eventually(
            &format!("{collection}/a"),
            "reported in its status",
            is_reported,
        )
        .await?;
    Ok(())
}
