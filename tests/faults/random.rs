//! Random faults: whatever happens to watches and lists, in the end the cache equals what the
//! server stores, and it never went back.
//!
//! A failure names its seed. `PILOTHOUSE_FAULT_SEED` replays it, as far as timing allows.
#![allow(
    clippy::unwrap_used,
    reason = "clippy knows the tests of an integration test, but not its helpers"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use pilothouse_cluster::ApiCluster;
use pilothouse_cluster::connect::{Connection, Environment, Options};
use pilothouse_cluster::watch::{CacheSink, WatchSettings, WatchState};
use pilothouse_core::{
    Cache, Delta, Detail, InformerKey, Kind, ObjectKey, ResourceVersion, Schema,
};
use pilothouse_tests::proxy::{
    ANY, Answer, Proxy, complete_lists, error_event, lists, reads, watches, writes,
};
use pilothouse_tests::{FaultRig, HEALED, Random, Server};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

fn seeds(count: u64) -> Vec<u64> {
    match std::env::var("PILOTHOUSE_FAULT_SEED") {
        Ok(seed) => vec![seed.parse().unwrap()],
        Err(_) => (1..=count).collect(),
    }
}

/// Causes one fault after another. Each is over before the next begins.
async fn faults_for(time: Duration, proxy: &Proxy, random: &mut Random) {
    let end = Instant::now() + time;
    while Instant::now() < end {
        fault(proxy, random).await;
        sleep(random.milliseconds(500)).await;
        proxy.heal().await;
        // Gives held-back lines the time to pass before the next fault may break the connection.
        sleep(Duration::from_millis(50)).await;
    }
}

async fn fault(proxy: &Proxy, random: &mut Random) {
    let statuses = [410, 429, 500, 503, 504];
    let status = statuses[usize::try_from(random.below(5)).unwrap()];
    match random.below(18) {
        0 => drop(proxy.reset(watches(ANY))),
        1 => drop(proxy.close(watches(ANY))),
        2 => drop(proxy.half_close(watches(ANY))),
        3 => drop(proxy.freeze(watches(ANY))),
        4 => drop(proxy.inject(watches(ANY), &error_event(status))),
        5 => drop(proxy.inject(watches(ANY), "{\"type\":\"ADDED\",\"obj")),
        6 => replay_a_line(proxy, random),
        7 => drop(proxy.on(watches(ANY)).stall()),
        8 => drop(proxy.on(watches(ANY)).delay_lines(random.milliseconds(400))),
        9 => drop(proxy.on(watches(ANY)).reverse_each(2)),
        10 => drop(proxy.on(watches(ANY)).strip_bookmarks()),
        11 => {
            let garbled = proxy.on(watches(ANY)).times(2);
            garbled.replace_events(|event| {
                Some(json!({"type": event["type"], "object": 1}).to_string())
            });
        }
        12 => {
            let bytes = usize::try_from(random.below(3_000)).unwrap();
            proxy.on(reads(ANY)).times(2).truncate(bytes);
            proxy.reset(watches(ANY));
        }
        13 => {
            proxy.on(reads(ANY)).times(3).answer(Answer::status(status));
            proxy.reset(watches(ANY));
        }
        14 => {
            proxy
                .on(complete_lists(ANY))
                .times(1)
                .answer(Answer::status(410));
            proxy.on(lists(ANY)).slow(10_000);
            proxy.inject(watches(ANY), &error_event(410));
        }
        15 => drop(proxy.on(writes(ANY)).times(2).lose_answer()),
        16 => drop(
            proxy
                .on(writes(ANY))
                .times(3)
                .answer(Answer::status(status)),
        ),
        _ => {
            proxy.refuse().await;
            proxy.reset(watches(ANY));
        }
    }
}

/// Sends an earlier event of some watch again, on all open watches of its resource.
fn replay_a_line(proxy: &Proxy, random: &mut Random) {
    let lines = proxy.lines(watches(ANY));
    let is_event = |line: &str| !line.contains(r#""type":"BOOKMARK""#);
    let events: Vec<_> = lines.iter().filter(|line| is_event(&line.text)).collect();
    if !events.is_empty() {
        let number = random.below(u64::try_from(events.len()).unwrap());
        let old = events[usize::try_from(number).unwrap()];
        proxy.inject(watches(&old.watch.resource), &old.text);
    }
}

/// A cache that checks its changes, as a plugin would see them.
#[derive(Clone)]
struct Witness(Arc<Mutex<Held>>);

struct Held {
    cache: Cache,
    /// The result of replaying the changes that the cache returned.
    replayed: BTreeMap<ObjectKey, ResourceVersion>,
    /// The newest version of each key so far, also of deleted keys.
    newest: BTreeMap<ObjectKey, ResourceVersion>,
    wrongs: Vec<String>,
}

impl Witness {
    fn new(kind: &Kind) -> Self {
        Self(Arc::new(Mutex::new(Held {
            cache: Cache::new(InformerKey::all(kind.clone())),
            replayed: BTreeMap::new(),
            newest: BTreeMap::new(),
            wrongs: Vec::new(),
        })))
    }

    /// Returns the resourceVersion of each object, by name.
    fn shows(&self, namespace: &str) -> BTreeMap<String, String> {
        let held = self.0.lock().unwrap();
        let objects = held.cache.list(Some(namespace));
        objects
            .map(|object| {
                let version = object.resource_version().to_string();
                (object.key().name.to_owned(), version)
            })
            .collect()
    }
}

impl CacheSink for Witness {
    fn schema(&self) -> Arc<Schema> {
        self.0.lock().unwrap().cache.schema().clone()
    }

    fn apply(&mut self, delta: Delta) {
        let mut held = self.0.lock().unwrap();
        for change in held.cache.apply(delta) {
            let key = change.key().to_key();
            let version = |object: &Arc<pilothouse_core::Object>| object.resource_version().clone();
            let (old, new) = (
                change.old.as_ref().map(version),
                change.new.as_ref().map(version),
            );
            if held.replayed.get(&key) != old.as_ref() {
                held.wrongs
                    .push(format!("{key}: {old:?} was never announced"));
            }
            match new {
                None => drop(held.replayed.remove(&key)),
                Some(new) => {
                    if held.newest.get(&key).is_some_and(|newest| new < *newest) {
                        held.wrongs.push(format!("{key}: went back to {new:?}"));
                    }
                    held.newest.insert(key.clone(), new.clone());
                    held.replayed.insert(key, new);
                }
            }
        }
    }

    fn state(&mut self, _: WatchState) {}
}

/// Creates, changes and deletes up to ten ConfigMaps. Returns every name that was used.
async fn write_for(
    time: Duration,
    server: &Server,
    collection: &str,
    random: &mut Random,
) -> Result<BTreeSet<String>> {
    let end = Instant::now() + time;
    let mut names = BTreeSet::new();
    for number in 0u32.. {
        if Instant::now() > end {
            break;
        }
        let name = format!("c{}", random.below(10));
        let path = format!("{collection}/{name}");
        let data = json!({"data": {"number": number.to_string()}});
        match (server.api.get(&path).await?.is_some(), random.below(3)) {
            (true, 0) => server.api.delete(&path).await?,
            (true, _) => drop(server.api.merge(&path, &data).await?),
            (false, _) => {
                let mut object = data;
                object["metadata"] = json!({"name": name});
                server.api.create(collection, &object).await?;
            }
        }
        names.insert(name);
        sleep(random.milliseconds(20)).await;
    }
    Ok(names)
}

/// Returns the resourceVersion of each object, by name.
async fn stored(server: &Server, collection: &str) -> Result<BTreeMap<String, String>> {
    let list = server.api.get(collection).await?.context("no list")?;
    let objects = list["items"].as_array().into_iter().flatten();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    Ok(objects
        .map(|object| &object["metadata"])
        .map(|metadata| (text(&metadata["name"]), text(&metadata["resourceVersion"])))
        .collect())
}

async fn a_cache_survives(server: &Server, seed: u64, time: Duration) -> Result<()> {
    let mut random = Random(seed);
    let proxy = Proxy::before(server.kubeconfig()).await?;
    let options = Options {
        kubeconfig: Some(proxy.kubeconfig()),
        ..Options::default()
    };
    let connection = Connection::open(&options, &Environment::default()).await?;
    let cluster = ApiCluster::new(connection.client, "random-faults");
    let namespace = server.namespace().await?;
    let collection = format!("/api/v1/namespaces/{namespace}/configmaps");
    let kind = Kind::new("", "v1", "ConfigMap");
    let list_watch = cluster
        .list_watch(
            &InformerKey::all(kind.clone()),
            Detail::Full.into(),
            WatchSettings::default(),
        )
        .await?;
    let witness = Witness::new(&kind);
    let mut sink = witness.clone();
    let during = async {
        let mut others = Random(seed ^ 1);
        let (written, ()) = tokio::join!(
            write_for(time, server, &collection, &mut others),
            faults_for(time, &proxy, &mut random),
        );
        proxy.heal().await;
        let (names, deadline) = (written?, Instant::now() + HEALED);
        let wanted = stored(server, &collection).await?;
        while witness.shows(&namespace) != wanted {
            let found = witness.shows(&namespace);
            ensure!(
                Instant::now() < deadline,
                "the cache is {found:?}, not {wanted:?}"
            );
            sleep(Duration::from_millis(20)).await;
        }
        anyhow::Ok(names)
    };
    let names = tokio::select! {
        never = list_watch.run(&mut sink) => match never {},
        names = during => names?,
    };
    let held = witness.0.lock().unwrap();
    ensure!(held.wrongs.is_empty(), "{:#?}", held.wrongs);
    let replayed = held
        .replayed
        .keys()
        .filter(|key| *key.namespace == *namespace);
    let replayed: BTreeSet<_> = replayed.map(|key| key.name.to_string()).collect();
    ensure!(
        replayed == wanted_names(&held.cache, &namespace),
        "{replayed:?}"
    );
    // The check of `replayed` shows that each object of the end was announced. Here: no object was
    // made up.
    let known = held
        .newest
        .keys()
        .filter(|key| *key.namespace == *namespace);
    let made_up: Vec<_> = known.filter(|key| !names.contains(&*key.name)).collect();
    ensure!(made_up.is_empty(), "{made_up:?}");
    Ok(())
}

fn wanted_names(cache: &Cache, namespace: &str) -> BTreeSet<String> {
    let objects = cache.list(Some(namespace));
    objects.map(|object| object.key().name.to_owned()).collect()
}

#[tokio::test]
async fn a_cache_is_what_the_server_has_after_faults_at_random_and_never_went_back() -> Result<()> {
    let server = Server::start().await?;
    for seed in seeds(4) {
        let survived = a_cache_survives(&server, seed, Duration::from_secs(3)).await;
        survived.with_context(|| format!("PILOTHOUSE_FAULT_SEED={seed}"))?;
    }
    Ok(())
}

#[tokio::test]
#[ignore = "takes minutes; make test-slow"]
async fn a_cache_is_what_the_server_has_after_minutes_of_faults() -> Result<()> {
    let server = Server::start().await?;
    for seed in seeds(100) {
        let survived = a_cache_survives(&server, seed, Duration::from_secs(5)).await;
        survived.with_context(|| format!("PILOTHOUSE_FAULT_SEED={seed}"))?;
    }
    Ok(())
}

/// Creates, changes and deletes pods while faults happen. In the end the Endpoints must be right.
async fn endpoints_survive(rig: &FaultRig, seed: u64, time: Duration) -> Result<()> {
    let mut random = Random(seed);
    let mut others = Random(seed ^ 1);
    let writing = async {
        let end = Instant::now() + time;
        let mut there = BTreeSet::new();
        while Instant::now() < end {
            let name = format!("p{}", others.below(8));
            let ip = format!("10.2.{}.{}", others.below(250), others.below(250));
            if !there.insert(name.clone()) && others.below(3) == 0 {
                there.remove(&name);
                rig.delete_pod(&name).await?;
            } else if rig.readdress(&name, &ip).await.is_err() {
                // The pod does not exist yet.
                rig.pod(&name, "web", &ip).await?;
            }
            sleep(others.milliseconds(40)).await;
        }
        anyhow::Ok(())
    };
    let (written, ()) = tokio::join!(writing, faults_for(time, &rig.proxy, &mut random));
    written?;
    rig.proxy.heal().await;
    rig.is_right_within(HEALED).await
}

#[tokio::test]
async fn endpoints_are_right_after_faults_at_random() -> Result<()> {
    let rig = FaultRig::start().await?;
    rig.web().await?;
    for seed in seeds(2) {
        let survived = endpoints_survive(&rig, seed, Duration::from_secs(5)).await;
        survived.with_context(|| format!("PILOTHOUSE_FAULT_SEED={seed}"))?;
    }
    Ok(())
}

#[tokio::test]
#[ignore = "takes minutes; make test-slow"]
async fn endpoints_are_right_after_minutes_of_faults() -> Result<()> {
    let rig = FaultRig::start().await?;
    rig.web().await?;
    for seed in seeds(60) {
        let survived = endpoints_survive(&rig, seed, Duration::from_secs(10)).await;
        survived.with_context(|| format!("PILOTHOUSE_FAULT_SEED={seed}"))?;
    }
    Ok(())
}
