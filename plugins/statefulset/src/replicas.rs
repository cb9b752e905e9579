//! Which pods a set has for the ordinals that are wanted, and which are too many.

use std::collections::BTreeMap;
use std::time::Duration;

use workloads::pod::PodView;

use crate::objects::{Pod, StatefulSet};

/// Most pods that are not there yet that one reconcile looks at: as many as upstream creates at the
/// same time. A set may want two billion.
const MAX_MISSING: usize = 500;

/// The pods of a set, by what becomes of them.
pub struct Replicas<'a> {
    /// One for each ordinal that is wanted, in their order. Of those that are not there only the
    /// first [`MAX_MISSING`].
    pub wanted: Vec<Replica<'a>>,
    /// How many more are wanted and are not there.
    missing: usize,
    /// Those with other ordinals, the highest first.
    pub condemned: Vec<&'a Pod>,
}

/// A place for a pod.
#[derive(Clone, Copy)]
pub struct Replica<'a> {
    pub ordinal: i64,
    /// `None`: there is no such pod yet.
    pub pod: Option<&'a Pod>,
}

impl<'a> Replicas<'a> {
    /// Sorts the pods of a set, which come in the order of their names. One whose ordinal does not
    /// fit into 32 bits is left alone.
    pub fn of(set: &StatefulSet, pods: &'a [Pod]) -> Self {
        let ordinals = set.ordinals();
        let (mut there, mut condemned) = (BTreeMap::new(), Vec::new());
        for pod in pods {
            match pod.ordinal() {
                Some(ordinal) if ordinals.contains(&ordinal) => {
                    there.insert(ordinal, pod);
                }
                Some(ordinal) => condemned.push((ordinal, pod)),
                None => {}
            }
        }
        condemned.sort_by_key(|(ordinal, _)| -ordinal);
        let is_missing = |ordinal: &i64| !there.contains_key(ordinal);
        let first: Vec<i64> = ordinals.filter(is_missing).take(MAX_MISSING).collect();
        let missing = usize::try_from(set.replicas()).unwrap_or(0) - there.len() - first.len();
        let first = first
            .into_iter()
            .map(|ordinal| Replica { ordinal, pod: None });
        let there = there.into_iter();
        let there = there.map(|(ordinal, pod)| Replica {
            ordinal,
            pod: Some(pod),
        });
        let mut wanted: Vec<Replica<'a>> = there.chain(first).collect();
        wanted.sort_by_key(|replica| replica.ordinal);
        let condemned = condemned.into_iter().map(|(_, pod)| pod).collect();
        Self {
            wanted,
            missing,
            condemned,
        }
    }

    /// All pods.
    pub fn pods(&self) -> impl Iterator<Item = &'a Pod> + '_ {
        let wanted = self.wanted.iter().filter_map(|replica| replica.pod);
        wanted.chain(self.condemned.iter().copied())
    }

    /// How many of the wanted ones are not there, not available, or being deleted.
    pub fn unavailable(&self, min_ready: Duration, now: Duration) -> usize {
        let is_unavailable = |replica: &&Replica<'_>| {
            let pod = replica.pod;
            pod.is_none_or(|pod| is_unavailable(pod, min_ready, now))
        };
        self.missing + self.wanted.iter().filter(is_unavailable).count()
    }

    /// The first that is unavailable: of the wanted ones, or else the condemned one with the lowest
    /// ordinal. `None`: that is one that does not exist yet, or all are available.
    pub fn first_unavailable(&self, min_ready: Duration, now: Duration) -> Option<&'a Pod> {
        let condemned = self.condemned.iter().rev().map(|pod| Some(*pod));
        let mut all = self
            .wanted
            .iter()
            .map(|replica| replica.pod)
            .chain(condemned);
        all.find(|pod| pod.is_none_or(|pod| is_unavailable(pod, min_ready, now)))?
    }
}

fn is_unavailable(pod: &Pod, min_ready: Duration, now: Duration) -> bool {
    pod.is_deleted() || !pod.is_available(min_ready, now)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pods_that_are_not_looked_at_are_missing_all_the_same() {
        let set = json!({"metadata": {"name": "web"}, "spec": {"replicas": 2_000_000_000}});
        let set: StatefulSet = serde_json::from_value(set).expect("a set");
        let pod = |name: &str| {
            let pod = json!({"metadata": {"name": name}, "status": {"phase": "Running",
                "conditions": [{"type": "Ready", "status": "True"}]}});
            serde_json::from_value::<Pod>(pod).expect("a pod")
        };
        let pods = [pod("web-1"), pod("web-1999999999"), pod("web-2000000000")];
        let replicas = Replicas::of(&set, &pods);
        let ordinals: Vec<i64> = replicas
            .wanted
            .iter()
            .map(|replica| replica.ordinal)
            .collect();
        assert_eq!(ordinals.len(), MAX_MISSING + 2);
        assert_eq!((ordinals[0], ordinals[1], ordinals[2]), (0, 1, 2));
        assert_eq!(ordinals.last(), Some(&1_999_999_999));
        assert_eq!(replicas.condemned.len(), 1);
        let unavailable = replicas.unavailable(Duration::ZERO, Duration::ZERO);
        assert_eq!(unavailable, 2_000_000_000 - 2);
    }
}
