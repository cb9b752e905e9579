//! Which pods are a Job's: it adopts those that it selects and nobody owns, and gives up those that
//! it no longer selects.

use pilothouse_sdk::{Action, Failure, Filter, Finalizer, Host, Kind, Metadata, ObjectRef, Patch};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::objects::{Job, Pod};
use crate::pods::TRACKING;
use crate::template::owner;

/// The index of pods by the names of their owners.
pub const OWNER: &str = "owner";

/// The pods of a Job, and what makes them so.
#[derive(Default)]
pub struct Claimed {
    /// As they are when the actions have been done.
    pub pods: Vec<Pod>,
    pub actions: Vec<Action>,
    /// True if pods are adopted: the Job must be confirmed before.
    pub adopts: bool,
}

/// The pods in the Job's namespace that have an owner of its name.
pub fn owned(host: &dyn Host, job: &ObjectRef) -> Result<Vec<Pod>, Failure> {
    host.list_as(Some(&job.namespace), &Filter::index(OWNER, &job.name))
}

/// The uid of the Job that manages the pod, if that has this name.
pub fn job_uid<'a>(pod: &'a Pod, name: &str) -> Option<&'a str> {
    let (controller, owner) = (pod.controller()?, Job::KIND.rsplit_once('/')?);
    let is_job = controller["apiVersion"] == owner.0 && controller["kind"] == owner.1;
    let uid = controller["uid"].as_str()?;
    (is_job && controller["name"] == name).then_some(uid)
}

/// Which of `owned` the Job keeps, and which pods without an owner it adopts.
pub fn claim(host: &dyn Host, job: &Job, owned: Vec<Pod>) -> Result<Claimed, Failure> {
    let mut claimed = Claimed::default();
    let is_own = |pod: &Pod| job_uid(pod, &job.metadata.name) == Some(&job.metadata.uid);
    for pod in owned.into_iter().filter(is_own) {
        let is_selected = job.spec.selector.as_ref();
        if is_selected.is_some_and(|selector| selector.matches(&pod.metadata.labels)) {
            claimed.pods.push(pod);
        } else if !job.is_being_deleted() {
            claimed.release(&pod, job)?;
        }
    }
    for pod in orphans(host, job)? {
        claimed.adopt(pod, job)?;
    }
    claimed
        .pods
        .sort_by(|one, other| one.name().cmp(other.name()));
    Ok(claimed)
}

/// The pods that the Job selects and that nothing manages, unless it or they are being deleted.
fn orphans(host: &dyn Host, job: &Job) -> Result<Vec<Pod>, Failure> {
    let Some(selector) = job
        .spec
        .selector
        .as_ref()
        .filter(|_| !job.is_being_deleted())
    else {
        return Ok(Vec::new());
    };
    let (namespace, selector) = (&job.metadata.namespace, Filter::label_selector(selector)?);
    // Most are the Job's own already: they are not decoded again.
    let selected: Vec<Selected> = host.list(Pod::KIND, Some(namespace), &selector)?;
    let mut orphans = Vec::new();
    for Selected { metadata } in selected {
        let has_controller = metadata
            .owner_references
            .iter()
            .any(|owner| owner.controller);
        if !has_controller && metadata.always.deletion_timestamp.is_none() {
            orphans.extend(host.get::<Pod>(&metadata.always.of_kind(Pod::KIND))?);
        }
    }
    Ok(orphans)
}

/// A pod that a Job selects.
#[derive(Deserialize)]
struct Selected {
    metadata: SelectedMetadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SelectedMetadata {
    #[serde(flatten)]
    always: Metadata,
    #[serde(default)]
    owner_references: Vec<Owner>,
}

#[derive(Deserialize)]
struct Owner {
    #[serde(default)]
    controller: bool,
}

impl Claimed {
    /// The finalizer comes first: a pod of the Job's that has none would never be counted.
    fn adopt(&mut self, mut pod: Pod, job: &Job) -> Result<(), Failure> {
        if !pod.is_tracked() {
            self.actions
                .push(Finalizer::add(&pod.object_ref(), TRACKING).into());
            pod.metadata.finalizers.push(TRACKING.to_owned());
        }
        pod.metadata.owner_references.push(owner(job));
        self.actions
            .push(owners_patch(&pod, &pod.metadata.owner_references)?.into());
        self.adopts = true;
        self.pods.push(pod);
        Ok(())
    }

    /// The finalizer goes last: what is left of a pod without an owner is put right later.
    fn release(&mut self, pod: &Pod, job: &Job) -> Result<(), Failure> {
        let is_other = |owner: &&Value| owner["uid"] != *job.metadata.uid;
        let others: Vec<Value> = pod
            .metadata
            .owner_references
            .iter()
            .filter(is_other)
            .cloned()
            .collect();
        self.actions.push(owners_patch(pod, &others)?.into());
        if pod.is_tracked() {
            self.actions
                .push(Finalizer::remove(&pod.object_ref(), TRACKING).into());
        }
        Ok(())
    }
}

/// Replaces the owners of the pod, if it is still as it was seen.
fn owners_patch(pod: &Pod, owners: &[Value]) -> Result<Patch, serde_json::Error> {
    let metadata = json!({
        "uid": pod.uid(), "resourceVersion": "seen", "ownerReferences": owners,
    });
    Patch::merge(&pod.object_ref(), &json!({"metadata": metadata}))
}
