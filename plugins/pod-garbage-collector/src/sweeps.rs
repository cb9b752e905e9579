//! The four sweeps: which pods are to be deleted, and why.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::objects::{Node, Pod};

/// The nodes that there are, and which of them are out of service.
pub struct Nodes(BTreeMap<String, bool>);

impl Nodes {
    pub fn of(nodes: Vec<Node>) -> Self {
        let nodes = nodes.into_iter();
        Self(
            nodes
                .map(|node| (node.metadata.name.clone(), node.is_out_of_service()))
                .collect(),
        )
    }
}

/// The pods that are looked at further, and the places of those of each sweep among them. A pod may
/// be in two sweeps.
#[derive(Default)]
pub struct Sweeps {
    pub pods: Vec<Pod>,
    /// Those that have ended.
    ended: Vec<usize>,
    /// Being deleted, on a node that is out of service.
    pub terminating: Vec<usize>,
    /// Being deleted, on no node.
    pub unscheduled: Vec<usize>,
    /// On a node that the cache does not have.
    pub orphaned: Vec<usize>,
}

impl Sweeps {
    /// Sorts a pod in.
    pub fn look_at(&mut self, pod: Pod, nodes: &Nodes) {
        let place = self.pods.len();
        let state = nodes.0.get(pod.node());
        let has_no_node = pod.node().is_empty();
        let ended = pod.has_ended().then_some(&mut self.ended);
        let stuck = if !has_no_node && state.is_none() {
            Some(&mut self.orphaned)
        } else if !pod.is_being_deleted() {
            None
        } else if has_no_node {
            Some(&mut self.unscheduled)
        } else {
            (state == Some(&true)).then_some(&mut self.terminating)
        };
        let mut is_kept = false;
        for sweep in [ended, stuck].into_iter().flatten() {
            sweep.push(place);
            is_kept = true;
        }
        if is_kept {
            self.pods.push(pod);
        }
    }

    /// Those that have ended and are more than may stay: evicted ones first, and then the oldest.
    pub fn surplus(&self, threshold: i64) -> Vec<usize> {
        let threshold = usize::try_from(threshold).unwrap_or(0);
        if threshold == 0 || self.ended.len() <= threshold {
            return Vec::new();
        }
        let mut ended = self.ended.clone();
        ended.sort_by_key(|place| {
            let pod = &self.pods[*place];
            let created = pod.metadata.creation_timestamp;
            (Reverse(pod.is_evicted()), created, &*pod.metadata.name)
        });
        ended.truncate(self.ended.len() - threshold);
        ended
    }
}
