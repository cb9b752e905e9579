//! How far a pod has come, and what is to come of it.

use std::time::Duration;

use serde_json::Value;

use crate::Random;

/// Annotations of a pod with this prefix say what becomes of it; times are in milliseconds.
///
/// | annotation | meaning | without it |
/// |---|---|---|
/// | `ready-after` | from running until ready; `never` | ready as soon as it runs |
/// | `ends` | the phase in which it ends, `Succeeded` or `Failed` | it does not end |
/// | `ends-after` | from running until that | 300 |
/// | `fails-percent` | of pods that end, so many of a hundred fail | 0 |
/// | `fails-index` | the pod of this completion index always fails | |
/// | `stops-after` | from the deletion until it has ended, at most the grace period | 100 |
pub const PLAN: &str = "kubelet.test/";

/// How far a pod has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// No node has been chosen for it.
    Unscheduled,
    /// Its node has it, and nothing runs yet.
    Starting,
    /// It runs and is not ready.
    NotReady,
    /// It runs, and is ready if it ever will be.
    Running,
    /// Its containers have been asked to end.
    Stopping,
    /// Its containers have been asked to end, and have ended.
    Stopped,
    /// It is ready, as far as is known, on a node that is gone.
    Unwell,
    /// It is on a node that is gone, and is not ready.
    Lost,
    /// It has ended, and nobody looks after it.
    Left,
    /// Nothing is to be done.
    Over,
}

pub(super) fn stage_of(pod: &Value, is_node: impl Fn(&str) -> bool) -> Stage {
    let has_ended = matches!(phase(pod), "Succeeded" | "Failed");
    let is_asked = pod["metadata"]["deletionTimestamp"].is_string();
    let is_removed = is_asked && is_due(pod);
    let is_kept = pod["metadata"]["finalizers"].is_array();
    let Some(node) = pod["spec"]["nodeName"].as_str() else {
        return match (is_removed, is_asked || has_ended) {
            (true, _) if !is_kept => Stage::Stopped,
            (_, true) => Stage::Over,
            (_, false) => Stage::Unscheduled,
        };
    };
    match (has_ended, is_asked) {
        _ if is_removed && is_kept => Stage::Over,
        _ if is_removed => Stage::Stopped,
        (true, true) => Stage::Stopped,
        (true, false) if is_left(pod) => Stage::Left,
        (true, false) if is_node(node) => Stage::Over,
        (true, false) => Stage::Left,
        (false, _) if !is_node(node) && is_ready(pod) => Stage::Unwell,
        (false, _) if !is_node(node) => Stage::Lost,
        (false, true) => Stage::Stopping,
        (false, false) if phase(pod) != "Running" => Stage::Starting,
        (false, false) if !is_ready(pod) && turns_ready_later(pod) => Stage::NotReady,
        (false, false) => Stage::Running,
    }
}

/// How long a pod stays at its stage; none: for ever.
pub(super) fn wait(pod: &Value, stage: &Stage, random: &mut Random) -> Option<Duration> {
    // No two pods take the same time.
    let mut about = |name: &str, otherwise: u64| {
        let time = number(pod, name).unwrap_or(otherwise);
        Duration::from_millis(time / 2) + random.milliseconds(time.max(1))
    };
    match stage {
        Stage::Unscheduled => Some(about("", 10)),
        Stage::Starting => Some(about("", 40)),
        Stage::NotReady => Some(about("ready-after", 100)),
        Stage::Running if text(pod, "ends").is_some() => Some(about("ends-after", 300)),
        Stage::Stopping => {
            let grace = pod["metadata"]["deletionGracePeriodSeconds"].as_u64();
            let grace = Duration::from_secs(grace.unwrap_or_default());
            Some(about("stops-after", 100).min(grace))
        }
        // The server is about to remove it by itself, unless it was killed between the two writes
        // that this takes.
        Stage::Stopped if is_due(pod) => Some(about("", 1000)),
        Stage::Stopped => Some(Duration::ZERO),
        Stage::Unwell => Some(about("", 200)),
        Stage::Lost => Some(about("", 600)),
        Stage::Left => Some(about("", 1500)),
        Stage::Running | Stage::Over => None,
    }
}

/// Whether a pod that is being deleted has no time left to end.
fn is_due(pod: &Value) -> bool {
    pod["metadata"]["deletionGracePeriodSeconds"] == 0
}

/// The phase in which a pod ends that ends by itself.
pub(super) fn end(pod: &Value) -> String {
    let index = &pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"];
    let fails_always = text(pod, "fails-index").is_some_and(|fails| index == fails);
    // The same for one pod each time it is asked.
    let uid = pod["metadata"]["uid"].as_str().unwrap_or_default();
    let seed = uid.bytes().fold(0u64, |sum, byte| {
        sum.wrapping_mul(31).wrapping_add(byte.into())
    });
    if fails_always || Random(seed).percent(number(pod, "fails-percent").unwrap_or_default()) {
        return "Failed".to_owned();
    }
    text(pod, "ends").unwrap_or("Succeeded").to_owned()
}

/// Whether a pod is ready as soon as it runs.
pub(super) fn turns_ready(pod: &Value) -> bool {
    text(pod, "ready-after").is_none()
}

fn turns_ready_later(pod: &Value) -> bool {
    text(pod, "ready-after") != Some("never")
}

/// The node that a pod's affinity names, as of DaemonSets.
pub(super) fn pinned_to(pod: &Value) -> Option<String> {
    let required =
        &pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    let field = &required["nodeSelectorTerms"][0]["matchFields"][0];
    field["values"][0].as_str().map(str::to_owned)
}

/// Whether a pod that has ended stays until somebody cleans up.
fn is_left(pod: &Value) -> bool {
    let owners = pod["metadata"]["ownerReferences"].as_array();
    let kind = owners.and_then(|owners| owners.first()?["kind"].as_str());
    matches!(kind, Some("ReplicaSet" | "ReplicationController"))
}

fn is_ready(pod: &Value) -> bool {
    let all = pod["status"]["conditions"].as_array().into_iter().flatten();
    let mut ready = all.filter(|one| one["type"] == "Ready");
    ready.any(|one| one["status"] == "True")
}

fn phase(pod: &Value) -> &str {
    pod["status"]["phase"].as_str().unwrap_or_default()
}

fn text<'a>(pod: &'a Value, name: &str) -> Option<&'a str> {
    pod["metadata"]["annotations"][format!("{PLAN}{name}")].as_str()
}

fn number(pod: &Value, name: &str) -> Option<u64> {
    text(pod, name)?.parse().ok()
}
