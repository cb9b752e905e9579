//! Which ReplicaSets a Deployment has: those that it manages and selects. It adopts those that it
//! selects and nobody manages, and releases those that it manages and no longer selects.

use pilothouse_sdk::{Failure, Filter, Host, Metadata, Outcome, OwnerReference};
use serde::Deserialize;
use workloads::claim::{Claim, Claimable, Claimant};
use workloads::selector;

use crate::objects::{DEPLOYMENT, Deployment, REPLICA_SET, ReplicaSet, ReplicaSetMetadata};

/// The index of ReplicaSets, and of pods, by the uids of their owners.
pub const BY_OWNER: &str = "owner";
pub const OWNER_PATH: &str = ".metadata.ownerReferences[*].uid";

/// Most ReplicaSets that are adopted, or released, at once. The next look at the Deployment does
/// more.
const MAX_CHANGES: usize = 100;

/// What a Deployment finds.
pub enum Claimed {
    /// Its ReplicaSets.
    Sets(Vec<ReplicaSet>),
    /// What has to be adopted or released first. The change runs the key again.
    Changes(Outcome),
}

/// A ReplicaSet of which only the owners matter.
#[derive(Deserialize)]
struct Owned {
    metadata: ReplicaSetMetadata,
}

impl Claimable for ReplicaSetMetadata {
    fn metadata(&self) -> &Metadata {
        &self.always
    }

    fn owners(&self) -> &[OwnerReference] {
        &self.owner_references
    }
}

/// Looks for the ReplicaSets of a Deployment. One that is being deleted neither adopts nor releases
/// any.
///
/// # Errors
///
/// ReplicaSets may not be read, or the selector is none.
pub fn claim(host: &dyn Host, deployment: &Deployment) -> Result<Claimed, Failure> {
    let me = &deployment.metadata.always;
    let claimant = Claimant::new(DEPLOYMENT, me);
    let matching = matching(host, deployment)?;
    let by_owner = Filter::index(BY_OWNER, &me.uid);
    let with_me: Vec<Owned> = host.list(REPLICA_SET, Some(&me.namespace), &by_owner)?;

    let mut outcome = Outcome::done();
    let orphans = matching
        .iter()
        .filter(|set| claimant.claim(&set.metadata, true) == Claim::Adopt);
    for set in orphans.take(MAX_CHANGES) {
        outcome = outcome.with(claimant.adoption(REPLICA_SET, &set.metadata)?);
    }
    if !outcome.stages.is_empty() {
        // Not for a Deployment that is gone or going: nobody would look after the new child.
        outcome = outcome.confirm(&me.of_kind(DEPLOYMENT));
    }
    let is_matching = |owned: &Owned| {
        let uid = &owned.metadata.always.uid;
        matching.iter().any(|set| set.metadata.always.uid == *uid)
    };
    let lost = with_me.iter().filter(|owned| {
        !is_matching(owned) && claimant.claim(&owned.metadata, false) == Claim::Release
    });
    for owned in lost.take(MAX_CHANGES) {
        outcome = outcome.with(claimant.release(REPLICA_SET, &owned.metadata)?);
    }
    if !outcome.stages.is_empty() {
        return Ok(Claimed::Changes(outcome));
    }
    let is_mine = |set: &ReplicaSet| claimant.claim(&set.metadata, true) == Claim::Owned;
    Ok(Claimed::Sets(
        matching.into_iter().filter(is_mine).collect(),
    ))
}

/// The ReplicaSets that the Deployment selects.
fn matching(host: &dyn Host, deployment: &Deployment) -> Result<Vec<ReplicaSet>, Failure> {
    let selector = selector::filter(&deployment.spec.selector)
        .map_err(|fault| Failure::terminal(format!("spec.selector is none: {fault}")))?;
    let namespace = &deployment.metadata.always.namespace;
    match selector {
        Some(selector) => host.list(REPLICA_SET, Some(namespace), &selector),
        None => Ok(Vec::new()),
    }
}

/// The reference by which a Deployment manages a ReplicaSet.
pub fn controller_reference(deployment: &Deployment) -> OwnerReference {
    Claimant::new(DEPLOYMENT, &deployment.metadata.always).controller_reference()
}
