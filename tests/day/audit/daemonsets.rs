//! DaemonSets: one pod on each node, maxSurge and maxUnavailable.

use std::collections::BTreeSet;

use super::{Audit, Event, Track};
use crate::facts::{DaemonSet, Facts, Of, Pod};

pub fn judge(audit: &mut Audit, event: &Event) {
    let Some(owner) = &event.now.owner else {
        return;
    };
    let node = event.now.pod().and_then(|pod| pod.node.clone());
    let (true, Some(node)) = (owner.kind == "DaemonSet", node) else {
        return;
    };
    let Some(set) = wanted(audit, event, &owner.uid) else {
        return;
    };
    if event.before.is_none() {
        one_on_each_node(audit, event, &owner.uid, &node, &set);
    } else if event.is_taken {
        enough_stay(audit, event, &owner.uid, &node, &set);
    }
}

/// What the set wants; its limits do not change in a day. None: it is gone.
fn wanted(audit: &Audit, event: &Event, set: &str) -> Option<DaemonSet> {
    let track = audit.cluster.track(set)?;
    let spec = |facts: &Facts| match &facts.of {
        Of::DaemonSet(set) => Some(set.clone()),
        _ => None,
    };
    track.since(event.horizon).filter_map(spec).last()
}

fn is_on(track: &Track, node: &str) -> bool {
    let pod = track.versions().last().and_then(Facts::pod);
    pod.is_some_and(|pod| pod.node.as_deref() == Some(node))
}

/// Without surge a pod comes when none of the set is left on its node; what has ended and is being
/// deleted is not left, as upstream. With surge it may be the
/// second that goes on there; and of these, as many come beside pods that are available as maxSurge
/// says.
fn one_on_each_node(audit: &mut Audit, event: &Event, owner: &str, node: &str, set: &DaemonSet) {
    let there = audit.cluster.owned(owner).filter(|pod| is_on(pod, node));
    let there: Vec<&Facts> = there
        .filter_map(|pod| pod.now().map(|pod| &**pod))
        .filter(|pod| !(pod.is_deleting && pod.pod().is_some_and(Pod::has_ended)))
        .collect();
    let going_on = there.iter().filter(|pod| pod.is_active()).count();
    let (all, name) = (there.len(), &event.now.name);
    if set.max_surge == 0 {
        audit.check("one daemon on a node", all == 1, || {
            format!("{name} is one of {all} on {node}")
        });
        return;
    }
    audit.check(
        "a daemon and its successor on a node",
        going_on <= 2,
        || format!("{name} is one of {going_on} on {node}"),
    );
    let surging = surging(audit, event, owner, set);
    let holds = i64::try_from(surging.len()).is_ok_and(|count| count <= set.max_surge);
    audit.check("an update of daemons stays within maxSurge", holds, || {
        format!("{name} makes it {surging:?}")
    });
}

/// The nodes with a pod that was surely available, and another that goes on and never was.
fn surging(audit: &Audit, event: &Event, owner: &str, set: &DaemonSet) -> BTreeSet<String> {
    let ready_for = set.min_ready_seconds;
    let node_of = |track: &Track| track.now().and_then(|pod| pod.pod()?.node.clone());
    let now = |track: &&Track| track.now().is_some_and(|pod| pod.is_active());
    let pods = audit.cluster.owned(owner).filter(now);
    let old = pods.filter(|pod| pod.was_surely_available(ready_for, event.horizon));
    let old: BTreeSet<String> = old.filter_map(node_of).collect();
    let pods = audit.cluster.owned(owner).filter(now);
    let new = pods.filter(|pod| !pod.may_seem_available(ready_for, event.horizon, event.at));
    let new: BTreeSet<String> = new.filter_map(node_of).collect();
    old.intersection(&new).cloned().collect()
}

/// A pod that was available goes, as long as its node is there, for an update. With surge its
/// successor is available; without, no more than maxUnavailable nodes have none then.
fn enough_stay(audit: &mut Audit, event: &Event, owner: &str, node: &str, set: &DaemonSet) {
    let nodes = audit
        .cluster
        .all()
        .filter(|node| node.is_there_since(event.horizon));
    let nodes = nodes.filter_map(|node| node.now());
    let nodes = nodes.filter(|node| matches!(node.of, Of::Node));
    let nodes: BTreeSet<String> = nodes.map(|node| node.name.clone()).collect();
    let pod = audit.cluster.track(&event.now.uid);
    let ready_for = set.min_ready_seconds;
    let was_well = pod.is_some_and(|pod| pod.was_surely_available(ready_for, event.horizon));
    if !was_well || !nodes.contains(node) {
        return;
    }
    let is_well = |pod: &&Track| pod.may_seem_available(ready_for, event.horizon, event.at);
    let name = &event.now.name;
    if set.max_surge > 0 {
        let holds = {
            let mut others = audit.cluster.owned(owner).filter(is_well);
            others.any(|pod| is_on(pod, node))
        };
        audit.check(
            "a daemon stays until its successor is available",
            holds,
            || format!("{name} leaves {node} alone"),
        );
        return;
    }
    let well = audit.cluster.owned(owner).filter(is_well);
    let well = well.filter_map(|pod| pod.versions().last()?.pod()?.node.clone());
    let well: BTreeSet<String> = well.collect();
    let missing: Vec<&String> = nodes.difference(&well).collect();
    let holds = i64::try_from(missing.len()).is_ok_and(|count| count <= set.max_unavailable);
    let rule = "an update of daemons stays within maxUnavailable";
    audit.check(rule, holds, || {
        format!("{name} goes, and {missing:?} have none")
    });
}
