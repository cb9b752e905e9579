//! Which pods and ControllerRevisions are a DaemonSet's: those whose controller it is and that its
//! selector selects.

use std::collections::BTreeSet;

use pilothouse_sdk::{Failure, Filter, Host, Kind, Metadata, OwnerReference};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use workloads::claim::{Claimable, Claimant, Claims};
use workloads::revision::Revision;
use workloads::selector;

use crate::objects::{DaemonSet, Pod};

/// The index of pods and ControllerRevisions by the uids of their owners.
pub const BY_OWNER: &str = "owner";
/// The path that the index is of.
pub const OWNER_UIDS: &str = ".metadata.ownerReferences[*].uid";

/// What a DaemonSet, which is not being deleted, has of the objects of a kind.
pub fn claim<T: Kind + Claimable + DeserializeOwned>(
    daemon_set: &DaemonSet,
    host: &dyn Host,
) -> Result<Claims<T>, Failure> {
    let metadata = &daemon_set.metadata.always;
    let namespace = Some(metadata.namespace.as_str());
    let selected: Vec<T> = match selector::filter(&daemon_set.spec.selector) {
        Ok(Some(selected)) => host.list_as(namespace, &selected)?,
        Ok(None) => Vec::new(),
        Err(reason) => return Err(Failure::terminal(format!("spec.selector: {reason}"))),
    };
    let owned = Filter::index(BY_OWNER, &metadata.uid);
    let owned: Vec<Named> = host.list(T::KIND, namespace, &owned)?;
    let name = |object: &T| object.metadata().name.clone();
    let names: BTreeSet<String> = selected.iter().map(name).collect();
    let mut all = selected;
    for Named {
        metadata: Name { name },
    } in owned
    {
        if !names.contains(&name) {
            all.extend(host.get_as::<T>(&metadata.namespace, &name)?);
        }
    }
    let claimant = Claimant::new(DaemonSet::KIND, metadata);
    let is_selected = |object: &T| names.contains(&object.metadata().name);
    Ok(claimant.claim_all(T::KIND, all, is_selected)?)
}

/// The name of an object. As a rule those that are owned are selected, too, and there may be
/// thousands of them: they are decoded once.
#[derive(Deserialize)]
struct Named {
    metadata: Name,
}

#[derive(Deserialize)]
struct Name {
    name: String,
}

impl Claimable for Pod {
    fn metadata(&self) -> &Metadata {
        &self.metadata.always
    }

    fn owners(&self) -> &[OwnerReference] {
        &self.metadata.owner_references
    }
}

/// A ControllerRevision that can be claimed.
#[derive(Deserialize)]
#[serde(transparent)]
pub struct ClaimableRevision(pub Revision);

impl Kind for ClaimableRevision {
    const KIND: &'static str = Revision::KIND;
}

impl Claimable for ClaimableRevision {
    fn metadata(&self) -> &Metadata {
        &self.0.metadata.always
    }

    fn owners(&self) -> &[OwnerReference] {
        &self.0.metadata.owner_references
    }
}
