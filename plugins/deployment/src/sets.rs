//! The ReplicaSets of a Deployment: the new one, which has its template, and the old ones.

use std::cmp::Reverse;

use crate::annotations::{self, DESIRED_REPLICAS};
use crate::objects::{Deployment, ReplicaSet};
use workloads::hash::is_same_template;

/// The ReplicaSets of a Deployment, the oldest first.
pub struct Sets {
    sets: Vec<ReplicaSet>,
    /// The place of the new one, if there is one.
    new: Option<usize>,
}

impl Sets {
    /// If several have the Deployment's template, the oldest of them is the new one.
    pub fn of(deployment: &Deployment, mut sets: Vec<ReplicaSet>) -> Self {
        sets.sort_by(|a, b| a.age_order().cmp(&b.age_order()));
        let template = &deployment.spec.template;
        let new = sets
            .iter()
            .position(|set| is_same_template(&set.spec.template, template));
        Self { sets, new }
    }

    /// The one that has the Deployment's template.
    pub fn new_set(&self) -> Option<&ReplicaSet> {
        self.new.map(|new| &self.sets[new])
    }

    /// The place of the new one.
    pub fn new_place(&self) -> Option<usize> {
        self.new
    }

    /// Adds the new one, which has just been created, and returns its place.
    pub fn add_new(&mut self, set: ReplicaSet) -> usize {
        let place = self.sets.len();
        self.sets.push(set);
        self.new = Some(place);
        place
    }

    pub fn all(&self) -> impl Iterator<Item = &ReplicaSet> {
        self.sets.iter()
    }

    pub fn old(&self) -> impl Iterator<Item = &ReplicaSet> {
        self.old_places().into_iter().map(|place| &self.sets[place])
    }

    /// The places of the old ones, the oldest first.
    fn old_places(&self) -> Vec<usize> {
        let places = 0..self.sets.len();
        places.filter(|place| Some(*place) != self.new).collect()
    }

    /// The places of the old ones that are meant to have pods, the oldest first.
    pub fn active_old_places(&self) -> Vec<usize> {
        let mut places = self.old_places();
        places.retain(|place| self.sets[*place].is_active());
        places
    }

    pub fn at(&self, place: usize) -> &ReplicaSet {
        &self.sets[place]
    }

    pub fn at_mut(&mut self, place: usize) -> &mut ReplicaSet {
        &mut self.sets[place]
    }

    /// The pods that all are meant to have.
    pub fn total(&self) -> i64 {
        self.all().map(|set| set.spec.replicas).sum()
    }

    /// The highest revision of the old ones. Those whose revision is no number do not count.
    pub fn highest_old_revision(&self) -> i64 {
        let revisions = self.old().filter_map(revision);
        revisions.max().unwrap_or_default().max(0)
    }

    /// The only one that is meant to have pods, or the newest if none is. `None`: several are.
    pub fn active_or_latest(&self) -> Option<usize> {
        let places = 0..self.sets.len();
        let active: Vec<usize> = places.filter(|at| self.sets[*at].is_active()).collect();
        match active[..] {
            [] => self.new.or_else(|| self.old_places().pop()),
            [only] => Some(only),
            _ => None,
        }
    }

    /// The places of those that are meant to have pods, the largest first; of equally large ones
    /// the newer or the older first.
    pub fn active_by_size(&self, newer_first: bool) -> Vec<usize> {
        let places = 0..self.sets.len();
        let mut active: Vec<usize> = places.filter(|at| self.sets[*at].is_active()).collect();
        active.sort_by(|a, b| {
            let (a, b) = (self.at(*a), self.at(*b));
            let by_age = a.age_order().cmp(&b.age_order());
            let by_age = if newer_first {
                by_age.reverse()
            } else {
                by_age
            };
            let by_size = Reverse(a.spec.replicas).cmp(&Reverse(b.spec.replicas));
            by_size.then(by_age)
        });
        active
    }

    /// True if the new one has all pods that are wanted, and all are available.
    pub fn is_saturated(&self, replicas: i64) -> bool {
        self.new_set().is_some_and(|new| {
            let noted = annotations::noted(&new.metadata.annotations, DESIRED_REPLICAS);
            new.spec.replicas == replicas
                && noted == Some(replicas)
                && new.status.available_replicas == replicas
        })
    }

    /// True if the Deployment's replicas have changed since one of these was last scaled.
    pub fn have_another_size(&self, replicas: i64) -> bool {
        let active = self.all().filter(|set| set.is_active());
        let mut noted = active
            .filter_map(|set| annotations::noted(&set.metadata.annotations, DESIRED_REPLICAS));
        noted.any(|noted| noted != replicas)
    }
}

/// The revision of a ReplicaSet. `None`: what it has is no number.
pub fn revision(set: &ReplicaSet) -> Option<i64> {
    annotations::revision(&set.metadata.annotations)
}
