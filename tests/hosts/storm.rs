//! What a take-over costs when there is nothing to do.

use std::time::Duration;

use anyhow::{Result, ensure};
use k8s_openapi::jiff::Timestamp;
use pilothouse_tests::proxy::{ANY, writes};
use pilothouse_tests::{Host, all_of};
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::group::{Group, PATIENCE, Times};
use crate::load::{Amount, Load, PLUGINS};

/// The pause between two looks.
const LOOK: Duration = Duration::from_millis(20);

/// The longest that one first run may take on average, on a busy machine.
const EACH: Duration = Duration::from_millis(10);

/// So many objects are created before what has passed is forgotten.
const BATCH: usize = 5000;

/// The new leader runs every key and writes nothing, as the one before has done everything.
pub async fn first_runs(amount: Amount, times: Times) -> Result<()> {
    let mut group = Group::start(2, times, &PLUGINS).await?;
    let mut load = Load::still(&group, amount).await?;
    load.settle().await?;
    take_over(&mut group, amount.sets + amount.entries).await
}

/// The same with so many entries of the ledger, all of which are as they should be from the
/// beginning: no host ever writes.
pub async fn first_runs_of_many(keys: usize, times: Times) -> Result<()> {
    let mut group = Group::start(2, times, &["ledger"]).await?;
    let began = Timestamp::now();
    let begun = Instant::now();
    for first in (0..keys).step_by(BATCH) {
        let last = keys.min(first + BATCH);
        all_of((first..last).map(|number| create_done(&group, number))).await?;
        group.journal.read(&group.server).await?;
        for member in &group.members {
            ensure_quiet(&group, &member.name, began)?;
            member.proxy.forget();
        }
        println!("  {last} keys exist after {:.1?}", begun.elapsed());
    }
    let leader = group.leader().await?;
    all_have_run(group.host(leader), keys).await?;
    take_over(&mut group, keys).await
}

/// Creates an entry of the ledger after what the ledger would write for it.
async fn create_done(group: &Group, number: usize) -> Result<()> {
    let name = format!("entry-{number}");
    let collection = group.path("configmaps");
    for suffix in ["first", "second"] {
        let copy = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": format!("{name}-{suffix}")},
            "data": {"wish": "begin", "by": "1.0.0"},
        });
        group.server.api.create(&collection, &copy).await?;
    }
    let entry = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "labels": {"ledger": "true"}}, "data": {"wish": "begin"},
    });
    group.server.api.create(&collection, &entry).await.map(drop)
}

/// The leader of two hosts ends. The other one runs all keys, and sends nothing.
async fn take_over(group: &mut Group, keys: usize) -> Result<()> {
    let leader = group.leader().await?;
    let next = 1 - leader;
    group.members[next].proxy.forget();
    let at = Timestamp::now();
    let begun = Instant::now();
    let mut host = group.ask_to_end(leader)?;
    all_have_run(group.host(next), keys).await?;
    let proven = group
        .host(next)
        .metric("pilothouse_takeover_seconds_sum", "")
        .await?;
    println!(
        "first runs of {keys} keys: {:.2?} from SIGTERM, {proven:.2} s of them for the caches",
        begun.elapsed()
    );
    host.end().await?;
    group.journal.read(&group.server).await?;
    ensure_quiet(group, &group.members[next].name, at)
}

/// Waits until the host has run so many keys, and none waits or runs.
async fn all_have_run(host: &Host, keys: usize) -> Result<()> {
    let deadline = Instant::now() + PATIENCE * 4 + EACH * u32::try_from(keys)?;
    loop {
        let runs = host
            .metric("controller_runtime_reconcile_total", "")
            .await?;
        let plugins = host.plugins().await?;
        let is_idle = |plugin: &serde_json::Value| {
            plugin["keys"]["queued"] == 0 && plugin["keys"]["running"] == 0
        };
        if runs >= keys as f64 && plugins.iter().all(is_idle) {
            return Ok(());
        }
        ensure!(Instant::now() < deadline, "{runs} of {keys} keys ran");
        sleep(LOOK).await;
    }
}

/// Fails if a plugin of this user has written something since then, or has tried to since what has
/// passed its proxy was forgotten.
fn ensure_quiet(group: &Group, user: &str, since: Timestamp) -> Result<()> {
    let written = group.journal.writes_of(user, since);
    ensure!(
        written.is_empty(),
        "{} writes: {:#?}",
        written.len(),
        written.first()
    );
    // Also what was refused.
    let member = group.members.iter().find(|member| member.name == user);
    let sent = member.map(|member| member.proxy.seen(writes(ANY)));
    let sent = sent.unwrap_or_default();
    let is_other = |resource: &&str| !matches!(*resource, "leases" | "events");
    let sent: Vec<&str> = sent
        .iter()
        .map(|seen| &*seen.resource)
        .filter(is_other)
        .collect();
    ensure!(
        sent.is_empty(),
        "{user} has sent {} writes, the first of {:?}",
        sent.len(),
        sent.first()
    );
    Ok(())
}
