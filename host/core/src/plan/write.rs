//! A write, and what the API server answers to it. Sending it is the business of `host/cluster`.

use std::sync::Arc;

use serde_json::Value;

use crate::model::key::{Kind, ObjectKey};
use crate::model::outcome::{ActionResult, PatchType, Propagation};

/// The most bytes of an Event's note: a limit of the API server.
pub const MAX_EVENT_NOTE: usize = 1024;

/// The most bytes of an Event's reason, and of its action: a limit of the API server.
pub const MAX_EVENT_WORD: usize = 128;

/// The identity on whose behalf a write is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Author {
    /// The plugin. It has rate limits of its own.
    pub plugin: String,
    /// What the Events name as the controller that reports them. `None`: the plugin's name as
    /// [`prefixed`](Self::prefixed) has it.
    pub reporting_controller: Option<String>,
    /// The field manager that owns the written fields.
    pub field_manager: String,
    /// The user that the API server is to act for (impersonation). `None`: the host itself.
    pub user: Option<String>,
}

impl Author {
    /// A plugin's name as the API server sees it, as a field manager and as the reporter of Events,
    /// unless the settings name others. The prefix keeps plugins from calling themselves
    /// `kubectl` or `kubelet` and taking over fields that belong to these.
    pub fn prefixed(plugin: &str) -> String {
        format!("pilothouse.dev/{plugin}")
    }

    /// An author that writes in its own name, with the host's rights.
    pub fn named(name: &str) -> Self {
        Self {
            plugin: name.to_owned(),
            reporting_controller: None,
            field_manager: name.to_owned(),
            user: None,
        }
    }
}

/// One request that changes one object. [`crate::plan()`] makes it from a permitted action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// The object's kind.
    pub kind: Kind,
    /// The object's key. For create and apply it is also in the body.
    pub key: ObjectKey,
    /// `status`, `scale`, …; `None` for the object itself.
    pub subresource: Option<String>,
    /// The operation on the object.
    pub operation: Operation,
}

impl Write {
    /// Whether it is of one state of its object: it creates the object, or names the
    /// resourceVersion that it changes. Then the version in the server's answer is that of a state
    /// which this write has made, or which the plugin has seen. Another write that changes nothing
    /// is answered with the version of whoever wrote last.
    pub fn is_of_one_state(&self) -> bool {
        const VERSION: &str = "/metadata/resourceVersion";
        let body = |text: &str| serde_json::from_str::<Value>(text).unwrap_or_default();
        match &self.operation {
            // The host sends no update of a whole object without one.
            Operation::Update { .. } if self.subresource.is_none() => true,
            Operation::Apply { object, .. } | Operation::Update { object } => {
                body(object).pointer(VERSION).is_some()
            }
            Operation::Patch { body: text, .. } => match body(text) {
                Value::Array(steps) => steps
                    .iter()
                    .any(|step| step["op"] == "test" && step["path"] == VERSION),
                patch => patch.pointer(VERSION).is_some(),
            },
            Operation::Create { .. } => true,
            // Their answers are no versions, so no change counts as theirs.
            Operation::Delete { .. } | Operation::DeleteAll { .. } | Operation::Event { .. } => {
                true
            }
        }
    }
}

/// An operation on an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Server-side apply.
    Apply {
        /// The applied fields, as JSON.
        object: String,
        /// Whether to take over fields that another manager owns.
        force: bool,
    },
    /// POST.
    Create {
        /// The object, as JSON.
        object: String,
    },
    /// PUT.
    Update {
        /// The object, as JSON.
        object: String,
    },
    /// PATCH.
    Patch {
        /// How to read the body.
        patch_type: PatchType,
        /// The patch, as JSON.
        body: String,
    },
    /// DELETE.
    Delete {
        /// Delete the object only if it has this uid.
        uid: Option<String>,
        /// Delete the object only at this resourceVersion.
        resource_version: Option<String>,
        /// `None`: the kind's default.
        propagation: Option<Propagation>,
        /// `None`: the object's default.
        grace_period_seconds: Option<u32>,
    },
    /// DELETE of a collection. The write's key has no name: all objects of its namespace, or all of
    /// a kind without namespaces.
    DeleteAll {
        /// A label selector in the server's syntax. Empty: all objects.
        labels: String,
        /// `None`: the kind's default.
        propagation: Option<Propagation>,
    },
    /// An Event (`events.k8s.io/v1`) about the object.
    Event {
        /// The object's uid, where it is known.
        uid: Option<String>,
        /// True: the type is Warning. False: Normal.
        is_warning: bool,
        /// The reason in CamelCase, for machines.
        reason: String,
        /// The action that was taken.
        action: String,
        /// The text for people.
        note: String,
    },
}

/// An Event that the host has taken from an outcome and has not written yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TakenEvent {
    /// On whose behalf it is written.
    pub author: Arc<Author>,
    /// Its operation is [`Operation::Event`].
    pub write: Write,
}

/// A cluster's answer to a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteAnswer {
    /// The result of the write.
    pub result: ActionResult,
    /// A summary that quotes none of the server's own words, such as `HTTP 422 Invalid`. Set where
    /// the result's text is the server's own.
    pub status: Option<String>,
    /// For an apply: the object after it, as JSON, where the cluster returns it.
    pub object: Option<String>,
    /// The uid of an object that ceases to exist with this write: it was being deleted, and its
    /// last finalizer is gone. The server answers with the version that the object had before, from
    /// which this could not be told.
    pub ended: Option<String>,
    /// For a deletion of a collection: the objects that it has deleted, each with its uid. One that
    /// has finalizers is still there, and is being deleted.
    pub deleted: Vec<(ObjectKey, String)>,
    /// The kind of the object that was written, where it differs from the kind of the write: an
    /// Eviction is written on a Pod, a Scale on a Deployment.
    pub owner: Option<Kind>,
}

impl From<ActionResult> for WriteAnswer {
    fn from(result: ActionResult) -> Self {
        Self {
            result,
            status: None,
            object: None,
            ended: None,
            deleted: Vec::new(),
            owner: None,
        }
    }
}
