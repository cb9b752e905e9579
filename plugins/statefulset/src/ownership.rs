//! Which pods and revisions belong to a set: those it controls, and orphans that it adopts.

use std::collections::BTreeSet;

use pilothouse_sdk::{
    Action, Failure, Filter, Host, Kind, Metadata, ObjectRef, OwnerReference, Patch,
};
use serde::Deserialize;
use serde_json::json;
use workloads::claim::{Claim, Claimable, Claimant};
use workloads::revision::Revision;
use workloads::selector;

use crate::identity;
use crate::objects::{Pod, StatefulSet};

/// The index of pods by the uids of their owners.
pub const OWNER_INDEX: &str = "owner";

/// Most patches of a sort that one reconcile sends. An outcome has at most 10,000 actions.
const MAX_CLAIMED: usize = 4_000;

/// What belongs to a set, and what is done so that it does, or does not any more.
pub struct Ownership {
    /// The pods that it controls, in the order of their names.
    pub pods: Vec<Pod>,
    /// Patches that adopt. The set must be confirmed before.
    pub adoptions: Vec<Action>,
    /// Patches that give up.
    pub releases: Vec<Action>,
}

/// What is read of a pod that is perhaps given up.
#[derive(Deserialize)]
struct Owned {
    metadata: OwnedMetadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OwnedMetadata {
    #[serde(flatten)]
    always: Metadata,
    owner_references: Vec<OwnerReference>,
}

impl Ownership {
    /// Claims the pods that the set selects and that have a name of its own, and those of these
    /// revisions that are orphans.
    pub fn of(host: &dyn Host, set: &StatefulSet, revisions: &[Revision]) -> Result<Self, Failure> {
        let namespace = Some(set.namespace());
        let selected: Vec<Pod> = match selector::filter(&set.spec.selector) {
            Ok(Some(selected)) => host.list_as(namespace, &selected)?,
            Ok(None) => Vec::new(),
            Err(reason) => return Err(Failure::terminal(format!("spec.selector: {reason}"))),
        };
        let owner = Filter::index(OWNER_INDEX, set.uid());
        let mut unselected: Vec<Owned> = host.list(Pod::KIND, namespace, &owner)?;
        let names: BTreeSet<&str> = selected.iter().map(Pod::name).collect();
        unselected.retain(|pod| !names.contains(pod.metadata.always.name.as_str()));

        let claimant = Claimant::new(StatefulSet::KIND, &set.metadata.always);
        let is_member = |pod: &Pod| identity::is_member(set, pod.name());
        let claims = claimant.claim_all(Pod::KIND, selected, is_member)?;
        let given_up = claimant.claim_all(Pod::KIND, unselected, |_| false)?;
        let is_orphan = |revision: &&Revision| claimant.claim(*revision, true) == Claim::Adopt;
        let orphans = revisions.iter().filter(is_orphan);
        let orphans = orphans.map(|orphan| claimant.adoption(Revision::KIND, orphan));
        let revisions: Vec<Patch> = orphans.collect::<Result<_, _>>()?;

        let adoptions = revisions
            .into_iter()
            .chain(claims.adoptions)
            .map(Action::from);
        let releases = claims
            .releases
            .into_iter()
            .chain(given_up.releases)
            .map(Action::from);
        Ok(Self {
            pods: claims.owned,
            adoptions: adoptions.take(MAX_CLAIMED).collect(),
            releases: releases.take(MAX_CLAIMED).collect(),
        })
    }
}

impl Claimable for Pod {
    fn metadata(&self) -> &Metadata {
        &self.metadata.always
    }

    fn owners(&self) -> &[OwnerReference] {
        &self.metadata.owner_references
    }
}

impl Claimable for Owned {
    fn metadata(&self) -> &Metadata {
        &self.metadata.always
    }

    fn owners(&self) -> &[OwnerReference] {
        &self.metadata.owner_references
    }
}

/// A patch that gives an object with this uid other owners. It replaces the whole list, so it is of
/// the version that the snapshot shows.
pub fn set_owners(
    object: &ObjectRef,
    uid: &str,
    owners: &[OwnerReference],
) -> Result<Patch, Failure> {
    let body = json!({
        "metadata": {"uid": uid, "resourceVersion": "", "ownerReferences": owners},
    });
    Ok(Patch::merge(object, &body)?)
}
