//! What goes wrong with the machines of that day: the host and the API server are killed, watches
//! stand still.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result};
use k8s_openapi::jiff::Timestamp;
use pilothouse_tests::proxy::{ANY, Answer, resumes, watches, writes};
use pilothouse_tests::{Random, WorkloadRig};
use serde_json::Value;
use tokio::time::{sleep, timeout};

/// How often what goes wrong.
#[derive(Clone, Copy, Debug, Default)]
pub struct Plan {
    pub host_kills: u64,
    pub server_kills: u64,
    pub stalls: u64,
}

impl Plan {
    fn total(self) -> u64 {
        self.host_kills + self.server_kills + self.stalls
    }

    /// Takes one of those that are left, at random.
    fn take(&mut self, random: &mut Random) -> Option<Fault> {
        if self.total() == 0 {
            return None;
        }
        let number = random.below(self.total());
        let (count, fault) = if number < self.host_kills {
            (&mut self.host_kills, Fault::HostKilled)
        } else if number < self.host_kills + self.server_kills {
            (&mut self.server_kills, Fault::ServerKilled)
        } else {
            (&mut self.stalls, Fault::WatchStalled)
        };
        *count -= 1;
        Some(fault)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    HostKilled,
    ServerKilled,
    WatchStalled,
}

/// What has gone wrong.
#[derive(Default)]
pub struct Damage {
    pub host_kills: usize,
    /// Of these: hosts that were not ready yet.
    pub early_kills: usize,
    pub server_kills: usize,
    pub stalls: usize,
    /// The host's writes, answered or not.
    pub writes: usize,
    /// When the host's caches could not follow: from when to when.
    pub behind: Vec<(Timestamp, Timestamp)>,
    /// What the hosts logged above INFO: how often each message.
    pub log: BTreeMap<String, usize>,
}

/// Causes one fault after the other until the plan is done. Each is over before the next begins.
pub async fn cause(
    rig: &mut WorkloadRig,
    mut plan: Plan,
    seed: u64,
    damage: &mut Damage,
) -> Result<()> {
    let mut random = Random(seed);
    while let Some(fault) = plan.take(&mut random) {
        sleep(random.milliseconds(2000)).await;
        match fault {
            Fault::HostKilled => kill_host(rig, &mut random, damage).await?,
            Fault::ServerKilled => kill_server(rig, &mut random, damage).await?,
            Fault::WatchStalled => stall(rig, &mut random, damage).await,
        }
        damage.count(rig);
        if plan.total() > 0 && plan.total().is_multiple_of(20) {
            println!("  {} failures to come", plan.total());
        }
    }
    Ok(())
}

/// Kills the host at a random moment, one in five times while it is starting.
async fn kill_host(rig: &mut WorkloadRig, random: &mut Random, damage: &mut Damage) -> Result<()> {
    damage.read_log(rig);
    rig.kill_host().await?;
    damage.host_kills += 1;
    if random.percent(20) {
        // What is not finished is dropped, which kills the host.
        let time = random.milliseconds(1000);
        if timeout(time, rig.start_host()).await.is_err() {
            damage.host_kills += 1;
            damage.early_kills += 1;
        }
    }
    rig.start_host().await
}

/// Kills the API server. Watches that are resumed afterwards may find that it has forgotten.
async fn kill_server(
    rig: &mut WorkloadRig,
    random: &mut Random,
    damage: &mut Damage,
) -> Result<()> {
    let from = Timestamp::now();
    rig.server.kill().await?;
    damage.server_kills += 1;
    if random.percent(50) {
        let expired = Answer::status(410);
        rig.proxy.on(resumes(ANY)).times(5).answer(expired);
    }
    sleep(random.milliseconds(1000)).await;
    rig.server.start_again().await?;
    // The host tries again once a second.
    let watching = watches("pods");
    let up = rig.proxy.until_open(watching, 1, Duration::from_secs(30));
    up.await.context("after the API server was killed")?;
    rig.proxy.heal().await;
    damage.behind.push((from, Timestamp::now()));
    Ok(())
}

/// Nothing comes through the watch of a kind, or any watch, for some seconds.
async fn stall(rig: &mut WorkloadRig, random: &mut Random, damage: &mut Damage) {
    let kinds = [
        ANY,
        "pods",
        "pods",
        "replicasets",
        "deployments",
        "jobs",
        "statefulsets",
        "nodes",
    ];
    let kind = random.one_of(&kinds).copied().unwrap_or(ANY);
    let from = Timestamp::now();
    let fault = rig.proxy.on(watches(kind)).stall();
    damage.stalls += 1;
    sleep(Duration::from_millis(500) + random.milliseconds(3500)).await;
    fault.lift();
    damage.behind.push((from, Timestamp::now()));
}

impl Damage {
    /// Counts what the host has written, and lets the proxy forget what it has recorded.
    pub fn count(&mut self, rig: &WorkloadRig) {
        self.writes += rig.proxy.seen(writes(ANY)).len();
        rig.proxy.forget();
    }

    /// Takes in what the host has logged; it is lost with the host.
    pub fn read_log(&mut self, rig: &WorkloadRig) {
        let log = rig.log();
        let lines = log
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok());
        for line in lines {
            let line: Value = line;
            let text = |member: &str| line[member].as_str().unwrap_or_default().to_owned();
            if matches!(line["level"], Value::String(ref level) if level == "WARN" || level == "ERROR")
            {
                let words = format!("{} {} {}", text("level"), text("plugin"), text("message"));
                *self.log.entry(words).or_default() += 1;
            }
        }
    }
}
