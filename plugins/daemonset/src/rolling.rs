//! The replacement of old pods by new ones, within `maxUnavailable` or `maxSurge`.

use std::collections::BTreeSet;
use std::time::Duration;

use pilothouse_sdk::IntOrString;
use workloads::pod::{PodView, seconds};

use crate::manage::Work;
use crate::objects::{DaemonSet, Pod, RollingUpdate};
use crate::placement::{Layout, Place};

/// How many pods a rolling update may touch at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowance {
    /// How many nodes may have an old and a new pod.
    pub surge: usize,
    /// How many nodes may be without an available pod.
    pub unavailable: usize,
}

impl Allowance {
    /// The limits on this many nodes.
    ///
    /// # Errors
    ///
    /// One of them is neither a number nor a percentage.
    pub fn of(daemon_set: &DaemonSet, desired: usize) -> Result<Self, String> {
        let rolling = rolling_update(daemon_set);
        let unavailable = match rolling {
            Some(rolling) => {
                let unavailable = rolling.max_unavailable.as_ref();
                let unavailable = unavailable.ok_or("there is none").map_err(str::to_owned);
                unavailable
                    .and_then(|value| scaled(value, desired))
                    .map_err(|reason| format!("invalid value for MaxUnavailable: {reason}"))?
            }
            None => 0,
        };
        let surge = surge(rolling, desired)
            .map_err(|reason| format!("invalid value for MaxSurge: {reason}"))?;
        if desired > 0 && unavailable == 0 && surge == 0 {
            // Nothing could ever be replaced.
            return Ok(Self {
                surge,
                unavailable: 1,
            });
        }
        Ok(Self { surge, unavailable })
    }
}

/// True if a node may have two pods.
pub fn surges(daemon_set: &DaemonSet) -> bool {
    surge(rolling_update(daemon_set), 1).is_ok_and(|surge| surge > 0)
}

fn rolling_update(daemon_set: &DaemonSet) -> Option<&RollingUpdate> {
    let strategy = &daemon_set.spec.update_strategy;
    let rolling = strategy.rolling_update.as_ref();
    rolling.filter(|_| daemon_set.is_rolling())
}

fn surge(rolling: Option<&RollingUpdate>, desired: usize) -> Result<usize, String> {
    let surge = rolling.and_then(|rolling| rolling.max_surge.as_ref());
    surge.map_or(Ok(0), |surge| scaled(surge, desired))
}

/// A number, or a percentage of this many nodes, rounded up.
fn scaled(value: &IntOrString, of: usize) -> Result<usize, String> {
    let of = i32::try_from(of).unwrap_or(i32::MAX);
    let scaled = value.scaled_up(of).map_err(|error| error.to_string())?;
    // The API server lets no negative number in.
    Ok(usize::try_from(scaled).unwrap_or(0))
}

/// A rolling update to the current revision.
pub struct Rolling<'a> {
    pub daemon_set: &'a DaemonSet,
    /// The current revision's.
    pub hash: &'a str,
    /// The current template's.
    pub generation: Option<&'a str>,
    pub allowance: Allowance,
    pub now: Duration,
}

/// The pods of a node that are not being deleted, at most one of each.
struct Pair<'a> {
    new: Option<&'a Pod>,
    old: Option<&'a Pod>,
}

impl Rolling<'_> {
    pub fn work<'a>(&self, layout: &Layout<'a>) -> Work<'a> {
        if self.allowance.surge == 0 {
            self.replace(layout)
        } else {
            self.surge(layout)
        }
    }

    /// Deletes old pods, so that no more nodes than allowed are without an available one: those
    /// that are not available at once, of the others as many as remain. New pods come when the old
    /// ones are gone.
    fn replace<'a>(&self, layout: &Layout<'a>) -> Work<'a> {
        let (mut unavailable, mut allowed, mut candidates) = (0, Vec::new(), Vec::new());
        for node in nodes(layout) {
            match self.pair(layout.pods_on(node)) {
                // What is missing comes, and what is too much goes, without an update.
                None
                | Some(Pair {
                    new: None,
                    old: None,
                })
                | Some(Pair {
                    new: Some(_),
                    old: Some(_),
                }) => unavailable += 1,
                Some(Pair { new: Some(new), .. }) => {
                    unavailable += usize::from(!self.is_available(new));
                }
                Some(Pair { old: Some(old), .. }) if self.is_available(old) => {
                    candidates.push(old);
                }
                Some(Pair { old: Some(old), .. }) => {
                    allowed.push(old);
                    unavailable += 1;
                }
            }
        }
        candidates.truncate(self.allowance.unavailable.saturating_sub(unavailable));
        allowed.extend(candidates);
        Work {
            delete: allowed,
            ..Work::default()
        }
    }

    /// Creates new pods beside old ones, at most as many as allowed beside available ones, and
    /// deletes an old pod when the new one is available. On nodes that want no pod any more, old
    /// ones stay until others are available elsewhere.
    fn surge<'a>(&self, layout: &Layout<'a>) -> Work<'a> {
        let (mut surging, mut available) = (0, 0);
        let (mut delete, mut leaving) = (Vec::new(), Vec::new());
        let (mut allowed, mut candidates) = (Vec::new(), Vec::new());
        for node in nodes(layout) {
            let Some(Pair { new, old }) = self.pair(layout.pods_on(node)) else {
                surging += 1;
                continue;
            };
            let serving = old.or(new);
            available += usize::from(serving.is_some_and(|pod| self.is_available(pod)));
            let Some(old) = old else {
                continue;
            };
            // Upstream's update fails as long as an old pod is on a node that is gone. Here that
            // node alone waits.
            let place = layout.places.get(node);
            match (new, place) {
                (Some(new), _) if self.is_available(new) => delete.push(old),
                (Some(_), _) => surging += 1,
                (None, None) => {}
                (None, Some(place)) => match (self.is_available(old), *place == Place::Wanted) {
                    (false, true) => allowed.push(node),
                    (false, false) => delete.push(old),
                    (true, true) => candidates.push(node),
                    (true, false) => leaving.push(old),
                },
            }
        }
        leaving.truncate(available.saturating_sub(layout.desired()));
        delete.extend(leaving);
        candidates.truncate(self.allowance.surge.saturating_sub(surging));
        allowed.extend(candidates);
        Work {
            create_on: allowed,
            delete,
            ..Work::default()
        }
    }

    /// The old and the new pod of a node. `None`: there are more than one of a kind.
    fn pair<'a>(&self, pods: &[&'a Pod]) -> Option<Pair<'a>> {
        let mut pair = Pair {
            new: None,
            old: None,
        };
        for &pod in pods.iter().filter(|pod| !pod.is_deleted()) {
            let is_new = pod.is_updated(self.hash, self.generation);
            let kind = if is_new { &mut pair.new } else { &mut pair.old };
            if kind.replace(pod).is_some() {
                return None;
            }
        }
        Some(pair)
    }

    fn is_available(&self, pod: &Pod) -> bool {
        let min_ready = seconds(self.daemon_set.spec.min_ready_seconds);
        pod.is_available(min_ready, self.now)
    }
}

/// The nodes that have pods or want one, by name.
fn nodes<'a>(layout: &Layout<'a>) -> BTreeSet<&'a str> {
    let wanting = layout.places.iter();
    let wanting = wanting.filter(|(_, place)| **place == Place::Wanted);
    let wanting = wanting.map(|(node, _)| *node);
    wanting.chain(layout.pods.keys().copied()).collect()
}
