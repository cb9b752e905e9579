//! What a reconcile returns, and its configuration.

use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::host::{decode, query};
use crate::{
    Action, Failure, Filter, Next, ObjectRef, Outcome, Question, ReadError, Request, Stage,
};

impl Outcome {
    /// An outcome without actions. The key runs again when something it has read changes.
    #[must_use]
    pub fn done() -> Self {
        Self {
            stages: Vec::new(),
            confirm: Vec::new(),
            next: Next::OnChange,
            not_before: 0,
            settled: false,
            memo: None,
        }
    }

    /// Adds an action to the current stage. Actions on one object are done in this order, others
    /// side by side. What depends on others having succeeded belongs in a later [`stage`].
    ///
    /// [`stage`]: Self::stage
    #[must_use]
    pub fn with(mut self, action: impl Into<Action>) -> Self {
        if self.stages.is_empty() {
            self = self.stage();
        }
        if let Some(stage) = self.stages.last_mut() {
            stage.actions.push(action.into());
        }
        self
    }

    /// Begins the next stage. It is done when all actions so far have succeeded.
    #[must_use]
    pub fn stage(self) -> Self {
        self.begin(false)
    }

    /// Begins the next stage, which is done even if an earlier one has failed: for a status that
    /// is to be written in any case.
    #[must_use]
    pub fn always(self) -> Self {
        self.begin(true)
    }

    fn begin(mut self, always: bool) -> Self {
        self.stages.pop_if(|stage| stage.actions.is_empty());
        self.stages.push(Stage {
            actions: Vec::new(),
            always,
        });
        self
    }

    /// The actions of all stages.
    pub fn actions(&self) -> impl Iterator<Item = &Action> {
        self.stages.iter().flat_map(|stage| &stage.actions)
    }

    /// Runs this key again after this delay, even if nothing it has read has changed. The host
    /// counts whole milliseconds, and zero means no requeue. A key that repeatedly asks for less
    /// than a second waits longer each time, from 5 ms up to a second.
    #[must_use]
    pub fn requeue_after(mut self, delay: Duration) -> Self {
        self.next = Next::After(milliseconds(delay));
        self
    }

    /// Retries this key with back-off, as after [`Failure::Retry`], when the actions have been
    /// done. The message is for the operator.
    #[must_use]
    pub fn retry(mut self, message: impl Into<String>) -> Self {
        self.next = Next::Retry(message.into());
        self
    }

    /// Writes only if the API server itself, past every cache, has this object as the snapshot
    /// shows it: the same object (or still none), and being deleted only if the snapshot shows
    /// that. If not, nothing is done, and the key runs again on what the server has: that is no
    /// failure.
    #[must_use]
    pub fn confirm(mut self, object: &ObjectRef) -> Self {
        self.confirm.push(Question::Object(object.clone()));
        self
    }

    /// As [`confirm`](Self::confirm), and all is as it was that the plugin sees of the object: for
    /// a decision that rests on what another object says.
    #[must_use]
    pub fn confirm_unchanged(mut self, object: &ObjectRef) -> Self {
        self.confirm.push(Question::Unchanged(object.clone()));
        self
    }

    /// As [`confirm`](Self::confirm), for a list: are these still the objects of a kind that match?
    #[must_use]
    pub fn confirm_list(mut self, kind: &str, namespace: Option<&str>, filter: &Filter) -> Self {
        let query = query(kind, namespace, filter);
        self.confirm.push(Question::Objects(query));
        self
    }

    /// Runs this key no earlier than this time after the end of this run, whatever changes. What
    /// changes meanwhile is not lost: the key runs then. The host counts whole milliseconds, and
    /// waits an hour at most.
    #[must_use]
    pub fn not_before(mut self, delay: Duration) -> Self {
        self.not_before = milliseconds(delay);
        self
    }

    /// Nothing is left to do once the writes are accepted: the changes that they themselves make do
    /// not run this key. Without this they do, and that run finds nothing to do. What others change
    /// runs it in any case.
    ///
    /// For an outcome that makes things as they are to be, not for a step on the way: the host
    /// takes the controller's word for it. What this run has read is all that wakes the key, so it
    /// reads what the next one would. It does not hold if a write fails, not for deletions, and
    /// not with an apply or a patch that names no `metadata.resourceVersion`: what that changes
    /// cannot be told from what others change. `FakeCluster` runs the key again after such an
    /// outcome, and panics if that would write, read more, or ask for another time.
    #[must_use]
    pub fn settled(mut self) -> Self {
        self.settled = true;
        self
    }

    /// Gives the key's next reconcile this value as [`Request::memo`], as JSON of at most 64 KiB.
    /// The host may forget it at any time, so a controller must come to the same end without it.
    ///
    /// # Errors
    ///
    /// The value has no JSON form.
    pub fn remember(mut self, memo: &impl Serialize) -> Result<Self, serde_json::Error> {
        self.memo = Some(serde_json::to_string(memo)?);
        Ok(self)
    }
}

impl Failure {
    /// A failure after which the host retries, with a delay that doubles from 5 ms up to 1,000 s.
    /// The message is for the operator.
    pub fn retry(message: impl Into<String>) -> Self {
        Self::Retry(message.into())
    }

    /// A failure after which the host does not retry until something this key has read changes. The
    /// message is for the operator.
    pub fn terminal(message: impl Into<String>) -> Self {
        Self::Terminal(message.into())
    }
}

/// A terminal failure: a read that was denied would be refused again on every retry, and a kind
/// that becomes available again runs the key.
impl From<ReadError> for Failure {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Denied(message) => Self::Terminal(format!("denied: {message}")),
            ReadError::Unavailable(message) => Self::Terminal(format!("unavailable: {message}")),
        }
    }
}

/// A terminal failure, because the object could not be decoded on a retry either.
impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Self {
        Self::Terminal(error.to_string())
    }
}

impl Request {
    /// The object to look at, which may be gone.
    ///
    /// # Panics
    ///
    /// The plugin is a singleton: its only key has no object.
    #[must_use]
    pub fn key(&self) -> &ObjectRef {
        let key = self.key.as_ref();
        key.expect("a singleton's key has no object: use request.key where there may be none")
    }

    /// The key's own object, decoded as `T`, which needs only the fields that the controller uses.
    /// `None`: it is gone, or outside of what the manifest selects.
    ///
    /// # Errors
    ///
    /// The object cannot be decoded as `T`.
    pub fn object<T: DeserializeOwned>(&self) -> Result<Option<T>, Failure> {
        let object = self.object.as_deref();
        object.map(|json| decode(json, self.key())).transpose()
    }

    /// What this key's last outcome asked to be [remembered](Outcome::remember), decoded as `T`.
    /// `None`: nothing, or the host has forgotten it, or it is no `T`, as when another version of
    /// the plugin has written it.
    #[must_use]
    pub fn memo<T: DeserializeOwned>(&self) -> Option<T> {
        serde_json::from_str(self.memo.as_deref()?).ok()
    }

    /// Decodes the plugin's configuration.
    ///
    /// # Errors
    ///
    /// The configuration cannot be decoded as `T`. If the manifest has a `config_schema`, the host
    /// refuses a configuration that does not match it before the plugin sees it.
    pub fn configuration<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(&self.config)
    }
}

/// Whole milliseconds. A longer time than 64 bits can hold becomes the maximum.
pub(crate) fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
