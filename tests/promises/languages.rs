//! A plugin can be written in any language: the same controller in Rust and in Python does the
//! same.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use pilothouse_tests::{Host, Server, plugin_directory};
use serde_json::{Value, json};

/// Returns what the plugin writes for two ConfigMaps, which are the same for every plugin.
async fn greetings(plugin: &str) -> Result<BTreeMap<String, Value>> {
    let server = Server::start().await?;
    let namespace = server.namespace().await?;
    let plugins = plugin_directory(&[plugin]);
    let _host = Host::ready(plugins.path(), server.kubeconfig()).await?;
    let configmaps = format!("/api/v1/namespaces/{namespace}/configmaps");
    let mut greetings = BTreeMap::new();
    for (name, data) in [("a", json!({"who": "moon"})), ("b", json!({}))] {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {"hello": "true"}}, "data": data});
        let source = server.api.create(&configmaps, &object).await?;
        let greeting = format!("{name}-greeting");
        let found = server
            .api
            .eventually(&format!("{configmaps}/{greeting}"), "there", |found| {
                found.is_some()
            })
            .await?;
        let found = found.context("no greeting")?;
        assert_eq!(
            found["metadata"]["ownerReferences"][0]["uid"],
            source["metadata"]["uid"]
        );
        greetings.insert(greeting, found["data"].clone());
    }
    Ok(greetings)
}

#[tokio::test]
async fn the_same_controller_in_two_languages_does_the_same() -> Result<()> {
    let in_rust = greetings("hello-rust").await?;
    assert_eq!(in_rust["a-greeting"], json!({"greeting": "Hello, moon!"}));
    assert_eq!(in_rust["b-greeting"], json!({"greeting": "Hello, world!"}));
    assert_eq!(greetings("hello-python").await?, in_rust);
    Ok(())
}
