//! Deletes the pods that do not tolerate a taint of their node with the effect `NoExecute`, or that
//! have tolerated it long enough.
//!
//! The rules are those of kube-controller-manager's taint eviction controller
//! (`pkg/controller/tainteviction` in kubernetes/kubernetes). The README lists the differences.

mod eviction;
mod tolerance;

use std::time::Duration;

use pilothouse_sdk::{
    Controller, Event, Failure, Host, Kind, Manifest, Metadata, Outcome, Projection, Request,
    Selection, Verb,
};
use serde::Deserialize;
use workloads::scheduling::{NO_EXECUTE, Taint};

use eviction::PodCondition;
use tolerance::{PodToleration, Tolerance};

/// The reason of all Events.
const REASON: &str = "TaintManagerEviction";

#[derive(Deserialize, Projection)]
#[projection(kind = "v1/Pod")]
struct Pod {
    metadata: PodMetadata,
    spec: PodSpec,
    #[serde(default)]
    status: PodStatus,
}

#[derive(Deserialize, Projection)]
struct PodMetadata {
    #[serde(flatten)]
    always: Metadata,
    #[serde(default)]
    generation: i64,
}

#[derive(Deserialize, Projection)]
#[serde(rename_all = "camelCase")]
struct PodSpec {
    /// Not empty: others are not selected.
    node_name: String,
    #[serde(default)]
    #[projection(whole)]
    tolerations: Vec<PodToleration>,
}

#[derive(Default, Deserialize, Projection)]
#[serde(default)]
struct PodStatus {
    conditions: Vec<PodCondition>,
}

#[derive(Deserialize, Projection)]
#[projection(kind = "v1/Node")]
struct Node {
    #[serde(default)]
    spec: NodeSpec,
}

#[derive(Default, Deserialize, Projection)]
#[serde(default)]
struct NodeSpec {
    taints: Vec<Taint>,
}

/// The taint eviction controller.
pub struct TaintEviction;

impl Controller for TaintEviction {
    fn manifest() -> Manifest {
        Manifest::new(
            "taint-eviction",
            env!("CARGO_PKG_VERSION"),
            Selection::of(Pod::KIND).field_selector("spec.nodeName!="),
        )
        .reads_selected_as::<Pod>()
        .reads_as::<Node>()
        .writes(Pod::KIND, [Verb::Delete])
        .writes_subresource(Pod::KIND, "status", [Verb::Patch])
    }

    fn reconcile(request: &Request, host: &dyn Host) -> Result<Outcome, Failure> {
        let Some(pod) = request.object::<Pod>()? else {
            return Ok(Outcome::done());
        };
        // When the pod is to be deleted, in milliseconds since 1970, as decided by a run before.
        let planned: Option<u64> = request.memo();
        let now = milliseconds(host.now());
        let time = match host.get_as::<Node>("", &pod.spec.node_name)? {
            Some(node) => time_to_go(&pod, &node, planned, now),
            // What was planned is done, though the node is gone.
            None => planned.map_or(Time::Never, Time::At),
        };
        match time {
            Time::At(time) if time > now => {
                let wait = Duration::from_millis(time - now);
                Ok(Outcome::done().requeue_after(wait).remember(&time)?)
            }
            // Remembered, so that the next run continues if this one's writes fail.
            Time::At(time) => Ok(pod
                .evict(Outcome::done(), request, host.now())?
                .remember(&time)?),
            Time::Never => Ok(cancelled(request, planned, now)),
            Time::AtOnce => pod.evict(cancelled(request, planned, now), request, host.now()),
        }
    }
}

pilothouse_sdk::register!(TaintEviction);

/// When a pod is to be deleted.
enum Time {
    Never,
    /// It does not tolerate a taint.
    AtOnce,
    /// In milliseconds since 1970: when it has tolerated the taints long enough.
    At(u64),
}

/// What was planned stays, whatever the tolerations say by now, as long as there is a taint that is
/// tolerated for some time.
fn time_to_go(pod: &Pod, node: &Node, planned: Option<u64>, now: u64) -> Time {
    let taints = node.spec.taints.iter();
    let taints = taints.filter(|taint| taint.effect == NO_EXECUTE);
    match Tolerance::of(taints, &pod.spec.tolerations) {
        Tolerance::None => Time::AtOnce,
        Tolerance::Forever => Time::Never,
        Tolerance::For(time) => {
            let from_now = || now.saturating_add(milliseconds(time));
            Time::At(planned.unwrap_or_else(from_now))
        }
    }
}

/// An outcome that says that what was planned will not be done, if something was that has not been
/// done yet.
fn cancelled(request: &Request, planned: Option<u64>, now: u64) -> Outcome {
    if planned.is_none_or(|time| time <= now) {
        return Outcome::done();
    }
    let key = request.key();
    let note = format!("Cancelling deletion of Pod {}/{}", key.namespace, key.name);
    Outcome::done().with(Event::normal(key, REASON, "CancelDeletion", &note))
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
