//! Deployments: maxSurge, maxUnavailable, Recreate and pause.

use std::collections::BTreeSet;

use pilothouse_tests::What;

use super::{Audit, Event};
use crate::facts::{Deployment, Facts, Of};

pub fn judge(audit: &mut Audit, event: &Event) {
    let Some(owner) = &event.now.owner else {
        return;
    };
    match (&event.now.of, owner.kind.as_str()) {
        (Of::Set(set), "Deployment") if event.what != What::Deleted => {
            let before = event.before.as_ref().map_or(0, |before| replicas(before));
            if set.replicas > before {
                no_more_than_surge(audit, event, &owner.uid);
            }
            if set.replicas != before || event.before.is_none() {
                nothing_while_paused(audit, event, &owner.uid);
            }
        }
        (Of::Pod(_), "ReplicaSet") => {
            let set = audit.cluster.track(&owner.uid);
            let latest = set.and_then(|set| set.versions().last());
            let above = latest.and_then(|set| set.owner.clone());
            let Some(above) = above.filter(|above| above.kind == "Deployment") else {
                return;
            };
            if event.is_taken {
                enough_stay_available(audit, event, &above.uid);
            }
            if event.before.is_none() {
                recreate_waits(audit, event, &above.uid, &owner.uid);
            }
        }
        _ => {}
    }
}

fn replicas(facts: &Facts) -> i64 {
    match &facts.of {
        Of::Set(set) => set.replicas,
        _ => 0,
    }
}

/// What the Deployment may be known to want; empty if it is gone.
fn wanted(audit: &Audit, event: &Event, deployment: &str) -> Vec<Deployment> {
    let Some(track) = audit.cluster.track(deployment) else {
        return Vec::new();
    };
    let spec = |facts: &Facts| match &facts.of {
        Of::Deployment(deployment) => Some(deployment.clone()),
        _ => None,
    };
    track.since(event.horizon).filter_map(spec).collect()
}

/// The sizes of ReplicaSets are written by the Deployment's controller alone. So whenever it makes
/// one larger, the sum of all stays within replicas and maxSurge.
fn no_more_than_surge(audit: &mut Audit, event: &Event, deployment: &str) {
    let wanted = wanted(audit, event, deployment);
    let limits = wanted.iter().map(|one| {
        let surge = one.limits.map_or(0, |(surge, _)| surge);
        one.replicas + surge
    });
    let Some(most) = limits.max() else {
        return;
    };
    let sets = audit.cluster.owned_now(deployment);
    let total: i64 = sets.map(|set| replicas(set)).sum();
    audit.check("a rollout stays within maxSurge", total <= most, || {
        format!("{} makes {total} pods of at most {most}", event.now.name)
    });
}

/// A ReplicaSet comes, or has another size, only if the Deployment was not paused, or its replicas
/// have changed, some time in what may be known.
fn nothing_while_paused(audit: &mut Audit, event: &Event, deployment: &str) {
    let wanted = wanted(audit, event, deployment);
    let Some(first) = wanted.first() else {
        return;
    };
    let same = |one: &Deployment| one.is_paused && one.replicas == first.replicas;
    let is_at_rest = wanted.iter().all(same);
    audit.check("a paused Deployment rolls nothing out", !is_at_rest, || {
        format!("{} is changed", event.now.name)
    });
}

/// If a pod is taken away that was available, replicas less maxUnavailable are left. Pods that
/// others have taken away and that may still seem available count; what the rollout itself has
/// taken away does not.
///
/// In the pod's own ReplicaSet, pods count that are ready but not yet available: as upstream's, its
/// ranking does not tell the two apart, and may keep the newer pod for the node that it is on.
///
/// While the Deployment is scaled nothing is judged: its ReplicaSets then shrink in proportion,
/// with rounding, whatever is available.
fn enough_stay_available(audit: &mut Audit, event: &Event, deployment: &str) {
    let wanted = wanted(audit, event, deployment);
    let Some(first) = wanted.first() else {
        return;
    };
    let is_scaled = wanted.iter().any(|one| one.replicas != first.replicas);
    let least = wanted.iter().map(|one| match one.limits {
        Some((_, unavailable)) => one.replicas - unavailable,
        None => 0,
    });
    let least = least.min().unwrap_or(0);
    let ready_for = first.min_ready_seconds;
    let pod = audit.cluster.track(&event.now.uid);
    if is_scaled || !pod.is_some_and(|pod| pod.was_surely_available(ready_for, event.horizon)) {
        return;
    }
    let sets: Vec<String> = {
        let sets = audit.cluster.owned(deployment);
        let latest = sets.filter_map(|set| set.versions().last());
        latest.map(|set| set.uid.clone()).collect()
    };
    let own_set = event.now.owner.as_ref().map(|owner| &owner.uid);
    let left = sets.iter().map(|set| {
        let is_own = own_set == Some(set);
        let ready_for = if is_own { 0 } else { ready_for };
        let pods = audit.cluster.owned(set);
        let left = pods.filter(|pod| pod.may_seem_available(ready_for, event.horizon, event.at));
        left.count()
    });
    let left: usize = left.sum();
    let rule = "a rollout stays within maxUnavailable";
    let holds = i64::try_from(left).is_ok_and(|left| left >= least);
    audit.check(rule, holds, || {
        format!("{} goes, which leaves {left} of {least}", event.now.name)
    });
}

/// With Recreate, a pod of a template comes when all pods of others have ended. One exception is
/// upstream's, too: a ReplicaSet that has been set to zero may have decided on a pod just before,
/// which goes at once.
fn recreate_waits(audit: &mut Audit, event: &Event, deployment: &str, set: &str) {
    let wanted = wanted(audit, event, deployment);
    let recreates = !wanted.is_empty() && wanted.iter().all(|one| one.limits.is_none());
    let is_meant = |uid: &str| {
        let set = audit.cluster.now(uid);
        set.is_some_and(|set| replicas(set) > 0)
    };
    if !recreates || !is_meant(set) {
        return;
    }
    let others = audit.cluster.owned_now(deployment);
    let others = others.filter(|other| other.uid != set && replicas(other) == 0);
    let others: BTreeSet<String> = others.map(|other| other.uid.clone()).collect();
    let running = others.iter().flat_map(|uid| audit.cluster.owned(uid));
    let running = running.filter(|pod| {
        let goes_on = pod
            .now()
            .and_then(|now| now.pod().map(|pod| !pod.has_ended()));
        // Decided on just before: it was created within what may be unknown.
        goes_on == Some(true) && pod.is_there_since(event.horizon)
    });
    let running: Vec<String> = running
        .filter_map(|pod| pod.now().map(|now| now.name.clone()))
        .collect();
    let rule = "Recreate waits until the old pods have ended";
    audit.check(rule, running.is_empty(), || {
        format!("{} comes beside {running:?}", event.now.name)
    });
}
