//! How many pods there should be: the sum of the scales of the controllers that the pods have.

use std::collections::BTreeMap;

use pilothouse_sdk::{Failure, Host, ObjectRef};

use crate::custom;
use crate::objects::{
    DEPLOYMENT, Owner, Pod, REPLICA_SET, REPLICATION_CONTROLLER, STATEFUL_SET, Scaled,
    controller_of,
};

/// The controllers of Kubernetes whose pods have no scale: their groups and kinds, and how an error
/// calls them.
const WITHOUT_SCALE: [(&str, &str, &str); 3] = [
    ("apps", "DaemonSet", "daemonsets.apps"),
    ("batch", "Job", "jobs.batch"),
    ("", "Node", "nodes"),
];

/// Why the pods that there should be cannot be counted.
pub enum Fault {
    /// The budget's status tells it.
    Told(String),
    /// Nothing can be decided.
    Failed(Failure),
}

impl From<Failure> for Fault {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// How many pods there should be.
#[derive(Default)]
pub struct Expected {
    pub count: i32,
    /// True if there are pods without a controller, which do not count.
    pub has_unmanaged: bool,
}

/// What counts the pods of one namespace.
pub struct Scales<'a> {
    pub namespace: &'a str,
    pub host: &'a dyn Host,
}

/// A controller's uid, and how many pods it should have.
pub type Scale = (String, i32);

impl Scales<'_> {
    /// The pods that the controllers of these pods should have together.
    pub fn expected(&self, pods: &[Pod]) -> Result<Expected, Fault> {
        let mut has_unmanaged = false;
        // By the uid of the pods' owner, which is another one than the controller's own, if a
        // Deployment stands behind a ReplicaSet.
        let mut found: BTreeMap<&str, Scale> = BTreeMap::new();
        for pod in pods {
            let Some(owner) = controller_of(&pod.metadata.owner_references) else {
                has_unmanaged = true;
                continue;
            };
            if found.contains_key(owner.uid.as_str()) {
                continue;
            }
            let scale = self.of(owner)?.ok_or_else(|| {
                let name = &pod.metadata.name;
                Fault::Told(format!("found no controllers for pod {name:?}"))
            })?;
            found.insert(&owner.uid, scale);
        }
        let controllers: BTreeMap<String, i32> = found.into_values().collect();
        let count = controllers
            .values()
            .fold(0_i32, |sum, scale| sum.saturating_add(*scale));
        Ok(Expected {
            count,
            has_unmanaged,
        })
    }

    /// The scale of the controller that a pod's owner stands for. `None`: it is gone, or is another
    /// one of its name by now.
    fn of(&self, owner: &Owner) -> Result<Option<Scale>, Fault> {
        let group = group(&owner.api_version)?;
        match (group, owner.kind.as_str()) {
            ("", "ReplicationController") => self.own(REPLICATION_CONTROLLER, owner),
            ("apps" | "extensions", "ReplicaSet") => self.of_replica_set(group, owner),
            ("apps", "StatefulSet") => self.own(STATEFUL_SET, owner),
            ("apps", "Deployment") => self.own(DEPLOYMENT, owner),
            (group, kind) => {
                let mut known = WITHOUT_SCALE.iter();
                let known = known.find(|(of, name, _)| (*of, *name) == (group, kind));
                match known {
                    Some((_, _, resource)) => Err(custom::without_scale(resource)),
                    None => custom::scale(self, owner),
                }
            }
        }
    }

    /// The scale of the Deployment behind the ReplicaSet, or of the ReplicaSet itself.
    fn of_replica_set(&self, group: &str, owner: &Owner) -> Result<Option<Scale>, Fault> {
        let set = self.get(REPLICA_SET, owner)?;
        let is_served = group == "apps";
        let Some(set) = set else {
            return if is_served {
                Ok(None)
            } else {
                custom::scale(self, owner)
            };
        };
        let own = (set.metadata.uid.clone(), set.replicas());
        let controller = controller_of(&set.metadata.owner_references);
        let Some(deployment) = controller.filter(|controller| controller.kind == "Deployment")
        else {
            return Ok(Some(own));
        };
        if matches!(self::group(&deployment.api_version)?, "apps" | "extensions")
            && let Some(scale) = self.own(DEPLOYMENT, deployment)?
        {
            return Ok(Some(scale));
        }
        // Upstream then asks for the ReplicaSet's own scale.
        if is_served {
            Ok(Some(own))
        } else {
            custom::scale(self, owner)
        }
    }

    fn own(&self, kind: &str, owner: &Owner) -> Result<Option<Scale>, Fault> {
        let found = self.get(kind, owner)?;
        Ok(found.map(|found| (found.metadata.uid.clone(), found.replicas())))
    }

    /// The owner, if it is still the same object.
    fn get(&self, kind: &str, owner: &Owner) -> Result<Option<Scaled>, Failure> {
        let object = ObjectRef::new(kind, self.namespace, &owner.name);
        let found = self.host.get::<Scaled>(&object)?;
        Ok(found.filter(|found| found.metadata.uid == owner.uid))
    }
}

/// The group of an `apiVersion`, which is empty for the core group.
fn group(api_version: &str) -> Result<&str, Fault> {
    match api_version.split_once('/') {
        Some((_, rest)) if rest.contains('/') => Err(Fault::Told(format!(
            "unexpected GroupVersion string: {api_version}"
        ))),
        Some((group, _)) => Ok(group),
        None => Ok(""),
    }
}
