//! Which pods a set has for the ordinals that are wanted, and which are too many.

use std::time::Duration;

use workloads::pod::PodView;

use crate::objects::{Pod, StatefulSet};

/// The pods of a set, by what becomes of them.
pub struct Replicas<'a> {
    /// One for each ordinal that is wanted, in their order.
    pub wanted: Vec<Replica<'a>>,
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
        let empty = ordinals
            .clone()
            .map(|ordinal| Replica { ordinal, pod: None });
        let mut wanted: Vec<Replica<'a>> = empty.collect();
        let mut condemned: Vec<(i64, &Pod)> = Vec::new();
        for pod in pods {
            let Some(ordinal) = pod.ordinal() else {
                continue;
            };
            let place = usize::try_from(ordinal - ordinals.start);
            match place.ok().and_then(|place| wanted.get_mut(place)) {
                Some(replica) => replica.pod = Some(pod),
                None => condemned.push((ordinal, pod)),
            }
        }
        condemned.sort_by_key(|(ordinal, _)| -ordinal);
        let condemned = condemned.into_iter().map(|(_, pod)| pod).collect();
        Self { wanted, condemned }
    }

    /// All pods.
    pub fn pods(&self) -> impl Iterator<Item = &'a Pod> + '_ {
        let wanted = self.wanted.iter().filter_map(|replica| replica.pod);
        wanted.chain(self.condemned.iter().copied())
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

impl Replica<'_> {
    /// True if there is no pod, or one that is not available or is being deleted.
    pub fn is_unavailable(&self, min_ready: Duration, now: Duration) -> bool {
        self.pod
            .is_none_or(|pod| is_unavailable(pod, min_ready, now))
    }
}

fn is_unavailable(pod: &Pod, min_ready: Duration, now: Duration) -> bool {
    pod.is_deleted() || !pod.is_available(min_ready, now)
}
