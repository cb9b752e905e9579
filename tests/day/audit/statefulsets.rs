//! StatefulSets: one pod of each ordinal, in order, and maxUnavailable.

use std::collections::BTreeSet;

use super::{Audit, Event};
use crate::facts::{Facts, Of, Pod, StatefulSet};

pub fn judge(audit: &mut Audit, event: &Event) {
    let Some(owner) = &event.now.owner else {
        return;
    };
    if owner.kind != "StatefulSet" || event.now.pod().is_none() {
        return;
    }
    let Some(ordinal) = ordinal(&event.now) else {
        audit.check("a pod's name has its ordinal", false, || {
            event.now.name.clone()
        });
        return;
    };
    let wanted = wanted(audit, event, &owner.uid);
    if wanted.is_empty() {
        return;
    }
    if event.before.is_none() {
        one_of_each(audit, event, &owner.uid, ordinal, &wanted);
        in_order(audit, event, &owner.uid, ordinal, &wanted);
    } else if event.is_taken {
        a_reason_to_go(audit, event, &owner.uid, ordinal, &wanted);
    }
}

/// What the set may be known to want; empty if it is gone.
fn wanted(audit: &Audit, event: &Event, set: &str) -> Vec<StatefulSet> {
    let Some(track) = audit.cluster.track(set) else {
        return Vec::new();
    };
    let spec = |facts: &Facts| match &facts.of {
        Of::StatefulSet(set) => Some(set.clone()),
        _ => None,
    };
    track.since(event.horizon).filter_map(spec).collect()
}

/// The ordinal of a pod; a set manages claims and revisions, too.
fn ordinal(pod: &Facts) -> Option<i64> {
    pod.pod()?;
    pod.name.rsplit_once('-')?.1.parse().ok()
}

fn is_in_range(set: &StatefulSet, ordinal: i64) -> bool {
    (set.start..set.start + set.replicas).contains(&ordinal)
}

/// The pods of a set that are there now, ended or not, also of an earlier set of its name.
fn one_of_each(audit: &mut Audit, event: &Event, set: &str, own: i64, wanted: &[StatefulSet]) {
    let pods = audit.cluster.owned_now(set);
    let same = pods.filter(|pod| ordinal(pod) == Some(own)).count();
    audit.check("one pod of an ordinal", same == 1, || {
        format!("{same} of {}", event.now.name)
    });
    let is_wanted = wanted.iter().any(|one| is_in_range(one, own));
    audit.check("no pod of an ordinal that is not wanted", is_wanted, || {
        event.now.name.clone()
    });
}

/// In order, a pod comes when all before it were available, as far as may be known.
fn in_order(audit: &mut Audit, event: &Event, set: &str, own: i64, wanted: &[StatefulSet]) {
    if !wanted.iter().all(|one| one.is_ordered) {
        return;
    }
    let first = wanted.iter().map(|one| one.start).max().unwrap_or(0);
    let ready_for = wanted.iter().map(|one| one.min_ready_seconds).min();
    let ready_for = ready_for.unwrap_or(0);
    let pods = audit.cluster.owned(set);
    let well = pods.filter(|pod| pod.may_seem_available(ready_for, event.horizon, event.at));
    let well = well.filter_map(|pod| ordinal(pod.versions().last()?));
    let well: BTreeSet<i64> = well.collect();
    let missing: Vec<i64> = (first..own).filter(|one| !well.contains(one)).collect();
    let rule = "ordered pods come one after the other";
    audit.check(rule, missing.is_empty(), || {
        format!("{} comes before {missing:?} are well", event.now.name)
    });
}

/// A pod goes because it has ended, because its ordinal is not wanted, or for an update.
fn a_reason_to_go(audit: &mut Audit, event: &Event, set: &str, own: i64, wanted: &[StatefulSet]) {
    let track = audit.cluster.track(&event.now.uid);
    let has_ended = track.is_some_and(|track| {
        let mut pods = track.since(event.horizon).filter_map(Facts::pod);
        pods.any(Pod::has_ended)
    });
    if has_ended {
        return;
    }
    let unwanted = wanted.iter().filter(|one| !is_in_range(one, own)).count();
    if unwanted > 0 {
        // If some versions want it, it may go for an update.
        if unwanted == wanted.len() {
            from_the_top(audit, event, set, own, wanted);
        }
        return;
    }
    let hash = event.now.pod().map_or("", |pod| pod.hash.as_str());
    let set_track = audit.cluster.track(set);
    // The host may be killed between the first deletion for a new template and the status.
    let is_behind = set_track.is_some_and(|set| set.since(event.horizon).any(|one| one.is_behind));
    let is_outdated = |one: &StatefulSet| own >= one.partition && one.update_revision != hash;
    let is_old = is_behind || wanted.iter().any(is_outdated);
    audit.check(
        "a pod that is wanted goes for an update alone",
        is_old,
        || format!("{} at {hash}", event.now.name),
    );
    let most = wanted.iter().map(|one| one.max_unavailable).max();
    let most = most.unwrap_or(1);
    let missing = missing(audit, event, set, wanted);
    let holds = i64::try_from(missing.len()).is_ok_and(|missing| missing <= most);
    let rule = "an update stays within maxUnavailable";
    audit.check(rule, holds, || {
        format!("{} goes, and {missing:?} are missing", event.now.name)
    });
}

/// In order, a pod goes when none above it is there.
fn from_the_top(audit: &mut Audit, event: &Event, set: &str, own: i64, wanted: &[StatefulSet]) {
    if !wanted.iter().all(|one| one.is_ordered) {
        return;
    }
    let pods = audit.cluster.owned_now(set);
    let above = pods.filter(|pod| ordinal(pod).is_some_and(|other| other > own));
    let above: Vec<String> = above.map(|pod| pod.name.clone()).collect();
    let rule = "ordered pods go from the top";
    audit.check(rule, above.is_empty(), || {
        format!("{} goes before {above:?}", event.now.name)
    });
}

/// The ordinals that all versions want and of which no pod may seem available.
fn missing(audit: &Audit, event: &Event, set: &str, wanted: &[StatefulSet]) -> Vec<i64> {
    let ready_for = wanted.iter().map(|one| one.min_ready_seconds).min();
    let ready_for = ready_for.unwrap_or(0);
    let well: BTreeSet<i64> = {
        let pods = audit.cluster.owned(set);
        let well = pods.filter(|pod| pod.may_seem_available(ready_for, event.horizon, event.at));
        well.filter_map(|pod| ordinal(pod.versions().last()?))
            .collect()
    };
    let Some(first) = wanted.first() else {
        return Vec::new();
    };
    let ordinals = first.start..first.start + first.replicas;
    let ordinals = ordinals.filter(|one| wanted.iter().all(|set| is_in_range(set, *one)));
    ordinals.filter(|one| !well.contains(one)).collect()
}
