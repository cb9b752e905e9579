//! Hosts that divide a plugin's keys by namespace cache only the namespaces of their shards,
//! whether the server selects them (KEP-5866) or sends all.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use pilothouse_core::{DividedBy, ObjectKey};
use pilothouse_tests::{Host, ServerOptions};
use serde_json::Value;
use tokio::time::{Instant, sleep};

use crate::group::{Group, Member, PATIENCE, Times};
use crate::load::{Amount, Load};
use crate::shares::in_four;

const AMOUNT: Amount = Amount {
    sets: 0,
    entries: 36,
    pause: Duration::from_millis(25),
};

/// Alone, a host has everything; of two, each has the namespaces of its own shards, whoever comes
/// and goes.
pub async fn each_caches_its_own(by_the_server: bool, times: Times) -> Result<()> {
    let server = ServerOptions {
        selects_shards: by_the_server,
        ..ServerOptions::default()
    };
    let mut group = Group::before(server, 2, times, &["ledger"]).await?;
    group.shares = true;
    let division = in_four(DividedBy::Namespace);
    group.divide_the_ledger(division).await?;
    let mut load = Load::still(&group, AMOUNT).await?;
    ensure!(sends_a_part(&group).await? == by_the_server);
    group.start_host(0).await?;
    load.settled().await?;
    until_each_has_its_own(&group).await?;
    group.start_host(1).await?;
    until_each_has_its_own(&group).await?;
    load.go_on(1);
    group.kill(0).await?;
    until_each_has_its_own(&group).await?;
    group.start_host(0).await?;
    group.conclude(&mut load).await?;
    until_each_has_its_own(&group).await
}

/// Whether the server selects namespaces, and says so.
async fn sends_a_part(group: &Group) -> Result<bool> {
    let selector =
        "shardRange(object.metadata.namespace,'0x0000000000000000','0x8000000000000000')";
    let path = format!("/api/v1/namespaces?shardSelector={selector}");
    let list = group.server.api.get(&path).await?.unwrap_or_default();
    Ok(list["metadata"]["shardInfo"]["selector"].is_string())
}

/// Waits until each host that runs has an even part of the shards, and caches exactly the objects
/// of their namespaces.
async fn until_each_has_its_own(group: &Group) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let found = how_far(group).await?;
        if found.is_empty() {
            return Ok(());
        }
        ensure!(Instant::now() < deadline, "{found:#?}\n{}", group.logs());
        sleep(Duration::from_millis(50)).await;
    }
}

/// What is not as it should be.
async fn how_far(group: &Group) -> Result<Vec<String>> {
    let division = in_four(DividedBy::Namespace);
    let maps = group.server.api.get("/api/v1/configmaps").await?;
    let maps = maps.unwrap_or_default();
    let maps = maps["items"].as_array().context("a list has items")?;
    let shards = maps.iter().map(|map| {
        let namespace = map["metadata"]["namespace"].as_str().unwrap_or_default();
        division.shard_of(ObjectKey::new(namespace, "").parts())
    });
    let shards: Vec<u32> = shards.collect();
    let running = group.members.iter().filter(|member| member.is_running());
    let running: Vec<&Host> = running.map(Member::host).collect();
    let share = 4 / running.len();
    let mut wrong = Vec::new();
    let mut taken = BTreeSet::new();
    for host in running {
        let here = held(host).await?;
        let own = shards.iter().filter(|shard| here.contains(shard)).count();
        let (cached, namespaces) = cached(host).await?;
        if here.len() != share || cached != own as u64 {
            wrong.push(format!(
                "a host has {here:?} of {share} shards, {cached} of {own} objects, {namespaces}"
            ));
        }
        taken.extend(here);
    }
    if taken.len() != 4 {
        wrong.push(format!("only {taken:?} are held"));
    }
    Ok(wrong)
}

/// The shards of the ledger that a host runs.
async fn held(host: &Host) -> Result<BTreeSet<u32>> {
    let (_, body) = host.get("/plugins").await?;
    let plugins: Vec<Value> = serde_json::from_str(&body)?;
    let ledger = plugins.iter().find(|plugin| plugin["name"] == "ledger");
    let here = ledger.map(|ledger| &ledger["shards"]["here"]);
    let here = here.and_then(Value::as_array).cloned().unwrap_or_default();
    let numbers = here.iter().filter_map(Value::as_u64);
    Ok(numbers.map(u32::try_from).collect::<Result<_, _>>()?)
}

/// How many ConfigMaps a host caches, and of which namespaces.
async fn cached(host: &Host) -> Result<(u64, String)> {
    let (_, body) = host.get("/informers").await?;
    let informers: Vec<Value> = serde_json::from_str(&body)?;
    let mut informers = informers.iter();
    let maps = informers.find(|informer| informer["informer"] == "v1/ConfigMap");
    let maps = maps.context("it reads ConfigMaps")?;
    let namespaces = maps["namespaces"].as_str().unwrap_or_default().to_owned();
    Ok((maps["objects"].as_u64().unwrap_or_default(), namespaces))
}
