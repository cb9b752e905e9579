//! A host at which nothing happens sends watches and nothing else; and it is still told when kinds
//! come, and when the server may be another.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use pilothouse_tests::proxy::{Proxy, watches};
use pilothouse_tests::{
    Asked, DEFINITIONS, Host, Server, ServerOptions, definition, guest, plugin_directory,
    requests_of,
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

/// Longer than the time between any two requests of a host that asks again and again.
const QUIET: Duration = Duration::from_secs(65);

/// Within this time a host has come to rest, and has been quiet once.
const PATIENCE: Duration = Duration::from_secs(240);

/// How soon a host notices what it is told of.
const SOON: Duration = Duration::from_secs(20);

/// A host with a plugin that reads every kind, one with an optional kind that the server does not
/// serve, and one that waits for such a kind.
struct Rig {
    server: Server,
    proxy: Proxy,
    host: Host,
    config_maps: String,
    /// The host reads it while it runs.
    _plugins: TempDir,
}

impl Rig {
    async fn start(tells_progress: bool) -> Result<Self> {
        let server = Server::start_own(ServerOptions {
            tells_progress,
            ..ServerOptions::default()
        })
        .await?;
        let namespace = server.namespace().await?;
        let proxy = Proxy::before(server.kubeconfig()).await?;
        let plugins = plugin_directory(&["tally", "optional"]);
        let granted = "grants.reads = [\"*\"]\ngrants.writes = [{ kind = \"ConfigMap\" }]\n";
        std::fs::write(plugins.path().join("tally.toml"), granted)?;
        let host = Host::ready(plugins.path(), &proxy.kubeconfig()).await?;
        std::fs::copy(guest("widgets"), plugins.path().join("widgets.wasm"))?;
        let is_waiting = |plugin: &Value| plugin["state"] == "waiting";
        host.eventually("widgets.wasm", "waiting for its kind", is_waiting)
            .await?;
        let rig = Self {
            config_maps: format!("/api/v1/namespaces/{namespace}/configmaps"),
            server,
            proxy,
            host,
            _plugins: plugins,
        };
        // It has the plugin ask about all kinds.
        let counted = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "a", "labels": {"tally": "yes"}}});
        rig.server.api.create(&rig.config_maps, &counted).await?;
        rig.counts("").await?;
        Ok(rig)
    }

    /// Waits until the plugin knows of these kinds of `example.dev`.
    async fn counts(&self, kinds: &str) -> Result<()> {
        let is_so = |found: Option<&Value>| found.is_some_and(|it| it["data"]["kinds"] == kinds);
        let tally = format!("{}/a-tally", self.config_maps);
        let found = self.server.api.eventually(&tally, kinds, is_so).await;
        found.map(drop).with_context(|| self.host.log())
    }

    /// What the host has asked for so far, other than watches.
    async fn asked(&self) -> Result<BTreeMap<Asked, u64>> {
        let mut asked = requests_of(&self.server, "pilothouse/").await?;
        asked.retain(|asked, _| asked.verb != "watch");
        Ok(asked)
    }

    /// Waits until the host has sent nothing but watches for a while.
    async fn is_at_rest(&self) -> Result<()> {
        let began = Instant::now();
        let (mut last, mut since) = (self.asked().await?, began);
        while since.elapsed() < QUIET {
            let now = self.asked().await?;
            if now != last {
                (last, since) = (now, Instant::now());
            }
            if began.elapsed() > PATIENCE {
                bail!("the host is never at rest: {last:?}\n{}", self.host.log());
            }
            sleep(Duration::from_millis(250)).await;
        }
        let watches = self.server.open_watches("configmaps").await?;
        ensure!(watches > 0, "it does not watch: {}", self.host.log());
        Ok(())
    }

    /// Waits until the host asks which kinds there are.
    async fn asks_for_kinds(&self) -> Result<()> {
        let kinds = |asked: &BTreeMap<Asked, u64>| -> u64 {
            let discovery = asked.iter().filter(|(it, _)| !it.is_about_a_resource());
            discovery.map(|(_, count)| count).sum()
        };
        let (began, before) = (Instant::now(), kinds(&self.asked().await?));
        while kinds(&self.asked().await?) == before {
            ensure!(
                began.elapsed() < SOON,
                "it does not ask: {}",
                self.host.log()
            );
            sleep(Duration::from_millis(100)).await;
        }
        Ok(())
    }
}

#[tokio::test]
#[ignore = "takes minutes; make test-slow"]
async fn a_host_at_rest_sends_watches_and_nothing_else() -> Result<()> {
    for tells_progress in [false, true] {
        Rig::start(tells_progress).await?.is_at_rest().await?;
    }
    Ok(())
}

#[tokio::test]
#[ignore = "takes minutes; make test-slow"]
async fn a_host_at_rest_is_told_of_new_kinds_and_of_a_server_that_ends_its_watches() -> Result<()> {
    let rig = Rig::start(false).await?;
    rig.is_at_rest().await?;
    let gadget = definition("example.dev", "Gadget");
    rig.server.api.create(DEFINITIONS, &gadget).await?;
    rig.counts("example.dev/v1/Gadget").await?;
    let is_served = |plugin: &Value| plugin.get("notServed").is_none();
    let optional = rig
        .host
        .eventually("optional.wasm", "told of it", is_served);
    optional.await?;
    let widget = definition("example.dev", "Widget");
    rig.server.api.create(DEFINITIONS, &widget).await?;
    let is_running = |plugin: &Value| plugin["state"] == "running";
    let waiting = rig
        .host
        .eventually("widgets.wasm", "running, as its kind has come", is_running);
    waiting.await?;
    rig.is_at_rest().await?;
    ensure!(rig.proxy.close(watches("configmaps")) > 0);
    rig.asks_for_kinds().await
}
