//! The keys of one plugin, from being queued until a reconcile of them has ended.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::changed::KeyedChange;
use super::gone::GoneKeys;
use super::installed::InstalledVersion;
use super::loops::{Begun, LoopingKey, WrittenState};
use super::present::Present;
use super::ready::{ReadyKey, ReadyKeys};
use super::recorded::RecordedReads;
use super::records::KeyRecords;
use super::suspects::{SUSPECT_AFTER, Suspects};
use crate::cache::Cache;
use crate::cache::snapshot::{InformerId, Snapshot};
use crate::hub::changelog::Missed;
use crate::hub::duties::Duty;
use crate::hub::gate::{Awaited, GateId, Sign};
use crate::hub::reconcile::{End, Finished, Ran, ReconcileError, Remembered, RunningKey};
use crate::hub::status::{BrokenKey, KeysStatus, MAX_LISTED};
use crate::hub::subjects::Subjects;
use crate::hub::{Fetch, Garbage, Known, PluginId, Purpose, Question};
use crate::model::key::{ObjectKey, ResourceVersion};
use crate::model::outcome::Effect;
use crate::model::subject_key::SubjectKey;
use crate::plan::accepted::Trace;
use crate::plan::execution::Executed;
use crate::queue::{LOW, NORMAL, Priority, Taken, Time};
use crate::reads::fetched::FetchedObjects;

/// After this a key runs again whose answers there was no room to keep: by then others have been
/// told theirs.
const NO_ROOM: Duration = Duration::from_secs(1);

/// See the module's documentation.
pub(super) struct Keys {
    ready: ReadyKeys,
    reads: RecordedReads,
    /// The keys whose objects are gone. They are forgotten once nothing can wake them.
    gone: GoneKeys,
    /// The keys that keep failing, perhaps on a wrong cache.
    suspects: Suspects,
    records: KeyRecords,
}

/// What is to be done next for a plugin's keys.
pub(super) enum KeyWork {
    Run(TakenKey),
    /// Something must be fetched before a key can run.
    Fetch(Fetch),
    /// Nothing yet. Ask again, after others could use the hub.
    Later,
}

/// A key that is handed out.
pub(super) struct TakenKey {
    pub taken: Taken,
    /// Whether it tests if the cluster can be reached again.
    pub is_probe: bool,
    /// Whether nothing but its own last writes has caused this. Not so of a run that goes on with
    /// a reconcile, which was counted when that began.
    pub is_self_triggered: bool,
    /// What became of the writes of its last outcome.
    pub previous: Vec<Effect>,
    /// What its last outcome asked to be kept.
    pub memo: Option<Arc<str>>,
    /// What was fetched for it because its last run has asked about it.
    pub fetched: FetchedObjects,
}

impl Keys {
    /// `is_serial`: whether a key may run only once the writes of all others are visible.
    pub fn new(is_serial: bool, duty: Duty) -> Self {
        Self {
            ready: ReadyKeys::new(is_serial, duty),
            reads: RecordedReads::default(),
            gone: GoneKeys::default(),
            suspects: Suspects::default(),
            records: KeyRecords::default(),
        }
    }

    /// All queued keys.
    pub fn into_queued(mut self, now: Time) -> Vec<SubjectKey> {
        std::iter::from_fn(|| self.ready.due.queue.next(now))
            .map(|taken| taken.key)
            .collect()
    }

    /// Forgets all keys but those that a plugin with these kinds can have. What they have read is
    /// forgotten by [`replace`](Self::replace) or [`retain_reads`](Self::retain_reads).
    pub fn retain(&mut self, subjects: &Subjects) {
        self.ready.retain(subjects);
        self.gone.retain(|key| subjects.has(key));
        self.suspects.retain(|key| subjects.has(key));
        self.records.retain(|key| subjects.has(key));
    }

    /// Forgets what all keys have read but those that a plugin with these kinds can have.
    pub fn retain_reads(&mut self, subjects: &Subjects) {
        self.reads.retain(|key| subjects.has(key));
    }

    /// Another version has been installed, which runs every key again. The present keys are of its
    /// kinds.
    pub fn replace(&mut self, present: Present<'_>, garbage: &mut Garbage) {
        garbage.add(self.reads.take());
        self.records.forget_memos();
        self.ready.replace(present);
        // Nothing else wakes these keys soon: their read sets are gone, and there may be no object
        // of their names.
        let failed: Vec<SubjectKey> = self.ready.due.queue.failed().cloned().collect();
        let keys: Vec<SubjectKey> = failed.into_iter().chain(self.gone.take()).collect();
        self.add(&keys, LOW, present.now);
        if !present.installed.subjects().is_singleton() {
            self.start(present);
        }
    }

    /// Begins to reconcile every subject.
    pub fn start(&mut self, present: Present<'_>) {
        let subjects = present.installed.subjects();
        self.ready
            .due
            .start(subjects, present.snapshot, present.now);
    }

    /// Queues these keys, as far as they are run here.
    pub fn add(&mut self, keys: &[SubjectKey], priority: Priority, now: Time) {
        for key in keys {
            self.ready.due.add(key, priority, now);
        }
    }

    /// The shards whose keys are run.
    pub fn duty(&self) -> &Duty {
        self.ready.due.duty()
    }

    /// From now on only keys of this duty are run, which is a part of the present one. Everything
    /// about other keys is forgotten; those that are running end.
    pub fn lose(&mut self, kept: &Duty, garbage: &mut Garbage) {
        self.ready.lose(kept);
        if kept.is_empty() {
            garbage.add(self.reads.take());
            garbage.add(std::mem::take(&mut self.records));
            garbage.add(std::mem::take(&mut self.gone));
        }
        let is_kept = |key: &SubjectKey| kept.has(key);
        self.reads.retain(is_kept);
        self.records.retain(is_kept);
        self.gone.retain(is_kept);
        self.suspects.retain(is_kept);
    }

    /// From now on the keys of this duty are run: see [`DueKeys::gain`].
    ///
    /// [`DueKeys::gain`]: super::due::DueKeys::gain
    pub fn gain(&mut self, duty: Duty, gained: Duty, present: Present<'_>) {
        let subjects = present.installed.subjects();
        let due = &mut self.ready.due;
        due.gain(duty, gained, subjects, present.snapshot, present.now);
    }

    /// A key is given back whose shard was given up while it ran. Nothing is remembered of its run.
    /// If the shard has come back, the key waits until the caches show what it has written.
    pub fn finished_lost(&mut self, finished: &Finished, present: Present<'_>) {
        let key = &finished.held.request.key;
        self.ready.due.wrote_nothing(key, present.now);
        if self.duty().has(key) {
            self.await_writes(key, &finished.executed, present);
        }
        self.done(key, present.now);
    }

    /// Queues the keys that a change of this key's object concerns: those that read the object, the
    /// key of the object itself, and the key whose child it is. Returns how many comparisons it
    /// took to find them.
    pub fn wake(
        &mut self,
        changed: KeyedChange<'_>,
        priority: Priority,
        present: Present<'_>,
    ) -> usize {
        let Present {
            installed,
            snapshot,
            now,
        } = present;
        for subject in installed.subjects().concerned_by(changed.informer) {
            self.ready.due.note_change(subject, changed);
        }
        let touched = self.reads.touched(installed, snapshot, changed);
        for key in touched.keys {
            self.ready.due.wake(key, changed, priority, now);
        }
        if self.duty().has_object(changed.key.parts()) {
            for subject in installed.touched_subjects(snapshot, changed) {
                self.ready.due.wake_subject(subject, changed, priority, now);
            }
        }
        if let Some(owner) = installed.owner_of_new(changed) {
            self.ready.due.wake(&owner, changed, priority, now);
        }
        touched.comparisons
    }

    /// Queues the keys that asked for an object which has become unreadable, or readable again: its
    /// own key, and the keys with a result that contained it or should have.
    pub fn wake_readers(
        &mut self,
        informer: InformerId,
        key: &ObjectKey,
        installed: &InstalledVersion,
        priority: Priority,
        now: Time,
    ) {
        let own = installed.subjects().concerned_by(informer);
        let own = own.filter(|subject| subject.may_be(informer, key));
        let own = own.map(|subject| subject.key(key.clone()));
        let readers = self.reads.about(installed.origin(informer), key);
        let readers = readers.into_iter().cloned();
        let keys: BTreeSet<SubjectKey> = readers.chain(own).collect();
        for key in keys {
            self.ready.due.wake_otherwise(&key, priority, now);
        }
    }

    /// The objects of an informer come into the lists of patterns, or leave them, all at once and
    /// without a change of their own: because of their kind. Queues the keys whose lists have some
    /// of them. Returns how many comparisons it took to find them.
    pub fn wake_lists(&mut self, informer: InformerId, present: Present<'_>) -> usize {
        let cache = &present.snapshot.informers[informer];
        let origin = present.installed.origin(informer);
        let (keys, comparisons) = self.reads.in_lists(origin, cache);
        for key in keys {
            self.ready.due.wake_otherwise(&key, NORMAL, present.now);
        }
        comparisons
    }

    /// An informer's cache has been listed: see [`DueKeys::listed`].
    ///
    /// [`DueKeys::listed`]: super::due::DueKeys::listed
    pub fn listed(
        &mut self,
        informer: InformerId,
        before: &ResourceVersion,
        cache: &Cache,
        now: Time,
    ) {
        self.ready.due.listed(informer, before, cache, now);
    }

    /// Stops waiting for writes that only informers which are not kept would show.
    pub fn keep_gates(&mut self, is_kept: impl Fn(InformerId) -> bool, snapshot: &Snapshot) {
        self.ready.keep_gates(is_kept, snapshot);
    }

    /// The server has gone back in time: others may write the states that keys have written.
    pub fn forget_written(&mut self) {
        self.ready.due.forget_written();
    }

    /// Some objects have become unreadable, or readable again, at this sequence number.
    pub fn note_turned(&mut self, sequence: u64) {
        self.reads.note_turned(sequence);
    }

    /// Whether a sweep has keys that it has not run yet.
    pub fn is_sweeping(&self) -> bool {
        self.ready.due.swept() > 0
    }

    /// How many keys run, or wait for a fetch.
    pub fn in_flight(&self) -> usize {
        self.ready.in_flight()
    }

    /// Whether there may be something to do now.
    pub fn has_work(&self, now: Time) -> bool {
        self.ready.has_key(now) || self.suspects.due().is_some_and(|due| due <= now)
    }

    /// When there may be something to do even if nothing changes.
    pub fn next_due(&self) -> Option<Time> {
        let key = self.ready.next_due();
        key.into_iter().chain(self.suspects.due()).min()
    }

    /// What is to be done next: see [`ReadyKeys::take`].
    pub fn take(&mut self, plugin: PluginId, present: Present<'_>) -> Option<KeyWork> {
        if let Some(fetch) = self.next_suspect(plugin, present) {
            return Some(KeyWork::Fetch(fetch));
        }
        loop {
            match self.ready.take(plugin, &self.records, present)? {
                ReadyKey::Taken(taken) => {
                    return Some(KeyWork::Run(self.begin(taken, present.now)));
                }
                ReadyKey::Fetch(fetch) => return Some(KeyWork::Fetch(fetch)),
                ReadyKey::NotYet => return Some(KeyWork::Later),
                // Its object is not gone, so there is nothing to clean up after it.
                ReadyKey::Foreign(key) => {
                    self.forget(&key);
                    self.done(&key, present.now);
                }
            }
        }
    }

    fn begin(&mut self, taken: Taken, now: Time) -> TakenKey {
        let Begun {
            is_self_triggered,
            goes_on,
        } = self.ready.due.begin(&taken.key);
        let fetched = self.records.take_fetched(&taken.key).at(now);
        // What has changed since may speak of other objects, which have come after the answers.
        let fetched = Some(fetched).filter(|_| goes_on).unwrap_or_default();
        TakenKey {
            is_probe: self.ready.is_cut_off(),
            is_self_triggered: is_self_triggered && !goes_on,
            previous: self.effects(&taken.key).to_vec(),
            memo: self.memo(&taken.key),
            fetched,
            taken,
        }
    }

    /// What became of the writes of a key's last outcome.
    pub fn effects(&self, key: &SubjectKey) -> &[Effect] {
        self.records.effects(key)
    }

    /// What a key's last outcome asked to be kept.
    pub fn memo(&self, key: &SubjectKey) -> Option<Arc<str>> {
        self.records.memo(key).cloned()
    }

    /// The next fetch of what failing keys have read, if one is due.
    fn next_suspect(&mut self, plugin: PluginId, present: Present<'_>) -> Option<Fetch> {
        let queue = &self.ready.due.queue;
        let is_failing = |key: &SubjectKey| queue.is_failing(key);
        let (key, questions) = self.suspects.next(&self.reads, is_failing, present)?;
        Some(Fetch {
            plugin,
            key,
            purpose: Purpose::Repair,
            questions,
        })
    }

    /// Forgets everything remembered about a key except its position in the queue.
    fn forget(&mut self, key: &SubjectKey) {
        self.ready.forget(key);
        self.reads.forget(key);
        self.records.forget(key);
    }

    /// An object that a key waited for has been fetched. Releases the keys that may run now.
    pub fn object_fetched(
        &mut self,
        key: &SubjectKey,
        gate: GateId,
        question: &Question,
        known: &Known,
        snapshot: &Snapshot,
    ) {
        let ready = &mut self.ready;
        ready.object_fetched(key, gate, question, known, snapshot);
    }

    /// A fetch for a key that waits for it has ended, with or without answers.
    pub fn fetch_ended(&mut self, key: &SubjectKey, is_answered: bool, now: Time) {
        self.ready.fetch_ended(key, is_answered, now);
    }

    /// A fetch for a failing key has ended; see [`Suspects::fetch_ended`].
    pub fn repair_ended(
        &mut self,
        fetch: &Fetch,
        states: Vec<Question>,
        is_answered: bool,
        now: Time,
    ) {
        self.suspects.fetch_ended(fetch, states, is_answered, now);
        let duty = self.ready.due.duty();
        self.suspects.retain(|key| duty.has(key));
    }

    /// Releases the held keys whose writes an informer's cache now shows.
    pub fn open_gates(&mut self, informer: InformerId, snapshot: &Snapshot) {
        self.ready.open_gates(informer, snapshot);
    }

    /// The guest has ended on the present version. Registers the reads of this reconcile, and
    /// queues the key again if something it read has changed since its snapshot. Returns the costs
    /// of both in comparisons, to be charged one after the other.
    pub fn register(&mut self, ran: &Ran, missed: Missed<'_>, present: Present<'_>) -> [usize; 2] {
        let Present { installed, now, .. } = present;
        let key = &ran.held.request.key;
        let (altering, comparisons) = self.reads.missed(installed, ran, missed);
        if altering.is_none_or(|changes| !changes.is_empty()) {
            self.ready.due.wake_otherwise(key, NORMAL, now);
        }
        self.ready.due.decided(key, ran.is_settled());
        [comparisons, self.reads.store(installed, ran)]
    }

    /// Gives a key back of which nothing is to be remembered, and ends an outage if the key was the
    /// last to try with.
    pub fn done(&mut self, key: &SubjectKey, now: Time) {
        self.ready.due.queue.done(key, now);
        self.ready.end_empty_outage(&self.records, now);
    }

    /// Takes a key back. Returns the key if it is now found to loop.
    pub fn finished(&mut self, finished: Finished, present: Present<'_>) -> Option<LoopingKey> {
        let Finished {
            held,
            end,
            remembered,
            executed,
        } = finished;
        let is_carried_out = remembered.is_some();
        if let Some(remembered) = remembered.filter(|_| present.installed.is_of(&held)) {
            self.remember(&held, remembered, present.now);
        }
        match end {
            End::Done(requeue_after) => {
                return self.settle(&held, requeue_after, executed, present);
            }
            End::Failed(error) => {
                // A reconcile without an outcome leaves the effects of the last one in place.
                let executed = is_carried_out.then_some(executed);
                self.fail(&held, &error, executed, present);
            }
            End::Halted => self.run_again(&held, executed, present),
            End::Contradicted => self.contradicted(&held, present.now),
            End::Unseen => self.decided_nothing(&held, present.now),
            End::Fetched(fetched) => self.fetched(&held, fetched, present),
        }
        None
    }

    /// Stores what an outcome of the present version asks to be remembered of its key. What is gone
    /// has no memo: the next object of this name is another one.
    fn remember(&mut self, held: &RunningKey, remembered: Remembered, now: Time) {
        let (key, queue) = (&held.request.key, &mut self.ready.due.queue);
        self.records.end_contradictions(key);
        queue.set_not_before(key, now + remembered.not_before);
        let memo = remembered.memo.filter(|_| !held.is_gone);
        self.records.set_memo(key, memo);
    }

    fn settle(
        &mut self,
        held: &RunningKey,
        requeue_after: Option<Duration>,
        executed: Executed,
        present: Present<'_>,
    ) -> Option<LoopingKey> {
        let (key, now) = (&held.request.key, present.now);
        self.records.end_unreachable(key);
        if is_certain(&executed) {
            self.ready.release_parked(&self.records);
        } else {
            self.try_the_next_at_once(held, now);
        }
        self.ready.due.queue.forget(key);
        self.records.set_error(key, None);
        let looping = self.keep(key, executed, true, present);
        if held.is_gone {
            self.records.set_effects(key, vec![]);
            self.note_gone(key, present);
        } else {
            self.gone.remove(key);
        }
        match requeue_after {
            Some(delay) => {
                let delay = self.records.requeue(key, delay);
                self.ready.due.queue.add_after(key, delay, NORMAL, now);
            }
            None => self.records.end_requeues(key),
        }
        self.done(key, now);
        looping
    }

    fn fail(
        &mut self,
        held: &RunningKey,
        error: &ReconcileError,
        executed: Option<Executed>,
        present: Present<'_>,
    ) {
        let (key, now) = (&held.request.key, present.now);
        if !held.is_gone {
            self.gone.remove(key);
        }
        let is_reached = matches!(
            error,
            ReconcileError::Write { .. } | ReconcileError::Unconfirmed(_)
        ) || executed.as_ref().is_some_and(is_certain);
        match executed {
            Some(executed) => drop(self.keep(key, executed, false, present)),
            None => self.ready.due.wrote_nothing(key, now),
        }
        if let ReconcileError::Unavailable(_) = error {
            return self.park(held, now);
        }
        self.retry(held, error, present);
        self.records.end_unreachable(key);
        if is_reached {
            self.ready.release_parked(&self.records);
        } else {
            self.try_the_next_at_once(held, now);
        }
        if self.ready.due.queue.is_broken(key) {
            self.records.set_error(key, Some(error.to_string()));
        }
        self.done(key, now);
    }

    /// Has a failed key run again, unless its failure is terminal. If it keeps failing, has what it
    /// has read fetched.
    fn retry(&mut self, held: &RunningKey, error: &ReconcileError, present: Present<'_>) {
        let (key, now) = (&held.request.key, present.now);
        if error.is_terminal() {
            self.ready.due.queue.fail_terminally(key, now);
            if held.is_gone {
                self.note_gone(key, present);
            }
        } else {
            // A retry keeps the priority of the reconcile that failed (controller-runtime's rule).
            let at_least = error.retry_after();
            self.ready.due.queue.fail(key, at_least, held.priority, now);
        }
        let is_repeated = error.is_terminal() || held.request.attempt >= SUSPECT_AFTER;
        if is_repeated && !matches!(error, ReconcileError::Write { .. }) {
            self.suspects.add(key);
        }
    }

    /// The API server has contradicted what a reconcile was decided on. Its key is queued again: at
    /// once the first time, because the caches have taken what the server said.
    fn contradicted(&mut self, held: &RunningKey, now: Time) {
        let key = &held.request.key;
        self.ready.due.wrote_nothing(key, now);
        self.records.end_unreachable(key);
        self.ready.release_parked(&self.records);
        let delay = self.records.count_contradiction(key);
        let queue = &mut self.ready.due.queue;
        queue.add_after(key, delay, held.priority, now);
        self.done(key, now);
    }

    /// A reconcile has asked about what is not known yet. The caller has the key run again.
    fn decided_nothing(&mut self, held: &RunningKey, now: Time) {
        self.ready.due.wrote_nothing(&held.request.key, now);
        self.give_back(held, now);
    }

    /// A reconcile has ended that could not show whether the cluster can be reached.
    fn give_back(&mut self, held: &RunningKey, now: Time) {
        self.try_the_next_at_once(held, now);
        self.done(&held.request.key, now);
    }

    /// What a reconcile has asked about is fetched. Its key runs again, and is told, unless another
    /// version does that, which may see other fields.
    fn fetched(&mut self, held: &RunningKey, fetched: FetchedObjects, present: Present<'_>) {
        let (key, now) = (&held.request.key, present.now);
        let is_told = present.installed.is_of(held);
        let delay = match is_told && !self.records.set_fetched(key, fetched) {
            true => NO_ROOM,
            false => Duration::ZERO,
        };
        self.ready.due.asked(key, delay, held.priority, now);
        self.give_back(held, now);
    }

    /// What the keys have read.
    pub fn reads(&self) -> &RecordedReads {
        &self.reads
    }

    /// The writes of a reconcile were stopped on the way, so its key is queued again.
    fn run_again(&mut self, held: &RunningKey, executed: Executed, present: Present<'_>) {
        let (key, now) = (&held.request.key, present.now);
        self.keep(key, executed, false, present);
        self.ready.due.queue.add(key, held.priority, now);
        self.ready.due.queue.done(key, now);
    }

    /// Stores what became of the writes, and closes the key's gate until what it wrote is visible.
    /// Returns the key if it is now found to loop.
    fn keep(
        &mut self,
        key: &SubjectKey,
        executed: Executed,
        has_succeeded: bool,
        present: Present<'_>,
    ) -> Option<LoopingKey> {
        let Present { snapshot, now, .. } = present;
        let awaited = self.await_writes(key, &executed, present);
        let wrote = awaited.iter().filter_map(written).collect();
        let due = &mut self.ready.due;
        let looping = due.wrote(key, wrote, has_succeeded, snapshot, now);
        if awaited.iter().any(|it| it.has_gone_unseen(snapshot)) {
            due.wake_otherwise(key, NORMAL, now);
        }
        self.records.set_effects(key, executed.effects);
        looping
    }

    /// Closes the key's gate until what it wrote is visible. Returns what it waits for.
    fn await_writes(
        &mut self,
        key: &SubjectKey,
        executed: &Executed,
        present: Present<'_>,
    ) -> Vec<Awaited> {
        let Present {
            installed,
            snapshot,
            now,
        } = present;
        let awaited = executed.accepted.iter();
        let awaited = awaited.filter_map(|it| installed.awaited(it, self.duty()));
        let awaited: Vec<Awaited> = awaited.collect();
        self.ready.close_gate(key, awaited.clone(), snapshot, now);
        installed.forget_gone_applies(&executed.accepted, snapshot);
        awaited
    }

    /// A reconcile has ended that is not retried by itself, and its key had no object. Forgets a
    /// few of the other such keys, if nothing can wake them and they are not queued.
    fn note_gone(&mut self, key: &SubjectKey, present: Present<'_>) {
        for _ in 0..self.gone.add(key, present) {
            let next = self.gone.next();
            let idle = next.filter(|key| !self.gone.is_awaiting(key, &self.reads, present));
            if let Some(key) = idle.filter(|key| self.ready.due.queue.forget_idle(key)) {
                self.gone.remove(&key);
                self.forget(&key);
            }
        }
    }

    /// Parks a key until the cluster can be reached: see [`ReadyKeys::park`].
    fn park(&mut self, held: &RunningKey, now: Time) {
        let taken = Taken {
            key: held.request.key.clone(),
            failures: held.request.attempt.saturating_sub(1),
            priority: held.priority,
            waited: Duration::ZERO,
        };
        let is_outage = self.ready.is_cut_off();
        let streak = self.records.count_unreachable(&taken.key, is_outage);
        self.ready.park(taken, streak, now);
    }

    /// A key has ended without an answer from the cluster, and without having failed to get one. If
    /// it was a try, the next one may follow at once.
    fn try_the_next_at_once(&mut self, held: &RunningKey, now: Time) {
        if held.is_probe {
            self.ready.try_the_next_at_once(now);
        }
    }

    /// The cluster can be reached again: see [`ReadyKeys::recovered`].
    pub fn recovered(&mut self) {
        self.ready.recovered(&mut self.records);
    }

    pub fn is_cut_off(&self) -> bool {
        self.ready.is_cut_off()
    }

    /// From now on only what is due is finished.
    pub fn drain(&mut self, snapshot: &Snapshot) {
        self.ready.due.drain(snapshot);
    }

    /// Whether a key is to run, now or later.
    pub fn is_queued(&self, key: &SubjectKey) -> bool {
        self.ready.due.queue.is_queued(key)
    }

    /// Whether nothing is running, and nothing due.
    pub fn is_empty(&self) -> bool {
        self.ready.due.is_empty()
    }

    /// Whether a key is running.
    pub fn is_running(&self) -> bool {
        self.ready.due.queue.running() > 0
    }

    /// How many keys are in the queue itself, without those of a sweep.
    #[cfg(test)]
    pub fn queued(&self) -> usize {
        self.ready.due.queue.pending()
    }

    /// How many keys are remembered for what they have written.
    #[cfg(test)]
    pub fn cycles(&self) -> usize {
        self.ready.due.cycles()
    }

    pub fn status(&self, now: Time) -> KeysStatus {
        let (queue, swept) = (&self.ready.due.queue, self.ready.due.swept());
        let mut depth = queue.depth().clone();
        depth.entry(NORMAL).or_default();
        *depth.entry(LOW).or_default() += swept;
        let broken = queue.broken().map(|(key, failures, due)| BrokenKey {
            key: key.clone(),
            failures,
            reason: self.records.error(key).to_owned(),
            retry_in: due.map(|due| due.saturating_sub(now)),
        });
        let looping = self.ready.due.looping();
        KeysStatus {
            queued: queue.pending() + swept,
            held: queue.held(),
            depth,
            running: queue.running(),
            running_for: queue.running_for(now).collect(),
            delayed: queue.delayed(),
            failing: queue.failing(),
            broken_keys: broken.len(),
            broken: broken.take(MAX_LISTED).collect(),
            looping_keys: looping.len(),
            looping: looping.take(MAX_LISTED).collect(),
            recorded_reads: self.reads.len(),
            coarse: self.reads.coarse(),
            queue: queue.counts(),
        }
    }
}

/// Whether a write has shown that the cluster can be reached. One without an answer does not.
fn is_certain(executed: &Executed) -> bool {
    let mut traces = executed.accepted.iter().map(|accepted| &accepted.trace);
    traces.any(|trace| *trace != Trace::Unknown)
}

/// The state that a write has left.
fn written(awaited: &Awaited) -> Option<WrittenState> {
    let Sign::Version(version) = &awaited.sign else {
        return None;
    };
    Some(WrittenState {
        informer: awaited.informer,
        key: awaited.key.clone(),
        version: version.clone(),
    })
}
