//! The history of a DaemonSet: a ControllerRevision for each template that it has had. The label of
//! the current one says which pods are up to date.

use std::collections::BTreeSet;

use pilothouse_sdk::{Action, Create, Delete, Failure, Host, Kind, Metadata, ObjectRef, Patch};
use serde_json::{Value, json};
use workloads::claim::Claimant;
use workloads::go_hash::compute_hash;
use workloads::revision::{self, Revision};
use workloads::template;

use crate::objects::{DaemonSet, HASH_LABEL, Pod};

/// What the history says, and what is to be done about it first.
pub struct History {
    /// The hash of the current revision, which up-to-date pods have as a label.
    pub hash: String,
    /// The other revisions, oldest first.
    pub old: Vec<Revision>,
    /// What is to be done about the history.
    pub actions: Vec<Action>,
    /// What is to be done when that has succeeded.
    pub then: Vec<Action>,
    /// Nothing else may be decided before this is done: pods would get a wrong label.
    pub comes_first: bool,
}

impl History {
    /// The history with these revisions, which are the DaemonSet's.
    pub fn of(
        key: &ObjectRef,
        daemon_set: &DaemonSet,
        mut revisions: Vec<Revision>,
        pods: &[Pod],
        host: &dyn Host,
    ) -> Result<Self, Failure> {
        let labels = label_all(&mut revisions)?;
        revision::sort(&mut revisions);
        let data = revision::template_patch(&daemon_set.spec.template);
        let is_current = |revision: &Revision| revision.means(&data);
        let (mut current, old): (Vec<_>, Vec<_>) = revisions.into_iter().partition(is_current);
        let number = revision::next_number(&old);
        let mut history = Self {
            hash: String::new(),
            old,
            comes_first: !labels.is_empty(),
            actions: labels,
            then: Vec::new(),
        };
        match current.pop() {
            None => history.begin(key, daemon_set, &data, number, host)?,
            Some(newest) => {
                history.hash = hash_of(&newest).to_owned();
                if !current.is_empty() {
                    history.merge(pods, &current)?;
                } else if newest.revision < number {
                    history.actions.push(newest.renumber(number)?.into());
                }
            }
        }
        Ok(history)
    }

    /// Records the template in a new revision. If another one has its name already, the name is
    /// made with a higher collision count next time.
    fn begin(
        &mut self,
        key: &ObjectRef,
        daemon_set: &DaemonSet,
        data: &Value,
        number: i64,
        host: &dyn Host,
    ) -> Result<(), Failure> {
        let collisions = daemon_set.status.collision_count;
        self.hash = compute_hash(&daemon_set.spec.template, collisions);
        let name = revision::name(&key.name, &self.hash);
        let there: Option<Revision> = host.get_as(&key.namespace, &name)?;
        match there {
            None => {
                let metadata = &daemon_set.metadata.always;
                let labels = labels_of(&daemon_set.spec.template, &self.hash);
                let new = json!({
                    "apiVersion": "apps/v1",
                    "kind": "ControllerRevision",
                    "metadata": {
                        "namespace": key.namespace,
                        "name": name,
                        "labels": labels,
                        "annotations": daemon_set.metadata.annotations,
                        "ownerReferences": [
                            Claimant::new(DaemonSet::KIND, metadata).controller_reference(),
                        ],
                    },
                    "data": data,
                    "revision": number,
                });
                self.actions.push(Create::new(&new)?.into());
            }
            Some(there) if there.means(data) => self.hash = hash_of(&there).to_owned(),
            Some(_) => {
                let body = json!({
                    "metadata": {"uid": daemon_set.uid(), "resourceVersion": ""},
                    "status": {"collisionCount": collisions.unwrap_or(0) + 1},
                });
                let counted = Patch::merge(key, &body)?.subresource("status");
                self.actions.push(counted.into());
                self.comes_first = true;
            }
        }
        Ok(())
    }

    /// Leaves of several revisions with the same data only the newest. Pods get its label before
    /// the others go.
    fn merge(&mut self, pods: &[Pod], others: &[Revision]) -> Result<(), Failure> {
        for pod in pods
            .iter()
            .filter(|pod| pod.metadata.labels.hash != self.hash)
        {
            let Metadata { uid, .. } = &pod.metadata.always;
            let body = json!({"metadata": {"uid": uid, "labels": {HASH_LABEL: self.hash}}});
            let pod = pod.metadata.always.of_kind(Pod::KIND);
            self.actions.push(Patch::merge(&pod, &body)?.into());
        }
        self.then
            .extend(others.iter().map(|other| other.delete().into()));
        self.comes_first = true;
        Ok(())
    }

    /// The revisions that are too many: the oldest, but those that a pod is of.
    pub fn surplus(&self, pods: &[Pod], limit: usize) -> Vec<Delete> {
        let on_nodes = pods.iter().filter(|pod| pod.node().is_some());
        let live: BTreeSet<&str> = on_nodes
            .map(|pod| pod.metadata.labels.hash.as_str())
            .filter(|hash| !hash.is_empty())
            .collect();
        let unused = self.old.iter().filter(|old| !live.contains(hash_of(old)));
        let surplus = self.old.len().saturating_sub(limit);
        unused.take(surplus).map(Revision::delete).collect()
    }
}

/// Labels the revisions that have no hash, as those of Kubernetes 1.7 had none. The name does as
/// well: it is unique.
fn label_all(revisions: &mut [Revision]) -> Result<Vec<Action>, Failure> {
    let mut patches = Vec::new();
    for revision in revisions {
        if revision.metadata.labels.contains_key(HASH_LABEL) {
            continue;
        }
        let name = revision.name().to_owned();
        let body = json!({"metadata": {"resourceVersion": "", "labels": {HASH_LABEL: name}}});
        patches.push(Patch::merge(&revision.object(), &body)?.into());
        revision.metadata.labels.insert(HASH_LABEL.to_owned(), name);
    }
    Ok(patches)
}

/// The hash that a revision is known by. One that is not labelled yet has its name for it.
fn hash_of(revision: &Revision) -> &str {
    let label = revision.metadata.labels.get(HASH_LABEL);
    label.map_or(revision.name(), String::as_str)
}

/// The labels of a revision: the template's, and its hash.
fn labels_of(template: &Value, hash: &str) -> Value {
    let labels = template::labels(template);
    let labels = labels.chain([(HASH_LABEL, hash)]);
    labels
        .map(|(name, value)| (name.to_owned(), value.into()))
        .collect::<serde_json::Map<_, _>>()
        .into()
}
