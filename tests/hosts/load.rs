//! Work for the hosts, and whether it was done: ReplicaSets whose pods are deleted, and entries of
//! the ledger whose wish changes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Result, ensure};
use parking_lot::Mutex;
use pilothouse_core::{Division, ObjectKey};
use pilothouse_tests::{Api, Change, Random, ServerWrite, What, all_of, containers, name_of};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::followed::Followed;
use crate::group::{Group, PATIENCE, number};
use crate::journal::Deletions;

/// The plugins that the load is for.
pub const PLUGINS: [&str; 2] = ["replicaset", "ledger"];

/// How many pods each ReplicaSet has.
const REPLICAS: usize = 2;

/// How much there is, and how often something happens to it.
#[derive(Clone, Copy, Debug)]
pub struct Amount {
    pub sets: usize,
    pub entries: usize,
    pub pause: Duration,
}

impl Amount {
    pub const SMALL: Self = Self {
        sets: 6,
        entries: 6,
        pause: Duration::from_millis(25),
    };
}

/// The namespaces of the entries, which take turns.
#[derive(Clone)]
struct Entries(Vec<String>);

impl Entries {
    /// Where all of them are.
    fn collection(&self) -> String {
        match &*self.0 {
            [namespace] => format!("/api/v1/namespaces/{namespace}/configmaps"),
            _ => "/api/v1/configmaps".to_owned(),
        }
    }

    /// Where an entry is, and its copies.
    fn beside(&self, name: &str) -> String {
        let number = name.trim_start_matches("entry-").parse().unwrap_or(0);
        let namespace = &self.0[number % self.0.len()];
        format!("/api/v1/namespaces/{namespace}/configmaps")
    }

    fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.beside(name))
    }
}

/// The load, which goes on until it is dropped or stopped.
pub struct Load {
    api: Api,
    amount: Amount,
    pods: String,
    sets: String,
    entries: Entries,
    /// Those of pods and ConfigMaps.
    changes: Followed,
    /// The wish of each entry.
    wishes: Arc<Mutex<BTreeMap<String, String>>>,
    is_over: Arc<AtomicBool>,
    changing: JoinSet<Result<()>>,
}

impl Load {
    /// Creates the objects, and begins to change them.
    pub async fn start(group: &Group, amount: Amount, seed: u64) -> Result<Self> {
        let mut load = Self::still(group, amount).await?;
        load.go_on(seed);
        Ok(load)
    }

    /// Creates the objects. Nothing changes them yet.
    pub async fn still(group: &Group, amount: Amount) -> Result<Self> {
        let mut load = Self {
            api: group.server.api.clone(),
            amount,
            pods: group.path("pods"),
            sets: group.path("apps/replicasets"),
            entries: Entries(group.entries.clone()),
            changes: Followed::default(),
            wishes: Arc::default(),
            is_over: Arc::default(),
            changing: JoinSet::new(),
        };
        load.changes.add(&load.api, "pods", load.pods.clone());
        load.changes
            .add(&load.api, "configmaps", load.entries.collection());
        all_of((0..amount.sets).map(|number| load.create_set(number))).await?;
        all_of((0..amount.entries).map(|number| load.create_entry(number))).await?;
        Ok(load)
    }

    async fn create_set(&self, number: usize) -> Result<()> {
        let labels = json!({"set": number.to_string()});
        let set = json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet",
            "metadata": {"name": format!("set-{number}")},
            "spec": {
                "replicas": REPLICAS, "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels}, "spec": {"containers": containers("image")},
                },
            },
        });
        self.api.create(&self.sets, &set).await.map(drop)
    }

    async fn create_entry(&self, number: usize) -> Result<()> {
        let name = format!("entry-{number}");
        let entry = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "labels": {"ledger": "true"}}, "data": {"wish": "begin"},
        });
        self.wishes.lock().insert(name.clone(), "begin".into());
        self.api
            .create(&self.entries.beside(&name), &entry)
            .await
            .map(drop)
    }

    /// Goes on to change the objects.
    pub fn go_on(&mut self, seed: u64) {
        let changer = Changer {
            api: self.api.clone(),
            pods: self.pods.clone(),
            entries: self.entries.clone(),
            changes: self.changes.shared(),
            is_over: self.is_over.clone(),
            wishes: self.wishes.clone(),
            random: Random(seed),
        };
        self.changing.spawn(changer.run(self.amount.pause));
    }

    /// Changes the wish of an entry now.
    pub async fn wish(&self, entry: usize, wish: &str) -> Result<()> {
        let name = format!("entry-{entry}");
        self.wishes.lock().insert(name.clone(), wish.to_owned());
        let path = self.entries.path(&name);
        let patch = json!({"data": {"wish": wish}});
        self.api.merge(&path, &patch).await.map(drop)
    }

    /// Stops the changes, and waits until everything is as it should be. Fails if there ever was a
    /// pod too many.
    pub async fn settle(&mut self) -> Result<()> {
        self.is_over.store(true, Ordering::SeqCst);
        while let Some(ended) = self.changing.join_next().await {
            ended??;
        }
        self.settled().await?;
        let excess = self.excess();
        ensure!(excess.is_empty(), "more pods than wanted: {excess:#?}");
        Ok(())
    }

    /// Waits until everything is as it should be.
    pub async fn settled(&self) -> Result<()> {
        let objects = u32::try_from(self.amount.sets + self.amount.entries)?;
        let deadline = Instant::now() + PATIENCE + objects * Duration::from_millis(100);
        loop {
            let missing = self.missing().await?;
            if missing.is_empty() {
                return Ok(());
            }
            ensure!(Instant::now() < deadline, "not done: {missing:#?}");
            // To list many objects is work for all.
            sleep(Duration::from_millis(50) + objects * Duration::from_millis(1)).await;
        }
    }

    async fn list(&self, collection: &str) -> Result<Vec<Value>> {
        let list = self.api.get(collection).await?.unwrap_or_default();
        Ok(list["items"].as_array().cloned().unwrap_or_default())
    }

    /// What is not as it should be.
    async fn missing(&self) -> Result<Vec<String>> {
        let mut missing = Vec::new();
        let pods = self.list(&self.pods).await?;
        let mut owned: BTreeMap<&str, usize> = BTreeMap::new();
        for pod in &pods {
            *owned
                .entry(owner(pod).as_str().unwrap_or_default())
                .or_default() += 1;
        }
        for set in self.list(&self.sets).await? {
            let own = owned.get(&*uid(&set)).copied().unwrap_or_default();
            let said = number(&set, "status", "replicas");
            if own != REPLICAS || said != Some(REPLICAS as u64) {
                missing.push(format!(
                    "{} has {own} pods and says {said:?}",
                    name_of(&set)
                ));
            }
        }
        let maps = self.list(&self.entries.collection()).await?;
        let wished = maps.iter().map(|map| (name_of(map), &map["data"]["wish"]));
        let wished: BTreeMap<String, &Value> = wished.collect();
        let wish_of = |name: &str| wished.get(name).copied().unwrap_or(&Value::Null);
        for name in self.wishes.lock().keys() {
            let wish = wish_of(name);
            for copy in [format!("{name}-first"), format!("{name}-second")] {
                if wish_of(&copy) != wish {
                    missing.push(format!("{copy} says {} and not {wish}", wish_of(&copy)));
                }
            }
        }
        Ok(missing)
    }

    /// The moments at which a ReplicaSet had more pods than it wants. Those that are being deleted
    /// do not count.
    fn excess(&self) -> Vec<String> {
        let mut pods: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        let mut excess = Vec::new();
        let changes = self.changes.sorted();
        for change in changes.iter().filter(|change| change.resource == "pods") {
            let pod = &change.object;
            let own = pods.entry(text(owner(pod))).or_default();
            let is_alive = pod["metadata"]["deletionTimestamp"].is_null();
            if change.what == What::Deleted || !is_alive {
                own.remove(&uid(pod));
            } else if own.insert(uid(pod)) && own.len() > REPLICAS {
                let (name, count) = (name_of(pod), own.len());
                excess.push(format!("{name} is number {count} at {}", change.version));
            }
        }
        excess
    }

    /// All changes, one in a line, in the order of their versions.
    pub fn text(&self) -> String {
        let changes = self.changes.sorted();
        let line = |change: &Change| {
            let (version, what, at) = (change.version, change.what, change.at);
            let data = &change.object["data"];
            format!(
                "{version} {at} {what:?} {} {data}\n",
                name_of(&change.object)
            )
        };
        changes.iter().map(line).collect()
    }

    /// When what was deleted went.
    pub fn deletions(&self) -> Deletions {
        let changes = self.changes.sorted().into_iter();
        let deleted = changes.filter(|change| change.what == What::Deleted);
        deleted
            .map(|change| (uid(&change.object), change.version))
            .collect()
    }

    /// By which version of the ledger the copies were written, one after the other, for each copy.
    pub fn writers(&self) -> BTreeMap<String, Vec<String>> {
        let changes = self.changes.sorted();
        let mut writers: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for change in changes {
            if let Some(by) = change.object["data"]["by"].as_str() {
                let all = writers.entry(name_of(&change.object)).or_default();
                all.push(by.to_owned());
            }
        }
        writers
    }
}

/// The shard of the key that has written this, where the keys of the ledger are so divided.
pub fn shard_of(write: &ServerWrite, division: Division) -> String {
    if write.resource != "configmaps" {
        return "replicaset/0-of-1".to_owned();
    }
    let copy = write.name.trim_end_matches("-second");
    let entry = ObjectKey::new(&write.namespace, copy.trim_end_matches("-first"));
    let index = division.shard_of(entry.parts());
    format!("ledger/{index}-of-{division}")
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn uid(object: &Value) -> String {
    text(&object["metadata"]["uid"])
}

fn owner(pod: &Value) -> &Value {
    &pod["metadata"]["ownerReferences"][0]["uid"]
}

/// Changes the objects, again and again.
struct Changer {
    api: Api,
    pods: String,
    entries: Entries,
    changes: Arc<Mutex<Vec<Change>>>,
    is_over: Arc<AtomicBool>,
    wishes: Arc<Mutex<BTreeMap<String, String>>>,
    random: Random,
}

impl Changer {
    async fn run(mut self, pause: Duration) -> Result<()> {
        let mut turns = 0_u64..;
        while let Some(turn) = turns
            .next()
            .filter(|_| !self.is_over.load(Ordering::SeqCst))
        {
            match self.random.percent(50) {
                true => self.delete_a_pod().await?,
                false => self.change_a_wish(turn).await?,
            }
            sleep(pause).await;
        }
        Ok(())
    }

    async fn delete_a_pod(&mut self) -> Result<()> {
        let latest: Vec<(String, String)> = {
            let changes = self.changes.lock();
            let added = changes
                .iter()
                .rev()
                .filter(|change| change.resource == "pods" && change.what == What::Added);
            let found = added
                .take(20)
                .map(|one| (name_of(&one.object), uid(&one.object)));
            found.collect()
        };
        let Some((name, uid)) = self.random.one_of(&latest) else {
            return Ok(());
        };
        let path = format!("{}/{name}", self.pods);
        self.api.delete_uid(&path, uid, true).await
    }

    async fn change_a_wish(&mut self, turn: u64) -> Result<()> {
        let names: Vec<String> = self.wishes.lock().keys().cloned().collect();
        let Some(name) = self.random.one_of(&names) else {
            return Ok(());
        };
        let path = self.entries.path(name);
        let patch = json!({"data": {"wish": format!("turn {turn}")}});
        self.api.merge(&path, &patch).await.map(drop)
    }
}
