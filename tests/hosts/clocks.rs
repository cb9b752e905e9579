//! Clocks that are wrong.

use std::time::Duration;

use anyhow::{Result, ensure};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::json;

use crate::group::{Group, LEASE, Times};
use crate::journal::since;
use crate::load::{Amount, Load, PLUGINS};

const HOUR: SignedDuration = SignedDuration::from_hours(1);

/// Another holder, whose clock is off, has the Lease and has died. Its Lease is taken when it was
/// seen unchanged for its duration, not before and not an hour later.
pub async fn of_a_dead_holder(off: SignedDuration) -> Result<()> {
    let times = Times::SHORT;
    let mut group = Group::of(1, times, &["ledger"]).await?;
    let written = (Timestamp::now() + off)
        .strftime("%Y-%m-%dT%H:%M:%S.000000Z")
        .to_string();
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "pilothouse"},
        "spec": {
            "holderIdentity": "another", "leaseDurationSeconds": times.lease.as_secs(),
            "acquireTime": written, "renewTime": written, "leaseTransitions": 0,
        },
    });
    let collection = LEASE.trim_end_matches("/pilothouse");
    group.server.api.create(collection, &lease).await?;
    let began = Timestamp::now();
    group.start_host(0).await?;
    group.leader().await?;
    let took = since(began, Timestamp::now());
    ensure!(
        took >= times.lease,
        "taken after {took:?}, while its holder may lead"
    );
    ensure!(
        took < times.lease + Duration::from_secs(60),
        "taken after {took:?}"
    );
    Ok(())
}

pub async fn an_hour_ahead() -> Result<()> {
    of_a_dead_holder(HOUR).await
}

pub async fn an_hour_behind() -> Result<()> {
    of_a_dead_holder(-HOUR).await
}

/// Hosts whose clocks since the start of the machine are an hour apart hand over to each other.
/// Without the right to make a time namespace nothing is shown, and the test says so.
pub async fn since_boot() -> Result<()> {
    let unshared = |offset: &str| -> Vec<String> {
        let words = [
            "unshare",
            "--time",
            "--boottime",
            offset,
            "--monotonic",
            offset,
        ];
        words.iter().map(|word| (*word).to_owned()).collect()
    };
    let words = unshared("3600");
    let tried = std::process::Command::new(&words[0])
        .args(&words[1..])
        .arg("true")
        .output();
    if !tried.is_ok_and(|output| output.status.success()) {
        println!("skipped: this machine lets nobody make a time namespace");
        return Ok(());
    }
    let mut group = Group::of(3, Times::SHORT, &PLUGINS).await?;
    group.members[1].launcher = unshared("3600");
    group.members[2].launcher = unshared("86400");
    for number in 0..3 {
        group.start_host(number).await?;
    }
    let mut load = Load::start(&group, Amount::SMALL, 5).await?;
    for _ in 0..3 {
        let leader = group.leader().await?;
        let name = group.members[leader].name.clone();
        let at = Timestamp::now();
        group.host(leader).pause()?;
        let took = group.next_write(&name, at).await?;
        println!("  {name} was stopped: {took:.2?}");
        group.host(leader).resume()?;
    }
    group.conclude(&mut load).await.map(drop)
}
