//! Nodes that the cache does not have, and since when. A watch may be late, so that their pods are
//! deleted only some time later, and only if the API server has no such node either.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::sweeps::Sweeps;

/// The nodes that are missing, by when that was first seen, in milliseconds since 1970. This is the
/// memo.
pub type Missing = BTreeMap<u64, BTreeSet<String>>;

/// Most nodes that one outcome has confirmed to be gone: the contract's limit.
const MOST_NODES: usize = 100;

/// Most bytes of names that are remembered: less than a memo may have. Nodes beyond it are noticed
/// when others are gone.
const MOST_BYTES: usize = 48 << 10;

/// The missing nodes, with the places of their pods.
pub struct Quarantine<'a> {
    pods: BTreeMap<&'a str, Vec<usize>>,
    missing: Missing,
    now: u64,
    time: u64,
}

/// What is to be deleted because its node is gone.
#[derive(Default)]
pub struct Released {
    pub nodes: Vec<String>,
    /// The places of the pods.
    pub pods: Vec<usize>,
    /// There are others, which were too many.
    pub is_more: bool,
}

impl<'a> Quarantine<'a> {
    /// Of the nodes of the orphaned pods. What has come back meanwhile is forgotten.
    pub fn of(memo: &Missing, sweeps: &'a Sweeps, now: Duration, time: Duration) -> Self {
        let (now, time) = (milliseconds(now), milliseconds(time));
        let mut pods: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for place in &sweeps.orphaned {
            let node = sweeps.pods[*place].node();
            pods.entry(node).or_default().push(*place);
        }
        let mut since: BTreeMap<&str, u64> = BTreeMap::new();
        for (first, names) in memo {
            since.extend(names.iter().map(|name| (name.as_str(), *first)));
        }
        let (known, new): (Vec<&str>, Vec<&str>) =
            pods.keys().partition(|node| since.contains_key(*node));
        let (mut missing, mut bytes) = (Missing::new(), 0);
        for node in known.into_iter().chain(new) {
            bytes += node.len() + 3;
            if bytes <= MOST_BYTES {
                let first = since.get(node).copied().unwrap_or(now);
                missing.entry(first).or_default().insert(node.to_owned());
            }
        }
        Self {
            pods,
            missing,
            now,
            time,
        }
    }

    /// Ends the quarantine of nodes whose time is over, those first that have been missing longest,
    /// until there are so many pods.
    pub fn release(&mut self, most: usize) -> Released {
        let mut released = Released::default();
        for first in self.over() {
            for node in self.missing.get(&first).cloned().unwrap_or_default() {
                let pods = &self.pods[&*node];
                let room = most - released.pods.len();
                if room == 0 || released.nodes.len() == MOST_NODES {
                    released.is_more = true;
                    return released;
                }
                released.pods.extend(pods.iter().take(room));
                released.nodes.push(node.clone());
                if pods.len() > room {
                    released.is_more = true;
                    return released;
                }
                self.forget(first, &node);
            }
        }
        released
    }

    /// How long it takes until the next node's time is over.
    pub fn next(&self) -> Option<Duration> {
        let first = self.missing.keys().next()?;
        let over = first.saturating_add(self.time);
        Some(Duration::from_millis(over.saturating_sub(self.now)))
    }

    /// What is to be remembered.
    pub fn into_missing(self) -> Missing {
        self.missing
    }

    fn over(&self) -> Vec<u64> {
        let firsts = self.missing.keys().copied();
        firsts
            .filter(|first| first.saturating_add(self.time) <= self.now)
            .collect()
    }

    fn forget(&mut self, first: u64, node: &str) {
        if let Some(nodes) = self.missing.get_mut(&first) {
            nodes.remove(node);
            if nodes.is_empty() {
                self.missing.remove(&first);
            }
        }
    }
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
