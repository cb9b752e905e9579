//! Which pods each node gets and which it loses, apart from the replacement of old ones by new.

use std::time::Duration;

use pilothouse_sdk::{Event, ObjectRef};
use workloads::pod::{PodView, seconds};

use crate::backoff::BackOff;
use crate::objects::{DaemonSet, Pod};
use crate::placement::{Layout, Place};
use crate::rolling;

/// What is to be done about the pods of a DaemonSet.
#[derive(Default)]
pub struct Work<'a> {
    /// The nodes that get a pod.
    pub create_on: Vec<&'a str>,
    pub delete: Vec<&'a Pod>,
    pub events: Vec<Event>,
    /// When a failed pod that waits is to be deleted.
    pub look_again: Option<Duration>,
}

impl Work<'_> {
    pub fn is_none(&self) -> bool {
        self.create_on.is_empty() && self.delete.is_empty()
    }
}

/// Looks at each node.
pub struct Manager<'a> {
    pub key: &'a ObjectRef,
    pub daemon_set: &'a DaemonSet,
    /// The current revision's.
    pub hash: &'a str,
    pub now: Duration,
}

impl Manager<'_> {
    /// Gives a pod to each node that lacks one; deletes those that have ended, are too many, or do
    /// not belong where they are.
    pub fn work<'a>(&self, layout: &Layout<'a>, back_off: &mut BackOff) -> Work<'a> {
        let mut work = Work::default();
        let surges = rolling::surges(self.daemon_set);
        for (&node, place) in &layout.places {
            let pods = layout.pods_on(node);
            match place {
                Place::Wanted if pods.is_empty() => work.create_on.push(node),
                Place::Unwanted => {
                    let is_left = |pod: &&&Pod| !pod.is_deleted();
                    work.delete.extend(pods.iter().filter(is_left));
                }
                Place::Wanted | Place::Tolerated => {
                    let running = self.running(node, pods, back_off, &mut work);
                    if !surges {
                        // The first one stays.
                        work.delete.extend(running.iter().skip(1));
                    } else if running.is_empty() && *place == Place::Wanted {
                        work.create_on.push(node);
                    } else if running.len() > 1 {
                        work.delete.extend(self.surplus_of_surge(&running));
                    }
                }
            }
        }
        work.delete.extend(without_node(layout));
        work
    }

    /// The pods of a node that go on. Those that have ended are to be deleted: what has failed
    /// only after a while, if others have failed there before it.
    fn running<'a>(
        &self,
        node: &str,
        pods: &[&'a Pod],
        back_off: &mut BackOff,
        work: &mut Work<'a>,
    ) -> Vec<&'a Pod> {
        let mut running = Vec::new();
        for &pod in pods.iter().filter(|pod| !pod.is_deleted()) {
            if !pod.is_terminal() {
                running.push(pod);
                continue;
            }
            if pod.is_failed() {
                if let Some(remaining) = back_off.remaining(node, self.now) {
                    let sooner = work
                        .look_again
                        .map_or(remaining, |time| time.min(remaining));
                    work.look_again = Some(sooner);
                    continue;
                }
                back_off.begin(node, self.now);
            }
            work.events.push(self.ended(pod, node));
            work.delete.push(pod);
        }
        running
    }

    fn ended(&self, pod: &Pod, node: &str) -> Event {
        let (namespace, name) = (&self.key.namespace, pod.name());
        if pod.is_failed() {
            let note = format!(
                "Found failed daemon pod {namespace}/{name} on node {node}, will try to kill it"
            );
            Event::warning(self.key, "FailedDaemonPod", "Delete", &note)
        } else {
            let note = format!(
                "Found succeeded daemon pod {namespace}/{name} on node {node}, \
                 will try to delete it"
            );
            Event::normal(self.key, "SucceededDaemonPod", "Delete", &note)
        }
    }

    /// The surplus pods of a node that may have two: an old one while it is ready, beside a new one
    /// until that is available. Of each the first stays.
    fn surplus_of_surge<'a>(&self, running: &[&'a Pod]) -> Vec<&'a Pod> {
        let is_new = |pod: &Pod| pod.metadata.labels.hash == self.hash;
        let (new, old): (Vec<&Pod>, Vec<&Pod>) = running.iter().partition(|pod| is_new(pod));
        let mut surplus: Vec<&Pod> = new.iter().skip(1).copied().collect();
        surplus.extend(old.iter().skip(1));
        if let (Some(new), Some(old)) = (new.first(), old.first()) {
            let min_ready = seconds(self.daemon_set.spec.min_ready_seconds);
            if !old.is_ready() || new.is_available(min_ready, self.now) {
                surplus.push(old);
            }
        }
        surplus
    }
}

/// The pods that wait for a node that is not there. The scheduler never places them, and nobody
/// else deletes them.
fn without_node<'a>(layout: &Layout<'a>) -> Vec<&'a Pod> {
    let gone = layout
        .pods
        .iter()
        .filter(|(node, _)| !layout.places.contains_key(*node));
    gone.flat_map(|(_, pods)| pods)
        .copied()
        .filter(|pod| pod.spec.node_name.is_empty())
        .collect()
}
