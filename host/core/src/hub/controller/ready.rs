//! Which key of a plugin may run next: the due keys, without those that are held back by a write
//! gate or by an outage of the cluster.

use std::time::Duration;

use super::due::{DueKeys, NextKey};
use super::present::Present;
use super::records::KeyRecords;
use crate::cache::snapshot::{InformerId, Snapshot};
use crate::hub::duties::Duty;
use crate::hub::gate::{Awaited, GateId, Gates, Passage};
use crate::hub::outage::{Outage, Probe};
use crate::hub::subjects::Subjects;
use crate::hub::{Fetch, Known, PluginId, Purpose, Question};
use crate::model::subject_key::SubjectKey;
use crate::queue::backoff::Backoff;
use crate::queue::{Taken, Time};

/// How long a key waits after its writes could not reach the cluster.
const PARKED: Backoff = Backoff {
    base: Duration::from_secs(1),
    max: Duration::from_secs(30),
};

/// See the module's documentation.
pub(super) struct ReadyKeys {
    pub due: DueKeys,
    gates: Gates,
    /// Present while the plugin's writes cannot reach the cluster.
    outage: Option<Outage>,
    /// Fetches that held keys wait for.
    fetching: usize,
}

/// The result of [`ReadyKeys::take`].
pub(super) enum ReadyKey {
    /// This key runs. During an outage it tests if the cluster can be reached again.
    Taken(Taken),
    /// This key is not the plugin's. It has been handed out and is not to run.
    Foreign(SubjectKey),
    /// Something must be fetched before a key can run.
    Fetch(Fetch),
    /// There may be a key: ask again.
    NotYet,
}

impl ReadyKeys {
    /// `is_serial`: whether all keys share one gate.
    pub fn new(is_serial: bool, duty: Duty) -> Self {
        let mut gates = Gates::default();
        gates.share(is_serial);
        Self {
            due: DueKeys::new(duty),
            gates,
            outage: None,
            fetching: 0,
        }
    }

    /// How many keys run, or wait for a fetch.
    pub fn in_flight(&self) -> usize {
        self.due.queue.running() + self.fetching
    }

    /// Whether the plugin's writes cannot reach the cluster.
    pub fn is_cut_off(&self) -> bool {
        self.outage.is_some()
    }

    /// Whether there may be a key to run now.
    pub fn has_key(&self, now: Time) -> bool {
        let is_due = self.due.has_key(now);
        match &self.outage {
            Some(outage) => outage.next_probe() <= now && (!outage.is_empty() || is_due),
            None => is_due,
        }
    }

    /// When there may be a key to run.
    pub fn next_due(&self) -> Option<Time> {
        let due = self.due.next_ready();
        let Some(outage) = &self.outage else {
            return due;
        };
        let parked = (!outage.is_empty()).then(|| outage.next_probe());
        parked.or_else(|| due.map(|due| due.max(outage.next_probe())))
    }

    /// The next key whose last writes the snapshot shows, or a question that must be answered
    /// before a key can run. Keys that come earlier but are not visible yet are held.
    pub fn take(
        &mut self,
        plugin: PluginId,
        records: &KeyRecords,
        present: Present<'_>,
    ) -> Option<ReadyKey> {
        let Present {
            installed,
            snapshot,
            now,
        } = present;
        loop {
            let has_key = self.due.has_key(now);
            let probe = match &mut self.outage {
                Some(outage) => outage.probe(has_key, now)?,
                None => Probe::Queued,
            };
            let taken = match probe {
                Probe::Parked(key) => self.due.queue.claim(&key, now),
                Probe::Queued => match self.due.next(installed.subjects(), snapshot, now) {
                    NextKey::Taken(taken) => Some(taken),
                    NextKey::NotYet => return Some(ReadyKey::NotYet),
                    NextKey::None if self.outage.is_none() => return None,
                    NextKey::None => None,
                },
            };
            let Some(taken) = taken else {
                self.end_empty_outage(records, now);
                continue;
            };
            if !installed.is_mine(&taken.key) {
                return Some(ReadyKey::Foreign(taken.key));
            }
            if self.due.slow_down(&taken, now) {
                continue;
            }
            if let Some(ready) = self.try_to_run(plugin, taken, snapshot, now) {
                return Some(ready);
            }
        }
    }

    /// A key is next: runs it, or asks what must be known before, or holds it.
    fn try_to_run(
        &mut self,
        plugin: PluginId,
        taken: Taken,
        snapshot: &Snapshot,
        now: Time,
    ) -> Option<ReadyKey> {
        self.outage.iter_mut().for_each(|outage| outage.tried(now));
        match self.gates.try_pass(&taken.key, snapshot, now) {
            Passage::Open => Some(ReadyKey::Taken(taken)),
            Passage::Until(until) => {
                self.due.queue.hold(&taken, until, now);
                if let Some(outage) = &mut self.outage {
                    outage.park(taken.key);
                }
                None
            }
            Passage::Ask(questions, gate, until) => {
                self.due.queue.hold(&taken, until, now);
                self.fetching += 1;
                Some(ReadyKey::Fetch(Fetch {
                    plugin,
                    key: taken.key,
                    purpose: Purpose::Gate(gate),
                    questions,
                }))
            }
        }
    }

    /// An object that a key waits for has been fetched. Releases the keys that may run now.
    pub fn object_fetched(
        &mut self,
        key: &SubjectKey,
        gate: GateId,
        question: &Question,
        known: &Known,
        snapshot: &Snapshot,
    ) {
        let at = match known {
            Known::Nothing => return,
            Known::All => None,
            Known::Version(version) => Some(version),
        };
        for key in self.gates.fetch_ended(key, gate, question, at, snapshot) {
            self.due.queue.release(&key);
        }
    }

    /// A fetch that a key waits for has ended, with or without answers.
    pub fn fetch_ended(&mut self, key: &SubjectKey, is_answered: bool, now: Time) {
        self.fetching -= 1;
        if !self.due.duty().has(key) {
            return;
        }
        match &mut self.outage {
            Some(outage) if is_answered => outage.prefer(key.clone(), now),
            Some(outage) => outage.park(key.clone()),
            // The outage has ended meanwhile, so asking again may be answered.
            None if !is_answered => self.due.queue.hold_until(key, now + PARKED.base),
            None => {}
        }
    }

    /// A key has written and must not run before this is visible.
    pub fn close_gate(
        &mut self,
        key: &SubjectKey,
        awaited: Vec<Awaited>,
        snapshot: &Snapshot,
        now: Time,
    ) {
        self.gates.close(key, awaited, snapshot, now);
    }

    /// Releases the held keys whose writes an informer's cache now shows.
    pub fn open_gates(&mut self, informer: InformerId, snapshot: &Snapshot) {
        for key in self.gates.opened(informer, snapshot) {
            self.due.queue.release(&key);
        }
    }

    /// Releases the held keys whose writes only informers that are not kept would show.
    pub fn keep_gates(&mut self, is_kept: impl Fn(InformerId) -> bool, snapshot: &Snapshot) {
        for key in self.gates.keep(is_kept, snapshot) {
            self.due.queue.release(&key);
        }
    }

    /// Parks a key until the cluster can be reached: its writes could not reach it, this many times
    /// in a row. A key whose writes alone cannot reach it waits longer each time and stops no other
    /// key: by then the failure is known to be the key's own.
    pub fn park(&mut self, taken: Taken, streak: u32, now: Time) {
        let until = now + PARKED.delay(streak);
        self.due.queue.hold(&taken, until, now);
        // More tries than one mean that the failure is the key's own, so they begin no outage.
        if streak == 1 {
            self.outage.get_or_insert_with(|| Outage::new(now));
        }
        if let Some(outage) = &mut self.outage {
            outage.park(taken.key);
        }
    }

    /// A tried key has ended without an answer from the cluster, and without having failed to get
    /// one. The next try may follow at once.
    pub fn try_the_next_at_once(&mut self, now: Time) {
        let outage = self.outage.iter_mut();
        outage.for_each(|outage| outage.probe_soon(now));
    }

    /// Ends an outage in which no key is left to try with, because it would never end.
    pub fn end_empty_outage(&mut self, records: &KeyRecords, now: Time) {
        let is_empty = self.outage.as_ref().is_some_and(Outage::is_empty);
        let is_trying = self.in_flight() > 0 || self.due.has_key(now);
        if is_empty && !is_trying {
            self.release_parked(records);
        }
    }

    /// The cluster can be reached: parked keys that have been tried once can run. Keys tried more
    /// than once have failed while others got through, and wait for their time.
    pub fn release_parked(&mut self, records: &KeyRecords) {
        let outage = self.outage.take();
        for key in outage.into_iter().flat_map(Outage::into_parked) {
            if records.unreachable_streak(&key) <= 1 {
                self.due.queue.release(&key);
            }
        }
    }

    /// The cluster can be reached again, and it is known that nothing at all could be reached: the
    /// failures of parked keys are forgotten, and all of them can run.
    pub fn recovered(&mut self, records: &mut KeyRecords) {
        for key in records.forget_unreachable() {
            self.due.queue.release(&key);
        }
        self.release_parked(records);
    }

    /// Another version is installed. What held or slowed a key down because of the version before
    /// ends.
    pub fn replace(&mut self, present: Present<'_>) {
        let installed = present.installed;
        self.keep_gates(|informer| installed.uses(informer), present.snapshot);
        self.gates.share(installed.is_serial());
        self.due.end_slowness(present.now);
    }

    /// Forgets everything about a key except its position in the queue.
    pub fn forget(&mut self, key: &SubjectKey) {
        self.due.forget(key);
        self.gates.forget(key);
    }

    /// Forgets all keys but those that a plugin with these kinds can have. Fetches that are under
    /// way still end.
    pub fn retain(&mut self, subjects: &Subjects) {
        self.due.retain(subjects);
        self.keep(|key| subjects.has(key));
    }

    fn keep(&mut self, is_kept: impl Fn(&SubjectKey) -> bool) {
        self.gates.retain(&is_kept);
        let outage = self.outage.iter_mut();
        outage.for_each(|outage| outage.retain(&is_kept));
    }

    /// From now on only keys of this duty are run: see [`DueKeys::lose`].
    pub fn lose(&mut self, kept: &Duty) {
        self.due.lose(kept);
        if kept.is_empty() {
            self.gates.clear();
            self.outage = None;
        } else {
            self.keep(|key| kept.has(key));
        }
    }
}
