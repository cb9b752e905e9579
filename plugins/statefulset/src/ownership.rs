//! Which pods and revisions belong to a set: those it controls, and orphans that it adopts.

use std::collections::BTreeSet;

use pilothouse_sdk::{
    Action, Failure, Filter, Host, Kind, Metadata, ObjectRef, OwnerReference, Patch, controller_of,
};
use serde::Deserialize;
use serde_json::json;
use workloads::pod::PodView;
use workloads::revision::Revision;

use crate::identity;
use crate::objects::{Pod, StatefulSet};

/// The index of pods by the uids of their owners.
pub const OWNER_INDEX: &str = "owner";

/// The pods that a set has to do with.
pub struct Pods {
    /// Those it controls, in the order of their names.
    pub owned: Vec<Pod>,
    /// Those without a controller that it selects and that have a name of its own.
    orphans: Vec<Pod>,
    /// Those it controls that it does not select, or whose names are not its own.
    strangers: Vec<Owned>,
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

impl Pods {
    pub fn of(host: &dyn Host, set: &StatefulSet) -> Result<Self, Failure> {
        let namespace = Some(set.namespace());
        let selector = Filter::label_selector(&set.spec.selector)?;
        let selected: Vec<Pod> = host.list_as(namespace, &selector)?;
        let owner = Filter::index(OWNER_INDEX, set.uid());
        let mut strangers: Vec<Owned> = host.list(Pod::KIND, namespace, &owner)?;

        let members = selected.into_iter();
        let members = members.filter(|pod| identity::is_member(set, pod.name()));
        let (mut owned, mut orphans) = (Vec::new(), Vec::new());
        for pod in members {
            match controller_of(&pod.metadata.owner_references) {
                Some(controller) if controller.uid == set.uid() => owned.push(pod),
                None if !pod.is_deleted() => orphans.push(pod),
                _ => {}
            }
        }
        let names: BTreeSet<&str> = owned.iter().map(Pod::name).collect();
        strangers.retain(|pod| {
            let controller = controller_of(&pod.metadata.owner_references);
            let is_ours = controller.is_some_and(|controller| controller.uid == set.uid());
            is_ours && !names.contains(pod.metadata.always.name.as_str())
        });
        Ok(Self {
            owned,
            orphans,
            strangers,
        })
    }

    /// True if a pod or a revision is to be adopted.
    pub fn adopts(&self, revisions: &[Revision]) -> bool {
        !self.orphans.is_empty() || orphaned(revisions).next().is_some()
    }

    /// Adopts the orphans, and gives up the strangers.
    pub fn claim(&self, set: &StatefulSet, revisions: &[Revision]) -> Result<Vec<Action>, Failure> {
        let ours = identity::controller_reference(set);
        let mut actions = Vec::new();
        for revision in orphaned(revisions) {
            actions.push(revision.adopt(&set.object(), set.uid())?.into());
        }
        for pod in &self.orphans {
            let owners = pod.metadata.owner_references.iter().cloned();
            let owners: Vec<OwnerReference> = owners.chain([ours.clone()]).collect();
            let uid = &pod.metadata.always.uid;
            actions.push(set_owners(&pod.object(), uid, &owners)?.into());
        }
        for pod in &self.strangers {
            let OwnedMetadata {
                always,
                owner_references,
            } = &pod.metadata;
            let owners = owner_references
                .iter()
                .filter(|owner| owner.uid != ours.uid);
            let owners: Vec<OwnerReference> = owners.cloned().collect();
            actions.push(set_owners(&always.of_kind(Pod::KIND), &always.uid, &owners)?.into());
        }
        Ok(actions)
    }
}

fn orphaned(revisions: &[Revision]) -> impl Iterator<Item = &Revision> {
    revisions
        .iter()
        .filter(|revision| revision.controller().is_none())
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
