//! What the host asks of a cluster, as seen from the deciding side. `host/cluster` implements it against an API server.

use futures::future::BoxFuture;

use crate::key::{Kind, ObjectKey};
use crate::outcome::{ActionResult, PatchType, Propagation};

/// What the field manager of a plugin begins with, and the reporter of its Events: no plugin can call itself `kubectl` or `kubelet`
/// and so take what is theirs.
pub const FIELD_MANAGER_PREFIX: &str = "pilothouse.dev/";

/// On whose behalf a write is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Author {
    /// The plugin: it reports the Events, and has limits of its own.
    pub plugin: String,
    /// Who owns the fields that are written.
    pub field_manager: String,
    /// Whom the API server is to take it for (impersonation). None: the host itself.
    pub user: Option<String>,
}

impl Author {
    /// One that writes in its own name, with the host's rights.
    pub fn named(name: &str) -> Self {
        Self {
            plugin: name.to_owned(),
            field_manager: name.to_owned(),
            user: None,
        }
    }
}

/// One request that changes one object. It is made by [`crate::plan`], from a permitted action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// The object's kind.
    pub kind: Kind,
    /// The object. On create and apply it is also in the body.
    pub key: ObjectKey,
    /// `status`, `scale`, …; none for the object itself.
    pub subresource: Option<String>,
    /// What is to be done to it.
    pub operation: Operation,
}

/// What is done to an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Server-side apply.
    Apply {
        /// The applied fields, as JSON.
        object: String,
        /// Take fields another manager owns.
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
        /// Only the object with this uid.
        uid: Option<String>,
        /// Only at this resourceVersion.
        resource_version: Option<String>,
        /// None: the kind's default.
        propagation: Option<Propagation>,
        /// None: the object's default.
        grace_period_seconds: Option<u32>,
    },
    /// An Event (`events.k8s.io/v1`) about the object.
    Event {
        /// The object's uid, where it is known.
        uid: Option<String>,
        /// Normal or Warning.
        is_warning: bool,
        /// CamelCase, for machines.
        reason: String,
        /// What was done.
        action: String,
        /// For people.
        note: String,
    },
}

/// What a cluster says of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// What became of it.
    pub result: ActionResult,
    /// Where the result's text is the server's own: all that it says without quoting anything, as `HTTP 422 Invalid`.
    pub status: Option<String>,
    /// Of an apply: the object as it left it, as JSON, where the cluster shows it.
    pub object: Option<String>,
    /// The uid of an object that ends with this write: it was being deleted, and its last finalizer is gone. The server answers with
    /// the version that it had before, by which nobody could tell.
    pub ended: Option<String>,
    /// The kind of the object that was written, where it is not the write's: an Eviction is written
    /// on a Pod, a Scale on a Deployment.
    pub owner: Option<Kind>,
}

impl From<ActionResult> for Answer {
    fn from(result: ActionResult) -> Self {
        Self {
            result,
            status: None,
            object: None,
            ended: None,
            owner: None,
        }
    }
}

/// A cluster that can be written to.
pub trait Cluster: Send + Sync {
    /// Does one write and says what became of it. Never fails to answer: an error is a kind of [`ActionResult`]. A write whose outcome
    /// is unknown is not repeated.
    fn write<'a>(&'a self, author: &'a Author, write: &'a Write) -> BoxFuture<'a, Answer>;

    /// Reads one object from the cluster itself, past every cache: its JSON, or none if there is no such object.
    fn read<'a>(
        &'a self,
        kind: &'a Kind,
        key: &'a ObjectKey,
    ) -> BoxFuture<'a, Result<Option<String>, ReadFailure>>;
}

/// Why what the cluster has of an object is not known, in one line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadFailure {
    /// There was no answer, or none that says anything of the object. The next may.
    #[error("{0}")]
    NoAnswer(String),
    /// There will be no answer: the host may not read the object, or its kind is not served.
    #[error("{0}")]
    Refused(String),
}
