//! `make bench`: what it takes to read every kind. A plugin that indexes all objects of sixty kinds
//! by a label, 150,000 of them: the time until it has its first answer, the host's memory and CPU
//! time until then, and what one more object takes.

use std::time::Duration;

use anyhow::{Context, Result};
use futures::stream::{self, StreamExt, TryStreamExt};
use pilothouse_tests::{Host, Server, define, plugin_directory};
use serde_json::{Value, json};
use tokio::time::Instant;

const OBJECTS: usize = 150_000;
const KINDS: usize = 60;

const SETTINGS: &str = r#"
[grants]
reads = ["*"]
writes = [{ kind = "ConfigMap" }]
"#;

fn main() -> Result<()> {
    // `cargo test` also runs the benches, to check that they build.
    if std::env::args().any(|argument| argument == "--test") {
        return Ok(());
    }
    tokio::runtime::Runtime::new()?.block_on(run())
}

async fn run() -> Result<()> {
    println!("patterns: a plugin that reads `*`, by an index of a label");
    let server = Server::start().await?;
    measure(&server, "the kinds of the server, hardly an object").await?;
    let kinds: Vec<String> = (0..KINDS).map(|kind| format!("Thing{kind}")).collect();
    define(&server.api, &kinds).await?;
    let each = OBJECTS / KINDS;
    stream::iter((0..OBJECTS).map(|number| (number % KINDS, number / KINDS)))
        .map(|(kind, number)| create(&server, kind, number))
        .buffer_unordered(32)
        .try_collect::<()>()
        .await?;
    let what = format!("and {KINDS} more kinds of {each} objects");
    measure(&server, &what).await
}

/// Creates an object with an owner, labels and a spec, as an operator's are.
async fn create(server: &Server, kind: usize, number: usize) -> Result<()> {
    let object = json!({
        "apiVersion": "bench.dev/v1", "kind": format!("Thing{kind}"),
        "metadata": {
            "name": format!("n{number}"),
            "labels": {"of": format!("owner-{}", number % 1000), "app.kubernetes.io/name": "bench"},
            "ownerReferences": [{
                "apiVersion": "v1", "kind": "ConfigMap", "name": "owner",
                "uid": format!("00000000-0000-0000-0000-{number:012}"),
            }],
        },
        "spec": {"image": "registry/bench:1.2.3", "replicas": 3, "arguments": ["--one", "--two"]},
    });
    let path = format!("/apis/bench.dev/v1/namespaces/default/thing{kind}s");
    server.api.create(&path, &object).await.map(drop)
}

/// Starts a host and prints what the first answer takes, and what one more object does.
async fn measure(server: &Server, what: &str) -> Result<()> {
    let plugins = plugin_directory(&["tally"]);
    std::fs::write(plugins.path().join("tally.toml"), SETTINGS)?;
    let host = Host::ready(plugins.path(), server.kubeconfig()).await?;
    let idle = (host.memory()?, host.cpu()?);
    let config_maps = "/api/v1/namespaces/default/configmaps";
    let subject = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "owner-7", "labels": {"tally": "yes"}}});
    let asked = Instant::now();
    server.api.create(config_maps, &subject).await?;
    let tally = format!("{config_maps}/owner-7-tally");
    wait(server, &tally, |found| found["data"].is_object())
        .await
        .with_context(|| host.log())?;
    let took = asked.elapsed();
    let (memory, cpu) = (host.memory()?, host.cpu()?);
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    println!(
        "  {what}\n    first answer after {took:.1?}; CPU {:.1?}; memory {:.0} MiB, {:.0} before",
        cpu.saturating_sub(idle.1),
        mib(memory),
        mib(idle.0),
    );
    let mut latencies = Vec::new();
    for number in 0..20 {
        let object = json!({"apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": format!("s{number}"), "labels": {"of": "owner-7"}}});
        let began = Instant::now();
        server
            .api
            .create("/api/v1/namespaces/default/secrets", &object)
            .await?;
        let count = (number + 1).to_string();
        wait(server, &tally, |found| found["data"]["v1.Secret"] == count).await?;
        latencies.push(began.elapsed());
    }
    latencies.sort_unstable();
    let before = host.cpu()?;
    tokio::time::sleep(Duration::from_secs(10)).await;
    let resting = host.cpu()?.saturating_sub(before);
    println!(
        "    one more object until it is counted: {:.1?} (median); at rest {:.1} ms of CPU a second",
        latencies[latencies.len() / 2],
        resting.as_secs_f64() * 100.0,
    );
    for path in [format!("{config_maps}/owner-7"), tally] {
        server.api.delete(&path).await?;
    }
    for number in 0..20 {
        let path = format!("/api/v1/namespaces/default/secrets/s{number}");
        server.api.delete(&path).await?;
    }
    Ok(())
}

/// Waits for an object, without the pauses of a test.
async fn wait(server: &Server, path: &str, is_so: impl Fn(&Value) -> bool) -> Result<()> {
    for _ in 0..60_000 {
        if server
            .api
            .get(path)
            .await?
            .is_some_and(|found| is_so(&found))
        {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    anyhow::bail!("{path} is not as wanted")
}
