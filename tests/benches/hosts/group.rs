//! Hosts that share the work on one API server.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use pilothouse_tests::{Host, HostOptions, Server, sum_of};
use serde_json::Value;
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

use crate::usage::Memory;

/// The longest that hosts may take to divide the shards, or to have nothing to do.
const PATIENCE: Duration = Duration::from_secs(120);

const LOOK: Duration = Duration::from_millis(20);

/// A host has settled when no key has waited or run at so many looks in a row.
const CALM: usize = 100;

/// The counter of reconciles of each plugin, as controller-runtime calls it.
pub const RECONCILES: &str = "controller_runtime_reconcile_total";

pub struct Group {
    pub hosts: Vec<Host>,
    plugins: PathBuf,
    kubeconfig: PathBuf,
    /// Compiled plugins, so that a host that starts has only to load them.
    code: TempDir,
}

/// When a host was started.
pub struct Start {
    pub started: Instant,
    /// Its caches were full, and it was a member.
    pub ready: Instant,
}

impl Group {
    /// No host runs yet. All will have these plugins.
    pub fn new(server: &Server, plugins: &TempDir) -> Result<Self> {
        let mode = std::fs::Permissions::from_mode(0o700);
        Ok(Self {
            hosts: Vec::new(),
            plugins: plugins.path().into(),
            kubeconfig: server.kubeconfig().into(),
            code: tempfile::Builder::new().permissions(mode).tempdir()?,
        })
    }

    /// Starts one more host, and waits until it is ready.
    pub async fn start_host(&mut self) -> Result<Start> {
        let started = Instant::now();
        let code = format!("--code-cache={}", self.code.path().display());
        let mut host = Host::start(&HostOptions {
            plugins: self.plugins.clone(),
            kubeconfig: self.kubeconfig.clone(),
            arguments: vec!["--share".into(), "--workers=1".into(), code],
            elects: true,
            ..HostOptions::default()
        })
        .await?;
        host.logs("this host is a member").await?;
        host.wait_until_ready().await?;
        self.hosts.push(host);
        let ready = Instant::now();
        Ok(Start { started, ready })
    }

    /// Sends SIGTERM to the host that was started last. Returns it, to wait for its end.
    pub fn ask_to_end(&mut self) -> Result<Host> {
        let host = self.hosts.pop().context("a host runs")?;
        host.ask_to_end()?;
        Ok(host)
    }

    /// Ends all hosts.
    pub async fn end(mut self) -> Result<()> {
        while !self.hosts.is_empty() {
            self.ask_to_end()?.end().await?;
        }
        Ok(())
    }

    /// The shards that each host runs.
    async fn shards(&self) -> Result<Vec<Vec<Shards>>> {
        let mut all = Vec::new();
        for host in &self.hosts {
            let plugins = host.plugins().await?;
            all.push(plugins.iter().filter_map(Shards::of).collect());
        }
        Ok(all)
    }

    /// Waits until every shard is run by one host, each of them runs equally many, and each has run
    /// keys of all plugins of which it has a shard. Returns when that was.
    pub async fn until_even(&self) -> Result<Instant> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let at = Instant::now();
            if self.is_even().await? {
                return Ok(at);
            }
            if at > deadline {
                bail!(
                    "the shards are not divided evenly: {}",
                    self.division().await?
                );
            }
            sleep(LOOK).await;
        }
    }

    async fn is_even(&self) -> Result<bool> {
        let all = self.shards().await?;
        let wanted: usize = all[0].iter().map(|plugin| plugin.of).sum();
        let counts = all.iter().map(|plugins| count(plugins));
        let counts: Vec<usize> = counts.collect();
        let is_divided = wanted > 0
            && counts.iter().sum::<usize>() == wanted
            && counts.iter().all(|count| *count == wanted / all.len());
        if !is_divided {
            return Ok(false);
        }
        for (host, plugins) in self.hosts.iter().zip(&all) {
            let (_, metrics) = host.get("/metrics").await?;
            let runs = |plugin: &&Shards| {
                let label = format!("controller=\"{}\"", plugin.name);
                plugin.here.is_empty() || sum_of(&metrics, RECONCILES, &label) > 0.0
            };
            if !plugins.iter().all(|plugin| runs(&plugin)) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Who runs what, in words.
    pub async fn division(&self) -> Result<String> {
        let mut words = Vec::new();
        for (number, plugins) in self.shards().await?.iter().enumerate() {
            let held = plugins.iter().filter(|plugin| !plugin.here.is_empty());
            let held: Vec<String> = held.map(Shards::text).collect();
            let (number, count) = (number + 1, count(plugins));
            words.push(format!(
                "host {number} runs {count} shards: {}",
                held.join(", ")
            ));
        }
        Ok(words.join("; "))
    }

    /// How many shards this host has gained or begun to give up since its start.
    pub async fn shard_changes(&self, number: usize) -> Result<f64> {
        self.hosts[number]
            .metric("pilothouse_shard_changes_total", "")
            .await
    }

    /// Whether one of the hosts has no key that waits.
    pub async fn has_nothing_to_do(&self) -> Result<bool> {
        for host in &self.hosts {
            if keys(&host.plugins().await?, "queued") == 0 {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Waits until no host has a key that waits or runs.
    pub async fn until_settled(&self) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        let mut calm = 0;
        while calm < CALM {
            let mut busy = 0;
            for host in &self.hosts {
                let plugins = host.plugins().await?;
                busy += keys(&plugins, "queued") + keys(&plugins, "running");
            }
            calm = if busy == 0 { calm + 1 } else { 0 };
            if Instant::now() > deadline {
                bail!("{busy} keys still wait or run");
            }
            sleep(LOOK).await;
        }
        Ok(())
    }

    /// How many objects a host caches.
    pub async fn cached(&self, number: usize) -> Result<f64> {
        let host = &self.hosts[number];
        host.metric("pilothouse_cached_objects", "").await
    }

    /// What this host occupies now.
    pub fn memory(&self, number: usize) -> Result<Memory> {
        Memory::of(self.hosts[number].process()?)
    }
}

/// How many keys of all plugins are in this state.
fn keys(plugins: &[Value], state: &str) -> u64 {
    let counts = plugins.iter().filter_map(|it| it["keys"][state].as_u64());
    counts.sum()
}

fn count(plugins: &[Shards]) -> usize {
    plugins.iter().map(|plugin| plugin.here.len()).sum()
}

/// The shards of a plugin that a host runs.
struct Shards {
    name: String,
    /// Into how many its keys are divided.
    of: usize,
    here: BTreeSet<u64>,
}

impl Shards {
    /// None while the host does not say.
    fn of(plugin: &Value) -> Option<Self> {
        let shards = &plugin["shards"];
        let numbers = |name: &str| -> BTreeSet<u64> {
            let all = shards[name].as_array().into_iter().flatten();
            all.filter_map(Value::as_u64).collect()
        };
        let pending = numbers("pending");
        let here = numbers("here").into_iter();
        Some(Self {
            name: plugin["name"].as_str()?.to_owned(),
            of: usize::try_from(shards["of"].as_u64()?).ok()?,
            here: here.filter(|index| !pending.contains(index)).collect(),
        })
    }

    fn text(&self) -> String {
        let numbers: Vec<String> = self.here.iter().map(u64::to_string).collect();
        match self.of {
            1 => self.name.clone(),
            of => format!("{} of {of} of {}", numbers.join(" "), self.name),
        }
    }
}
