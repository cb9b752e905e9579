//! ReplicaSets and ReplicationControllers: never a pod too many, never one too few by their doing.

use k8s_openapi::jiff::Timestamp;

use super::{Audit, Event, Track};
use crate::facts::{Facts, Of};

pub fn judge(audit: &mut Audit, event: &Event) {
    let Some(owner) = &event.now.owner else {
        return;
    };
    let of_set = matches!(owner.kind.as_str(), "ReplicaSet" | "ReplicationController");
    if event.now.pod().is_none() || !of_set {
        return;
    }
    if event.before.is_none() && event.now.is_active() {
        no_pod_too_many(audit, event, &owner.uid);
    }
    let was_active = event.before.as_ref().is_some_and(|pod| pod.is_active());
    if event.is_taken && was_active {
        no_pod_too_few(audit, event, &owner.uid);
    }
}

/// The replicas that the set may be known to want.
fn wanted(set: &Track, horizon: Timestamp) -> Vec<i64> {
    let replicas = |facts: &Facts| match &facts.of {
        Of::Set(set) => Some(set.replicas),
        _ => None,
    };
    set.since(horizon).filter_map(replicas).collect()
}

/// Active pods only become fewer by what others do. So a set that believes that one is missing is
/// right about it, unless its caches lack pods that it has created itself.
fn no_pod_too_many(audit: &mut Audit, event: &Event, set: &str) {
    let active = audit.cluster.owned_now(set);
    let active = active.filter(|pod| pod.is_active()).count();
    let Some(track) = audit.cluster.track(set) else {
        return;
    };
    // None: it is gone, and this was under way.
    let Some(most) = wanted(track, event.horizon).into_iter().max() else {
        return;
    };
    let rule = "a ReplicaSet creates no pod above its replicas";
    let holds = i64::try_from(active).is_ok_and(|active| active <= most);
    audit.check(rule, holds, || {
        format!("{} makes {active} of {most}", event.now.name)
    });
}

/// What is deleted is surplus. Pods that others have just taken away may still count as there.
fn no_pod_too_few(audit: &mut Audit, event: &Event, set: &str) {
    let seems_active =
        |track: &&Track| track.taken.is_none() && track.since(event.horizon).any(Facts::is_active);
    let active = audit.cluster.owned(set).filter(seems_active).count();
    let Some(track) = audit.cluster.track(set) else {
        return;
    };
    let Some(least) = wanted(track, event.horizon).into_iter().min() else {
        return;
    };
    let rule = "a ReplicaSet deletes no pod that it wants";
    let holds = i64::try_from(active).is_ok_and(|active| active >= least);
    audit.check(rule, holds, || {
        format!("{} goes, which leaves {active} of {least}", event.now.name)
    });
}
