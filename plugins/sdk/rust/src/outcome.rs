//! What a reconcile returns, and what it was asked.

use std::time::Duration;

use serde::de::DeserializeOwned;

use crate::{Action, Failure, Outcome, ReadError, Request};

impl Outcome {
    /// Nothing to do until something that was read changes.
    #[must_use]
    pub fn done() -> Self {
        Self {
            actions: Vec::new(),
            requeue_after: None,
        }
    }

    /// One more action, after those before.
    #[must_use]
    pub fn with(mut self, action: impl Into<Action>) -> Self {
        self.actions.push(action.into());
        self
    }

    /// Run this key again after this time, even if nothing it read has changed.
    #[must_use]
    pub fn requeue_after(mut self, delay: Duration) -> Self {
        self.requeue_after = Some(milliseconds(delay));
        self
    }
}

impl Failure {
    /// Try again, later and later.
    pub fn retry(message: impl Into<String>) -> Self {
        Self::Retry(message.into())
    }

    /// Trying again is useless until something this key read changes.
    pub fn terminal(message: impl Into<String>) -> Self {
        Self::Terminal(message.into())
    }
}

/// A read that is denied, or asks for what the manifest does not declare, is denied again on every try.
impl From<ReadError> for Failure {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Denied(message) => Self::Terminal(format!("denied: {message}")),
            ReadError::UnknownIndex(message) => Self::Terminal(format!("unknown index: {message}")),
            ReadError::InvalidPointer(message) => {
                Self::Terminal(format!("invalid pointer: {message}"))
            }
        }
    }
}

/// An object that cannot be decoded cannot be decoded on the next try either.
impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Self {
        Self::Terminal(error.to_string())
    }
}

impl Request {
    /// The plugin's configuration.
    ///
    /// # Errors
    ///
    /// It is not of this type. With a `config-schema` in the manifest the host refuses such a configuration before.
    pub fn configuration<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(&self.config)
    }
}

/// Whole milliseconds; a time beyond what they can count is as good as never.
pub(crate) fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
