//! The deletion of all objects of a namespace: with its own grant it deletes what the server has,
//! without it nothing. The guest `purge` runs through the host against a real API server.

use anyhow::{Context, Result};
use pilothouse_tests::{Host, Server, plugin_directory};
use serde_json::{Value, json};
use tempfile::TempDir;

/// More than the host deletes with one request.
const DOOMED: usize = 620;

const GRANTED: &str = r#"
[grants]
writes = [{ kind = "ConfigMap", verbs = ["apply", "deletecollection"] }]
"#;

/// A server and a host that runs the guest; the test has a namespace of its own.
struct Rig {
    server: Server,
    host: Host,
    config_maps: String,
    /// The plugin directory. The host reads it while it runs, so it must not be deleted earlier.
    _plugins: TempDir,
}

impl Rig {
    /// With these objects, each a name and the value of its label `doomed`.
    async fn start(settings: &str, objects: &[(String, &str)]) -> Result<Self> {
        let server = Server::start().await?;
        let namespace = server.namespace().await?;
        let config_maps = format!("/api/v1/namespaces/{namespace}/configmaps");
        for (name, doomed) in objects {
            let metadata = json!({"name": name, "labels": {"doomed": doomed}});
            let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata});
            server.api.create(&config_maps, &object).await?;
        }
        let plugins = plugin_directory(&["purge"]);
        std::fs::write(plugins.path().join("purge.toml"), settings)?;
        let host = Host::ready(plugins.path(), server.kubeconfig()).await?;
        let task = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "a", "labels": {"purge": "true"}}});
        server.api.create(&config_maps, &task).await?;
        Ok(Self {
            server,
            host,
            config_maps,
            _plugins: plugins,
        })
    }

    /// How many ConfigMaps have this value in their label `doomed`.
    async fn left(&self, doomed: &str) -> Result<usize> {
        let path = format!("{}?labelSelector=doomed%3D{doomed}", self.config_maps);
        let found = self.server.api.get(&path).await?.context("a list")?;
        Ok(found["items"].as_array().map_or(0, Vec::len))
    }
}

#[tokio::test]
async fn all_objects_that_a_selector_selects_are_deleted_and_no_other() -> Result<()> {
    let doomed = (0..DOOMED).map(|number| (format!("x-{number}"), "a"));
    let objects: Vec<(String, &str)> = doomed.chain([("y".to_owned(), "b")]).collect();
    let rig = Rig::start(GRANTED, &objects).await?;
    let done = format!("{}/a-done", rig.config_maps);
    let is_there = |found: Option<&Value>| found.is_some();
    let found = rig.server.api.eventually(&done, "there", is_there).await;
    found.with_context(|| rig.host.log())?;
    assert_eq!((rig.left("a").await?, rig.left("b").await?), (0, 1));
    Ok(())
}

#[tokio::test]
async fn a_grant_of_all_that_is_requested_does_not_grant_it() -> Result<()> {
    let objects = [("x".to_owned(), "a")];
    let rig = Rig::start("grants = \"as-requested\"", &objects).await?;
    let line = rig.host.logs("reconcile failed").await?;
    let error = line["error"].as_str().unwrap_or_default();
    assert!(
        error.contains("deletecollection of v1/ConfigMap") && error.contains("is not granted"),
        "{line}"
    );
    assert_eq!(rig.left("a").await?, 1);
    Ok(())
}
