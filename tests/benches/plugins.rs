//! `make bench`: the memory that each further plugin costs, up to a hundred plugins on the same ten
//! thousand objects.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use futures::stream::{self, StreamExt, TryStreamExt};
use pilothouse_tests::{Host, HostOptions, Server, named_fickle};
use serde_json::{Value, json};

const OBJECTS: usize = 10_000;
const COUNTS: [usize; 3] = [1, 50, 100];

fn main() -> Result<()> {
    // `cargo test` also runs the benches, to check that they build.
    if std::env::args().any(|argument| argument == "--test") {
        return Ok(());
    }
    tokio::runtime::Runtime::new()?.block_on(run())
}

async fn run() -> Result<()> {
    println!(
        "plugins: up to {} of one small Rust guest, each under its own name",
        COUNTS[2]
    );
    let server = Server::start().await?;
    measure(&server, "no objects", "", "reads-own").await?;
    stream::iter(0..OBJECTS)
        .map(|number| create(&server, number))
        .buffer_unordered(16)
        .try_collect::<()>()
        .await?;
    let rows = [
        ("reconciled by all", "", "reads-own"),
        ("and another read", "", "reads-two"),
        ("queued by all", "paused = true", "reads-own"),
    ];
    for (what, settings, does) in rows {
        let what = format!("{OBJECTS} objects, each {what}");
        measure(&server, &what, settings, does).await?;
    }
    Ok(())
}

async fn create(server: &Server, number: usize) -> Result<()> {
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": format!("s{number}"), "labels": {"fickle": "true"}},
        "data": {"value": number.to_string()}});
    let path = "/api/v1/namespaces/default/configmaps";
    server.api.create(path, &object).await.map(drop)
}

/// Starts a host, adds plugins, and prints its memory with each number of plugins in [`COUNTS`].
async fn measure(server: &Server, what: &str, settings: &str, does: &str) -> Result<()> {
    let (plugins, code) = (tempfile::tempdir()?, tempfile::tempdir()?);
    std::fs::write(plugins.path().join("pilothouse.toml"), settings)?;
    let mut host = Host::start(&HostOptions {
        plugins: plugins.path().into(),
        kubeconfig: server.kubeconfig().into(),
        arguments: vec![
            "--code-cache".into(),
            code.path().join("code").display().to_string(),
        ],
        ..HostOptions::default()
    })
    .await?;
    let mut resident = Vec::new();
    let mut have = 0;
    for count in COUNTS {
        for number in have..count {
            let name = format!("fickle-{number:03}");
            let file: PathBuf = plugins.path().join(format!("{name}.wasm"));
            let beside = plugins.path().join(".new");
            std::fs::write(&beside, named_fickle(&name, "1.0.0", does))?;
            std::fs::rename(beside, file)?;
        }
        have = count;
        wait_until_idle(&mut host, count)
            .await
            .with_context(|| host.log())?;
        resident.push(host.memory()?);
    }
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let shown: Vec<String> = resident
        .iter()
        .map(|bytes| format!("{:.0}", mib(*bytes)))
        .collect();
    let each = mib(resident[2].saturating_sub(resident[0])) / (COUNTS[2] - COUNTS[0]) as f64;
    println!(
        "  {what:<46} MiB with {COUNTS:?}: {:>14}; each more: {each:.2} MiB   <= 1",
        shown.join(", ")
    );
    Ok(())
}

/// Waits until there are `count` plugins, each of which has run all keys or, if paused, has queued
/// them.
async fn wait_until_idle(host: &mut Host, count: usize) -> Result<()> {
    let mut calm = 0;
    for _ in 0..3000 {
        let (_, body) = host.get("/plugins").await?;
        let plugins: Vec<Value> = serde_json::from_str(&body)?;
        let is_idle = |plugin: &Value| {
            let (queued, running) = (&plugin["keys"]["queued"], &plugin["keys"]["running"]);
            match plugin["state"].as_str() {
                Some("running") => queued == 0 && running == 0,
                Some("paused") => queued == OBJECTS,
                _ => false,
            }
        };
        let is_calm = plugins.len() == count && plugins.iter().all(is_idle);
        calm = if is_calm { calm + 1 } else { 0 };
        // Idle for two seconds, as plugins may be idle for a moment before their keys are queued.
        if calm == 10 {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    anyhow::bail!("the plugins do not come to rest")
}
