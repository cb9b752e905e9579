//! Which ReplicaSets a Deployment has: those that it manages and selects. It adopts those that it
//! selects and nobody manages, and releases those that it manages and no longer selects.

use pilothouse_sdk::{Failure, Filter, Host, ObjectRef, Outcome, OwnerReference, Patch};
use serde::Deserialize;
use serde_json::json;

use crate::objects::{DEPLOYMENT, Deployment, ObjectMetadata, REPLICA_SET, ReplicaSet};

/// The index of ReplicaSets, and of pods, by the uids of their owners.
pub const BY_OWNER: &str = "owner";
pub const OWNER_PATH: &str = ".metadata.ownerReferences[*].uid";

/// Most ReplicaSets that are adopted, or released, at once. The next look at the Deployment does
/// more.
const MAX_CHANGES: usize = 100;

/// What a Deployment finds.
pub enum Claim {
    /// Its ReplicaSets.
    Sets(Vec<ReplicaSet>),
    /// What has to be adopted or released first. The change runs the key again.
    Changes(Outcome),
}

/// A ReplicaSet of which only the owners matter.
#[derive(Deserialize)]
struct Owned {
    metadata: ObjectMetadata,
}

/// Looks for the ReplicaSets of a Deployment. One that is being deleted neither adopts nor releases
/// any.
///
/// # Errors
///
/// ReplicaSets may not be read.
pub fn claim(host: &dyn Host, deployment: &Deployment) -> Result<Claim, Failure> {
    let me = &deployment.metadata.always;
    let selector = Filter::label_selector(&deployment.spec.selector)?;
    let matching: Vec<ReplicaSet> = host.list(REPLICA_SET, Some(&me.namespace), &selector)?;
    let by_owner = Filter::index(BY_OWNER, &me.uid);
    let owned: Vec<Owned> = host.list(REPLICA_SET, Some(&me.namespace), &by_owner)?;

    let mut outcome = Outcome::done();
    if !deployment.metadata.is_being_deleted() {
        let is_orphan = |set: &&ReplicaSet| {
            set.metadata.controller().is_none() && !set.metadata.is_being_deleted()
        };
        for set in matching.iter().filter(is_orphan).take(MAX_CHANGES) {
            outcome = outcome.with(adopt(deployment, &set.metadata)?);
        }
        if !outcome.stages.is_empty() {
            // Never for a Deployment that is gone or going, which nobody would tell the new child.
            outcome = outcome.confirm(&me.of_kind(DEPLOYMENT));
        }
        let is_selected = |owned: &Owned| {
            let uid = &owned.metadata.always.uid;
            matching.iter().any(|set| set.metadata.always.uid == *uid)
        };
        let is_mine = |owned: &&Owned| owned.metadata.controller() == Some(&me.uid);
        let lost = owned.iter().filter(is_mine);
        let lost = lost.filter(|owned| !is_selected(owned));
        for Owned { metadata } in lost.take(MAX_CHANGES) {
            outcome = outcome.with(release(&me.uid, metadata)?);
        }
    }
    if !outcome.stages.is_empty() {
        return Ok(Claim::Changes(outcome));
    }
    let is_mine = |set: &ReplicaSet| set.metadata.controller() == Some(&me.uid);
    Ok(Claim::Sets(matching.into_iter().filter(is_mine).collect()))
}

/// The entry of `ownerReferences` that makes a Deployment the manager of an object.
pub fn controller_reference(deployment: &Deployment) -> OwnerReference {
    let reference = deployment.metadata.always.owner_reference(DEPLOYMENT);
    reference.controller().blocks_deletion()
}

fn adopt(deployment: &Deployment, set: &ObjectMetadata) -> Result<Patch, Failure> {
    let mut owners = set.owner_references.clone();
    owners.push(controller_reference(deployment));
    patch_owners(set, &owners)
}

fn release(uid: &str, set: &ObjectMetadata) -> Result<Patch, Failure> {
    let mut owners = set.owner_references.clone();
    owners.retain(|owner| owner.uid != uid);
    patch_owners(set, &owners)
}

/// Sets the owners of the ReplicaSet that has been seen, as it was seen: a list is replaced as a
/// whole.
fn patch_owners(set: &ObjectMetadata, owners: &[OwnerReference]) -> Result<Patch, Failure> {
    let key: ObjectRef = set.always.of_kind(REPLICA_SET);
    let metadata = json!({
        "uid": set.always.uid, "resourceVersion": "seen", "ownerReferences": owners,
    });
    Ok(Patch::merge(&key, &json!({"metadata": metadata}))?)
}
