//! A plugin that reconciles several kinds: the guest `kinds` runs through the host and a real API
//! server.

use anyhow::{Context, Result};
use pilothouse_tests::{Host, Server, plugin_directory};
use serde_json::{Value, json};
use tempfile::TempDir;

const FILE: &str = "kinds.wasm";

struct Rig {
    server: Server,
    host: Host,
    namespace: String,
    /// The plugin directory. The host reads it while it runs, so it must not be deleted earlier.
    plugins: TempDir,
}

impl Rig {
    async fn start() -> Result<Self> {
        let server = Server::start().await?;
        let namespace = server.namespace().await?;
        let plugins = plugin_directory(&["kinds"]);
        let host = Host::ready(plugins.path(), server.kubeconfig()).await?;
        Ok(Self {
            server,
            host,
            namespace,
            plugins,
        })
    }

    fn path(&self, resource: &str) -> String {
        format!("/api/v1/namespaces/{}/{resource}", self.namespace)
    }

    /// Creates a ConfigMap or a Service that the guest reconciles.
    async fn create(&self, kind: &str, name: &str, label: &str) -> Result<()> {
        let mut object = json!({"apiVersion": "v1", "kind": kind,
            "metadata": {"name": name, "labels": {"kinds": label}}});
        if kind == "Service" {
            object["spec"] = json!({"ports": [{"port": 80}]});
        }
        let resource = format!("{}s", kind.to_lowercase());
        self.server
            .api
            .create(&self.path(&resource), &object)
            .await?;
        Ok(())
    }

    /// Waits until the child of a key is there, or is not.
    async fn child(&self, name: &str, is_there: bool) -> Result<()> {
        let path = self.path(&format!("serviceaccounts/{name}"));
        let what = if is_there { "there" } else { "gone" };
        let is_so = |found: Option<&Value>| found.is_some() == is_there;
        let found = self.server.api.eventually(&path, what, is_so).await;
        found.map(drop).with_context(|| self.host.log())
    }
}

#[tokio::test]
async fn objects_of_one_name_and_several_kinds_each_have_a_key_and_children() -> Result<()> {
    let rig = Rig::start().await?;
    rig.create("ConfigMap", "a", "yes").await?;
    rig.create("Service", "a", "yes").await?;
    rig.child("configmap-a", true).await?;
    rig.child("service-a", true).await?;
    rig.server.api.delete(&rig.path("services/a")).await?;
    rig.child("service-a", false).await?;
    let left = rig.path("serviceaccounts/configmap-a");
    assert!(
        rig.server.api.get(&left).await?.is_some(),
        "it has another parent"
    );
    rig.server.api.delete(&left).await?;
    rig.child("configmap-a", true).await?;
    Ok(())
}

#[tokio::test]
async fn a_key_is_shown_and_logged_with_its_kind() -> Result<()> {
    let rig = Rig::start().await?;
    rig.create("ConfigMap", "a", "yes").await?;
    rig.create("Service", "a", "fail").await?;
    let has_failed = |plugin: &Value| plugin["lastError"].is_object();
    let plugin = rig.host.eventually(FILE, "failing", has_failed).await?;
    let object = format!("{}/a", rig.namespace);
    assert_eq!(
        plugin["kinds"]["reconciles"],
        json!(["v1/ConfigMap", "v1/Service"])
    );
    assert_eq!(plugin["lastError"]["kind"], "v1/Service");
    assert_eq!(plugin["lastError"]["object"], *object);
    let line = rig.host.logs("reconcile failed").await?;
    assert_eq!(line["kind"], "v1/Service");
    assert_eq!(line["object"], *object);
    rig.child("configmap-a", true).await
}

#[tokio::test]
async fn a_key_of_any_kind_whose_object_went_while_no_host_ran_is_cleaned_up() -> Result<()> {
    let mut rig = Rig::start().await?;
    rig.create("ConfigMap", "a", "yes").await?;
    rig.create("Service", "a", "yes").await?;
    rig.child("configmap-a", true).await?;
    rig.child("service-a", true).await?;
    rig.host.kill().await?;
    rig.server.api.delete(&rig.path("services/a")).await?;
    rig.host = Host::ready(rig.plugins.path(), rig.server.kubeconfig()).await?;
    rig.child("service-a", false).await?;
    rig.child("configmap-a", true).await
}
