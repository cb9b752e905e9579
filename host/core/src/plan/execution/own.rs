//! What an outcome has written so far, and what that means for its next writes.

use std::collections::{HashMap, HashSet};

use serde_json::{Value, json};

use super::SentWrite;
use crate::model::outcome::ActionResult;
use crate::plan::ObjectAddress;
use crate::plan::write::{Operation, Write};

/// What an outcome has done so far.
#[derive(Default)]
pub(super) struct Own {
    /// The versions that the server has answered with.
    versions: HashMap<ObjectAddress, String>,
    /// Deleted objects, which an apply may create again.
    deleted: HashSet<ObjectAddress>,
}

impl Own {
    pub(super) fn note(&mut self, sent: &SentWrite, result: &ActionResult) {
        let ActionResult::Done(version) = result else {
            return;
        };
        if matches!(sent.write.operation, Operation::Delete { .. }) {
            self.deleted.insert(sent.target.clone());
        }
        if let Some(version) = version {
            self.versions.insert(sent.target.clone(), version.clone());
        }
    }

    /// Makes a write conditional where that is needed. An update of an object that the same outcome
    /// has written is made conditional on the version the server answered with, and so is a patch
    /// that names a version. An object that is replaced later in this outcome is written on
    /// condition that it still is at the version at which it was seen.
    pub(super) fn after(
        &self,
        write: Write,
        target: &ObjectAddress,
        chains: &HashMap<ObjectAddress, Option<String>>,
    ) -> Write {
        let version = self.versions.get(target);
        let seen = chains.get(target);
        // An apply that creates a deleted object again cannot require a version of it.
        let is_made_anew =
            matches!(write.operation, Operation::Apply { .. }) && self.deleted.contains(target);
        let operation = match (version, seen) {
            (Some(version), Some(_)) if !is_made_anew => conditional(&write.operation, version),
            (None, Some(Some(seen))) if !is_made_anew => conditional(&write.operation, seen),
            (Some(version), None) if names_a_version(&write.operation) => {
                conditional(&write.operation, version)
            }
            _ => None,
        };
        match operation {
            Some(operation) => Write { operation, ..write },
            None => write,
        }
    }
}

/// Whether a write is valid for a single version of its object only.
fn names_a_version(operation: &Operation) -> bool {
    let (Operation::Update { object: body } | Operation::Patch { body, .. }) = operation else {
        return false;
    };
    let body: Value = serde_json::from_str(body).unwrap_or_default();
    matches!(operation, Operation::Update { .. })
        || body.pointer("/metadata/resourceVersion").is_some()
}

/// The same operation, conditional on this version of the object.
fn conditional(operation: &Operation, version: &str) -> Option<Operation> {
    let of_version = |text: &str| {
        let mut body: Value = serde_json::from_str(text).ok()?;
        match &mut body {
            Value::Object(_) => body["metadata"]["resourceVersion"] = version.into(),
            Value::Array(steps) => steps.insert(
                0,
                json!({"op": "test", "path": "/metadata/resourceVersion", "value": version}),
            ),
            _ => return None,
        }
        Some(body.to_string())
    };
    Some(match operation {
        Operation::Apply { object, force } => Operation::Apply {
            object: of_version(object)?,
            force: *force,
        },
        Operation::Update { object } => Operation::Update {
            object: of_version(object)?,
        },
        Operation::Patch { patch_type, body } => Operation::Patch {
            patch_type: *patch_type,
            body: of_version(body)?,
        },
        Operation::Delete {
            uid,
            resource_version,
            propagation,
            grace_period_seconds,
        } => Operation::Delete {
            uid: uid.clone(),
            resource_version: resource_version.clone().or_else(|| Some(version.into())),
            propagation: *propagation,
            grace_period_seconds: *grace_period_seconds,
        },
        Operation::Create { .. } | Operation::DeleteAll { .. } | Operation::Event { .. } => {
            return None;
        }
    })
}
