//! The objects as the API server's own watches tell them, past the proxy, and every state that they
//! went through.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;

use anyhow::{Context, Result};
use parking_lot::Mutex;
use pilothouse_tests::{Api, Change, Fan, What, follow};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::facts::Facts;
use crate::kinds::KINDS;

/// A change of an object. The versions of all kinds are one sequence.
#[derive(Clone, Debug)]
pub struct Record {
    pub version: u64,
    pub what: What,
    /// The object after the change, or as it was last.
    pub facts: Arc<Facts>,
}

/// What is known of the cluster. A copy knows the same.
#[derive(Clone)]
pub struct World {
    pub api: Api,
    told: Arc<Mutex<Told>>,
}

#[derive(Default)]
struct Told {
    records: Vec<Record>,
    /// What there is, by namespace and uid.
    present: BTreeMap<String, BTreeMap<String, Arc<Facts>>>,
}

/// What follows the kinds. It ends when this is dropped.
pub struct Keepers(JoinSet<Result<Infallible>>);

impl Keepers {
    /// The error of one that has ended, which none does while all is well.
    pub async fn broken(&mut self) -> anyhow::Error {
        match self.0.join_next().await {
            Some(Ok(Err(error))) => error,
            Some(Err(error)) => error.into(),
            Some(Ok(Ok(never))) => match never {},
            None => anyhow::anyhow!("nothing follows the cluster"),
        }
    }
}

impl World {
    pub fn begin(api: &Api) -> (Self, Keepers) {
        let world = Self {
            api: api.clone(),
            told: Arc::default(),
        };
        let mut fan = Fan::default();
        let mut tasks = JoinSet::new();
        tasks.spawn(record(world.told.clone(), fan.receiver()));
        for kind in &KINDS {
            let collection = kind.path("", "");
            tasks.spawn(follow(api.clone(), kind.resource, collection, fan.clone()));
        }
        (world, Keepers(tasks))
    }

    /// What there is in the namespace of a story, and the cluster-scoped objects whose names begin
    /// with its name.
    pub fn of_story(&self, namespace: &str) -> Vec<Arc<Facts>> {
        let prefix = format!("{namespace}-");
        let told = self.told.lock();
        let inside = told.present.get(namespace).into_iter().flatten();
        let outside = told.present.get("").into_iter().flatten();
        let outside = outside.filter(|(_, facts)| facts.name.starts_with(&prefix));
        inside
            .chain(outside)
            .map(|(_, facts)| facts.clone())
            .collect()
    }

    /// An object that is there, in a namespace or in none.
    pub fn get(&self, namespace: &str, uid: &str) -> Option<Arc<Facts>> {
        self.told.lock().present.get(namespace)?.get(uid).cloned()
    }

    /// Everything that was told up to now, in the order in which it happened.
    pub fn records(&self) -> Vec<Record> {
        let mut records = self.told.lock().records.clone();
        records.sort_by_key(|record| record.version);
        records
    }

    /// What differs between the server and what was told: the uid of each object.
    pub async fn differences(&self) -> Result<Vec<String>> {
        let mut differences = Vec::new();
        for kind in &KINDS {
            let list = self.api.get(&kind.path("", "")).await?;
            let list = list.context("the kind is not served")?;
            let items = list["items"].as_array().into_iter().flatten();
            let uid = |item: &Value| item["metadata"]["uid"].as_str().unwrap_or("").to_owned();
            let stored: Vec<String> = items.map(uid).collect();
            let told = self.told.lock();
            let present = told.present.values().flatten();
            let of_kind = present.filter(|(_, facts)| facts.resource == kind.resource);
            let known: Vec<&String> = of_kind.map(|(uid, _)| uid).collect();
            let missing = stored.iter().filter(|uid| !known.contains(uid));
            let surplus = known.iter().filter(|uid| !stored.contains(uid));
            differences.extend(missing.chain(surplus.copied()).cloned());
        }
        Ok(differences)
    }
}

async fn record(
    told: Arc<Mutex<Told>>,
    mut changes: mpsc::UnboundedReceiver<Change>,
) -> Result<Infallible> {
    loop {
        let change = changes
            .recv()
            .await
            .context("nothing follows the cluster")?;
        let facts = Arc::new(Facts::of(change.resource, &change.object));
        let mut told = told.lock();
        let present = told.present.entry(facts.namespace.clone()).or_default();
        match change.what {
            What::Deleted => drop(present.remove(&facts.uid)),
            _ => drop(present.insert(facts.uid.clone(), facts.clone())),
        }
        told.records.push(Record {
            version: change.version,
            what: change.what,
            facts,
        });
    }
}
