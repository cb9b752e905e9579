//! `make bench`: names and ends. A namespace of five thousand objects of many kinds is emptied by
//! the plugin `namespace`, and a graph of fifty thousand objects is collected by the plugin
//! `garbage-collector`: the time, the host's CPU time and memory, and the requests that reached the
//! API server, beside the floor of one request an object.
//!
//! `PILOTHOUSE_ENDS_CONTENT` and `PILOTHOUSE_ENDS_GRAPH` are other numbers of objects.

mod census;
mod content;
mod graph;
mod shape;
mod usage;

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use pilothouse_tests::{Api, Host, Server, ServerOptions, chosen};
use tokio::time::Instant;

const CONTENT: usize = 5_000;
const GRAPH: usize = 50_000;

/// How long something may take of which the next part is due within seconds. Whoever waits for
/// longer has failed.
const PATIENCE: Duration = Duration::from_secs(300);

fn main() -> Result<()> {
    // `cargo test` also runs the benches, to check that they build.
    if std::env::args().any(|argument| argument == "--test") {
        return Ok(());
    }
    let content = chosen("PILOTHOUSE_ENDS_CONTENT", CONTENT)?;
    let graph = chosen("PILOTHOUSE_ENDS_GRAPH", GRAPH)?;
    tokio::runtime::Runtime::new()?.block_on(async {
        content::measure(content).await?;
        graph::measure(graph).await
    })
}

/// The API server for tests, as it counts requests.
async fn counting_server() -> Result<Server> {
    Server::start_own(ServerOptions::default()).await
}

async fn until_gone(api: &Api, path: &str) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    while let Some(found) = api.get(path).await? {
        let status = &found["status"];
        ensure!(Instant::now() < deadline, "{path} is still there: {status}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

/// Waits until no key of the plugin waits or runs.
async fn until_idle(host: &Host, plugin: &str) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let plugins = host.plugins().await?;
        let found = plugins
            .iter()
            .find(|it| it["file"] == format!("{plugin}.wasm"));
        let found = found.context("the host does not know the plugin")?;
        let keys = &found["keys"];
        if found["state"] == "running" && keys["queued"] == 0 && keys["running"] == 0 {
            return Ok(());
        }
        ensure!(Instant::now() < deadline, "{plugin} is not idle: {found}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
