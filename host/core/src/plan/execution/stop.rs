//! What is no longer done because something has failed.
//!
//! The order of the actions is the guest's choice and the same on each retry: an action that always
//! fails first would prevent everything behind it for ever. So an object that cannot be deleted, or
//! whose finalizer cannot be removed, only stops the actions that may depend on it.

use std::collections::HashSet;

use super::SentWrite;
use crate::model::outcome::ActionResult;
use crate::plan::write::Operation;
use crate::plan::{ObjectAddress, What};

/// See the module's documentation.
#[derive(Default)]
pub(super) struct Stop {
    /// Nothing is done at all.
    all: bool,
    /// No finalizer is removed: the objects that it waits for may not be deleted yet.
    finalizers: bool,
    /// Nothing more is done to these objects.
    objects: HashSet<ObjectAddress>,
}

impl Stop {
    /// After an action that failed without a write of its own.
    pub(super) fn everything(&mut self) {
        self.all = true;
    }

    /// After a write that failed with this result.
    pub(super) fn after(&mut self, sent: &SentWrite, result: &ActionResult) {
        let is_about_cluster = matches!(
            result,
            ActionResult::Busy(..) | ActionResult::Unavailable(_)
        );
        let is_delete = matches!(sent.write.operation, Operation::Delete { .. });
        self.all |= is_about_cluster || !(is_delete || sent.finalizer == Some(false));
        self.finalizers |= is_delete;
        self.objects.insert(sent.target.clone());
    }

    pub(super) fn includes(&self, what: &What) -> bool {
        match what {
            _ if self.all => true,
            What::Known(_) | What::NoEvent(_) => false,
            What::Send {
                write, finalizer, ..
            } => {
                let target = ObjectAddress::of(&write.kind, &write.key);
                (self.finalizers && *finalizer == Some(false)) || self.objects.contains(&target)
            }
        }
    }
}
