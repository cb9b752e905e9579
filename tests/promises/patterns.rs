//! Kinds by pattern: a plugin that reads every kind finds those that are defined while it runs,
//! lets go of those that are removed, and is stopped by none that cannot be listed. The guest
//! `tally` runs through the host and a real API server.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use pilothouse_tests::proxy::{Answer, Proxy, reads};
use pilothouse_tests::{DEFINITIONS, Host, Server, definition, plugin_directory};
use serde_json::{Value, json};
use tempfile::TempDir;

const FILE: &str = "tally.wasm";

const GRANTED: &str = r#"
[grants]
reads = ["*"]
writes = [{ kind = "ConfigMap" }, { kind = "*", verbs = ["delete"] }]
"#;

/// A server, a host with the guest behind a proxy, and a namespace of the test's own.
struct Rig {
    server: Server,
    host: Host,
    namespace: String,
    /// The proxy, and the plugin directory, which the host reads while it runs.
    _kept: (Proxy, TempDir),
}

impl Rig {
    async fn start(settings: &str, prepare: impl FnOnce(&Proxy)) -> Result<Self> {
        let server = Server::start().await?;
        let namespace = server.namespace().await?;
        let proxy = Proxy::before(server.kubeconfig()).await?;
        prepare(&proxy);
        let plugins = plugin_directory(&["tally"]);
        std::fs::write(plugins.path().join("tally.toml"), settings)?;
        let host = Host::ready(plugins.path(), &proxy.kubeconfig()).await?;
        Ok(Self {
            server,
            host,
            namespace,
            _kept: (proxy, plugins),
        })
    }

    fn at(&self, api: &str, resource: &str) -> String {
        format!("{api}/namespaces/{}/{resource}", self.namespace)
    }

    /// Creates a ConfigMap for which the guest counts, with this wish.
    async fn count(&self, name: &str, wish: &str) -> Result<()> {
        let metadata = json!({"name": name, "labels": {"tally": wish}});
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata});
        let config_maps = self.at("/api/v1", "configmaps");
        self.server.api.create(&config_maps, &object).await?;
        Ok(())
    }

    /// Creates an object that counts for `a`.
    async fn object(&self, api: &str, resource: &str, kind: &str, spec: &Value) -> Result<()> {
        let api_version = api.split_once("/api/").map_or(api, |(_, version)| version);
        let api_version = api_version.trim_start_matches("/apis/");
        let mut object = json!({
            "apiVersion": api_version, "kind": kind,
            "metadata": {"name": "one", "labels": {"of": "a"}},
        });
        for (name, value) in spec.as_object().into_iter().flatten() {
            object[name] = value.clone();
        }
        let path = self.at(api, resource);
        self.server.api.create(&path, &object).await?;
        Ok(())
    }

    /// Waits until the guest has counted this.
    async fn counted(&self, wanted: &Value) -> Result<()> {
        let path = self.at("/api/v1", "configmaps/a-tally");
        let is_so = |found: Option<&Value>| found.is_some_and(|found| found["data"] == *wanted);
        let what = wanted.to_string();
        let found = self.server.api.eventually(&path, &what, is_so).await;
        found.map(drop).with_context(|| self.host.log())
    }

    /// The kinds that the guest's pattern has led to, and that are listed.
    async fn listed(&self) -> Result<BTreeSet<String>> {
        let plugin = self.host.plugin(FILE).await?;
        let kinds = plugin["kinds"]["ofPatterns"].as_array().cloned();
        let kinds = kinds.unwrap_or_default().into_iter();
        Ok(kinds
            .filter_map(|kind| kind.as_str().map(str::to_owned))
            .collect())
    }
}

#[tokio::test]
async fn a_kind_that_is_defined_later_is_found_and_let_go_when_it_is_removed() -> Result<()> {
    let rig = Rig::start(GRANTED, |_| ()).await?;
    assert!(rig.listed().await?.is_empty(), "nobody has asked");
    rig.object("/api/v1", "secrets", "Secret", &json!({"data": {}}))
        .await?;
    let deployment = json!({"spec": {
        "selector": {"matchLabels": {"a": "b"}},
        "template": {
            "metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        },
    }});
    rig.object("/apis/apps/v1", "deployments", "Deployment", &deployment)
        .await?;
    rig.count("a", "yes").await?;
    let built_in = json!({
        "kinds": "", "unavailable": "", "apps.v1.Deployment": "1", "v1.Secret": "1",
    });
    rig.counted(&built_in).await?;
    let watched = rig.listed().await?;
    assert!(watched.contains("v1/Secret") && watched.contains("apps/v1/Deployment"));

    rig.server
        .api
        .create(DEFINITIONS, &definition("example.dev", "Gadget"))
        .await?;
    let mut with_kind = built_in.clone();
    with_kind["kinds"] = "example.dev/v1/Gadget".into();
    rig.counted(&with_kind).await?;
    rig.object("/apis/example.dev/v1", "gadgets", "Gadget", &json!({}))
        .await?;
    let mut with_object = with_kind.clone();
    with_object["example.dev.v1.Gadget"] = "1".into();
    rig.counted(&with_object).await?;

    let definition = format!("{DEFINITIONS}/gadgets.example.dev");
    rig.server.api.delete(&definition).await?;
    rig.counted(&with_kind).await?;
    // A kind that was served counts as served for a while longer.
    let mut gone = rig.counted(&built_in).await;
    if gone.is_err() {
        gone = rig.counted(&built_in).await;
    }
    gone?;
    let watched = rig.listed().await?;
    assert!(!watched.contains("example.dev/v1/Gadget"), "{watched:?}");
    let failed = r#"controller="tally",result="error""#;
    let failed = rig
        .host
        .metric("controller_runtime_reconcile_total", failed)
        .await?;
    assert!(
        failed.abs() < 0.5,
        "asking is no failure: {}",
        rig.host.log()
    );
    Ok(())
}

#[tokio::test]
async fn a_kind_that_cannot_be_listed_stops_nobody_and_is_found_when_it_can() -> Result<()> {
    let mut refused = None;
    let rig = Rig::start(GRANTED, |proxy| {
        let answer = Answer::status(403);
        refused = Some(proxy.on(reads("secrets")).answer(answer));
    })
    .await?;
    rig.object("/api/v1", "secrets", "Secret", &json!({"data": {}}))
        .await?;
    rig.object(
        "/api/v1",
        "services",
        "Service",
        &json!({"spec": {"ports": [{"port": 80}]}}),
    )
    .await?;
    rig.count("a", "yes").await?;
    rig.counted(&json!({"kinds": "", "unavailable": "v1/Secret", "v1.Service": "1"}))
        .await?;
    refused.context("the rule")?.lift();
    let all = json!({"kinds": "", "unavailable": "", "v1.Secret": "1", "v1.Service": "1"});
    rig.counted(&all).await
}

#[tokio::test]
async fn objects_of_whatever_kind_are_deleted_by_a_pattern() -> Result<()> {
    let rig = Rig::start(GRANTED, |_| ()).await?;
    rig.object(
        "/api/v1",
        "secrets",
        "Secret",
        &json!({"data": {"k": "dg=="}}),
    )
    .await?;
    rig.object(
        "/api/v1",
        "services",
        "Service",
        &json!({"spec": {"ports": [{"port": 80}]}}),
    )
    .await?;
    rig.count("a", "yes").await?;
    let counts = json!({"kinds": "", "unavailable": "", "v1.Secret": "1", "v1.Service": "1"});
    rig.counted(&counts).await?;
    let path = rig.at("/api/v1", "configmaps/a");
    let sweep = json!({"metadata": {"labels": {"tally": "sweep"}}});
    rig.server.api.merge(&path, &sweep).await?;
    rig.counted(&json!({"kinds": "", "unavailable": ""}))
        .await?;
    for resource in ["secrets/one", "services/one"] {
        let found = rig.server.api.get(&rig.at("/api/v1", resource)).await?;
        assert!(found.is_none(), "{resource}: {}", rig.host.log());
    }
    Ok(())
}

#[tokio::test]
async fn a_pattern_that_is_not_granted_by_name_is_not_read_and_nothing_is_watched_for_it()
-> Result<()> {
    let rig = Rig::start("grants = \"as-requested\"\n", |_| ()).await?;
    rig.count("a", "yes").await?;
    let is_told = |plugin: &Value| {
        let error = plugin["lastError"]["message"].as_str().unwrap_or_default();
        error.contains("reads of * are not granted")
    };
    rig.host.eventually(FILE, "told so", is_told).await?;
    assert!(rig.listed().await?.is_empty());
    Ok(())
}

#[tokio::test]
async fn a_key_that_asks_for_kinds_without_end_ends_itself_and_no_other() -> Result<()> {
    let rig = Rig::start(GRANTED, |_| ()).await?;
    rig.count("spinning", "spin").await?;
    let is_told = |plugin: &Value| {
        let error = plugin["lastError"]["message"].as_str().unwrap_or_default();
        error.contains("over limit: fuel")
    };
    rig.host.eventually(FILE, "told so", is_told).await?;
    rig.count("a", "yes").await?;
    rig.counted(&json!({"kinds": "", "unavailable": ""})).await
}
