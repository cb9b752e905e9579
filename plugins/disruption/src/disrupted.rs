//! Pods that the API server has let be evicted, and that are still there: for a time they count as
//! gone already.

use std::collections::BTreeMap;
use std::time::Duration;

use pilothouse_sdk::{Event, Kind, ObjectRef, Time};

use crate::objects::{Budget, Pod};

/// How long the API server may take from entering a pod as disrupted to deleting it. After that the
/// budget takes it that the deletion was refused. (Upstream's `DeletionTimeout`.)
const DELETION_TIMEOUT: Duration = Duration::from_secs(120);

/// The disrupted pods of a budget that are still expected to be deleted.
pub struct Disrupted<'a> {
    /// When the API server has entered them, by their names.
    pub expected: BTreeMap<&'a str, Time>,
    /// Those that should be gone by now.
    overdue: Vec<&'a Pod>,
    /// How long it takes until the first of those that are expected is overdue.
    pub next: Option<Duration>,
}

impl<'a> Disrupted<'a> {
    /// Among these pods. What is being deleted already is not expected any more, nor is what is
    /// gone.
    pub fn of(budget: &Budget, pods: &'a [Pod], now: Duration) -> Self {
        let mut disrupted = Self {
            expected: BTreeMap::new(),
            overdue: Vec::new(),
            next: None,
        };
        for pod in pods.iter().filter(|pod| !pod.is_deleted()) {
            let name = pod.metadata.name.as_str();
            let Some(entered) = budget.status.disrupted_pods.get(name) else {
                continue;
            };
            let entered = entered.unwrap_or_default();
            match (entered.0 + DELETION_TIMEOUT).checked_sub(now) {
                None => disrupted.overdue.push(pod),
                Some(remaining) => {
                    disrupted.expected.insert(name, entered);
                    let next = disrupted.next.map_or(remaining, |next| next.min(remaining));
                    disrupted.next = Some(next);
                }
            }
        }
        disrupted
    }

    /// How many of these pods are healthy: ready, not being deleted, and not about to be.
    pub fn count_healthy(&self, pods: &[Pod], now: Duration) -> usize {
        let is_about_to_go = |pod: &Pod| {
            let entered = self.expected.get(pod.metadata.name.as_str());
            entered.is_some_and(|entered| entered.0 + DELETION_TIMEOUT > now)
        };
        let healthy = pods.iter().filter(|pod| {
            let pod: &Pod = pod;
            !pod.is_deleted() && !is_about_to_go(pod) && pod.is_ready()
        });
        healthy.count()
    }

    /// Events about the pods that should be gone.
    pub fn events(&self, key: &ObjectRef) -> Vec<Event> {
        let ObjectRef {
            namespace, name, ..
        } = key;
        let overdue = self.overdue.iter().map(|pod| {
            let pod = ObjectRef::new(Pod::KIND, namespace, &pod.metadata.name);
            let note =
                format!("Pod was expected by PDB {namespace}/{name} to be deleted but it wasn't");
            Event::warning(&pod, "NotDeleted", "Evict", &note)
        });
        overdue.collect()
    }
}
