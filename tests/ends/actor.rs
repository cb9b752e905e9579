//! Those who write beside the host: users, other controllers, kubelets. What they have done is
//! noted, so that all other changes are known to be the host's.

use std::collections::HashSet;
use std::sync::Arc;

use anyhow::Result;
use parking_lot::Mutex;
use pilothouse_tests::{Api, What, status_of};
use serde_json::{Value, json};

use crate::facts::{Facts, HOLD};
use crate::kinds::KindOf;
use crate::world::Record;

/// An object that an actor has created.
#[derive(Clone, Debug)]
pub struct Thing {
    pub resource: &'static str,
    /// Empty for an object without one.
    pub namespace: String,
    pub name: String,
    pub uid: String,
}

impl Thing {
    pub fn of(facts: &Facts) -> Self {
        Self {
            resource: facts.resource,
            namespace: facts.namespace.clone(),
            name: facts.name.clone(),
            uid: facts.uid.clone(),
        }
    }

    pub fn path(&self) -> String {
        KindOf::of(self.resource).path(&self.namespace, &self.name)
    }

    /// A reference to it.
    pub fn reference(&self, blocks: bool) -> Value {
        let kind = KindOf::of(self.resource);
        json!({
            "apiVersion": kind.api_version, "kind": kind.kind, "name": self.name,
            "uid": self.uid, "blockOwnerDeletion": blocks,
        })
    }
}

/// What all actors have done.
#[derive(Clone, Default)]
pub struct Doings(Arc<Mutex<Done>>);

#[derive(Default)]
struct Done {
    /// The versions that they have made.
    versions: HashSet<u64>,
    /// The uids of what they have removed.
    removed: HashSet<String>,
    writes: usize,
}

impl Doings {
    /// Whether an actor has made this change.
    pub fn include(&self, record: &Record) -> bool {
        let done = self.0.lock();
        let is_removed = done.removed.contains(&record.facts.uid);
        match record.what {
            What::Deleted => is_removed,
            // A pod is marked first.
            _ => done.versions.contains(&record.version) || is_removed && record.facts.is_ending(),
        }
    }

    pub fn writes(&self) -> usize {
        self.0.lock().writes
    }

    /// Notes the version that an actor has made, as the server answered.
    pub fn changed(&self, answer: &Value) {
        let version = answer["metadata"]["resourceVersion"].as_str();
        if let Some(version) = version.and_then(|version| version.parse().ok()) {
            self.0.lock().versions.insert(version);
        }
    }

    /// Notes that an actor has removed this object.
    pub fn removed(&self, uid: &str) {
        self.0.lock().removed.insert(uid.to_owned());
    }
}

/// Writes, and notes what was written.
#[derive(Clone)]
pub struct Actor {
    pub api: Api,
    pub doings: Doings,
}

impl Actor {
    /// Creates an object. None: another one has its name.
    pub async fn create(
        &self,
        resource: &'static str,
        namespace: &str,
        object: &Value,
    ) -> Result<Option<Thing>> {
        let kind = KindOf::of(resource);
        let collection = kind.path(namespace, "");
        let created = self.api.create(&collection, object).await;
        let Some(created) = self.answered(created, &Value::Null)? else {
            return Ok(None);
        };
        Ok(Some(Thing::of(&Facts::of(resource, &created))))
    }

    /// Changes the metadata of an object at the version that it has now. None: it is gone, or
    /// somebody has changed it meanwhile.
    pub async fn change(
        &self,
        thing: &Thing,
        change: impl Fn(&Facts, &Value) -> Option<Value>,
    ) -> Result<Option<()>> {
        let Some(found) = self.api.get(&thing.path()).await? else {
            return Ok(None);
        };
        let facts = Facts::of(thing.resource, &found);
        let wanted = match facts.uid == thing.uid {
            true => change(&facts, &found["metadata"]),
            false => None,
        };
        let Some(mut metadata) = wanted else {
            return Ok(None);
        };
        metadata["resourceVersion"] = found["metadata"]["resourceVersion"].clone();
        let patch = json!({"metadata": metadata});
        let patched = self.api.merge(&thing.path(), &patch).await;
        let Some(patched) = self.answered(patched, &found)? else {
            return Ok(None);
        };
        let after = Facts::of(thing.resource, &patched);
        if after.is_dying && after.finalizers.is_empty() {
            self.doings.removed(&thing.uid);
        }
        Ok(Some(()))
    }

    /// Changes the owners of an object.
    pub async fn change_owners(
        &self,
        thing: &Thing,
        change: impl Fn(&mut Vec<Value>),
    ) -> Result<Option<()>> {
        let changed = self.change(thing, |_, metadata| {
            let mut owners = metadata["ownerReferences"].as_array().cloned();
            let owners = owners.get_or_insert_default();
            change(owners);
            Some(json!({"ownerReferences": owners}))
        });
        changed.await
    }

    /// Takes the finalizer of this test away.
    pub async fn stop_holding(&self, thing: &Thing) -> Result<Option<()>> {
        let changed = self.change(thing, |facts, _| {
            let kept = facts.finalizers.iter().filter(|one| *one != HOLD);
            let kept: Vec<&String> = kept.collect();
            facts.has(HOLD).then(|| json!({"finalizers": kept}))
        });
        changed.await
    }

    /// Deletes the object, and not another one of its name.
    pub async fn delete(&self, thing: &Thing, options: &Value) -> Result<Option<()>> {
        let mut options = options.clone();
        let before = self.api.get(&thing.path()).await?.unwrap_or_default();
        options["preconditions"] = json!({"uid": thing.uid});
        if matches!(thing.resource, "pods" | "persistentvolumeclaims") {
            // Their answer shows what has become of them only if nobody waits for them already.
            let facts = Facts::of(thing.resource, &before);
            if facts.is_dying && facts.is_held() {
                return Ok(None);
            }
            let version = &before["metadata"]["resourceVersion"];
            options["preconditions"]["resourceVersion"] = version.clone();
        }
        let deleted = self.api.delete_answered(&thing.path(), &options).await;
        let Some(answer) = self.answered(deleted, &before)? else {
            return Ok(None);
        };
        // Some kinds answer with the object also when it is gone. One without a time of deletion
        // went at once, even if it got a finalizer at this moment.
        let grace = answer["metadata"]["deletionGracePeriodSeconds"].as_i64();
        let facts = Facts::of(thing.resource, &answer);
        let stays = facts.is_dying && (facts.is_held() || grace.unwrap_or(0) > 0);
        if answer["kind"] == "Status" || !stays {
            self.doings.removed(&thing.uid);
        }
        Ok(Some(()))
    }

    /// Notes the answer to a write of an object, which was so before. None: the server has refused
    /// it, as it does when another one was faster.
    fn answered(&self, answer: Result<Value>, before: &Value) -> Result<Option<Value>> {
        self.doings.0.lock().writes += 1;
        let version = |object: &Value| object["metadata"]["resourceVersion"].clone();
        match answer {
            Ok(answer) => {
                // Otherwise it has changed nothing, and its version is somebody else's.
                if version(&answer) != version(before) {
                    self.doings.changed(&answer);
                }
                Ok(Some(answer))
            }
            Err(error) if matches!(status_of(&error), Some(404 | 409 | 422)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Says that a pod's containers have ended.
    pub async fn succeed(&self, pod: &Thing) -> Result<()> {
        let path = format!("{}/status", pod.path());
        let status = json!({"metadata": {"uid": pod.uid}, "status": {"phase": "Succeeded"}});
        let patched = self.api.merge(&path, &status).await;
        self.answered(patched, &Value::Null).map(drop)
    }

    /// Says that a pod has a node now.
    pub async fn bind(&self, pod: &Thing) -> Result<()> {
        let binding = json!({
            "apiVersion": "v1", "kind": "Binding",
            "metadata": {"name": pod.name, "uid": pod.uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": "node"},
        });
        let path = format!("{}/binding", pod.path());
        let bound = self.api.create(&path, &binding).await;
        self.answered(bound, &Value::Null).map(drop)
    }
}
