//! Pods that were to be disrupted and were not: their condition `DisruptionTarget` is set back.

use std::time::Duration;

use pilothouse_sdk::{Failure, Host, Outcome, Patch, Request, rfc3339};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::objects::Pod;

const DISRUPTION_TARGET: &str = "DisruptionTarget";

/// The reason that the kubelet gives. From its condition to the pod's deletion any time may pass.
const BY_KUBELET: &str = "TerminationByKubelet";

/// Longest time that can be configured.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// What the operator can configure.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Config {
    /// How long after the condition was set a pod that is not being deleted was not disrupted.
    #[serde(default = "two_minutes")]
    stale_disruption_seconds: u64,
}

/// As upstream, where it cannot be changed.
fn two_minutes() -> u64 {
    120
}

impl Config {
    /// What is valid.
    pub fn schema() -> Value {
        json!({
            "type": "object", "additionalProperties": false,
            "properties": {
                "staleDisruptionSeconds": {
                    "type": "integer", "minimum": 1, "maximum": LONGEST.as_secs(),
                    "default": two_minutes(),
                },
            },
        })
    }
}

/// Decides what is to be done about one pod.
pub fn reconcile(request: &Request, host: &dyn Host) -> Result<Outcome, Failure> {
    let Some(pod) = request.object::<Pod>()? else {
        return Ok(Outcome::done());
    };
    let Some(since) = target_since(&pod) else {
        return Ok(Outcome::done());
    };
    let config: Config = request.configuration()?;
    let (now, timeout) = (
        host.now(),
        Duration::from_secs(config.stale_disruption_seconds),
    );
    match (since + timeout).checked_sub(now) {
        Some(remaining) if !remaining.is_zero() => Ok(Outcome::done().requeue_after(remaining)),
        _ => Ok(Outcome::done().with(reset(request, &pod, now)?)),
    }
}

/// Since when the pod has a condition that may become stale: it is still there as if nothing was to
/// happen to it.
fn target_since(pod: &Pod) -> Option<Duration> {
    let is_over = matches!(&*pod.status.phase, "Succeeded" | "Failed");
    let condition = pod.condition(DISRUPTION_TARGET)?;
    let is_set = condition.status == "True" && condition.reason != BY_KUBELET;
    let since = condition.last_transition_time.unwrap_or_default();
    (is_set && !is_over && !pod.is_deleted()).then_some(since.0)
}

/// The whole condition is written anew. As with upstream's update, a pod that has changed meanwhile
/// is looked at again.
fn reset(request: &Request, pod: &Pod, now: Duration) -> Result<Patch, Failure> {
    let generation = Some(pod.metadata.generation).filter(|generation| *generation != 0);
    let condition = json!({
        "type": DISRUPTION_TARGET, "status": "False", "lastTransitionTime": rfc3339(now),
        "observedGeneration": generation, "reason": null, "message": null, "lastProbeTime": null,
    });
    let body = json!({
        "metadata": {"resourceVersion": "seen"}, "status": {"conditions": [condition]},
    });
    Ok(Patch::strategic(request.key(), &body)?.subresource("status"))
}
