//! The cluster as the watches tell it, and everything that was told.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;

use anyhow::Result;
use parking_lot::Mutex;
use pilothouse_tests::{Api, Change, Doings, Fan, Kubelets, What, collect_garbage, follow};
use pilothouse_tests::{name_of, path_of};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::audit::Record;

/// The kinds that are followed: what the controllers read and write, but Events.
const FOLLOWED: [&str; 11] = [
    "nodes",
    "pods",
    "replicasets",
    "replicationcontrollers",
    "deployments",
    "statefulsets",
    "daemonsets",
    "jobs",
    "cronjobs",
    "controllerrevisions",
    "persistentvolumeclaims",
];

type Objects = BTreeMap<String, Arc<Value>>;

/// What is known of the cluster. A copy knows the same.
#[derive(Clone)]
pub struct World {
    pub api: Api,
    pub namespace: String,
    pub doings: Doings,
    told: Arc<Mutex<Told>>,
}

/// What follows the cluster and keeps it going: watches, kubelets and a garbage collector. They end
/// when this is dropped.
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

#[derive(Default)]
struct Told {
    /// By resource and name.
    objects: BTreeMap<&'static str, Objects>,
    records: Vec<Record>,
}

impl World {
    /// Begins to follow the cluster, and to play the part of what is around the controllers.
    pub fn begin(api: &Api, namespace: &str, seed: u64) -> (Self, Keepers) {
        let doings = Doings::default();
        let mut fan = Fan::default();
        let kubelets = Kubelets::new(api.clone(), doings.clone(), seed);
        let (for_kubelets, for_garbage) = (fan.receiver(), fan.receiver());
        let for_record = fan.receiver();
        let garbage = collect_garbage(api.clone(), for_garbage, doings.clone());
        let told = Arc::new(Mutex::new(Told::default()));
        let mut tasks = JoinSet::new();
        tasks.spawn(async { Ok(kubelets.run(for_kubelets).await) });
        tasks.spawn(async { Ok(garbage.await) });
        tasks.spawn(record(told.clone(), for_record));
        for resource in FOLLOWED {
            let collection = path_of(namespace, resource, "");
            tasks.spawn(follow(api.clone(), resource, collection, fan.clone()));
        }
        let world = Self {
            api: api.clone(),
            namespace: namespace.to_owned(),
            doings,
            told,
        };
        (world, Keepers(tasks))
    }

    pub fn path(&self, resource: &str, name: &str) -> String {
        path_of(&self.namespace, resource, name)
    }

    /// The objects of a kind, in the order of their names.
    pub fn all(&self, resource: &str) -> Vec<Arc<Value>> {
        let told = self.told.lock();
        let objects = told.objects.get(resource).into_iter().flatten();
        objects.map(|(_, object)| object.clone()).collect()
    }

    pub fn get(&self, resource: &str, name: &str) -> Option<Arc<Value>> {
        let told = self.told.lock();
        told.objects.get(resource)?.get(name).cloned()
    }

    /// How many changes were told up to now.
    pub fn events(&self) -> usize {
        self.told.lock().records.len()
    }

    /// Everything that was told up to now.
    pub fn records(&self) -> Vec<Record> {
        self.told.lock().records.clone()
    }

    /// What differs between the server and what was told: the name and version of each object.
    pub async fn differences(&self) -> Result<Vec<String>> {
        let mut differences = Vec::new();
        for resource in FOLLOWED {
            let list = self.api.get(&self.path(resource, "")).await?;
            let list = list.unwrap_or_default();
            let stored = list["items"].as_array().into_iter().flatten();
            let version = |object: &Value| {
                let version = &object["metadata"]["resourceVersion"];
                format!("{resource} {} at {version}", name_of(object))
            };
            let stored: Vec<String> = stored.map(version).collect();
            let told: Vec<String> = self.all(resource).iter().map(|one| version(one)).collect();
            let missing = stored.iter().filter(|one| !told.contains(one));
            let surplus = told.iter().filter(|one| !stored.contains(one));
            differences.extend(missing.chain(surplus).cloned());
        }
        Ok(differences)
    }
}

async fn record(
    told: Arc<Mutex<Told>>,
    mut changes: mpsc::UnboundedReceiver<Change>,
) -> Result<Infallible> {
    loop {
        let change = changes.recv().await;
        let change = change.ok_or_else(|| anyhow::anyhow!("nothing follows the cluster"))?;
        let record = Record::of(&change);
        let mut told = told.lock();
        told.records.push(record);
        let objects = told.objects.entry(change.resource).or_default();
        let name = name_of(&change.object);
        match change.what {
            What::Deleted => drop(objects.remove(&name)),
            _ => drop(objects.insert(name, change.object)),
        }
    }
}
