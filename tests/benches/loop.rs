//! `make bench`: the cost of the host, of the boundary to the guest and of the whole loop. Compare
//! the figures of one run only; those of other machines differ.

mod turns;

use std::time::Duration;

use anyhow::{Context, Result};
use pilothouse_tests::{Host, Neighbour, Server, plugin_directory};
use pilothouse_wasm::{Engine, EngineOptions};
use serde_json::{Value, json};
use tokio::time::Instant;

use turns::{Native, load, row, time_turns};

fn main() -> Result<()> {
    // `cargo test` also runs the benches, to check that they build.
    if std::env::args().any(|argument| argument == "--test") {
        return Ok(());
    }
    let engine = Engine::new(&EngineOptions::default())?;
    boundary(&engine)?;
    overhead(&engine)?;
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(latency())?;
    runtime.block_on(creates())
}

fn pod(number: usize, app: &str) -> Value {
    let filler = "x".repeat(1000);
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "namespace": "default", "name": format!("pod-{number}"), "uid": format!("uid-{number}"), "resourceVersion": "1",
            "labels": {"app": app}, "annotations": {"filler": filler},
        },
        "spec": {
            "nodeName": format!("node-{}", number % 10),
            "containers": [{"name": "c", "image": "i", "env": [{"name": "FILLER", "value": filler}],
                "ports": [{"name": "web", "containerPort": 8080, "protocol": "TCP"}]}],
        },
        "status": {
            "phase": "Running", "podIP": format!("10.0.{}.{}", number / 250, number % 250 + 1),
            "podIPs": [{"ip": format!("10.0.{}.{}", number / 250, number % 250 + 1)}],
            "conditions": [{"type": "Ready", "status": "True", "message": filler}],
        },
    })
}

/// A guest that lists 1,000 pods with three fields each, against one that reads nothing.
fn boundary(engine: &Engine) -> Result<()> {
    println!(
        "the boundary: 1,000 pods of {} bytes, three fields of each",
        pod(0, "a").to_string().len()
    );
    let pods: Vec<Value> = (0..1000).map(|number| pod(number, "a")).collect();
    let plugin = load(engine, "lister")?;
    let time = |how: &str| {
        time_turns(
            plugin.clone(),
            &json!({"list": how}).to_string(),
            &pods,
            300,
            |_| true,
        )
    };
    let (not, text, decoded, one_by_one) = (
        time("not")?,
        time("text")?,
        time("decoded")?,
        time("one-by-one")?,
    );
    row(
        "a turn in a fresh instance that reads nothing",
        &format!("{not:.1?}"),
        "",
    );
    row(
        "list, as the guest's text, above that",
        &format!("{:.1?}", text.saturating_sub(not)),
        "<= 1 ms",
    );
    row(
        "the same pods, one get each, as text, above that",
        &format!("{:.1?}", one_by_one.saturating_sub(not)),
        "",
    );
    row(
        "list, decoded by the guest, above that",
        &format!("{:.1?}", decoded.saturating_sub(not)),
        "",
    );
    Ok(())
}

/// The endpoints controller as a guest, against the same code linked into this process, on the same
/// hub.
fn overhead(engine: &Engine) -> Result<()> {
    let wasm = load(engine, "endpoints")?;
    let native = Native::<endpoints::EndpointsController>::like(&wasm);
    println!("the endpoints controller: guest against the same code, native, in the same hub");
    for count in [10, 100, 1000] {
        let mut objects: Vec<Value> = (0..count).map(|number| pod(number, "web")).collect();
        objects.push(json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"namespace": "default", "name": "web", "uid": "s", "resourceVersion": "1"},
            "spec": {"selector": {"app": "web"}, "clusterIP": "10.96.0.1", "ports": [{"name": "http", "port": 80, "targetPort": "web"}]},
        }));
        let reconciles = 3000 / count.max(10);
        let (guest, native) = (
            time_turns(wasm.clone(), "{}", &objects, reconciles, |_| true)?,
            time_turns(native.clone(), "{}", &objects, reconciles, |_| true)?,
        );
        let ratio = guest.as_secs_f64() / native.as_secs_f64();
        row(
            &format!("a service of {count} pods: guest {guest:.0?}, native {native:.0?}"),
            &format!("{ratio:.2} x"),
            "",
        );
    }
    Ok(())
}

/// The time from a change of a pod's readiness on the server to the Endpoints that show it, through
/// the whole loop.
async fn latency() -> Result<()> {
    println!("the whole loop: a pod's status is written; until its Service's Endpoints are");
    let server = Server::start().await?;
    let plugins = plugin_directory(&["endpoints"]);
    let host = Host::ready(plugins.path(), server.kubeconfig()).await?;
    let mut neighbour = Neighbour::new(&server.api)
        .await
        .with_context(|| host.log())?;
    let mut times = Vec::new();
    for _ in 0..400 {
        times.push(neighbour.toggle().await.with_context(|| host.log())?);
    }
    times.sort();
    let percentile = |percent: usize| times[(times.len() - 1) * percent / 100];
    row("p50", &format!("{:.1?}", percentile(50)), "");
    row("p99", &format!("{:.1?}", percentile(99)), "<= 1 s");
    Ok(())
}

/// The time until 500 objects exist that one outcome creates, end to end: from the creation of the
/// key's object until the server has them all. In one stage, and one after the other.
async fn creates() -> Result<()> {
    println!("500 creates of one outcome: the key is created; until all of them exist");
    let server = Server::start().await?;
    let plugins = plugin_directory(&["stages"]);
    let host = Host::ready(plugins.path(), server.kubeconfig()).await?;
    let (mut staged, mut one_by_one) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        staged.push(created(&server, "create").await?);
        one_by_one.push(created(&server, "create-in-sequence").await?);
    }
    let best = |times: &[Duration]| times.iter().min().copied().unwrap_or_default();
    let (staged, one_by_one) = (best(&staged), best(&one_by_one));
    row("in one stage, best of 3", &format!("{staged:.1?}"), "");
    row(
        "one after the other, best of 3",
        &format!("{one_by_one:.1?}"),
        "",
    );
    let ratio = one_by_one.as_secs_f64() / staged.as_secs_f64();
    row(
        "how many times faster in one stage",
        &format!("{ratio:.1} x"),
        "",
    );
    drop(host);
    Ok(())
}

/// How long the guest `stages` takes to create its 500 objects in a namespace of its own.
async fn created(server: &Server, task: &str) -> Result<Duration> {
    let namespace = server.namespace().await?;
    let at = |resource: &str| format!("/api/v1/namespaces/{namespace}/{resource}");
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"},
        "spec": {"ports": [{"port": 80}]}});
    server.api.create(&at("services"), &service).await?;
    let key = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"do": task},
        "metadata": {"name": "a", "labels": {"stages": "true"}}});
    let started = Instant::now();
    server.api.create(&at("configmaps"), &key).await?;
    let made = at("configmaps?labelSelector=made-by%3Da");
    let are_all = |found: Option<&Value>| {
        let items = found.and_then(|found| found["items"].as_array());
        items.is_some_and(|items| items.len() == 500)
    };
    server.api.eventually(&made, "500 of them", are_all).await?;
    Ok(started.elapsed())
}
