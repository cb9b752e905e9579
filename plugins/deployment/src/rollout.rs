//! Replacing pods of old templates by pods of the new one: all at once, or step by step.

use std::ops::ControlFlow;

use pilothouse_sdk::{Action, Delete, Failure, Filter};

use crate::claim::BY_OWNER;
use crate::objects::{POD, Pod, REPLICA_SET, ReplicaSet};
use crate::progress::is_complete;
use crate::scale::Notes;
use crate::sets;
use crate::sync::Sync;

impl Sync<'_> {
    /// Deletes all old pods, and when none of them runs any more, creates the new ones.
    ///
    /// # Errors
    ///
    /// Pods may not be read.
    pub fn recreate(&mut self) -> Result<(), Failure> {
        let active = self.sets.active_old_places();
        for old in &active {
            self.scale_set(*old, 0, Notes::Leave)?;
        }
        if !active.is_empty() || self.has_old_pods()? {
            return self.sync_rollout_status(false);
        }
        let ControlFlow::Continue(new) = self.find_or_create_new_set()? else {
            return Ok(());
        };
        self.scale_set(new, self.deployment.spec.replicas, Notes::Leave)?;
        self.conclude()
    }

    /// True if an old pod may still run: one that its ReplicaSet counts, or that is still there and
    /// has not ended.
    fn has_old_pods(&self) -> Result<bool, Failure> {
        if self.sets.old().any(|set| set.status.replicas > 0) {
            return Ok(true);
        }
        for set in self.sets.old() {
            let set = &set.metadata.always;
            let owned = Filter::index(BY_OWNER, &set.uid);
            let pods: Vec<Pod> = self.host.list(POD, Some(&set.namespace), &owned)?;
            let is_old = |pod: &Pod| pod.controller() == Some(&set.uid) && !pod.has_finished();
            if pods.iter().any(is_old) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Adds new pods as far as surge allows, or else removes old ones as far as enough others are
    /// available.
    ///
    /// # Errors
    ///
    /// ReplicaSets may not be read.
    pub fn roll(&mut self) -> Result<(), Failure> {
        let ControlFlow::Continue(new) = self.find_or_create_new_set()? else {
            return Ok(());
        };
        if self.grow_new(new)? {
            return self.sync_rollout_status(false);
        }
        // What is written about old ReplicaSets may fail without holding back the status.
        let always = self.is_idle();
        if self.shrink_old(new)? {
            return self.sync_rollout_status(always);
        }
        self.conclude()
    }

    /// Deletes what is too old, if nothing else is left to do, and writes the status.
    fn conclude(&mut self) -> Result<(), Failure> {
        if is_complete(&self.deployment, &self.deployment.status) {
            self.clean_up();
        }
        self.sync_rollout_status(false)
    }

    fn grow_new(&mut self, new: usize) -> Result<bool, Failure> {
        let (size, wanted) = (
            self.sets.at(new).spec.replicas,
            self.deployment.spec.replicas,
        );
        let size = if size > wanted {
            wanted
        } else {
            self.new_size(size)
        };
        self.scale_set(new, size, Notes::Leave)
    }

    /// The size for the new ReplicaSet when it has this one: as many more pods as there may be.
    pub fn new_size(&self, size: i64) -> i64 {
        let wanted = self.deployment.spec.replicas;
        if !self.deployment.spec.strategy.is_rolling_update() {
            return wanted;
        }
        let room = wanted + self.limits.max_surge - self.sets.total();
        if room <= 0 {
            return size;
        }
        size + room.min(wanted - size)
    }

    /// Removes old pods: first those that are not available, which does no harm, then others as far
    /// as enough are available. Pods of the new ReplicaSet that are not available count as if they
    /// were taken away, too.
    fn shrink_old(&mut self, new: usize) -> Result<bool, Failure> {
        let old = self.sets.active_old_places();
        let least = self.deployment.spec.replicas - self.limits.max_unavailable;
        let set = self.sets.at(new);
        let new_unavailable = set.spec.replicas - set.status.available_replicas;
        let most = self.sets.total() - least - new_unavailable;
        if old.is_empty() || most <= 0 {
            return Ok(false);
        }
        let available = |place: &usize| self.sets.at(*place).status.available_replicas;
        let available: i64 = old.iter().chain([&new]).map(available).sum();
        let Some(unhealthy) = self.remove_unavailable(&old, most)? else {
            return Ok(false);
        };
        let healthy = self.remove_old(&old, available - least)?;
        Ok(unhealthy + healthy > 0)
    }

    /// `None`: a ReplicaSet has more available pods than it is meant to have, so its status is
    /// older than its size, and nothing can be said about what is available.
    fn remove_unavailable(&mut self, old: &[usize], most: i64) -> Result<Option<i64>, Failure> {
        let mut removed = 0;
        for place in old {
            if removed >= most {
                break;
            }
            let set = self.sets.at(*place);
            let size = set.spec.replicas;
            let unavailable = size - set.status.available_replicas;
            if unavailable < 0 {
                return Ok(None);
            }
            let count = unavailable.min(most - removed);
            self.scale_set(*place, size - count, Notes::Leave)?;
            removed += count;
        }
        Ok(Some(removed))
    }

    fn remove_old(&mut self, old: &[usize], most: i64) -> Result<i64, Failure> {
        let mut removed = 0;
        for place in old {
            let size = self.sets.at(*place).spec.replicas;
            let count = size.min(most - removed);
            if count > 0 {
                self.scale_set(*place, size - count, Notes::Leave)?;
                removed += count;
            }
        }
        Ok(removed)
    }

    /// Deletes the old ReplicaSets of the lowest revisions, as far as there are more than the
    /// history's limit, and as they have no pods.
    pub fn clean_up(&mut self) {
        let Some(limit) = self.deployment.spec.revision_history_limit() else {
            return;
        };
        let alive = self
            .sets
            .old()
            .filter(|set| set.metadata.always.deletion_timestamp.is_none());
        let mut alive: Vec<_> = alive.collect();
        alive.sort_by_key(|set| (sets::revision(set).unwrap_or_default(), set.age_order()));
        let surplus = alive.len().saturating_sub(limit);
        let unused = alive[..surplus].iter().filter(|set| is_unused(set));
        let deletes = unused.map(|set| Delete::new(&set.metadata.always.of_kind(REPLICA_SET)));
        let deletes: Vec<Action> = deletes.take(MAX_DELETES).map(Into::into).collect();
        self.steps(deletes);
    }
}

/// Most ReplicaSets that are deleted at once. The next look at the Deployment deletes more.
const MAX_DELETES: usize = 100;

/// True if a ReplicaSet has no pods, nor will have any, as far as its controller has seen it.
fn is_unused(set: &ReplicaSet) -> bool {
    set.status.replicas == 0
        && set.spec.replicas == 0
        && set.metadata.generation <= set.status.observed_generation
}
