//! Memory and time to hold the same pods of the same API server: `kube_runtime::reflector` against
//! this host's list-watch and cache. Each runs in a process of its own.
#![allow(clippy::disallowed_types, reason = "a benchmark measures real time")]

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::{WatchStreamExt, reflector, watcher};
use pilothouse_cluster::ApiCluster;
use pilothouse_cluster::connect::{Connection, Environment, Options};
use pilothouse_cluster::watch::{CacheSink, WatchSettings, WatchState};
use pilothouse_core::{Cache, Delta, Detail, InformerKey, Kind, Schema, Subscription};
use pilothouse_tests::{Api, Server};
use serde_json::{Value, json};

const PODS: usize = 10_000;
const PODS_PATH: &str = "/api/v1/namespaces/default/pods";

/// How many requests are in flight while the pods are created.
const AT_ONCE: usize = 16;

/// How often each of the two is measured, in turns. The medians are reported.
const ROUNDS: usize = 3;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    // `cargo test` also runs the benches, to check that they build.
    if arguments.iter().any(|argument| argument == "--test") {
        return Ok(());
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    match (arguments.get(1).map(String::as_str), arguments.get(2)) {
        (Some("kube-rs"), Some(kubeconfig)) => report(|| runtime.block_on(kube_rs(kubeconfig))),
        (Some("pilothouse"), Some(kubeconfig)) => report(|| runtime.block_on(ours(kubeconfig))),
        _ => runtime.block_on(compare()),
    }
}

/// Milliseconds until a process held all the pods, and how much its resident memory had grown by
/// then, in bytes.
type Figures = (u64, usize);

/// Runs in a child process: measures and prints the figures in one line.
fn report<Held>(hold: impl FnOnce() -> Result<Held>) -> Result<()> {
    let (before, started) = (resident()?, Instant::now());
    let held = hold()?;
    let took = started.elapsed();
    println!("{} {}", took.as_millis(), resident()? - before);
    drop(held);
    Ok(())
}

/// Returns the resident memory of this process in bytes.
fn resident() -> Result<usize> {
    let statm = std::fs::read_to_string("/proc/self/statm")?;
    let pages = statm.split(' ').nth(1).context("no resident pages")?;
    Ok(pages.parse::<usize>()? * 4096)
}

async fn compare() -> Result<()> {
    let server = Server::start().await?;
    let bytes = fill(&server.api).await?;
    println!("reflector: {PODS} pods of {bytes} bytes");
    let (mut theirs, mut mine) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        theirs.push(child("kube-rs", server.kubeconfig())?);
        mine.push(child("pilothouse", server.kubeconfig())?);
    }
    let (theirs, mine) = (median(theirs), median(mine));
    for (name, (milliseconds, bytes)) in [
        ("kube_runtime::reflector of k8s_openapi's Pod", theirs),
        ("pilothouse", mine),
    ] {
        let memory = format!("{} KiB/pod", bytes / PODS / 1024);
        println!("  {name:<52} {memory:>14}   {milliseconds} ms");
    }
    println!(
        "  {:<52} {:>13.1}x   {:.1}x",
        "ratio",
        theirs.1 as f64 / mine.1 as f64,
        theirs.0 as f64 / mine.0 as f64
    );
    server.stop().await
}

fn median(mut figures: Vec<Figures>) -> Figures {
    let middle = |mut of: Vec<u64>| {
        of.sort_unstable();
        of[of.len() / 2]
    };
    let bytes = middle(figures.iter().map(|(_, bytes)| *bytes as u64).collect());
    let times = middle(figures.drain(..).map(|(time, _)| time).collect());
    (times, usize::try_from(bytes).unwrap_or(usize::MAX))
}

fn child(who: &str, kubeconfig: &Path) -> Result<Figures> {
    let output = std::process::Command::new(std::env::current_exe()?)
        .arg(who)
        .arg(kubeconfig)
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    ensure!(
        output.status.success(),
        "{who}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let (time, bytes) = text.trim().split_once(' ').context("no figures")?;
    Ok((time.parse()?, bytes.parse()?))
}

/// Creates the pods. Returns the size in bytes of one pod as the server sends it.
async fn fill(api: &Api) -> Result<usize> {
    futures::stream::iter(0..PODS)
        .map(|number| async move { api.create(PODS_PATH, &pod(number)).await.map(drop) })
        .buffer_unordered(AT_ONCE)
        .try_collect::<()>()
        .await?;
    let one = api.get(&format!("{PODS_PATH}/pod-0")).await?;
    Ok(one.context("no pod")?.to_string().len())
}

/// Returns a pod of about 4 KB of JSON, as in a real cluster.
fn pod(number: usize) -> Value {
    let app = format!("app-{}", number % 100);
    let environment: Vec<Value> = (0..20)
        .map(|name| json!({"name": format!("SETTING_{name}"), "value": format!("{app}-{number}-{}", "v".repeat(40))}))
        .collect();
    let probe = json!({"httpGet": {"path": "/healthz", "port": 8080}, "periodSeconds": 10});
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"namespace": "default", "name": format!("pod-{number}"),
            "labels": {"app": app, "pod-template-hash": "5d9c7b8f6c", "tier": "web"},
            "annotations": {"checksum/config": "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"}},
        "spec": {"nodeName": format!("node-{}", number % 50), "serviceAccountName": "default",
            "containers": [{"name": "main", "image": format!("example.dev/{app}:1.2.3"), "env": environment,
                "ports": [{"name": "http", "containerPort": 8080}], "livenessProbe": probe, "readinessProbe": probe,
                "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}}}]},
    })
}

async fn kube_rs(kubeconfig: &str) -> Result<reflector::Store<Pod>> {
    let kubeconfig = kube::config::Kubeconfig::read_from(kubeconfig)?;
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &Default::default()).await?;
    let pods = kube::Api::<Pod>::all(kube::Client::try_from(config)?);
    let (store, writer) = reflector::store();
    let stream = watcher(pods, watcher::Config::default())
        .reflect(writer)
        .applied_objects();
    let mut stream = std::pin::pin!(stream);
    let drain = async { while stream.try_next().await.is_ok() {} };
    tokio::select! {
        () = drain => {}
        ready = store.wait_until_ready() => ready?,
    }
    ensure!(store.len() == PODS, "only {} pods", store.len());
    Ok(store)
}

/// A sink with a cache and nothing else.
#[derive(Clone)]
struct Sink(Arc<Mutex<Cache>>);

impl CacheSink for Sink {
    fn schema(&self) -> Arc<Schema> {
        self.0.lock().expect("no panic").schema().clone()
    }

    fn apply(&mut self, delta: Delta) {
        self.0.lock().expect("no panic").apply(delta);
    }

    fn state(&mut self, _: WatchState) {}
}

async fn ours(kubeconfig: &str) -> Result<Sink> {
    let options = Options {
        kubeconfig: Some(kubeconfig.into()),
        context: None,
    };
    let connection = Connection::open(&options, &Environment::default()).await?;
    let cluster = ApiCluster::new(connection.client, "bench");
    let informer_key = InformerKey::all(Kind::new("", "v1", "Pod"));
    let mut cache = Cache::new(informer_key.clone());
    cache.join(&Subscription {
        detail: Detail::Full,
        fields: vec![],
        indexes: vec![],
        manager: None,
    });
    let mut sink = Sink(Arc::new(Mutex::new(cache)));
    let seen = sink.clone();
    let list_watch = cluster
        .list_watch(&informer_key, Detail::Full.into(), WatchSettings::default())
        .await?;
    let is_full = async {
        while seen.0.lock().expect("no panic").len() < PODS {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::select! {
        _ = list_watch.run(&mut sink) => {}
        () = is_full => {}
    }
    Ok(seen)
}
