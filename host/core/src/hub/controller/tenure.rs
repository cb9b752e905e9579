//! The shards that a controller runs: how it gives some up, and takes some over.

use std::collections::BTreeSet;

use super::{Controller, Present, RunningKeys};
use crate::cache::snapshot::Snapshot;
use crate::hub::duties::{Duties, Duty, Relinquish};
use crate::hub::reconcile::{Conclusion, Finished};
use crate::hub::{ControllerSettings, Garbage};
use crate::model::subject_key::SubjectKey;
use crate::queue::{LOW, Time};

impl Controller {
    /// The controller's part of the host's duties, under these settings.
    pub fn duty_of(&self, duties: &Duties, settings: &ControllerSettings) -> Duty {
        Duty::of(duties, self.name(), settings.shards)
    }

    pub fn settings(&self) -> &ControllerSettings {
        self.permit.settings()
    }

    /// From now on the keys of this duty are run. Those that are new in it get a first run, as
    /// after a restart. Of keys that are not in it any more everything is forgotten, and what runs
    /// of them ends as `how` says.
    pub fn set_duty(
        &mut self,
        duty: Duty,
        how: Relinquish,
        snapshot: &Snapshot,
        garbage: &mut Garbage,
        now: Time,
    ) {
        self.running.relinquish(&duty, how);
        if *self.keys.duty() == duty {
            return;
        }
        let kept = self.keys.duty().and(&duty);
        self.lose(&kept, garbage);
        let gained = duty.without(&kept);
        self.gain(duty, &gained, snapshot, now);
    }

    fn lose(&mut self, kept: &Duty, garbage: &mut Garbage) {
        self.keys.lose(kept, garbage);
        self.patterns.retain_waiting(|key| kept.has(key));
        if kept.is_empty() {
            self.installed.forget_all_applied();
        }
    }

    fn gain(&mut self, duty: Duty, gained: &Duty, snapshot: &Snapshot, now: Time) {
        if self.keys.duty().is_empty() {
            // What came due meanwhile concerned nothing. Every key runs now anyway.
            self.resync.iter_mut().for_each(|resync| resync.skip(now));
        }
        let present = Present {
            installed: &self.installed,
            snapshot,
            now,
        };
        self.keys.gain(duty, gained.clone(), present);
        if gained.is_empty() {
            return;
        }
        if self.installed.is_started() {
            let mut left = self.installed.left_behind(snapshot);
            left.retain(|key| gained.has(key));
            self.keys.add(&left, LOW, now);
        }
        // The run that is still to end began on what the caches showed then, and its key may have
        // no object any more that a sweep would find.
        let running = self.running.lost().filter(|key| gained.has(key));
        let running: Vec<SubjectKey> = running.cloned().collect();
        self.keys.add(&running, LOW, now);
    }

    /// The shards that keys running now belong to.
    pub fn running_shards(&self) -> BTreeSet<u32> {
        self.running.shards(self.permit.settings().shards)
    }

    /// The keys that run now, of a plugin that leaves.
    pub fn take_running(&mut self) -> RunningKeys {
        std::mem::take(&mut self.running)
    }

    /// Takes back a key whose shard was given up while it ran.
    pub(super) fn finished_lost(
        &mut self,
        finished: &Finished,
        snapshot: &Snapshot,
        now: Time,
    ) -> Conclusion {
        // What was stopped has not failed, whatever became of it.
        if !finished.held.halt.is_halted() {
            self.tally.finished(finished, now);
        }
        let present = Present {
            installed: &self.installed,
            snapshot,
            now,
        };
        self.keys.finished_lost(finished, present);
        Conclusion::default()
    }
}
