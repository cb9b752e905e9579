//! What every view of an object says about it.

use serde::Deserialize;

use crate::{ObjectRef, OwnerReference, Projection, Time};

/// The part of `metadata` that is in every view, whatever fields the manifest names. Flatten it
/// into a struct of your own to read more of `metadata`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Projection)]
#[serde(rename_all = "camelCase", default)]
pub struct Metadata {
    /// The namespace. Empty for a cluster-scoped object.
    pub namespace: String,
    /// The name, unique among the objects of its kind in its namespace.
    pub name: String,
    /// Tells the object from an earlier or later one of the same name.
    pub uid: String,
    /// When its deletion was asked for. It stays until its finalizers are removed.
    pub deletion_timestamp: Option<Time>,
}

impl Metadata {
    /// The object, which is of this kind.
    #[must_use]
    pub fn of_kind(&self, kind: &str) -> ObjectRef {
        ObjectRef::new(kind, &self.namespace, &self.name)
    }

    /// A reference to the object, which is of this kind, as an owner of another.
    #[must_use]
    pub fn owner_reference(&self, kind: &str) -> OwnerReference {
        OwnerReference::new(&self.of_kind(kind), &self.uid)
    }

    /// A reference to the object, which is of this kind, as the owner that manages another:
    /// [`OwnerReference::controller_of`].
    #[must_use]
    pub fn controller_reference(&self, kind: &str) -> OwnerReference {
        OwnerReference::controller_of(&self.of_kind(kind), &self.uid)
    }
}
