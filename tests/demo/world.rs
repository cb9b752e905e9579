//! What there is in the demonstration's cluster, as its watches tell it, and who plays the rest of
//! the cluster.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Error, Result, bail};
use futures::future::try_join_all;
use pilothouse_tests::{Api, Change, Doings, Fan, Kubelets, What, follow, name_of, path_of};
use serde_json::Value;
use tokio::sync::mpsc::UnboundedReceiver;

/// Where the story takes place.
pub const NAMESPACE: &str = "default";

/// The name of the Deployment, of its container and of the Service, and the value of the label
/// `app` of the pods.
pub const NAME: &str = "web";

/// The kinds that the story and the kubelet follow.
const FOLLOWED: [&str; 5] = ["nodes", "pods", "replicasets", "deployments", "endpoints"];

pub struct World {
    changes: UnboundedReceiver<Change>,
    /// By resource and name.
    objects: BTreeMap<(&'static str, String), Arc<Value>>,
}

impl World {
    /// The world, and what must be awaited beside it: the watches, and a kubelet with a scheduler.
    /// That ends only when the changes cannot be followed any more.
    pub fn of(api: &Api) -> (Self, impl Future<Output = Error>) {
        let mut fan = Fan::default();
        let (told, changes) = (fan.receiver(), fan.receiver());
        let follows = FOLLOWED.map(|resource| {
            let collection = path_of(NAMESPACE, resource, "");
            follow(api.clone(), resource, collection, fan.clone())
        });
        let kubelets = Kubelets::new(api.clone(), Doings::default(), 1).run(told);
        let keepers = async {
            tokio::select! {
                Err(error) = try_join_all(follows) => error,
                never = kubelets => match never {},
            }
        };
        let world = Self {
            changes,
            objects: BTreeMap::new(),
        };
        (world, keepers)
    }

    /// Waits for the next change.
    pub async fn change(&mut self) -> Result<Change> {
        let Some(change) = self.changes.recv().await else {
            bail!("no more changes are told");
        };
        let key = (change.resource, name_of(&change.object));
        match change.what {
            What::Deleted => self.objects.remove(&key),
            _ => self.objects.insert(key, change.object.clone()),
        };
        Ok(change)
    }

    pub fn get(&self, resource: &'static str, name: &str) -> Option<&Value> {
        let found = self.objects.get(&(resource, name.to_owned()));
        found.map(AsRef::as_ref)
    }

    /// The objects whose controller is of this kind and name.
    fn owned(&self, resource: &'static str, kind: &str, owner: &str) -> Vec<&Value> {
        let of_resource = self.objects.iter().filter(|((of, _), _)| *of == resource);
        let is_owned = |object: &&Value| {
            let owners = object["metadata"]["ownerReferences"].as_array();
            let mut owners = owners.into_iter().flatten();
            owners
                .any(|one| one["kind"] == kind && one["name"] == owner && one["controller"] == true)
        };
        let objects = of_resource.map(|(_, object)| object.as_ref());
        objects.filter(is_owned).collect()
    }

    /// The Deployment's ReplicaSet of this image, if there is one.
    pub fn set(&self, image: &str) -> Option<&Value> {
        let sets = self.owned("replicasets", "Deployment", NAME);
        let mut sets = sets.into_iter();
        sets.find(|set| set["spec"]["template"]["spec"]["containers"][0]["image"] == image)
    }

    /// The pods of the Deployment's ReplicaSets that are not being deleted.
    pub fn pods(&self) -> Vec<&Value> {
        let sets = self.owned("replicasets", "Deployment", NAME);
        let pods = sets
            .into_iter()
            .flat_map(|set| self.owned("pods", "ReplicaSet", &name_of(set)));
        pods.filter(|pod| pod["metadata"]["deletionTimestamp"].is_null())
            .collect()
    }

    /// The ready addresses of the Service's Endpoints, each with the name of its pod. None: there
    /// are no Endpoints.
    pub fn addresses(&self) -> Option<Vec<(&str, &str)>> {
        let subsets = self.get("endpoints", NAME)?["subsets"].as_array();
        let addresses = subsets.into_iter().flatten();
        let addresses = addresses.flat_map(|subset| subset["addresses"].as_array());
        let pairs = addresses.flatten().filter_map(|address| {
            let (ip, pod) = (&address["ip"], &address["targetRef"]["name"]);
            Some((ip.as_str()?, pod.as_str()?))
        });
        Some(pairs.collect())
    }
}
