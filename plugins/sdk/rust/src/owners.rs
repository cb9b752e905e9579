//! Which objects own which: `metadata.ownerReferences`.

use serde::{Deserialize, Serialize};

use crate::object_ref::split_kind;
use crate::{ObjectRef, Projection};

/// An entry of `metadata.ownerReferences`. When its last owner is deleted, the garbage collector
/// deletes the object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, Projection)]
#[serde(rename_all = "camelCase", default)]
pub struct OwnerReference {
    /// The owner's `apiVersion`.
    pub api_version: String,
    /// The owner's `kind`, without its group: `ReplicaSet`.
    pub kind: String,
    /// The owner's name. It is in the same namespace, or cluster-scoped.
    pub name: String,
    /// The owner's uid, which tells it from an earlier or later object of the same name.
    pub uid: String,
    /// The owner is the one that manages the object. An object has at most one such owner.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub controller: bool,
    /// A deletion of the owner in the foreground waits until the object is gone.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub block_owner_deletion: bool,
}

impl OwnerReference {
    /// An owner in the same namespace, or a cluster-scoped one. The host refuses an owner that the
    /// plugin does not see with this uid, unless the object has it already. The uid is part of
    /// every object read, whatever fields the manifest names.
    #[must_use]
    pub fn new(owner: &ObjectRef, uid: &str) -> Self {
        let (api_version, kind) = split_kind(&owner.kind);
        Self {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            name: owner.name.clone(),
            uid: uid.to_owned(),
            controller: false,
            block_owner_deletion: false,
        }
    }

    /// The owner that manages the object and whose deletion in the foreground waits for it, as
    /// Kubernetes' own controllers write it (`metav1.NewControllerRef`).
    ///
    /// Where the API server checks `blockOwnerDeletion` (the admission plugin
    /// `OwnerReferencesPermissionEnforcement`), the writer needs `update` on the owner's
    /// `finalizers`.
    #[must_use]
    pub fn controller_of(owner: &ObjectRef, uid: &str) -> Self {
        Self::new(owner, uid).controller().block_owner_deletion()
    }

    /// Marks this owner as the one that manages the object (`controller: true`).
    #[must_use]
    pub fn controller(mut self) -> Self {
        self.controller = true;
        self
    }

    /// Makes a deletion of the owner in the foreground wait for the object
    /// (`blockOwnerDeletion: true`).
    #[must_use]
    pub fn block_owner_deletion(mut self) -> Self {
        self.block_owner_deletion = true;
        self
    }

    /// The owner, seen from an object in this namespace. For a cluster-scoped owner give the empty
    /// namespace.
    #[must_use]
    pub fn object(&self, namespace: &str) -> ObjectRef {
        let kind = format!("{}/{}", self.api_version, self.kind);
        ObjectRef::new(&kind, namespace, &self.name)
    }

    /// True if the owner is of this kind (`apps/v1/ReplicaSet`), in any version of its group.
    #[must_use]
    pub fn is_of_kind(&self, kind: &str) -> bool {
        let (api_version, kind) = split_kind(kind);
        self.kind == kind && group(&self.api_version) == group(api_version)
    }
}

/// The owner that manages the object which has these `metadata.ownerReferences`: the first with
/// `controller: true` (`metav1.GetControllerOf`).
#[must_use]
pub fn controller_of(owners: &[OwnerReference]) -> Option<&OwnerReference> {
    owners.iter().find(|owner| owner.controller)
}

/// True if the object which has these `metadata.ownerReferences` is managed by the object with this
/// uid (`metav1.IsControlledBy`).
#[must_use]
pub fn is_controlled_by(owners: &[OwnerReference], uid: &str) -> bool {
    controller_of(owners).is_some_and(|owner| owner.uid == uid)
}

/// The group of an `apiVersion`. Empty for the core group.
fn group(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_owner_reference_says_who() {
        let site = ObjectRef::new("example.com/v1/Site", "default", "a");
        let reference = OwnerReference::new(&site, "u1");
        let wanted =
            json!({"apiVersion": "example.com/v1", "kind": "Site", "name": "a", "uid": "u1"});
        assert_eq!(serde_json::to_value(&reference).unwrap_or_default(), wanted);
        let controller = serde_json::to_value(reference.controller()).unwrap_or_default();
        assert_eq!(controller["controller"], true);
    }

    #[test]
    fn a_controller_is_written_as_kubernetes_writes_it() {
        let set = ObjectRef::new("apps/v1/ReplicaSet", "default", "web");
        let reference = OwnerReference::controller_of(&set, "u1");
        let json = json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u1",
            "controller": true, "blockOwnerDeletion": true,
        });
        assert_eq!(serde_json::to_value(&reference).unwrap_or_default(), json);
        assert_eq!(reference, serde_json::from_value(json).unwrap_or_default());
        assert_eq!(reference.object("default"), set);
        let node = OwnerReference::new(&ObjectRef::new("v1/Node", "", "n1"), "u2");
        assert_eq!(node.object(""), ObjectRef::new("v1/Node", "", "n1"));
    }

    #[test]
    fn the_controller_of_an_object_is_its_first_owner_that_manages_it() {
        let owner = |name: &str| {
            OwnerReference::new(&ObjectRef::new("v1/ConfigMap", "default", name), name)
        };
        let owners = [owner("a"), owner("b").controller(), owner("c").controller()];
        assert_eq!(controller_of(&owners), Some(&owners[1]));
        let controls = ["a", "b", "c"].map(|uid| is_controlled_by(&owners, uid));
        assert_eq!(controls, [false, true, false]);
        assert_eq!(controller_of(&owners[..1]), None);
        assert!(!is_controlled_by(&[], ""));
    }

    #[test]
    fn a_kind_is_the_same_in_every_version_of_its_group() {
        let job = ObjectRef::new("batch/v1/Job", "default", "a");
        let owner = OwnerReference::new(&job, "u1");
        let kinds = [
            "batch/v1/Job",
            "batch/v1beta1/Job",
            "v1/Job",
            "batch/v1/CronJob",
        ];
        let is_of = kinds.map(|kind| owner.is_of_kind(kind));
        assert_eq!(is_of, [true, true, false, false]);
        let core = OwnerReference::new(&ObjectRef::new("v1/Pod", "default", "a"), "u1");
        assert!(core.is_of_kind("v1/Pod") && !core.is_of_kind("apps/v1/Pod"));
    }
}
