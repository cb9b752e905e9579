//! What a budget's key remembers from one reconcile to the next. Without it, Events are repeated,
//! and nothing else changes.

use pilothouse_sdk::{Event, fnv32a};
use serde::{Deserialize, Serialize};

use crate::objects::{Budget, Pod};

/// Most pods that are remembered: a memo has at most 64 KiB.
const MAX_PODS: usize = 5_000;

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Memo {
    /// The texts of the Events about the budget that the state of the cluster gives rise to. They
    /// are written once, and again when they have been untrue meanwhile.
    told: Vec<String>,
    /// The budget's generation, and the pods that were compared with all budgets of the namespace,
    /// as hashes of their uids.
    generation: i64,
    pods: Vec<u32>,
    /// True if the last write was that of the fail-safe.
    pub is_fail_safe: bool,
}

impl Memo {
    /// What is to be remembered of a budget with these pods, once all of them have been compared.
    pub fn of(budget: &Budget, pods: &[Pod]) -> Self {
        let mut pods: Vec<u32> = pods.iter().map(digest).collect();
        pods.sort_unstable();
        pods.truncate(MAX_PODS);
        Self {
            generation: budget.metadata.generation,
            pods,
            ..Self::default()
        }
    }

    /// True unless the pod has been compared with the budgets of the namespace, since this one was
    /// changed.
    pub fn is_new(&self, budget: &Budget, pod: &Pod) -> bool {
        let is_known = || self.pods.binary_search(&digest(pod)).is_ok();
        self.generation != budget.metadata.generation || !is_known()
    }

    /// Those of these Events that were not told by the reconcile before, and takes note of all.
    pub fn tell(&mut self, before: &Self, events: Vec<Event>) -> Vec<Event> {
        self.told = events.iter().map(|event| event.note.clone()).collect();
        let is_news = |event: &Event| !before.told.contains(&event.note);
        events.into_iter().filter(is_news).collect()
    }
}

fn digest(pod: &Pod) -> u32 {
    fnv32a(pod.metadata.uid.as_bytes())
}
