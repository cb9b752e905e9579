//! What cannot be fenced: a write that is on its way. Kubernetes has no tokens by which the server
//! could tell that its sender no longer leads.

use std::time::Duration;

use anyhow::{Result, ensure};
use k8s_openapi::jiff::Timestamp;
use pilothouse_tests::proxy::writes;

use crate::group::{Group, PATIENCE, Times};
use crate::load::{Amount, Load};

/// The network keeps a write of the leader for longer than the Lease lasts, and then delivers it.
/// The auditor finds it, and the new leader mends what it has done.
pub async fn held_by_the_network(times: Times) -> Result<()> {
    let mut group = Group::start(2, times, &["ledger"]).await?;
    let amount = Amount {
        sets: 0,
        entries: 1,
        pause: Duration::ZERO,
    };
    let mut load = Load::still(&group, amount).await?;
    load.settled().await?;
    let leader = group.leader().await?;
    let name = group.members[leader].name.clone();
    let proxy = &group.members[leader].proxy;
    proxy.forget();
    let carried = proxy.on(writes("configmaps")).times(1).carry();
    load.wish(0, "on its way").await?;
    proxy.until_seen(writes("configmaps"), 1, PATIENCE).await?;
    let at = Timestamp::now();
    proxy.freeze_everything();
    group.next_write(&name, at).await?;
    load.wish(0, "later").await?;
    load.settled().await?;
    let arrives = Timestamp::now();
    carried.lift();
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while group.journal.writes_of(&name, arrives).is_empty() {
        ensure!(
            tokio::time::Instant::now() < deadline,
            "the write never arrived"
        );
        group.journal.read(&group.server).await?;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    group.members[leader].proxy.heal().await;
    load.settle().await?;
    group.journal.read(&group.server).await?;
    let judged = group.judge(&load);
    let found = (judged.stale.len(), judged.unled.len());
    ensure!(found == (1, 0), "that one write is stale: {judged:#?}");
    Ok(())
}
