//! Optional kinds: a plugin works without them, and notices when they come and go. The guest
//! `optional` runs through the host and a real API server.

use anyhow::{Context, Result};
use pilothouse_tests::{DEFINITIONS, Host, Server, definition, plugin_directory};
use serde_json::{Value, json};

const FILE: &str = "optional.wasm";

#[tokio::test]
async fn a_plugin_runs_without_an_optional_kind_and_with_it_and_without_it_again() -> Result<()> {
    let server = Server::start().await?;
    let namespace = server.namespace().await?;
    let plugins = plugin_directory(&["optional"]);
    let host = Host::ready(plugins.path(), server.kubeconfig()).await?;
    let config_maps = format!("/api/v1/namespaces/{namespace}/configmaps");
    let subject = |name: &str, label: &str| {
        json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "labels": {"optional": label}}})
    };
    let count = format!("{config_maps}/a-count");
    let counted = async |number: &str| {
        let is_so =
            |found: Option<&Value>| found.is_some_and(|found| found["data"]["gadgets"] == number);
        let found = server.api.eventually(&count, number, is_so).await;
        found.map(drop).with_context(|| host.log())
    };

    server
        .api
        .create(&config_maps, &subject("a", "yes"))
        .await?;
    counted("0").await?;
    let plugin = host.plugin(FILE).await?;
    assert_eq!(plugin["state"], "running");
    assert_eq!(plugin["notServed"], json!(["example.dev/v1/Gadget"]));
    server
        .api
        .create(&config_maps, &subject("b", "make"))
        .await?;
    let is_told = |plugin: &Value| {
        let error = plugin["lastError"]["message"].as_str().unwrap_or_default();
        error.contains("example.dev/v1/Gadget is optional, and the cluster does not serve it")
    };
    let told = host.eventually(FILE, "told so", is_told).await?;
    assert!(told.get("quarantine").is_none());
    server.api.delete(&format!("{config_maps}/b")).await?;

    server
        .api
        .create(DEFINITIONS, &definition("example.dev", "Gadget"))
        .await?;
    let is_served = |plugin: &Value| plugin.get("notServed").is_none();
    host.eventually(FILE, "told of the kind", is_served).await?;
    let gadgets = format!("/apis/example.dev/v1/namespaces/{namespace}/gadgets");
    let gadget =
        json!({"apiVersion": "example.dev/v1", "kind": "Gadget", "metadata": {"name": "g"}});
    server.api.create(&gadgets, &gadget).await?;
    counted("1").await?;

    server
        .api
        .delete(&format!("{DEFINITIONS}/gadgets.example.dev"))
        .await?;
    counted("0").await?;
    let is_gone = |plugin: &Value| plugin["notServed"] == json!(["example.dev/v1/Gadget"]);
    let mut gone = host
        .eventually(FILE, "told that the kind has gone", is_gone)
        .await;
    if gone.is_err() {
        // A kind that was served counts as served for a while longer.
        gone = host
            .eventually(FILE, "told that the kind has gone", is_gone)
            .await;
    }
    gone?;
    counted("0").await
}
