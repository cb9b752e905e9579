//! What the hub wants to know from the API server itself, past every watch.

use super::PluginId;
use super::gate::GateId;
use crate::cache::snapshot::{InformerId, Snapshot};
use crate::model::key::{Kind, ObjectKey, ResourceVersion};
use crate::model::subject_key::SubjectKey;

/// Objects to be fetched from the API server itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetch {
    /// The plugin of the key.
    pub plugin: PluginId,
    /// The key that the objects are fetched for.
    pub key: SubjectKey,
    /// Why they are fetched.
    pub purpose: Purpose,
    /// The objects.
    pub questions: Vec<Question>,
}

/// What a fetch is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The key waits at this write gate: it has written the objects, and no watch shows the writes.
    Gate(GateId),
    /// The key keeps failing on what the caches show of the objects. It does not wait for the
    /// answers.
    Repair,
    /// The API server has contradicted what a reconcile has seen of the objects, and the key is
    /// still held.
    Confirm,
}

/// An object to be fetched from the API server, and what the cache showed of it when the question
/// was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The informer whose cache is in question.
    pub informer: InformerId,
    /// The object's kind.
    pub kind: Kind,
    /// The object's key.
    pub key: ObjectKey,
    /// The resourceVersion that was cached; `None` if there was no object. An answer describes the
    /// time at which the question was asked. If the watch has brought something since, it is not
    /// known which of the two is newer.
    pub cached: Option<ResourceVersion>,
    /// The cache's resourceVersion when the question was asked.
    pub at: ResourceVersion,
    /// The object's uid, if it is known: that of the cached object, or that of the object which was
    /// deleted.
    pub uid: Option<Box<str>>,
}

impl Question {
    /// Asks what the API server has of this object, recording what the snapshot shows of it.
    pub(crate) fn of(snapshot: &Snapshot, informer: InformerId, key: ObjectKey) -> Self {
        let cache = &snapshot.informers[informer];
        let cached = cache.get(key.parts());
        Self {
            informer,
            kind: cache.kind().clone(),
            cached: cached.map(|object| object.resource_version().clone()),
            at: cache.resource_version().clone(),
            uid: cached.map(|object| object.uid().into()),
            key,
        }
    }
}

/// Why the state of an object in the cluster is not known, in one line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadFailure {
    /// There was no answer, or the answer does not tell anything about the object. A later attempt
    /// may succeed.
    #[error("{0}")]
    NoAnswer(String),
    /// There will be no answer: the host may not read the object, or its kind is not served.
    #[error("{0}")]
    Refused(String),
}
