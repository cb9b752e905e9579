//! The namespace itself, whole, because updates replace it.

use std::time::Duration;

use pilothouse_sdk::{Condition, Failure, Metadata};
use serde::Deserialize;
use serde_json::{Value, json};

/// What the API server adds to each namespace, and the controller removes when it is empty.
const FINALIZER: &str = "kubernetes";

const TERMINATING: &str = "Terminating";

/// A namespace, with the status that it is to have.
pub struct Namespace {
    object: Value,
    metadata: Metadata,
    has_new_status: bool,
}

#[derive(Deserialize)]
struct Decoded {
    metadata: Metadata,
}

impl Namespace {
    pub fn new(object: Value) -> Result<Self, Failure> {
        let Decoded { metadata } = Decoded::deserialize(&object)?;
        Ok(Self {
            object,
            metadata,
            has_new_status: false,
        })
    }

    pub fn name(&self) -> &str {
        &self.metadata.name
    }

    pub fn object(&self) -> &Value {
        &self.object
    }

    /// When its deletion was asked for, since the Unix epoch.
    pub fn deleted_at(&self) -> Option<Duration> {
        self.metadata.deletion_timestamp.map(|time| time.0)
    }

    pub fn has_new_status(&self) -> bool {
        self.has_new_status
    }

    /// Whether nobody has anything left to do before it may go.
    pub fn is_finalized(&self) -> bool {
        let finalizers = self.object["spec"]["finalizers"].as_array();
        finalizers.is_none_or(Vec::is_empty)
    }

    /// The namespace without this controller's finalizer.
    pub fn finalized(&self) -> Value {
        let mut object = self.object.clone();
        let finalizers = object["spec"]["finalizers"].as_array();
        let others = finalizers.into_iter().flatten().filter_map(Value::as_str);
        let mut others: Vec<&str> = others.filter(|name| *name != FINALIZER).collect();
        others.sort_unstable();
        others.dedup();
        object["spec"]["finalizers"] = json!(others);
        object
    }

    pub fn mark_terminating(&mut self) {
        if self.object["status"]["phase"] != TERMINATING {
            self.object["status"]["phase"] = TERMINATING.into();
            self.has_new_status = true;
        }
    }

    pub fn conditions(&self) -> Vec<Condition> {
        let conditions = &self.object["status"]["conditions"];
        Vec::deserialize(conditions).unwrap_or_default()
    }

    pub fn set_conditions(&mut self, conditions: &[Condition]) {
        if self.conditions() != conditions {
            self.object["status"]["conditions"] = json!(conditions);
            self.has_new_status = true;
        }
    }
}
