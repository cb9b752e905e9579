//! Changing the sizes of ReplicaSets: one at a time, and all in proportion when the Deployment
//! itself is scaled.

use pilothouse_sdk::{Event, Failure};
use serde_json::json;

use crate::annotations::{self, MAX_REPLICAS};
use crate::sync::Sync;

/// Whether a ReplicaSet whose size stays is written because of its notes about sizes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Notes {
    Refresh,
    Leave,
}

impl Sync<'_> {
    /// Gives a ReplicaSet this size and notes the Deployment's. True if its size changes.
    ///
    /// # Errors
    ///
    /// None: a patch has a JSON form.
    pub fn scale_set(&mut self, place: usize, size: i64, notes: Notes) -> Result<bool, Failure> {
        let set = self.sets.at(place);
        let (before, name) = (set.spec.replicas, set.name().to_owned());
        if before == size && notes == Notes::Leave {
            return Ok(false);
        }
        let mut annotations = set.metadata.annotations.clone();
        let sizes = annotations::sizes(self.deployment.spec.replicas, self.limits.max_surge);
        annotations.extend(sizes.map(|(name, value)| (name.to_owned(), value)));
        if before == size && annotations == set.metadata.annotations {
            return Ok(false);
        }
        self.patch_set(place, annotations, &json!({"replicas": size}))?;
        self.sets.at_mut(place).spec.replicas = size;
        if before != size {
            self.report_scaling(&name, before, size);
        }
        Ok(before != size)
    }

    pub fn report_scaling(&mut self, name: &str, before: i64, size: i64) {
        let direction = if before < size { "up" } else { "down" };
        let note = format!("Scaled {direction} replica set {name} from {before} to {size}");
        let event = Event::normal(self.key(), "ScalingReplicaSet", "Scale", &note);
        self.report(event);
    }

    /// Scales the ReplicaSets after the Deployment has been scaled, or while it is paused. In the
    /// middle of a rollout each is scaled in proportion to its size: if all new pods went to one of
    /// them, the rollout would go on, perhaps to a template that does not work.
    ///
    /// # Errors
    ///
    /// None: patches have a JSON form.
    pub fn scale(&mut self) -> Result<(), Failure> {
        let replicas = self.deployment.spec.replicas;
        if self.sets.all().next().is_none() {
            return Ok(());
        }
        if let Some(only) = self.sets.active_or_latest() {
            self.scale_set(only, replicas, Notes::Leave)?;
        } else if self.sets.is_saturated(replicas) {
            for old in self.sets.active_old_places().into_iter().rev() {
                self.scale_set(old, 0, Notes::Leave)?;
            }
        } else if self.deployment.spec.strategy.is_rolling_update() {
            self.scale_in_proportion()?;
        }
        Ok(())
    }

    fn scale_in_proportion(&mut self) -> Result<(), Failure> {
        let most = match self.deployment.spec.replicas {
            0 => 0,
            replicas => replicas + self.limits.max_surge,
        };
        let to_add = most - self.sets.total();
        // Of equal ReplicaSets the newer grow and the older shrink.
        let places = self.sets.active_by_size(to_add > 0);
        let mut added = 0;
        let mut sizes: Vec<i64> = Vec::new();
        for place in &places {
            let share = self.share(*place, to_add, added);
            sizes.push(self.sets.at(*place).spec.replicas + share);
            added += share;
        }
        if let Some(largest) = sizes.first_mut() {
            *largest = (*largest + to_add - added).max(0);
        }
        for (place, size) in places.into_iter().zip(sizes) {
            self.scale_set(place, size, Notes::Refresh)?;
        }
        Ok(())
    }

    /// How many of the pods that are to be added (or removed, if it is negative) a ReplicaSet gets,
    /// when others have got some already.
    fn share(&self, place: usize, to_add: i64, added: i64) -> i64 {
        let left = to_add - added;
        match to_add.signum() {
            _ if left == 0 => 0,
            1 => self.fraction(place).min(left),
            -1 => self.fraction(place).max(left),
            _ => 0,
        }
    }

    /// By how much a ReplicaSet grows if it keeps its part of the Deployment.
    fn fraction(&self, place: usize) -> i64 {
        let set = self.sets.at(place);
        let (size, replicas) = (set.spec.replicas, self.deployment.spec.replicas);
        if replicas == 0 {
            return -size;
        }
        let noted = annotations::noted(&set.metadata.annotations, MAX_REPLICAS);
        // Somebody has removed the note: the pods that there are must do instead.
        let present = self.deployment.status.replicas;
        let before = noted.filter(|noted| *noted > 0).unwrap_or(present);
        if before <= 0 {
            return 0;
        }
        rounded(size * (replicas + self.limits.max_surge), before) - size
    }
}

/// A quotient of numbers that are not negative, rounded to the nearest; a half is rounded up.
fn rounded(dividend: i64, divisor: i64) -> i64 {
    (2 * dividend + divisor) / (2 * divisor)
}
