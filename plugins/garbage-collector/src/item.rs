//! What the garbage collector sees of an object, whatever its kind.

use pilothouse_sdk::{Failure, Host, Metadata, ObjectRef, OwnerReference};
use serde::Deserialize;
use serde_json::Value;

/// The finalizer of an object that waits until its dependents are deleted.
pub const FOREGROUND: &str = "foregroundDeletion";

/// The finalizer of an object that waits until its dependents have given it up as their owner.
pub const ORPHAN: &str = "orphan";

/// An object of whatever kind.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Item {
    api_version: String,
    kind: String,
    pub metadata: ItemMetadata,
}

impl Item {
    pub fn key(&self) -> ObjectRef {
        let kind = format!("{}/{}", self.api_version, self.kind);
        self.metadata.always.of_kind(&kind)
    }
}

/// The metadata of an object of whatever kind.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ItemMetadata {
    #[serde(flatten)]
    pub always: Metadata,
    #[serde(default)]
    pub owner_references: Vec<Reference>,
    #[serde(default)]
    finalizers: Vec<String>,
}

impl ItemMetadata {
    pub fn is_being_deleted(&self) -> bool {
        self.always.deletion_timestamp.is_some()
    }

    pub fn has_finalizer(&self, name: &str) -> bool {
        self.finalizers.iter().any(|finalizer| finalizer == name)
    }

    /// Whether it is being deleted and waits until its dependents are.
    pub fn is_deleting_dependents(&self) -> bool {
        self.is_being_deleted() && self.has_finalizer(FOREGROUND)
    }

    /// Whether the deletion of this owner waits for it.
    pub fn blocks(&self, owner_uid: &str) -> bool {
        let mut references = self.owner_references.iter();
        references.any(|it| it.owner.uid == owner_uid && it.owner.block_owner_deletion)
    }
}

/// A reference to an owner, and all that is written in it: the list of references is written as a
/// whole.
#[derive(Clone)]
pub struct Reference {
    pub owner: OwnerReference,
    pub text: Value,
}

impl<'de> Deserialize<'de> for Reference {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Value::deserialize(deserializer)?;
        let owner = OwnerReference::deserialize(&text).map_err(serde::de::Error::custom)?;
        Ok(Self { owner, text })
    }
}

impl Reference {
    /// The reference as it is when the owner's deletion does not wait for the object any more.
    pub fn unblocked(&self) -> Value {
        let mut text = self.text.clone();
        if self.owner.block_owner_deletion {
            text["blockOwnerDeletion"] = false.into();
        }
        text
    }
}

/// Whether the cluster lets objects of this kind be deleted. What cannot be deleted is no part of
/// the graph.
pub fn is_deletable(kind: &str, host: &dyn Host) -> Result<bool, Failure> {
    let kinds = host.kinds(kind)?;
    let mut verbs = kinds.iter().flat_map(|served| &served.verbs);
    Ok(verbs.any(|verb| verb == "delete"))
}
