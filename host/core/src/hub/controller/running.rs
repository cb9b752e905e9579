//! The reconciles of one plugin: from handing out a key to taking it back.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::Controller;
use super::loops::{LoopingKey, WrittenState};
use super::suspects::SUSPECT_AFTER;
use super::sweep::SweepStep;
use crate::cache::Change;
use crate::cache::snapshot::{InformerId, Snapshot};
use crate::hub::changelog::Missed;
use crate::hub::gate::{Awaited, GateId, Passage, Sign};
use crate::hub::outage::{Outage, Probe};
use crate::hub::plugin::{Request, RunError};
use crate::hub::reconcile::{
    Conclusion, End, Finished, PluginVersion, Ran, Reconcile, ReconcileError, RunningKey, Start,
};
use crate::hub::rehearsal::Rehearsal;
use crate::hub::status::LastError;
use crate::hub::{Fetch, Known, PluginId, Purpose, Question};
use crate::model::key::ObjectKey;
use crate::model::outcome::Failure;
use crate::plan::accepted::{AcceptedWrite, Effect};
use crate::plan::execution::Executed;
use crate::queue::backoff::Backoff;
use crate::queue::{LOW, NORMAL, Taken, Time};
use crate::reads::read::Read;
use crate::reads::reader::Reader;
use crate::reads::sight::Sight;
use crate::reads::touches_any;

/// How long a key waits after its writes could not reach the cluster.
const PARKED: Backoff = Backoff {
    base: Duration::from_secs(1),
    max: Duration::from_secs(30),
};

/// Minimum delay for a key that keeps asking for a short requeue. Any outside change wakes it
/// anyway, so it can only be waiting for time to pass.
pub(super) const REQUEUE_STREAK: Backoff = Backoff {
    base: Duration::from_millis(5),
    max: Duration::from_secs(1),
};

/// Maximum number of comparisons between what a reconcile has read and the changes it has missed.
const MISSED_COMPARISONS: usize = 50_000;

/// The cost of storing one read, in comparisons.
const COMPARISONS_PER_READ: usize = 20;

/// What a plugin has to do next.
pub enum Work {
    Run(Box<Reconcile>),
    /// Something must be fetched before a key can run.
    Fetch(Fetch),
    /// Nothing yet. Ask again, after others could use the hub.
    Later,
}

/// The result of [`Controller::next_key`].
enum NextKey {
    Taken(Taken),
    /// There may be a key: ask again.
    NotYet,
    None,
}

impl Controller {
    /// The next key whose last writes the snapshot shows, or a question that must be answered
    /// before a key can run. Keys that come earlier but are not visible yet are held.
    pub fn take(
        &mut self,
        id: PluginId,
        snapshot: &Snapshot,
        now: Time,
        wall_clock_ms: u64,
    ) -> Option<Work> {
        if let Some(fetch) = self.next_suspect(id, snapshot, now) {
            return Some(Work::Fetch(fetch));
        }
        loop {
            let has_key = self.has_key(now);
            let probe = match &mut self.outage {
                Some(outage) => outage.probe(has_key, now)?,
                None => Probe::Queued,
            };
            let taken = match probe {
                Probe::Parked(key) => self.queue.claim(&key, now),
                Probe::Queued => match self.next_key(snapshot, now) {
                    NextKey::Taken(taken) => Some(taken),
                    NextKey::NotYet => return Some(Work::Later),
                    NextKey::None if self.outage.is_none() => return None,
                    NextKey::None => None,
                },
            };
            let Some(taken) = taken.and_then(|taken| self.keep_if_mine(taken, now)) else {
                self.end_empty_outage(now);
                continue;
            };
            if self.slow_down(&taken, now) {
                continue;
            }
            let is_probe = self.outage.is_some();
            self.outage.iter_mut().for_each(|outage| outage.tried(now));
            match self.gates.try_pass(&taken.key, snapshot, now) {
                Passage::Open => {
                    let mut reconcile = self.reconcile(id, taken, snapshot, now, wall_clock_ms);
                    reconcile.held.is_probe = is_probe;
                    return Some(Work::Run(Box::new(reconcile)));
                }
                Passage::Until(until) => {
                    self.queue.hold(&taken, until, now);
                    self.outage
                        .iter_mut()
                        .for_each(|outage| outage.park(taken.key.clone()));
                }
                Passage::Ask(questions, gate, until) => {
                    self.queue.hold(&taken, until, now);
                    self.fetching += 1;
                    return Some(Work::Fetch(Fetch {
                        plugin: id,
                        key: taken.key,
                        purpose: Purpose::Gate(gate),
                        questions,
                    }));
                }
            }
        }
    }

    /// The next key in order, queued or swept.
    fn next_key(&mut self, snapshot: &Snapshot, now: Time) -> NextKey {
        while let (Some(sweep), Some(subject)) = (&mut self.sweep, &self.subject)
            && self.queue.is_first(sweep.place(), now)
        {
            match sweep.next(subject, snapshot) {
                SweepStep::Key(key) => {
                    let waited = sweep.waited(now);
                    self.loops.caused_otherwise(&key);
                    if let Some(taken) = self.queue.visit(&key, LOW, now) {
                        return NextKey::Taken(Taken { waited, ..taken });
                    }
                }
                SweepStep::NotYet => return NextKey::NotYet,
                SweepStep::End => self.sweep = None,
            }
        }
        let Some(taken) = self.queue.next(now) else {
            return NextKey::None;
        };
        if let (Some(sweep), Some(subject)) = (&mut self.sweep, &self.subject) {
            sweep.note_queued(&taken.key, subject.is_cached(snapshot, taken.key.parts()));
        }
        NextKey::Taken(taken)
    }

    /// Whether there may be a key to run now.
    pub(super) fn has_key(&self, now: Time) -> bool {
        self.sweep.is_some() || self.queue.is_ready(now)
    }

    /// Puts a key back if it was queued once too often by its own writes alone. Returns whether it
    /// did.
    fn slow_down(&mut self, taken: &Taken, now: Time) -> bool {
        if self.queue.is_draining() {
            return false;
        }
        let Some(delay) = self.loops.wait(&taken.key, now) else {
            return false;
        };
        self.queue.add_after(&taken.key, delay, taken.priority, now);
        self.queue.done(&taken.key, now);
        true
    }

    /// Drops a key whose object the plugin may not see. Such an object is not gone, so there is
    /// nothing to clean up after it.
    fn keep_if_mine(&mut self, taken: Taken, now: Time) -> Option<Taken> {
        if self.is_mine(&taken.key) {
            return Some(taken);
        }
        self.forget(&taken.key);
        self.queue.done(&taken.key, now);
        None
    }

    /// Forgets everything remembered about a key except its position in the queue.
    pub(super) fn forget(&mut self, key: &ObjectKey) {
        self.queue.forget(key);
        self.reads.clear(key);
        self.gates.forget(key);
        self.loops.forget(key);
        self.keys.forget(key);
    }

    fn is_mine(&self, key: &ObjectKey) -> bool {
        let Some(subject) = &self.subject else {
            return true;
        };
        let scope = self.version.scope.kinds.get(subject.kind());
        scope.is_some_and(|scope| scope.part_of(&key.namespace).is_some())
    }

    /// A fetch for a key has ended, with or without answers.
    pub fn fetched(&mut self, key: &ObjectKey, is_answered: bool, now: Time) {
        self.fetching -= 1;
        match &mut self.outage {
            Some(outage) if is_answered => outage.prefer(key.clone(), now),
            Some(outage) => outage.park(key.clone()),
            // The outage has ended meanwhile, so asking again may be answered.
            None if !is_answered => self.queue.hold_until(key, now + PARKED.base),
            None => {}
        }
    }

    /// An object that a key waited for has been fetched. Releases the keys that may run now.
    pub fn fetch_ended(
        &mut self,
        key: &ObjectKey,
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
            self.queue.release(&key);
        }
    }

    /// Releases the held keys whose writes an informer's cache now shows.
    pub fn open_gates(&mut self, informer: InformerId, snapshot: &Snapshot) {
        for key in self.gates.opened(informer, snapshot) {
            self.queue.release(&key);
        }
    }

    fn reconcile(
        &mut self,
        id: PluginId,
        taken: Taken,
        snapshot: &Snapshot,
        now: Time,
        wall_clock_ms: u64,
    ) -> Reconcile {
        self.pace.begin(now);
        self.reconciles.self_triggered += u64::from(self.loops.begin(&taken.key));
        let (request, reader) = self.begin(taken.key, taken.failures, snapshot, wall_clock_ms);
        let start = Start {
            priority: taken.priority,
            waited: taken.waited,
            at: now,
            charge: self.share.begin(),
            halt: self.halt.clone(),
        };
        Reconcile::new(id, self.version.clone(), request, reader, start)
    }

    /// What a reconcile of this key is given, after so many failures.
    fn begin(
        &self,
        key: ObjectKey,
        failures: u32,
        snapshot: &Snapshot,
        wall_clock_ms: u64,
    ) -> (Request, Reader) {
        let request = Request {
            attempt: failures.saturating_add(1),
            previous: self.keys.results(&key).to_vec(),
            config: self.settings.config.clone(),
            key,
        };
        let scope = self.version.scope.clone();
        let mut reader = Reader::new(snapshot.clone(), scope, wall_clock_ms);
        if let Some(subject) = &self.subject {
            reader.set_subject(subject.kind(), &request.key, |object| {
                subject.selects(object)
            });
        }
        (request, reader)
    }

    /// See [`Hub::rehearse`](crate::hub::Hub::rehearse).
    pub fn rehearse(&self, key: &ObjectKey, snapshot: &Snapshot, wall_clock_ms: u64) -> Rehearsal {
        let (request, reader) = self.begin(key.clone(), 0, snapshot, wall_clock_ms);
        Rehearsal::new(request, reader, self.version.clone())
    }

    /// The guest has ended. Replaces the key's reads by those of this reconcile, or adds them if it
    /// failed. Queues the key again if something it read has changed since its snapshot.
    pub fn register(&mut self, ran: &Ran, missed: Missed<'_>, now: Time) {
        let held = &ran.held;
        self.pace.end(held.started, now);
        self.share
            .end(held.charge, now.saturating_sub(held.started));
        let key = &held.request.key;
        self.reconciles.denied_reads += u64::from(ran.denied.is_some());
        if !self.is_current(held) {
            // The reads belong to another version and use its numbering of informers and views.
            if !self.is_of_another_kind(held) {
                self.queue.add(key, NORMAL, now);
            }
            return;
        }
        let is_stale = match missed {
            _ if held.sequence < self.turned_at => {
                self.loops.caused_otherwise(key);
                true
            }
            Missed::TooMuch => {
                self.loops.caused_otherwise(key);
                true
            }
            Missed::Changes(changes) => match self.touching(ran, changes) {
                None => {
                    self.loops.caused_otherwise(key);
                    true
                }
                Some(touching) => {
                    for (informer, change) in &touching {
                        self.loops.caused(key, *informer, change);
                    }
                    !touching.is_empty()
                }
            },
        };
        if is_stale {
            self.queue.add(key, NORMAL, now);
        }
        let reads = ran.reads.iter();
        // If the subject is gone, perhaps only because it is no longer selected, the guest's reads
        // of it were not recorded. A recorded one is the host's own, made for planning, and nothing
        // else wakes the key when such an object changes.
        let reads = reads.filter(|read| held.is_gone || !self.is_own(read, key));
        let reads: BTreeSet<Read> = reads.cloned().collect();
        self.share.charge(reads.len() * COMPARISONS_PER_READ);
        match &ran.result {
            Ok(_) => self.reads.set(key, reads),
            Err(_) => self.reads.join(key, reads),
        }
    }

    /// The changes that alter what a reconcile read. `None` if finding out would take too many
    /// comparisons: the hub is locked meanwhile. The plugin is charged for them.
    fn touching<'a>(
        &mut self,
        ran: &Ran,
        changes: impl Iterator<Item = (InformerId, &'a Change)>,
    ) -> Option<Vec<(InformerId, &'a Change)>> {
        let mut left = MISSED_COMPARISONS;
        let informers: BTreeSet<InformerId> = ran.reads.iter().map(Read::informer).collect();
        let changes = changes.filter(|(informer, _)| informers.contains(informer));
        let touching = changes.filter_map(|(informer, change)| {
            let view = self
                .subscriptions
                .get(&informer)
                .and_then(|subscribed| subscribed.view);
            let sight = Sight::new(change, view);
            match touches_any(&ran.reads, informer, &sight, &mut left) {
                Some(false) => None,
                touches => Some(touches.map(|_| (informer, change))),
            }
        });
        let touching = touching.collect();
        self.share.charge(MISSED_COMPARISONS - left);
        touching
    }

    /// Whether a read need not be recorded, because whatever touches it wakes the key anyway. Many
    /// controllers read nothing else for most of their keys.
    fn is_own(&self, read: &Read, key: &ObjectKey) -> bool {
        let subject = self.subject.as_ref();
        subject.is_some_and(|subject| subject.is_own(read, key))
    }

    /// Whether a reconcile began on the present version.
    fn is_current(&self, held: &RunningKey) -> bool {
        Arc::ptr_eq(&held.version, &self.version)
    }

    /// Whether the present version has keys of another kind than this one.
    fn is_of_another_kind(&self, held: &RunningKey) -> bool {
        held.version.manifest.subject_kind() != self.manifest().subject_kind()
    }

    /// Takes a key back.
    pub fn finished(&mut self, finished: Finished, snapshot: &Snapshot, now: Time) -> Conclusion {
        let Finished {
            held,
            end,
            executed,
        } = finished;
        let mut conclusion = Conclusion::default();
        if self.is_of_another_kind(&held) {
            self.queue.done(&held.request.key, now);
            return conclusion;
        }
        match end {
            End::Done(requeue_after) => {
                conclusion.looping = self.settle(&held, requeue_after, executed, snapshot, now);
            }
            End::Failed(error) => {
                conclusion.is_quarantined = self.judge(&held, Some(&error), now);
                self.fail(&held, &error, executed, snapshot, now);
            }
            End::Halted => self.run_again(&held, executed, snapshot, now),
        }
        conclusion
    }

    /// Records the result of a reconcile for the version that made it, if that is still the present
    /// one. A version that makes the host panic is put in quarantine at once. Returns whether the
    /// version is put in quarantine.
    fn judge(&mut self, held: &RunningKey, error: Option<&ReconcileError>, now: Time) -> bool {
        // An unreachable cluster tells nothing about the plugin.
        if !self.is_current(held) || matches!(error, Some(ReconcileError::Unavailable(_))) {
            return false;
        }
        if let Some(ReconcileError::Run(panic @ RunError::HostPanic(_))) = error {
            return self.health.put_in_quarantine(&panic.to_string(), now);
        }
        let fault = error.filter(|error| error.is_fault());
        let reason = fault.map(ToString::to_string);
        let is_quarantined = self.health.ran(&held.request.key, reason.as_deref(), now);
        if is_quarantined {
            self.stop_writes();
        }
        is_quarantined
    }

    fn fail(
        &mut self,
        held: &RunningKey,
        error: &ReconcileError,
        executed: Executed,
        snapshot: &Snapshot,
        now: Time,
    ) {
        let key = &held.request.key;
        if !held.is_gone {
            self.gone.remove(key);
        }
        self.count_failure(key, error, now);
        // A reconcile without an outcome leaves the results of the last one in place.
        match error {
            ReconcileError::Write { .. } | ReconcileError::Unavailable(_) => {
                self.keep(key, executed, snapshot, now);
            }
            ReconcileError::Run(_) | ReconcileError::Plan(_) => self.loops.forget(key),
        }
        match error {
            ReconcileError::Run(RunError::Failure(Failure::Terminal(_))) => {
                self.queue.fail_terminally(key, now);
                if held.is_gone {
                    self.note_gone(key, snapshot, now);
                }
            }
            ReconcileError::Unavailable(_) => return self.park(held, now),
            // A retry keeps the priority of the reconcile that failed (controller-runtime's rule).
            _ => {
                let at_least = match error {
                    ReconcileError::Write { retry_after, .. } => retry_after.unwrap_or_default(),
                    _ => Duration::ZERO,
                };
                self.queue.fail(key, at_least, held.priority, now);
            }
        }
        let is_terminal = matches!(
            error,
            ReconcileError::Run(RunError::Failure(Failure::Terminal(_)))
        );
        let is_guests = matches!(error, ReconcileError::Run(_) | ReconcileError::Plan(_));
        if is_guests && (is_terminal || held.request.attempt >= SUSPECT_AFTER) {
            self.suspects.add(key);
        }
        self.keys
            .change(key, |record| record.unreachable_streak = 0);
        match error {
            ReconcileError::Write { .. } => self.release_parked(false),
            _ => self.try_the_next_at_once(held, now),
        }
        if self.queue.is_broken(key) {
            let error = error.to_string().into();
            self.keys.change(key, |record| record.error = Some(error));
        }
        self.queue.done(key, now);
        self.end_empty_outage(now);
    }

    fn count_failure(&mut self, key: &ObjectKey, error: &ReconcileError, now: Time) {
        self.reconciles.error += 1;
        self.last_error = Some(LastError {
            key: key.clone(),
            message: error.to_string(),
            at: now,
        });
        match error {
            ReconcileError::Run(RunError::Failure(Failure::Terminal(_))) => {
                self.reconciles.terminal += 1;
            }
            ReconcileError::Run(RunError::Failure(_)) => {}
            ReconcileError::Run(_) => self.reconciles.trapped += 1,
            ReconcileError::Plan(_) => self.reconciles.refused += 1,
            ReconcileError::Write { .. } | ReconcileError::Unavailable(_) => {}
        }
    }

    /// A tried key has ended without an answer from the cluster, and without having failed to get
    /// one. The next try may follow at once.
    fn try_the_next_at_once(&mut self, held: &RunningKey, now: Time) {
        if let Some(outage) = self.outage.as_mut().filter(|_| held.is_probe) {
            outage.probe_soon(now);
        }
    }

    /// Parks a key until the cluster can be reached. A key whose writes alone cannot reach it waits
    /// longer each time and stops no other key: by then the failure is known to be the key's own.
    fn park(&mut self, held: &RunningKey, now: Time) {
        let taken = Taken {
            key: held.request.key.clone(),
            failures: held.request.attempt.saturating_sub(1),
            priority: held.priority,
            waited: Duration::ZERO,
        };
        let is_outage = self.outage.is_some();
        let streak = self.keys.change(&taken.key, |record| {
            // During an outage further failures tell nothing more about the key.
            if record.unreachable_streak == 0 || !is_outage {
                record.unreachable_streak += 1;
            }
            record.unreachable_streak
        });
        let delay = PARKED.delay(streak);
        self.queue.hold(&taken, now + delay, now);
        // More tries than one mean that the failure is the key's own, so they begin no outage.
        if streak == 1 {
            self.outage.get_or_insert_with(|| Outage::new(now));
        }
        if let Some(outage) = &mut self.outage {
            outage.park(taken.key);
        }
    }

    /// Ends an outage in which no key is left to try with, because it would never end.
    fn end_empty_outage(&mut self, now: Time) {
        let is_empty = self.outage.as_ref().is_some_and(Outage::is_empty);
        let is_trying = self.fetching > 0 || self.queue.running() > 0 || self.has_key(now);
        if is_empty && !is_trying {
            self.release_parked(false);
        }
    }

    /// The cluster can be reached: parked keys that have been tried once can run. Keys tried more
    /// than once have failed while others got through, and wait for their time. With `all`, it is
    /// known that nothing at all could be reached: their failures are forgotten and all of them can
    /// run.
    pub fn release_parked(&mut self, all: bool) {
        if all {
            let unreachable = self.keys.forget_unreachable();
            unreachable.iter().for_each(|key| self.queue.release(key));
        }
        let outage = self.outage.take();
        for key in outage.into_iter().flat_map(Outage::into_parked) {
            let streak = self.keys.get(&key);
            if streak.is_none_or(|record| record.unreachable_streak <= 1) {
                self.queue.release(&key);
            }
        }
    }

    fn settle(
        &mut self,
        held: &RunningKey,
        requeue_after: Option<Duration>,
        executed: Executed,
        snapshot: &Snapshot,
        now: Time,
    ) -> Option<LoopingKey> {
        let key = &held.request.key;
        self.judge(held, None, now);
        self.keys
            .change(key, |record| record.unreachable_streak = 0);
        // A write without an answer does not show that the cluster can be reached.
        let is_certain = |accepted: &AcceptedWrite| accepted.effect != Effect::Unknown;
        if executed.accepted.iter().any(is_certain) {
            self.release_parked(false);
        } else {
            self.try_the_next_at_once(held, now);
        }
        self.queue.forget(key);
        self.keys.change(key, |record| record.error = None);
        let looping = self.keep(key, executed, snapshot, now);
        if held.is_gone {
            self.keys.set_results(key, vec![]);
            self.note_gone(key, snapshot, now);
        } else {
            self.gone.remove(key);
        }
        // As in controller-runtime, zero does not ask for another run.
        match requeue_after.filter(|delay| !delay.is_zero()) {
            Some(delay) => {
                self.reconciles.requeue_after += 1;
                let delay = self.at_least_floor(key, delay);
                self.queue.add_after(key, delay, NORMAL, now);
            }
            None => {
                self.reconciles.success += 1;
                self.keys.change(key, |record| record.requeue_streak = 0);
            }
        }
        self.queue.done(key, now);
        self.end_empty_outage(now);
        looping
    }

    /// The writes of a reconcile were stopped on the way, so its key is queued again.
    fn run_again(&mut self, held: &RunningKey, executed: Executed, snapshot: &Snapshot, now: Time) {
        let key = &held.request.key;
        self.keep(key, executed, snapshot, now);
        self.queue.add(key, held.priority, now);
        self.queue.done(key, now);
    }

    fn at_least_floor(&mut self, key: &ObjectKey, delay: Duration) -> Duration {
        if delay >= REQUEUE_STREAK.max {
            self.keys.change(key, |record| record.requeue_streak = 0);
            return delay;
        }
        let streak = self.keys.change(key, |record| {
            record.requeue_streak = record.requeue_streak.saturating_add(1);
            record.requeue_streak
        });
        delay.max(REQUEUE_STREAK.delay(streak))
    }

    /// Stores the results of the actions, and closes the key's gate until what it wrote is visible.
    /// Returns the key if it is now found to loop.
    fn keep(
        &mut self,
        key: &ObjectKey,
        executed: Executed,
        snapshot: &Snapshot,
        now: Time,
    ) -> Option<LoopingKey> {
        let awaited = executed.accepted.iter();
        let awaited: Vec<Awaited> = awaited.filter_map(|it| self.awaited(it)).collect();
        let looping = self
            .loops
            .end(key, awaited.iter().filter_map(written).collect());
        self.gates.close(key, awaited, snapshot, now);
        self.forget_gone_applies(&executed.accepted, snapshot);
        self.keys.set_results(key, executed.results);
        looping
    }

    /// Forgets the applies of objects that had already gone from the caches when the applies were
    /// remembered.
    fn forget_gone_applies(&self, accepted: &[AcceptedWrite], snapshot: &Snapshot) {
        let PluginVersion { scope, applied, .. } = &*self.version;
        for AcceptedWrite { kind, key, effect } in accepted {
            let scope = scope.kinds.get(kind);
            let part = scope.and_then(|scope| scope.part_of(&key.namespace));
            let cache = part.map(|part| &snapshot.informers[part.informer]);
            if let (Some(cache), Effect::Version(version)) = (cache, effect)
                && version.is_at_most(cache.resource_version())
                && cache.get(key.parts()).is_none()
            {
                applied.forget(kind, key);
            }
        }
    }

    /// How an accepted write becomes visible to the plugin, if the plugin reads the object in any
    /// version.
    fn awaited(&self, accepted: &AcceptedWrite) -> Option<Awaited> {
        let kind = self.version.scope.readable_as(&accepted.kind)?;
        let scope = self.version.scope.kinds.get(kind)?;
        let part = scope.part_of(&accepted.key.namespace)?;
        Some(Awaited {
            informer: part.informer,
            key: accepted.key.clone(),
            sign: match &accepted.effect {
                Effect::Version(version) => Sign::Version(version.clone()),
                Effect::Deletion(uid) => Sign::Deletion(uid.as_str().into()),
                Effect::End(uid) => Sign::End(uid.as_str().into()),
                Effect::Unknown | Effect::Unshown => Sign::Unknown,
            },
        })
    }
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
