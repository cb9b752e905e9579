//! How a pod is deleted: it has failed, and then it goes at once.

use std::time::Duration;

use pilothouse_sdk::{Delete, Failure, Outcome, Patch, Time};
use serde_json::{Value, json};

use crate::objects::Pod;

/// The condition that says that a pod was taken away by somebody, and did not fail by itself.
const DISRUPTION_TARGET: &str = "DisruptionTarget";

/// Deletes a pod without a grace period. One that has not ended is made to have failed before: an
/// orphan's phase would otherwise never change, as there is no kubelet to change it. If that fails,
/// it is not deleted.
pub fn fail_and_delete(
    mut outcome: Outcome,
    pod: &Pod,
    is_orphan: bool,
    now: Duration,
) -> Result<Outcome, Failure> {
    if !matches!(&*pod.status.phase, "Succeeded" | "Failed") {
        let mut status = json!({"phase": "Failed"});
        if pod.metadata.generation != 0 {
            status["observedGeneration"] = pod.metadata.generation.into();
        }
        if is_orphan {
            status["conditions"] = json!([node_is_gone(pod, now)?]);
        }
        let body = json!({"metadata": {"uid": pod.metadata.uid}, "status": status});
        outcome = outcome.with(Patch::strategic(&pod.key(), &body)?.subresource("status"));
    }
    let delete = Delete::new(&pod.key()).uid(&pod.metadata.uid);
    Ok(outcome.with(delete.grace_period(Duration::ZERO)))
}

/// The condition of a pod whose node is gone. Its time stays if there is one of this status.
fn node_is_gone(pod: &Pod, now: Duration) -> Result<Value, serde_json::Error> {
    let before = pod.condition(DISRUPTION_TARGET)?;
    let since = match before.filter(|before| before.status == "True") {
        Some(before) => before.last_transition_time,
        None => Some(Time(now)),
    };
    let mut condition = json!({
        "type": DISRUPTION_TARGET, "status": "True", "reason": "DeletionByPodGC",
        "message": "PodGC: node no longer exists", "lastProbeTime": null,
        "lastTransitionTime": since,
    });
    if pod.metadata.generation != 0 {
        condition["observedGeneration"] = pod.metadata.generation.into();
    }
    Ok(condition)
}
