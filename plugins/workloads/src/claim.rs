//! Which objects a controller's object has: adopting those without an owner that its selector
//! selects, and giving up those that it does not select any more (upstream's
//! `controller_ref_manager.go`).

use pilothouse_sdk::{Metadata, OwnerReference, Patch, controller_of};
use serde_json::{Error, json};

/// Who claims: the object whose controller decides.
#[derive(Clone, Copy, Debug)]
pub struct Claimant<'a> {
    /// Its kind, such as `apps/v1/ReplicaSet`.
    pub kind: &'a str,
    /// Its name and uid, and whether it is being deleted.
    pub metadata: &'a Metadata,
}

/// What an object is to a claimant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// It has it.
    Owned,
    /// It is to take it: the object has no controller.
    Adopt,
    /// It is to give it up.
    Release,
    /// It has nothing to do with it.
    Foreign,
}

/// Something that can be claimed.
pub trait Claimable {
    /// Its name and uid, and whether it is being deleted.
    fn metadata(&self) -> &Metadata;

    /// Its owners.
    fn owners(&self) -> &[OwnerReference];
}

impl<T: Claimable> Claimable for &T {
    fn metadata(&self) -> &Metadata {
        (**self).metadata()
    }

    fn owners(&self) -> &[OwnerReference] {
        (**self).owners()
    }
}

/// What a claimant has of some objects, and what is to be done about the others.
#[derive(Debug)]
pub struct Claims<T> {
    /// Those that it has.
    pub owned: Vec<T>,
    /// Patches that adopt. Before they are sent, it must be confirmed with the API server that the
    /// claimant is still there and is not being deleted: `outcome.confirm(request.key())`.
    pub adoptions: Vec<Patch>,
    /// Patches that give up.
    pub releases: Vec<Patch>,
}

impl<T> Claims<T> {
    /// True if nothing is to be adopted or given up: only then is it known what is owned.
    #[must_use]
    pub fn are_settled(&self) -> bool {
        self.adoptions.is_empty() && self.releases.is_empty()
    }
}

impl<'a> Claimant<'a> {
    /// An object of this kind.
    #[must_use]
    pub fn new(kind: &'a str, metadata: &'a Metadata) -> Self {
        Self { kind, metadata }
    }

    /// The reference by which it is the controller of an object.
    #[must_use]
    pub fn controller_reference(&self) -> OwnerReference {
        let reference = self.metadata.owner_reference(self.kind);
        reference.controller().block_owner_deletion()
    }

    /// What an object of its namespace is to it. `is_selected`: its selector selects the object,
    /// and whatever else it asks of what it adopts is so.
    #[must_use]
    pub fn claim(&self, object: &impl Claimable, is_selected: bool) -> Claim {
        let is_leaving = self.metadata.deletion_timestamp.is_some();
        match controller_of(object.owners()) {
            Some(controller) if controller.uid != self.metadata.uid => Claim::Foreign,
            Some(_) if is_selected => Claim::Owned,
            Some(_) if is_leaving => Claim::Foreign,
            Some(_) => Claim::Release,
            None if is_leaving || !is_selected => Claim::Foreign,
            None if object.metadata().deletion_timestamp.is_some() => Claim::Foreign,
            None => Claim::Adopt,
        }
    }

    /// Claims those of some objects, all of this kind, that are its own or to become so.
    ///
    /// # Errors
    ///
    /// None that can happen: a patch has a JSON form.
    pub fn claim_all<T: Claimable>(
        &self,
        kind: &str,
        objects: impl IntoIterator<Item = T>,
        is_selected: impl Fn(&T) -> bool,
    ) -> Result<Claims<T>, Error> {
        let mut claims = Claims {
            owned: Vec::new(),
            adoptions: Vec::new(),
            releases: Vec::new(),
        };
        for object in objects {
            match self.claim(&object, is_selected(&object)) {
                Claim::Owned => claims.owned.push(object),
                Claim::Adopt => claims.adoptions.push(self.adoption(kind, &object)?),
                Claim::Release => claims.releases.push(self.release(kind, &object)?),
                Claim::Foreign => {}
            }
        }
        Ok(claims)
    }

    /// Makes it the controller of an object of this kind. The API server refuses that if the object
    /// has got another one meanwhile, or is another object of the same name.
    ///
    /// # Errors
    ///
    /// None that can happen: the patch has a JSON form.
    pub fn adoption(&self, kind: &str, object: &impl Claimable) -> Result<Patch, Error> {
        let metadata = object.metadata();
        let owner = self.controller_reference();
        let body = json!({"metadata": {"uid": metadata.uid, "ownerReferences": [owner]}});
        Patch::strategic(&metadata.of_kind(kind), &body)
    }

    /// Takes it off an object's owners. The other owners are listed, so the patch is only for the
    /// version that the snapshot shows: an owner that has come since is not lost.
    ///
    /// # Errors
    ///
    /// None that can happen: the patch has a JSON form.
    pub fn release(&self, kind: &str, object: &impl Claimable) -> Result<Patch, Error> {
        let metadata = object.metadata();
        let owners = object.owners().iter();
        let others: Vec<_> = owners
            .filter(|owner| owner.uid != self.metadata.uid)
            .collect();
        let body = json!({"metadata": {
            "uid": metadata.uid, "resourceVersion": "", "ownerReferences": others,
        }});
        Patch::merge(&metadata.of_kind(kind), &body)
    }
}

#[cfg(test)]
mod tests;
