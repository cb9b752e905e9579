//! A Job's status as it changes, and as it is written.

use std::time::Duration;

use pilothouse_sdk::{ObjectRef, Patch, Time};
use serde_json::{Map, Value, json};

use crate::objects::{JobCondition, JobStatus};

impl JobCondition {
    /// A true condition since now.
    pub fn new(r#type: &str, reason: &str, message: &str, now: Duration) -> Self {
        Self {
            r#type: r#type.to_owned(),
            status: "True".to_owned(),
            last_probe_time: Some(seconds(now)),
            last_transition_time: Some(seconds(now)),
            reason: reason.to_owned(),
            message: message.to_owned(),
            others: std::collections::BTreeMap::new(),
        }
    }
}

/// A time as it is written: in whole seconds.
pub fn seconds(time: Duration) -> Time {
    Time(Duration::from_secs(time.as_secs()))
}

impl JobStatus {
    /// Makes the condition so. Returns whether it was different. One that is not there is not added
    /// to say that it is false.
    pub fn ensure(&mut self, wanted: JobCondition) -> bool {
        let mut have = self.conditions.iter_mut();
        match have.find(|have| have.r#type == wanted.r#type) {
            Some(have) => {
                let says = |condition: &JobCondition| {
                    let JobCondition {
                        status,
                        reason,
                        message,
                        ..
                    } = condition;
                    (status.clone(), reason.clone(), message.clone())
                };
                let is_different = says(have) != says(&wanted);
                if is_different {
                    *have = wanted;
                }
                is_different
            }
            None if wanted.status == "False" => false,
            None => {
                self.conditions.push(wanted);
                true
            }
        }
    }

    /// What has to be written to get from `before` to this status, if they differ. The Job must
    /// still be as it was seen.
    pub fn patch(
        &self,
        before: &Self,
        job: &ObjectRef,
    ) -> Result<Option<Patch>, serde_json::Error> {
        let (before, after) = (serde_json::to_value(before)?, serde_json::to_value(self)?);
        let Some(changes) = changes(&before, &after) else {
            return Ok(None);
        };
        // Any version stands for the one that was seen.
        let body = json!({"metadata": {"resourceVersion": "seen"}, "status": changes});
        Ok(Some(Patch::merge(job, &body)?.subresource("status")))
    }
}

/// The merge patch from one document to another, if they differ.
fn changes(before: &Value, after: &Value) -> Option<Value> {
    if before == after {
        return None;
    }
    let (Value::Object(had), Value::Object(has)) = (before, after) else {
        return Some(after.clone());
    };
    let mut patch = Map::new();
    for name in had.keys().filter(|name| !has.contains_key(*name)) {
        patch.insert(name.clone(), Value::Null);
    }
    for (name, value) in has {
        let before = had.get(name).unwrap_or(&Value::Null);
        if let Some(change) = changes(before, value) {
            patch.insert(name.clone(), change);
        }
    }
    Some(Value::Object(patch))
}
