//! How long a failed pod stays until it is deleted, so that the controller does not fight with a
//! kubelet that refuses the pod. It is the memo of a DaemonSet: when the host forgets it, the next
//! failed pod of a node is deleted at once.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::objects::DaemonSet;

/// The wait after the first failed pod of a node; it doubles with each.
const FIRST: Duration = Duration::from_secs(1);
/// The longest wait. After twice this time without a failed pod, a node begins anew.
const LONGEST: Duration = Duration::from_secs(15 * 60);
/// A memo has at most 64 KiB; this much of it is for the nodes.
const MEMO_SIZE: usize = 60 * 1024;
/// What a node takes in a memo besides its name: quotes, punctuation, and two numbers.
const ENTRY_SIZE: usize = 32;

/// The nodes of a DaemonSet whose failed pods wait, or have waited.
#[derive(Default, Deserialize, Serialize)]
pub struct BackOff {
    /// The DaemonSet's uid.
    uid: String,
    /// The generation that its status had observed: a new template begins anew.
    generation: i64,
    /// When the last failed pod of a node was deleted, since the Unix epoch, and how long the next
    /// one waits from then on. Milliseconds.
    nodes: BTreeMap<String, (u64, u64)>,
}

impl BackOff {
    /// What is remembered, if it is of this DaemonSet and generation.
    pub fn of(memo: Option<Self>, daemon_set: &DaemonSet) -> Self {
        let uid = daemon_set.uid();
        let generation = daemon_set.status.observed_generation;
        let is_ours = |memo: &Self| memo.uid == uid && memo.generation == generation;
        memo.filter(is_ours).unwrap_or_else(|| Self {
            uid: uid.to_owned(),
            generation,
            nodes: BTreeMap::new(),
        })
    }

    /// How long a failed pod of this node has to wait. `None`: it is deleted now.
    pub fn remaining(&self, node: &str, now: Duration) -> Option<Duration> {
        let (deleted, wait) = self.entry(node, now)?;
        let remaining = (deleted + wait).checked_sub(now)?;
        Some(remaining).filter(|time| !time.is_zero())
    }

    /// A failed pod of this node is deleted now: the next one waits, twice as long as this one.
    pub fn begin(&mut self, node: &str, now: Duration) {
        let wait = self.entry(node, now).map_or(FIRST, |(_, wait)| wait * 2);
        let entry = (milliseconds(now), milliseconds(wait.min(LONGEST)));
        self.nodes.insert(node.to_owned(), entry);
    }

    /// What is to be remembered: nodes that have not begun anew, as many as a memo can hold, the
    /// last ones first. `None`: nothing.
    pub fn memo(mut self, now: Duration) -> Option<Self> {
        let current: Vec<(u64, String)> = self
            .nodes
            .keys()
            .filter_map(|node| Some((milliseconds(self.entry(node, now)?.0), node.clone())))
            .collect();
        let mut newest_first = current;
        newest_first.sort_by(|a, b| b.cmp(a));
        let mut size = 0;
        let kept: BTreeSet<String> = newest_first
            .into_iter()
            .map(|(_, node)| node)
            .take_while(|node| {
                size += node.len() + ENTRY_SIZE;
                size <= MEMO_SIZE
            })
            .collect();
        self.nodes.retain(|node, _| kept.contains(node));
        Some(self).filter(|memo| !memo.nodes.is_empty())
    }

    /// When the last failed pod of this node was deleted, and how long the next one waits.
    fn entry(&self, node: &str, now: Duration) -> Option<(Duration, Duration)> {
        let (deleted, wait) = self.nodes.get(node)?;
        let (deleted, wait) = (
            Duration::from_millis(*deleted),
            Duration::from_millis(*wait),
        );
        let is_current = now.saturating_sub(deleted) <= 2 * LONGEST;
        is_current.then_some((deleted, wait))
    }
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
