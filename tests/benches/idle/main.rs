//! `make bench`: what a host costs at which nothing happens. All shipped plugins run in one host,
//! on a cluster of ten thousand pods: the time, CPU time and memory until they are settled; then
//! the host's CPU time and every request that reaches the API server while nothing changes, and
//! while nodes renew their leases, as they do in any cluster.
//!
//! `PILOTHOUSE_IDLE_PODS` is another number of pods.

mod cluster;
mod settings;
mod usage;

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use pilothouse_tests::{Host, HostOptions, Server, ServerOptions, chosen};
use serde_json::Value;
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

use usage::{Reading, Rest};

const PODS: usize = 10_000;

/// A host is settled when no key of any plugin has waited or run for this long.
const CALM: Duration = Duration::from_secs(5);

/// A watch that brings nothing is opened again more often. Until then a host is not at rest.
const LEAD: Duration = Duration::from_secs(30);

/// How long a host at rest is looked at.
const REST: Duration = Duration::from_secs(60);

/// The longest that a host may take until it is settled.
const PATIENCE: Duration = Duration::from_secs(900);

fn main() -> Result<()> {
    // `cargo test` also runs the benches, to check that they build.
    if std::env::args().any(|argument| argument == "--test") {
        return Ok(());
    }
    let pods = chosen("PILOTHOUSE_IDLE_PODS", PODS)?;
    tokio::runtime::Runtime::new()?.block_on(run(pods))
}

async fn run(pods: usize) -> Result<()> {
    println!("idle: all shipped plugins in one host, on a cluster of {pods} pods");
    let server = Server::start_own(ServerOptions {
        tells_progress: true,
        ..ServerOptions::default()
    })
    .await?;
    let pods = cluster::build(&server, pods).await?;
    println!("  {pods} pods are ready");
    let all = settings::all_plugins()?;
    let first = start(&server, &all, "the first start").await?;
    let (status, log) = first.terminate().await?;
    ensure!(status.success(), "the host ended with {status}:\n{log}");
    let host = start(&server, &all, "another start").await?;
    rest_of(&server, &host, "nothing happens").await?;
    let beats = cluster::renew_leases(&server.api);
    let resting = rest_of(&server, &host, "nodes renew their leases");
    tokio::select! {
        rested = resting => rested?,
        beaten = beats => bail!("the leases are no longer renewed: {beaten:?}"),
    }
    let all = host.memory()?;
    drop(host);
    let plugins = settings::plugins(&["endpoints"])?;
    let host = start(&server, &plugins, "endpoints alone").await?;
    rest_of(&server, &host, "nothing happens").await?;
    println!(
        "  memory of all plugins to that of endpoints: {:.2}",
        all as f64 / host.memory()? as f64
    );
    drop(host);
    server.stop().await
}

/// Starts a host, waits until it is settled, and prints what that took.
async fn start(server: &Server, plugins: &TempDir, what: &str) -> Result<Host> {
    let began = Reading::of(server, None).await?;
    let host = Host::start(&HostOptions {
        plugins: plugins.path().into(),
        kubeconfig: server.kubeconfig().into(),
        ..HostOptions::default()
    })
    .await?;
    let count = settings::count(plugins)?;
    let settled = until_settled(server, &host, count).await?;
    println!("  {what}, {count} plugins: {}", settled.since(&began));
    for line in troubles(&host.plugins().await?) {
        println!("    trouble: {line}");
    }
    Ok(host)
}

/// Waits until all plugins have run all of their keys. Returns the reading of when they had.
async fn until_settled(server: &Server, host: &Host, count: usize) -> Result<Reading> {
    let deadline = Instant::now() + PATIENCE;
    let mut calm: Option<Reading> = None;
    loop {
        let plugins = host.plugins().await?;
        if let Some(failed) = plugins.iter().find(|it| it["state"] == "failed") {
            bail!("a plugin does not start: {failed}");
        }
        if plugins.len() < count || !plugins.iter().all(is_calm) {
            calm = None;
        } else if let Some(reading) = calm.take_if(|reading| reading.at.elapsed() > CALM) {
            return Ok(reading);
        } else if calm.is_none() {
            calm = Some(Reading::of(server, Some(host)).await?);
        }
        if Instant::now() > deadline {
            let busy = plugins.iter().find(|it| !is_calm(it));
            return Err(anyhow::Error::msg(host.log()))
                .with_context(|| format!("the host is not settled: {busy:?}"));
        }
        sleep(Duration::from_millis(250)).await;
    }
}

fn is_calm(plugin: &Value) -> bool {
    let keys = &plugin["keys"];
    plugin["state"] == "running" && keys["queued"] == 0 && keys["running"] == 0
}

/// What a settled plugin should not show.
fn troubles(plugins: &[Value]) -> Vec<String> {
    let has_trouble =
        |plugin: &&Value| plugin["keys"]["failed"] != 0 || plugin["notGranted"].is_array();
    let troubled = plugins.iter().filter(has_trouble);
    let lines = troubled.map(|plugin| {
        let (failed, granted) = (&plugin["keys"]["failed"], &plugin["notGranted"]);
        format!(
            "{}: {failed} keys fail, {}; not granted: {granted}",
            plugin["file"], plugin["lastError"]
        )
    });
    lines.collect()
}

/// Looks at a host at rest, and prints what it does.
async fn rest_of(server: &Server, host: &Host, what: &str) -> Result<()> {
    sleep(LEAD).await;
    let began = Rest::begin(server, host).await?;
    sleep(REST).await;
    let rest = began.end(server, host).await?;
    println!("    {} s in which {what}: {rest}", REST.as_secs());
    Ok(())
}
