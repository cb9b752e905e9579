//! What a take-over costs when there is nothing to do.

use std::time::Duration;

use anyhow::{Result, ensure};
use k8s_openapi::jiff::Timestamp;
use pilothouse_tests::proxy::{ANY, writes};
use tokio::time::{Instant, sleep};

use crate::group::{Group, PATIENCE, Times};
use crate::load::{Amount, Load, PLUGINS};

/// The new leader runs every key and writes nothing, as the one before has done everything.
pub async fn first_runs(amount: Amount, times: Times) -> Result<()> {
    let mut group = Group::start(2, times, &PLUGINS).await?;
    let mut load = Load::still(&group, amount).await?;
    load.settle().await?;
    let leader = group.leader().await?;
    let next = 1 - leader;
    group.members[next].proxy.forget();
    let at = Timestamp::now();
    let begun = Instant::now();
    let mut host = group.ask_to_end(leader)?;
    let keys = amount.sets + amount.entries;
    let deadline = Instant::now() + PATIENCE * 4;
    loop {
        let runs = group
            .host(next)
            .metric("controller_runtime_reconcile_total", "")
            .await?;
        if runs >= keys as f64 {
            break;
        }
        ensure!(Instant::now() < deadline, "{runs} of {keys} keys ran");
        sleep(Duration::from_millis(20)).await;
    }
    println!("first runs of {keys} keys: {:.2?}", begun.elapsed());
    host.end().await?;
    group.journal.read(&group.server).await?;
    let written = group.journal.writes_of(&group.members[next].name, at);
    ensure!(
        written.is_empty(),
        "{} writes: {:#?}",
        written.len(),
        written.first()
    );
    // Also what was refused.
    let sent = group.members[next].proxy.seen(writes(ANY));
    let sent: Vec<&str> = sent.iter().map(|seen| &*seen.resource).collect();
    let is_other = |resource: &&str| !matches!(*resource, "leases" | "events");
    let sent = sent.into_iter().filter(is_other).count();
    ensure!(sent == 0, "{sent} sent");
    Ok(())
}
