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
use futures::stream::{self, StreamExt, TryStreamExt};
use pilothouse_tests::{Api, Host, Server, ServerOptions};
use serde_json::{Value, json};
use tokio::time::Instant;

const CONTENT: usize = 5_000;
const GRAPH: usize = 50_000;

/// How many requests are under way at a time while objects are created or deleted.
const AT_ONCE: usize = 16;

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

/// The number of an environment variable, or this one if it is not set.
fn chosen(variable: &str, otherwise: usize) -> Result<usize> {
    let Ok(text) = std::env::var(variable) else {
        return Ok(otherwise);
    };
    let number = text.parse().unwrap_or_default();
    ensure!(
        number > 0,
        "{variable} is {text:?}: make it a number of objects, or unset it"
    );
    Ok(number)
}

/// The API server for tests, as it counts requests.
async fn counting_server() -> Result<Server> {
    Server::start_own(ServerOptions::default()).await
}

/// Defines namespaced kinds of the group `bench.dev`, and waits until the server serves them.
async fn define(api: &Api, kinds: &[(&str, &str)]) -> Result<()> {
    for (plural, kind) in kinds {
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.bench.dev")},
            "spec": {
                "group": "bench.dev", "scope": "Namespaced",
                "names": {"plural": plural, "singular": kind.to_lowercase(), "kind": kind},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {
                    "openAPIV3Schema": {
                        "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                    },
                }}],
            },
        });
        let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        api.create(definitions, &definition).await?;
    }
    for (plural, _) in kinds {
        let is_served = |found: Option<&Value>| found.is_some();
        let path = format!("/apis/bench.dev/v1/{plural}");
        api.eventually(&path, "served", is_served).await?;
    }
    Ok(())
}

async fn create_namespace(api: &Api, name: &str) -> Result<()> {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    api.create("/api/v1/namespaces", &namespace).await.map(drop)
}

/// Runs these, `AT_ONCE` of them at a time.
async fn all_of<T>(
    futures: impl Iterator<Item = impl Future<Output = Result<T>>>,
) -> Result<Vec<T>> {
    let results = stream::iter(futures).buffer_unordered(AT_ONCE);
    results.try_collect().await
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
        let (_, plugins) = host.get("/plugins").await?;
        let plugins: Vec<Value> = serde_json::from_str(&plugins)?;
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
