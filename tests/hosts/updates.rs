//! Another version: of the host, of a plugin; one host after the other, under load.

use anyhow::{Result, ensure};
use k8s_openapi::jiff::Timestamp;
use pilothouse_tests::guest;

use crate::figures::Figures;
use crate::group::{Group, Times};
use crate::load::{Amount, Load, PLUGINS};

/// Each host ends and starts again, so many times, the leader among them.
pub async fn of_hosts(rounds: usize, times: Times) -> Result<()> {
    let mut group = Group::start(3, times, &PLUGINS).await?;
    let mut load = Load::start(&group, Amount::SMALL, 9).await?;
    let mut figures = Figures::default();
    for _ in 0..rounds {
        for number in 0..3 {
            let is_leader = group.holder().await? == Some(number);
            let name = group.members[number].name.clone();
            let at = Timestamp::now();
            let mut host = group.ask_to_end(number)?;
            if is_leader {
                figures.add(group.next_write(&name, at).await?);
            }
            ensure!(host.end().await?.success(), "{}", host.log());
            group.start_host(number).await?;
        }
    }
    let judged = group.conclude(&mut load).await?;
    println!(
        "rolling updates: {figures}; {} writes, {} terms",
        judged.writes, judged.terms
    );
    Ok(())
}

/// The ledger with this version, made by changing its bytes.
fn ledger(version: &str) -> Vec<u8> {
    let mut bytes = std::fs::read(guest("ledger")).expect("the guest ledger");
    let (old, new) = ("ledger-version=1.0.0", format!("ledger-version={version}"));
    let at = bytes
        .windows(old.len())
        .position(|place| place == old.as_bytes());
    let at = at.expect("the version is in the guest");
    bytes[at..at + old.len()].copy_from_slice(new.as_bytes());
    bytes
}

/// The standbys get the new version of a plugin first, and then the leader. Nothing that the new
/// version has written is written by the old one again.
pub async fn of_a_plugin(versions: usize, times: Times) -> Result<()> {
    let mut group = Group::start(3, times, &PLUGINS).await?;
    let mut load = Load::start(&group, Amount::SMALL, 11).await?;
    for version in 1..=versions {
        let version = format!("1.{version}.0");
        let leader = group.leader().await?;
        for number in [(leader + 1) % 3, (leader + 2) % 3, leader] {
            group.replace_plugin(number, "ledger.wasm", &ledger(&version))?;
            let is_there = |plugin: &serde_json::Value| plugin["version"] == *version;
            group
                .host(number)
                .eventually("ledger.wasm", "updated", is_there)
                .await?;
        }
        load.wish(0, &version).await?;
    }
    let judged = group.conclude(&mut load).await?;
    println!(
        "updates of a plugin: {} writes, {} terms",
        judged.writes, judged.terms
    );
    let last = format!("1.{versions}.0");
    for (copy, writers) in load.writers() {
        ensure!(writers.is_sorted(), "{copy} was written by {writers:?}");
        ensure!(
            writers.last() == Some(&last) || !copy.starts_with("entry-0"),
            "{copy}: {writers:?}"
        );
    }
    Ok(())
}
