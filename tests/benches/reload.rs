//! `make bench`: how long swapping versions stops a plugin, and how much twenty swaps in a row
//! delay other plugins.

use std::cell::Cell;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use futures::stream::{FuturesUnordered, TryStreamExt};
use pilothouse_tests::{Api, Host, HostOptions, Neighbour, Server, fickle, guest};
use serde_json::{Value, json};
use tokio::time::Instant;

const SWAPS: usize = 20;
const SUBJECTS: usize = 200;
/// How many requests that change objects are in flight.
const LANES: usize = 8;
const FILE: &str = "fickle.wasm";

fn main() -> Result<()> {
    // `cargo test` also runs the benches, to check that they build.
    if std::env::args().any(|argument| argument == "--test") {
        return Ok(());
    }
    tokio::runtime::Runtime::new()?.block_on(through_the_host())
}

fn row(what: &str, figure: &str, target: &str) {
    println!("  {what:<58} {figure:>16}   {target}");
}

fn percentile(times: &mut [Duration], percent: usize) -> Duration {
    times.sort();
    times
        .get((times.len().max(1) - 1) * percent / 100)
        .copied()
        .unwrap_or_default()
}

async fn through_the_host() -> Result<()> {
    let server = Server::start().await?;
    let (plugins, code) = (tempfile::tempdir()?, tempfile::tempdir()?);
    std::fs::copy(guest("endpoints"), plugins.path().join("endpoints.wasm"))?;
    put(plugins.path(), &version(0))?;
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
    host.wait_until_ready().await?;
    let bench = Bench {
        api: server.api.clone(),
        host,
        plugins: plugins.path(),
        changes: Cell::new(0),
        is_done: Cell::new(false),
    };
    bench.run().await.with_context(|| bench.host.log())
}

fn version(number: usize) -> String {
    format!("1.{}.{}", number / 10, number % 10)
}

fn put(directory: &Path, version: &str) -> Result<()> {
    let beside = directory.join(".fickle.new");
    std::fs::write(&beside, fickle(version, "nothing-bad"))?;
    Ok(std::fs::rename(beside, directory.join(FILE))?)
}

struct Bench<'a> {
    api: Api,
    host: Host,
    plugins: &'a Path,
    changes: Cell<usize>,
    is_done: Cell<bool>,
}

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

impl Bench<'_> {
    async fn run(&self) -> Result<()> {
        println!("{SWAPS} swaps in a row, while keys flow through a host");
        for number in 0..SUBJECTS {
            let object = json!({"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": format!("s{number}"), "labels": {"fickle": "true"}}});
            self.api.create(CONFIG_MAPS, &object).await?;
        }
        let mut neighbour = Neighbour::new(&self.api).await?;
        let calm = async {
            tokio::time::sleep(Duration::from_secs(10)).await;
            Ok(())
        };
        let mut without = self.under_load("no swaps", &mut neighbour, calm).await?;
        let compiled = self.swaps();
        let mut fresh = self
            .under_load("swaps, compiled", &mut neighbour, compiled)
            .await?;
        // The same versions again: they come from the code cache, so only the swaps themselves cost
        // time.
        let cached = self.swaps();
        let mut known = self
            .under_load("swaps, from the code cache", &mut neighbour, cached)
            .await?;
        let base = percentile(&mut without, 99).as_secs_f64();
        for (what, times) in [("compiled", &mut fresh), ("cached", &mut known)] {
            let ratio = percentile(times, 99).as_secs_f64() / base;
            row(
                &format!("another plugin's p99, {what}, against no swaps"),
                &format!("{ratio:.2} x"),
                "unchanged",
            );
        }
        row("keys lost", &self.lost().await?.to_string(), "0");
        let mut pauses: Vec<Duration> = self
            .host
            .log_lines()
            .iter()
            .filter(|line| line["message"] == "plugin version replaced")
            .filter_map(|line| line["took_us"].as_u64().map(Duration::from_micros))
            .collect();
        let figures = format!(
            "{:.1?}, {:.1?}",
            percentile(&mut pauses, 50),
            percentile(&mut pauses, 100)
        );
        row(
            &format!("nothing is handed out: p50, most of {}", pauses.len()),
            &figures,
            "<= 10 ms",
        );
        Ok(())
    }

    /// Changes objects as fast as the server accepts it, until `until` ends. Meanwhile measures how
    /// long the other plugin takes to follow its changes.
    async fn under_load(
        &self,
        what: &str,
        neighbour: &mut Neighbour,
        until: impl Future<Output = Result<()>>,
    ) -> Result<Vec<Duration>> {
        self.is_done.set(false);
        self.changes.set(0);
        let mut times = Vec::new();
        let started = Instant::now();
        let over = async {
            let result = until.await;
            self.is_done.set(true);
            result
        };
        let watch = async {
            while !self.is_done.get() {
                times.push(neighbour.toggle().await?);
            }
            Ok(())
        };
        tokio::try_join!(over, watch, self.flow())?;
        let rate = self.changes.get() as f64 / started.elapsed().as_secs_f64();
        let waits = [50, 99].map(|percent| format!("{:.1?}", percentile(&mut times, percent)));
        row(
            &format!("{what}: {rate:.0} changes/s; another plugin's p50, p99"),
            &waits.join(", "),
            "",
        );
        Ok(times)
    }

    async fn flow(&self) -> Result<()> {
        let lanes = (0..LANES).map(async |lane| {
            let mut round = 0;
            while !self.is_done.get() {
                round += 1;
                for number in (lane..SUBJECTS).step_by(LANES) {
                    let patch = json!({"data": {"value": round.to_string()}});
                    let path = format!("{CONFIG_MAPS}/s{number}");
                    self.api.merge(&path, &patch).await?;
                    self.changes.set(self.changes.get() + 1);
                }
            }
            Ok::<_, anyhow::Error>(())
        });
        let lanes: FuturesUnordered<_> = lanes.collect();
        lanes.try_collect().await
    }

    async fn swaps(&self) -> Result<()> {
        for number in 1..=SWAPS {
            let version = version(number);
            put(self.plugins, &version)?;
            self.host
                .eventually(FILE, &version, |plugin| plugin["version"] == version)
                .await?;
        }
        Ok(())
    }

    /// Returns how many objects the last version has not seen in their last state.
    async fn lost(&self) -> Result<usize> {
        let mut lost = 0;
        for number in 0..SUBJECTS {
            let path = format!("{CONFIG_MAPS}/s{number}");
            let subject = self.api.get(&path).await?.context("no subject")?;
            let is_seen = |found: Option<&Value>| {
                found.is_some_and(|found| {
                    found["data"]["of"] == subject["metadata"]["resourceVersion"]
                        && found["data"]["version"] == version(SWAPS)
                })
            };
            let seen = self
                .api
                .eventually(&format!("{path}-seen"), "current", is_seen)
                .await;
            lost += usize::from(seen.is_err());
        }
        Ok(lost)
    }
}
