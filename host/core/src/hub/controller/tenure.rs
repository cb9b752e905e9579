//! The shards that a controller runs: how it gives some up, and takes some over.

use std::collections::BTreeSet;

use super::installed::extent;
use super::{Controller, Present, RunningKeys};
use crate::cache::snapshot::{InformerId, Snapshot};
use crate::hub::doubts::Doubts;
use crate::hub::duties::{Duties, Duty, Relinquish};
use crate::hub::reconcile::{Conclusion, Finished};
use crate::hub::{ControllerSettings, Garbage};
use crate::model::namespaces::Namespaces;
use crate::model::subject_key::SubjectKey;
use crate::queue::{LOW, Time};

/// Since when a controller runs what it runs.
#[derive(Default)]
pub(super) struct Tenure {
    /// The doubt that must be over about each informer that it uses.
    since: u64,
    /// What it will run.
    pending: Option<Pending>,
}

/// Shards that were gained, together with those that are kept.
struct Pending {
    duty: Duty,
    /// The doubt that must be over.
    doubt: u64,
}

impl Controller {
    /// The controller's part of the host's duties, under these settings.
    pub fn duty_of(&self, duties: &Duties, settings: &ControllerSettings) -> Duty {
        Duty::of(duties, self.name(), settings.division)
    }

    pub fn settings(&self) -> &ControllerSettings {
        self.permit.settings()
    }

    /// The shards that it runs, and those that it will run once the caches are proven.
    fn promised(&self) -> &Duty {
        let pending = self.tenure.pending.as_ref();
        pending.map_or(self.keys.duty(), |pending| &pending.duty)
    }

    /// The namespaces whose objects each of its informers must bring: those of the keys that it
    /// runs, and of those that it will run.
    pub fn namespaces(&self) -> impl Iterator<Item = (InformerId, Namespaces)> {
        let (scope, promised) = (self.installed.scope(), self.promised());
        let parts = scope.parts();
        parts.map(move |part| (part.informer, extent(part, promised).namespaces))
    }

    /// Whether this duty has something that the controller has not been promised.
    pub fn gains(&self, duty: &Duty) -> bool {
        !duty.without(self.promised()).is_empty()
    }

    /// From now on only the keys of this duty are run. Of keys that are not in it everything is
    /// forgotten, and what runs of them ends as `how` says. Those that are new in it run once
    /// [`settle`](Self::settle) finds this doubt to be over.
    pub fn set_duty(&mut self, duty: Duty, how: Relinquish, doubt: u64, garbage: &mut Garbage) {
        self.running.relinquish(&duty, how);
        if *self.promised() == duty {
            return;
        }
        let before = self.tenure.pending.as_ref();
        let before = before.filter(|_| !self.gains(&duty));
        let doubt = before.map_or(doubt, |before| before.doubt);
        let kept = self.keys.duty().kept_in(&duty);
        if kept != *self.keys.duty() {
            self.lose(&kept, garbage);
            // What runs of a shard that is gained in the same moment, as under another division,
            // may write, but its end counts for nothing either.
            self.running.relinquish(&kept, Relinquish::Finish);
        }
        self.tenure.pending = (kept != duty).then_some(Pending { duty, doubt });
    }

    /// Takes over what was gained, if the caches are proven by now.
    pub fn settle(&mut self, doubts: &Doubts, snapshot: &Snapshot, now: Time) {
        let pending = self.tenure.pending.as_ref();
        let Some(doubt) = pending.map(|pending| pending.doubt) else {
            return;
        };
        let is_proven = self.holding_back(doubts, doubt, now).next().is_none();
        if is_proven && self.installed.is_synced(snapshot, self.promised()) {
            self.take_over(doubt, snapshot, now);
        }
    }

    /// Takes over what was gained. If this doubt is not over, nothing runs until it is.
    pub fn take_over(&mut self, doubt: u64, snapshot: &Snapshot, now: Time) {
        self.tenure.since = doubt;
        if let Some(Pending { duty, .. }) = self.tenure.pending.take() {
            let gained = duty.without(self.keys.duty());
            self.gain(duty, &gained, snapshot, now);
        }
    }

    /// Whether the caches are proven for what the controller runs. They are when it takes shards
    /// over, but a version that is installed later may use other informers, and so may its
    /// patterns.
    pub fn is_proven(&self, doubts: &Doubts, now: Time) -> bool {
        let mut waits = self.holding_back(doubts, self.tenure.since, now);
        waits.next().is_none()
    }

    /// When keys need not wait for the kinds of patterns any more, even if nothing comes.
    pub fn proven_by(&self, doubts: &Doubts, now: Time) -> Option<Time> {
        let pending = self.tenure.pending.as_ref();
        let pending = pending.map(|pending| pending.doubt);
        let numbers = pending.into_iter().chain([self.tenure.since]);
        let waits = numbers.flat_map(|number| self.holding_back(doubts, number, now));
        waits.flatten().min()
    }

    /// Until when each of the informers that it uses holds keys back until this doubt is over:
    /// `None` without an end.
    fn holding_back<'a>(
        &'a self,
        doubts: &'a Doubts,
        number: u64,
        now: Time,
    ) -> impl Iterator<Item = Option<Time>> + 'a {
        let installed = &self.installed;
        let required = || installed.scope().required().map(|part| part.informer);
        let named = required().filter(move |informer| !doubts.is_settled(*informer, number));
        // Of thousands of kinds few are in doubt for long.
        let open = doubts.open(number).filter(|open| installed.uses(*open));
        let of_patterns = open.filter(move |open| required().all(|named| named != *open));
        let until = of_patterns.filter_map(move |informer| doubts.until(informer, number));
        let of_patterns = until.filter(move |until| now < *until);
        named.map(|_| None).chain(of_patterns.map(Some))
    }

    /// The shards that it will run once the caches are proven.
    pub fn pending_shards(&self) -> BTreeSet<u32> {
        self.promised().without(self.keys.duty()).held().clone()
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

    /// The keys that run now.
    pub fn running(&self) -> &RunningKeys {
        &self.running
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
