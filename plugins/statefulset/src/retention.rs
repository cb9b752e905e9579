//! Who owns a claim, so that the garbage collector deletes it when the set's
//! `persistentVolumeClaimRetentionPolicy` says so: with the set, or with a pod that is scaled down.

use pilothouse_sdk::{Kind, Metadata, OwnerReference};

use crate::identity;
use crate::objects::{Claim, Pod, RetentionPolicy, StatefulSet};

/// A set, and a pod of it, which may not be there yet.
pub struct Owners<'a> {
    pub set: &'a StatefulSet,
    /// The pod's ordinal.
    pub ordinal: i64,
    /// The pod's uid. Empty: there is no such pod yet.
    pub pod_uid: &'a str,
}

impl Owners<'_> {
    /// True if the claim has the owners that the policy wants, or must not be touched.
    pub fn are_up_to_date(&self, claim: &Claim) -> bool {
        if self.has_stale(claim, &self.set_reference()) || self.has_stale(claim, &self.pod()) {
            // It belongs to an earlier object of the same name, whose deletion may delete it.
            return true;
        }
        let (of_set, of_pod) = (has(claim, self.set.uid()), has(claim, self.pod_uid));
        if self.has_unexpected_controller(claim) {
            return !of_set && !of_pod;
        }
        if self.has_ours_without_control(claim) {
            return false;
        }
        of_set == self.wants_set() && of_pod == self.wants_pod()
    }

    /// The owners that the claim should have.
    pub fn wanted(&self, claim: &Claim) -> Vec<OwnerReference> {
        let (set, pod) = (self.set_reference(), self.pod());
        let is_other = |owner: &&OwnerReference| !is_same(owner, &set) && !is_same(owner, &pod);
        let owners = claim.metadata.owner_references.iter();
        let mut wanted: Vec<OwnerReference> = owners.filter(is_other).cloned().collect();
        if self.has_unexpected_controller(claim) {
            return wanted;
        }
        for (is_wanted, owner) in [(self.wants_set(), set), (self.wants_pod(), pod)] {
            if is_wanted && !wanted.iter().any(|had| had.uid == owner.uid) {
                wanted.push(owner);
            }
        }
        wanted
    }

    /// True if something else than the set and its pod controls the claim, so that the policy
    /// cannot be followed.
    pub fn has_unexpected_controller(&self, claim: &Claim) -> bool {
        let policy = self.policy();
        if !deletes(&policy.when_scaled) && !deletes(&policy.when_deleted) {
            return false;
        }
        let (set, pod) = (self.set_reference(), self.pod());
        claim.metadata.owner_references.iter().any(|owner| {
            match [&set, &pod].into_iter().find(|ours| is_same(owner, ours)) {
                Some(ours) => owner.uid != ours.uid,
                None => owner.controller,
            }
        })
    }

    /// True if the claim belongs to an earlier pod of this name, which is about to take it along.
    pub fn is_stale(&self, claim: &Claim) -> bool {
        deletes(&self.policy().when_scaled) && self.has_stale(claim, &self.pod())
    }

    fn has_stale(&self, claim: &Claim, ours: &OwnerReference) -> bool {
        let mut owners = claim.metadata.owner_references.iter();
        let named = owners.find(|owner| is_same(owner, ours));
        named.is_some_and(|owner| owner.uid != ours.uid)
    }

    fn has_ours_without_control(&self, claim: &Claim) -> bool {
        let is_ours = |uid: &str| uid == self.set.uid() || uid == self.pod_uid;
        let mut owners = claim.metadata.owner_references.iter();
        owners.any(|owner| is_ours(&owner.uid) && !owner.controller)
    }

    fn wants_set(&self) -> bool {
        let policy = self.policy();
        let goes_with_pod = deletes(&policy.when_scaled) && self.is_scaled_down();
        deletes(&policy.when_deleted) && !goes_with_pod
    }

    fn wants_pod(&self) -> bool {
        deletes(&self.policy().when_scaled) && self.is_scaled_down()
    }

    fn is_scaled_down(&self) -> bool {
        !self.set.ordinals().contains(&self.ordinal)
    }

    fn policy(&self) -> &RetentionPolicy {
        &self.set.spec.persistent_volume_claim_retention_policy
    }

    fn set_reference(&self) -> OwnerReference {
        identity::controller_reference(self.set)
    }

    fn pod(&self) -> OwnerReference {
        let pod = Metadata {
            namespace: self.set.namespace().to_owned(),
            name: identity::pod_name(self.set, self.ordinal),
            uid: self.pod_uid.to_owned(),
            ..Metadata::default()
        };
        pod.owner_reference(Pod::KIND)
            .controller()
            .block_owner_deletion()
    }
}

/// True if both name the same object, whatever its uid.
fn is_same(owner: &OwnerReference, other: &OwnerReference) -> bool {
    let name = |owner: &OwnerReference| {
        (
            owner.api_version.clone(),
            owner.kind.clone(),
            owner.name.clone(),
        )
    };
    name(owner) == name(other)
}

/// True if the claim has an owner of this uid.
fn has(claim: &Claim, uid: &str) -> bool {
    claim
        .metadata
        .owner_references
        .iter()
        .any(|owner| owner.uid == uid)
}

/// True if a policy says to delete. Any other text retains.
fn deletes(policy: &str) -> bool {
    policy == "Delete"
}

#[cfg(test)]
#[path = "retention_tests.rs"]
mod tests;
