//! What an outcome asks to be remembered of its key: a memo, and a time before which the key does
//! not run. The guest `remember` runs through the host against a real API server.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use pilothouse_tests::{Host, Server, plugin_directory};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A server and a host that runs the guest; the test has a namespace of its own.
struct Rig {
    server: Server,
    host: Host,
    namespace: String,
    /// The plugin directory. The host reads it while it runs, so it must not be deleted earlier.
    _plugins: TempDir,
}

impl Rig {
    async fn start(settings: &str) -> Result<Self> {
        let server = Server::start().await?;
        let namespace = server.namespace().await?;
        let plugins = plugin_directory(&["remember"]);
        std::fs::write(plugins.path().join("remember.toml"), settings)?;
        let host = Host::ready(plugins.path(), server.kubeconfig()).await?;
        Ok(Self {
            server,
            host,
            namespace,
            _plugins: plugins,
        })
    }

    fn config_maps(&self) -> String {
        format!("/api/v1/namespaces/{}/configmaps", self.namespace)
    }

    async fn ask(&self, data: Value) -> Result<()> {
        let metadata = json!({"name": "a", "labels": {"remember": "true"}});
        let object =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data});
        self.server
            .api
            .create(&self.config_maps(), &object)
            .await
            .map(drop)
    }

    async fn change(&self, data: Value) -> Result<()> {
        let path = format!("{}/a", self.config_maps());
        let patch = json!({"data": data});
        self.server.api.merge(&path, &patch).await.map(drop)
    }

    async fn sum_becomes(&self, sum: &str) -> Result<()> {
        let path = format!("{}/a-sum", self.config_maps());
        let is_so = |found: Option<&Value>| found.is_some_and(|found| found["data"]["sum"] == sum);
        let api = &self.server.api;
        let found = api.eventually(&path, sum, is_so).await;
        found.map(drop).with_context(|| self.host.log())
    }

    /// How the guest came to know the sum, run by run.
    fn how(&self) -> Vec<String> {
        let lines = self.host.log_lines().into_iter();
        let lines = lines.filter(|line| line["message"] == "the sum is known");
        lines
            .filter_map(|line| line["how"].as_str().map(str::to_owned))
            .collect()
    }

    async fn runs_become(&self, count: usize) -> Result<()> {
        for _ in 0..1200 {
            if self.how().len() >= count {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
        bail!("there never were {count} runs\n{}", self.host.log())
    }
}

/// Two sums, and a run between them that has no new numbers.
async fn sums(rig: &Rig) -> Result<()> {
    rig.ask(json!({"numbers": "1 2 3"})).await?;
    rig.sum_becomes("6").await?;
    let runs = rig.how().len();
    rig.change(json!({"other": "x"})).await?;
    rig.runs_become(runs + 1).await?;
    rig.change(json!({"numbers": "1 2 4"})).await?;
    rig.sum_becomes("7").await
}

#[tokio::test]
async fn what_a_run_has_remembered_the_next_one_is_given() -> Result<()> {
    let rig = Rig::start("").await?;
    sums(&rig).await?;
    let how = rig.how();
    let computed = how.iter().filter(|how| *how == "computed").count();
    assert_eq!(computed, 2, "each sum once: {how:?}");
    assert!(how.len() > 2, "{how:?}");
    Ok(())
}

#[tokio::test]
async fn a_plugin_whose_memos_are_all_forgotten_comes_to_the_same_end() -> Result<()> {
    let rig = Rig::start("forget-memos = true").await?;
    sums(&rig).await?;
    let how = rig.how();
    assert!(how.len() > 2, "{how:?}");
    assert!(how.iter().all(|how| how == "computed"), "{how:?}");
    Ok(())
}

#[tokio::test]
async fn a_key_that_rests_is_not_run_by_each_change_and_sees_the_last_one() -> Result<()> {
    let rig = Rig::start("").await?;
    rig.ask(json!({"numbers": "0", "rest": "3"})).await?;
    rig.sum_becomes("0").await?;
    for number in 1..=20 {
        rig.change(json!({"numbers": number.to_string()})).await?;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    rig.sum_becomes("20").await?;
    let runs = rig.how().len();
    // On a slow machine the changes may take longer than one rest.
    assert!((2..=4).contains(&runs), "{runs} runs");
    Ok(())
}
