//! What a plugin applies stays as applied: changes by others are undone, and without such changes
//! nothing is written.

use anyhow::Result;
use pilothouse_tests::{Host, Server, plugin_directory};
use serde_json::{Value, json};
use tempfile::TempDir;

/// The guest `sparse`, and a ConfigMap `web`, for which the guest keeps a Deployment.
struct Rig {
    server: Server,
    host: Host,
    plugins: TempDir,
    namespace: String,
}

impl Rig {
    async fn start() -> Result<Self> {
        let server = Server::start().await?;
        let plugins = plugin_directory(&["sparse"]);
        let host = Host::ready(plugins.path(), server.kubeconfig()).await?;
        let rig = Self {
            namespace: server.namespace().await?,
            server,
            host,
            plugins,
        };
        rig.ask_for("web").await?;
        rig.expect("web", "of three replicas", |found| {
            found["spec"]["replicas"] == 3
        })
        .await?;
        Ok(rig)
    }

    async fn ask_for(&self, name: &str) -> Result<()> {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {"sparse": "yes"}}});
        let collection = format!("/api/v1/namespaces/{}/configmaps", self.namespace);
        self.server.api.create(&collection, &object).await.map(drop)
    }

    fn deployment(&self, name: &str) -> String {
        let namespace = &self.namespace;
        format!("/apis/apps/v1/namespaces/{namespace}/deployments/{name}")
    }

    async fn expect(&self, name: &str, what: &str, is_so: impl Fn(&Value) -> bool) -> Result<()> {
        let path = self.deployment(name);
        let is_wanted = |found: Option<&Value>| found.is_some_and(&is_so);
        let found = self.server.api.eventually(&path, what, is_wanted).await;
        found
            .map(drop)
            .map_err(|error| error.context(self.host.log()))
    }

    async fn applies(&self) -> Result<u64> {
        self.server.requests("patch", "deployments").await
    }

    /// Waits until the guest has seen everything so far: it has served a ConfigMap that was created
    /// last.
    async fn settle(&self) -> Result<()> {
        self.ask_for("last").await?;
        self.expect("last", "of three replicas", |found| {
            found["spec"]["replicas"] == 3
        })
        .await
    }
}

#[tokio::test]
async fn drift_in_what_is_applied_is_undone_though_the_plugin_reads_none_of_it() -> Result<()> {
    let rig = Rig::start().await?;
    let scaled = json!({"spec": {"replicas": 1}});
    rig.server
        .api
        .merge(&rig.deployment("web"), &scaled)
        .await?;
    rig.expect("web", "of three replicas again", |found| {
        found["spec"]["replicas"] == 3
    })
    .await
}

#[tokio::test]
async fn a_status_that_changes_causes_no_applies() -> Result<()> {
    let rig = Rig::start().await?;
    if !rig.server.is_own() {
        return Ok(());
    }
    let before = rig.applies().await?;
    let status = json!({"status": {"replicas": 1, "availableReplicas": 1, "readyReplicas": 1}});
    let path = format!("{}/status", rig.deployment("web"));
    rig.server.api.merge(&path, &status).await?;
    rig.settle().await?;
    // One is the test's own patch, the other creates the new Deployment.
    assert_eq!(rig.applies().await?, before + 2);
    Ok(())
}

#[tokio::test]
async fn a_host_that_starts_again_applies_nothing_that_is_so_already() -> Result<()> {
    let mut rig = Rig::start().await?;
    if !rig.server.is_own() {
        return Ok(());
    }
    let before = rig.applies().await?;
    rig.host.kill().await?;
    rig.host = Host::ready(rig.plugins.path(), rig.server.kubeconfig()).await?;
    rig.settle().await?;
    assert_eq!(rig.applies().await?, before + 1, "one, for what is new");
    Ok(())
}
