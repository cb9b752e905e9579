//! How a pod is evicted: a condition says why, and then it is deleted.

use std::time::Duration;

use pilothouse_sdk::{Delete, Event, Failure, Outcome, Patch, Projection, Request, Time};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{Pod, REASON};

const DISRUPTION_TARGET: &str = "DisruptionTarget";
const BY_TAINT: &str = "DeletionByTaintManager";
const MESSAGE: &str = "Taint manager: deleting due to NoExecute taint";

/// An entry of a pod's conditions.
#[derive(Deserialize, Projection)]
#[serde(rename_all = "camelCase")]
pub struct PodCondition {
    r#type: String,
    status: String,
    #[serde(default)]
    reason: String,
    #[serde(default)]
    message: String,
    last_probe_time: Option<Time>,
    last_transition_time: Option<Time>,
}

impl PodCondition {
    /// True if it says that the pod is evicted because of a taint, and nothing else.
    fn is_ours(&self) -> bool {
        self.status == "True"
            && self.reason == BY_TAINT
            && self.message == MESSAGE
            && self.last_probe_time.is_none()
    }
}

impl Pod {
    /// Deletes the pod, with its own grace period, after it has the condition. A pod that has it
    /// and is being deleted is left to its kubelet.
    pub fn evict(
        &self,
        mut outcome: Outcome,
        request: &Request,
        now: Duration,
    ) -> Result<Outcome, Failure> {
        let key = request.key();
        let is_marked = self.disruption().is_some_and(PodCondition::is_ours);
        if is_marked && self.metadata.always.deletion_timestamp.is_some() {
            return Ok(outcome);
        }
        // A retry is no news.
        if request.attempt == 1 {
            let note = format!("Marking for deletion Pod {}/{}", key.namespace, key.name);
            outcome = outcome.with(Event::normal(key, REASON, "Delete", &note));
        }
        let uid = &self.metadata.always.uid;
        if !is_marked {
            let conditions = [self.mark(now)];
            let body = json!({"metadata": {"uid": uid}, "status": {"conditions": conditions}});
            outcome = outcome.with(Patch::strategic(key, &body)?.subresource("status"));
        }
        Ok(outcome.with(Delete::new(key).uid(uid)))
    }

    fn disruption(&self) -> Option<&PodCondition> {
        let mut conditions = self.status.conditions.iter();
        conditions.find(|condition| condition.r#type == DISRUPTION_TARGET)
    }

    /// The condition. Its time stays if there is one of this status.
    fn mark(&self, now: Duration) -> Value {
        let before = self.disruption().filter(|before| before.status == "True");
        let since = match before {
            Some(before) => before.last_transition_time,
            None => Some(Time(now)),
        };
        let mut condition = json!({
            "type": DISRUPTION_TARGET, "status": "True", "reason": BY_TAINT, "message": MESSAGE,
            "lastProbeTime": null, "lastTransitionTime": since,
        });
        if self.metadata.generation != 0 {
            condition["observedGeneration"] = self.metadata.generation.into();
        }
        condition
    }
}
