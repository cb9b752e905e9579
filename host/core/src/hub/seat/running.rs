//! A plugin's turns: from a key that is handed out to a key that is given back.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::Seat;
use super::doubt::DOUBT_AFTER;
use super::loops::{LoopingKey, State};
use crate::backoff::Backoff;
use crate::cache::Change;
use crate::gate::{Awaited, GateId, Passage, Sign};
use crate::hub::changelog::Missed;
use crate::hub::outage::{Outage, Probe};
use crate::hub::status::LastError;
use crate::hub::turn::{Controller, Decision, Start, Turn, TurnError};
use crate::hub::{Known, Lookup, PluginId, Purpose, Question};
use crate::key::ObjectKey;
use crate::outcome::Failure;
use crate::outcome::shorten;
use crate::plan::{Accepted, Effect, Executed};
use crate::plugin::{Request, RunError};
use crate::queue::{NORMAL, Taken, Time};
use crate::reader::{Read, Reader};
use crate::reads::{Sight, touches_any};
use crate::snapshot::{InformerId, Snapshot};

/// How long a key waits whose writes found no cluster.
const STRANDED: Backoff = Backoff {
    base: Duration::from_secs(1),
    max: Duration::from_secs(30),
};

/// How long a key waits at least that has asked so often in a row to be run again soon. What it waits for cannot come from outside, which
/// would wake it: only time passes.
pub(super) const HURRY: Backoff = Backoff {
    base: Duration::from_millis(5),
    max: Duration::from_secs(1),
};

/// Most comparisons of what a run has read with the changes that it has missed.
const MISSED_COMPARISONS: usize = 50_000;

/// What it takes to remember a read, in comparisons.
const COMPARISONS_PER_READ: usize = 20;

/// What a plugin has to do next.
pub enum Work {
    Run(Box<Turn>),
    /// Before a key can run.
    Look(Lookup),
}

impl Seat {
    /// The next key whose last writes the snapshot shows, or a question that must be answered before one can run. Keys that come before
    /// it are held.
    pub fn take(
        &mut self,
        id: PluginId,
        snapshot: &Snapshot,
        now: Time,
        wall_clock_ms: u64,
    ) -> Option<Work> {
        if let Some(lookup) = self.next_doubt(id, snapshot, now) {
            return Some(Work::Look(lookup));
        }
        loop {
            let taken = match &mut self.outage {
                Some(outage) => match outage.probe(self.queue.is_ready(now), now)? {
                    Probe::Stranded(key) => self.queue.claim(&key, now),
                    Probe::Queued => self.queue.next(now),
                },
                None => Some(self.queue.next(now)?),
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
                    let mut turn = self.turn(id, taken, snapshot, now, wall_clock_ms);
                    turn.is_probe = is_probe;
                    return Some(Work::Run(Box::new(turn)));
                }
                Passage::Until(until) => {
                    self.queue.hold(&taken, until, now);
                    self.outage
                        .iter_mut()
                        .for_each(|outage| outage.strand(taken.key.clone()));
                }
                Passage::Ask(questions, gate, until) => {
                    self.queue.hold(&taken, until, now);
                    self.looking += 1;
                    return Some(Work::Look(Lookup {
                        plugin: id,
                        key: taken.key,
                        purpose: Purpose::Gate(gate),
                        questions,
                    }));
                }
            }
        }
    }

    /// Puts a key back that its own writes alone have queued once too often. Says whether it had to.
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

    /// Drops a key whose object the plugin may not see. What it may not see is not gone, and nothing to clean up after.
    fn keep_if_mine(&mut self, taken: Taken, now: Time) -> Option<Taken> {
        if self.is_mine(&taken.key) {
            return Some(taken);
        }
        self.forget(&taken.key);
        self.queue.done(&taken.key, now);
        None
    }

    /// Forgets all that is remembered of a key beside its place in the queue.
    pub(super) fn forget(&mut self, key: &ObjectKey) {
        self.queue.forget(key);
        self.reads.clear(key);
        self.gates.forget(key);
        self.loops.forget(key);
        self.hurries.remove(key);
        self.tries.remove(key);
        self.results.remove(key);
        self.reasons.remove(key);
    }

    fn is_mine(&self, key: &ObjectKey) -> bool {
        let Some(subject) = &self.subject else {
            return true;
        };
        let scope = self.controller.scope.kinds.get(subject.kind());
        scope.is_some_and(|scope| scope.part_of(&key.namespace).is_some())
    }

    /// A lookup for a key has ended, with answers or without.
    pub fn looked(&mut self, key: &ObjectKey, is_answered: bool, now: Time) {
        self.looking -= 1;
        match &mut self.outage {
            Some(outage) if is_answered => outage.favour(key.clone(), now),
            Some(outage) => outage.strand(key.clone()),
            // The outage has ended meanwhile: who asks again may have an answer.
            None if !is_answered => self.queue.hold_until(key, now + STRANDED.base),
            None => {}
        }
    }

    /// What a key waited for has been looked up.
    pub fn looked_up(
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
        for key in self.gates.looked_up(key, gate, question, at, snapshot) {
            self.queue.release(&key);
        }
    }

    /// Releases the held keys whose writes an informer's cache now shows.
    pub fn open_gates(&mut self, informer: InformerId, snapshot: &Snapshot) {
        for key in self.gates.opened(informer, snapshot) {
            self.queue.release(&key);
        }
    }

    fn turn(
        &mut self,
        id: PluginId,
        taken: Taken,
        snapshot: &Snapshot,
        now: Time,
        wall_clock_ms: u64,
    ) -> Turn {
        self.pace.begin(now);
        self.reconciles.self_triggered += u64::from(self.loops.begin(&taken.key));
        let request = Request {
            attempt: taken.failures.saturating_add(1),
            previous: self.results.get(&taken.key).cloned().unwrap_or_default(),
            config: self.settings.config.clone(),
            key: taken.key,
        };
        let scope = self.controller.scope.clone();
        let mut reader = Reader::new(snapshot.clone(), scope, wall_clock_ms);
        if let Some(subject) = &self.subject {
            reader.set_subject(subject.kind(), &request.key, |object| {
                subject.selects(object)
            });
        }
        let start = Start {
            priority: taken.priority,
            waited: taken.waited,
            at: now,
            charge: self.share.begin(),
            halt: self.halt.clone(),
        };
        Turn::new(id, self.controller.clone(), request, reader, start)
    }

    /// The guest has ended. Replaces the key's reads by the run's own, or adds those of a failed run, and runs the key again if
    /// something it read has changed since its snapshot.
    pub fn register(&mut self, turn: &Turn, decision: &Decision, missed: Missed<'_>, now: Time) {
        self.pace.end(turn.started, now);
        self.share
            .end(turn.charge, now.saturating_sub(turn.started));
        let key = &turn.request.key;
        self.reconciles.denied_reads += u64::from(decision.denied.is_some());
        if !self.is_current(turn) {
            // What it read was another version's business, in another version's numbers.
            if !self.is_of_another_kind(turn) {
                self.queue.add(key, NORMAL, now);
            }
            return;
        }
        let is_stale = match missed {
            _ if turn.sequence() < self.turned_at => {
                self.loops.caused_otherwise(key);
                true
            }
            Missed::TooMuch => {
                self.loops.caused_otherwise(key);
                true
            }
            Missed::Changes(changes) => match self.touching(decision, changes) {
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
        let reads = decision.reads.iter();
        // Of an object that is gone only the host itself has seen anything.
        let reads = reads.filter(|read| turn.is_gone || !self.is_own(read, key));
        let reads: BTreeSet<Read> = reads.cloned().collect();
        self.share.charge(reads.len() * COMPARISONS_PER_READ);
        match &decision.result {
            Ok(_) => self.reads.set(key, reads),
            Err(_) => self.reads.join(key, reads),
        }
    }

    /// The changes that alter what a run read; none where to find that out would take too long:
    /// everybody waits meanwhile, at the plugin's expense.
    fn touching<'a>(
        &mut self,
        decision: &Decision,
        changes: impl Iterator<Item = (InformerId, &'a Change)>,
    ) -> Option<Vec<(InformerId, &'a Change)>> {
        let mut left = MISSED_COMPARISONS;
        let informers: BTreeSet<InformerId> = decision.reads.iter().map(Read::informer).collect();
        let changes = changes.filter(|(informer, _)| informers.contains(informer));
        let touching = changes.filter_map(|(informer, change)| {
            let view = self.grants.get(&informer).and_then(|grant| grant.view);
            let sight = Sight::new(change, view);
            match touches_any(&decision.reads, informer, &sight, &mut left) {
                Some(false) => None,
                touches => Some(touches.map(|_| (informer, change))),
            }
        });
        let touching = touching.collect();
        self.share.charge(MISSED_COMPARISONS - left);
        touching
    }

    /// Whether a read need not be recorded, because the key is woken by what touches it anyway. Many controllers read nothing else of
    /// most of their keys.
    fn is_own(&self, read: &Read, key: &ObjectKey) -> bool {
        let subject = self.subject.as_ref();
        subject.is_some_and(|subject| subject.is_own(read, key))
    }

    /// Whether a turn began on the version that is here now.
    fn is_current(&self, turn: &Turn) -> bool {
        Arc::ptr_eq(&turn.controller, &self.controller)
    }

    /// Whether a turn's key means nothing to the version that is here now.
    fn is_of_another_kind(&self, turn: &Turn) -> bool {
        turn.controller.manifest.subject_kind() != self.manifest().subject_kind()
    }

    /// Says whether the version is in quarantine for it.
    pub fn failed(
        &mut self,
        turn: &Turn,
        error: &TurnError,
        executed: Executed,
        snapshot: &Snapshot,
        now: Time,
    ) -> bool {
        if self.is_of_another_kind(turn) {
            self.queue.done(&turn.request.key, now);
            return false;
        }
        let is_condemned = self.judge(turn, Some(error), now);
        self.fail(turn, error, executed, snapshot, now);
        is_condemned
    }

    /// Notes how a run went in the record of the version that made it, if that is still here. One that makes the host panic is not tried
    /// again soon.
    fn judge(&mut self, turn: &Turn, error: Option<&TurnError>, now: Time) -> bool {
        // A cluster that cannot be reached says nothing of the plugin.
        if !self.is_current(turn) || matches!(error, Some(TurnError::Unavailable(_))) {
            return false;
        }
        if let Some(TurnError::Run(panic @ RunError::HostPanic(_))) = error {
            return self.health.condemn(&panic.to_string(), now);
        }
        let strike = error.filter(|error| error.is_strike());
        let reason = strike.map(ToString::to_string);
        let is_condemned = self.health.ran(&turn.request.key, reason.as_deref(), now);
        if is_condemned {
            self.stop_writes();
        }
        is_condemned
    }

    fn fail(
        &mut self,
        turn: &Turn,
        error: &TurnError,
        executed: Executed,
        snapshot: &Snapshot,
        now: Time,
    ) {
        let key = &turn.request.key;
        if !turn.is_gone {
            self.gone.remove(key);
        }
        self.reconciles.error += 1;
        self.last_error = Some(LastError {
            key: key.clone(),
            message: error.to_string(),
            at: now,
        });
        let is_said = |error: &RunError| matches!(error, RunError::Failure(_));
        if let TurnError::Run(error) = error
            && !is_said(error)
        {
            self.reconciles.trapped += 1;
        }
        if matches!(error, TurnError::Plan(_)) {
            self.reconciles.refused += 1;
        }
        // A run without an outcome leaves what is known of the last one.
        match error {
            TurnError::Write { .. } | TurnError::Unavailable(_) => {
                self.keep(key, executed, snapshot, now);
            }
            TurnError::Run(_) | TurnError::Plan(_) => self.loops.forget(key),
        }
        match error {
            TurnError::Run(RunError::Failure(Failure::Terminal(_))) => {
                self.reconciles.terminal += 1;
                self.queue.fail_terminally(key, now);
                if turn.is_gone {
                    self.note_gone(key, snapshot, now);
                }
            }
            TurnError::Unavailable(_) => return self.strand(turn, now),
            // A retry keeps the priority of the run that failed (controller-runtime's rule).
            _ => {
                let at_least = match error {
                    TurnError::Write { retry_after, .. } => retry_after.unwrap_or_default(),
                    _ => Duration::ZERO,
                };
                self.queue.fail(key, at_least, turn.priority, now);
            }
        }
        let is_terminal = matches!(
            error,
            TurnError::Run(RunError::Failure(Failure::Terminal(_)))
        );
        let is_guests = matches!(error, TurnError::Run(_) | TurnError::Plan(_));
        if is_guests && (is_terminal || turn.request.attempt >= DOUBT_AFTER) {
            self.doubts.add(key);
        }
        self.tries.remove(key);
        match error {
            TurnError::Write { .. } => self.rescue(false),
            _ => self.try_the_next_at_once(turn, now),
        }
        if self.queue.is_broken(key) {
            self.reasons.insert(key.clone(), error.to_string());
        }
        self.queue.done(key, now);
        self.end_empty_outage(now);
    }

    /// A key that was tried has ended without an answer of the cluster, and without having missed one.
    fn try_the_next_at_once(&mut self, turn: &Turn, now: Time) {
        if let Some(outage) = self.outage.as_mut().filter(|_| turn.is_probe) {
            outage.hurry(now);
        }
    }

    /// Holds a key until the cluster can be reached. One whose own writes alone find none waits longer each time, and stops nobody
    /// else: what it found is known by then to be its own affair.
    fn strand(&mut self, turn: &Turn, now: Time) {
        let taken = Taken {
            key: turn.request.key.clone(),
            failures: turn.request.attempt.saturating_sub(1),
            priority: turn.priority,
            waited: Duration::ZERO,
        };
        let tries = self.tries.entry(taken.key.clone()).or_default();
        // While nobody gets through it says nothing more of the key that it does not either.
        if *tries == 0 || self.outage.is_none() {
            *tries += 1;
        }
        let delay = STRANDED.delay(*tries);
        self.queue.hold(&taken, now + delay, now);
        if *tries == 1 {
            self.outage.get_or_insert_with(|| Outage::new(now));
        }
        if let Some(outage) = &mut self.outage {
            outage.strand(taken.key);
        }
    }

    /// An outage with nobody left to try with would never end.
    fn end_empty_outage(&mut self, now: Time) {
        let is_empty = self.outage.as_ref().is_some_and(Outage::is_empty);
        let is_trying = self.looking > 0 || self.queue.running() > 0 || self.queue.is_ready(now);
        if is_empty && !is_trying {
            self.rescue(false);
        }
    }

    /// The cluster can be reached: the keys that have been tried once can run. Others have failed while it could be, and wait for
    /// their time, unless it is known that nothing at all could be reached: then that they failed is forgotten.
    pub fn rescue(&mut self, all: bool) {
        if all {
            self.tries.keys().for_each(|key| self.queue.release(key));
            self.tries.clear();
        }
        let outage = self.outage.take();
        for key in outage.into_iter().flat_map(Outage::into_stranded) {
            if self.tries.get(&key).is_none_or(|tries| *tries <= 1) {
                self.queue.release(&key);
            }
        }
    }

    pub fn settled(
        &mut self,
        turn: &Turn,
        requeue_after: Option<Duration>,
        executed: Executed,
        snapshot: &Snapshot,
        now: Time,
    ) -> Option<LoopingKey> {
        let key = &turn.request.key;
        if self.is_of_another_kind(turn) {
            self.queue.done(key, now);
            return None;
        }
        self.judge(turn, None, now);
        self.tries.remove(key);
        let is_certain = |accepted: &Accepted| accepted.effect != Effect::Unknown;
        if executed.accepted.iter().any(is_certain) {
            self.rescue(false);
        } else {
            self.try_the_next_at_once(turn, now);
        }
        self.queue.forget(key);
        self.reasons.remove(key);
        let looping = self.keep(key, executed, snapshot, now);
        if turn.is_gone {
            self.results.remove(key);
            self.note_gone(key, snapshot, now);
        } else {
            self.gone.remove(key);
        }
        // As in controller-runtime, zero is no wish to be run again.
        match requeue_after.filter(|delay| !delay.is_zero()) {
            Some(delay) => {
                self.reconciles.requeue_after += 1;
                let delay = self.at_least_floor(key, delay);
                self.queue.add_after(key, delay, NORMAL, now);
            }
            None => {
                self.reconciles.success += 1;
                self.hurries.remove(key);
            }
        }
        self.queue.done(key, now);
        self.end_empty_outage(now);
        looping
    }

    /// The writes of a run were stopped on the way: its key has yet to run.
    pub fn halted(&mut self, turn: &Turn, executed: Executed, snapshot: &Snapshot, now: Time) {
        let key = &turn.request.key;
        if !self.is_of_another_kind(turn) {
            self.keep(key, executed, snapshot, now);
            self.queue.add(key, turn.priority, now);
        }
        self.queue.done(key, now);
    }

    fn at_least_floor(&mut self, key: &ObjectKey, delay: Duration) -> Duration {
        if delay >= HURRY.max {
            self.hurries.remove(key);
            return delay;
        }
        let hurries = self.hurries.entry(key.clone()).or_default();
        *hurries = hurries.saturating_add(1);
        delay.max(HURRY.delay(*hurries))
    }

    /// Remembers what became of the actions, and waits for what was written to be seen. Names the key if it is found to loop now.
    fn keep(
        &mut self,
        key: &ObjectKey,
        mut executed: Executed,
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
        if executed.results.is_empty() {
            self.results.remove(key);
        } else {
            shorten(&mut executed.results);
            self.results.insert(key.clone(), executed.results);
        }
        looping
    }

    /// Forgets the applies of objects that were gone from the caches again before the applies were
    /// remembered.
    fn forget_gone_applies(&self, accepted: &[Accepted], snapshot: &Snapshot) {
        let Controller { scope, applied, .. } = &*self.controller;
        for Accepted { kind, key, effect } in accepted {
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

    /// What shows an accepted write to the plugin, if it reads the object, in whatever version.
    fn awaited(&self, accepted: &Accepted) -> Option<Awaited> {
        let kind = self.controller.scope.readable_as(&accepted.kind)?;
        let scope = self.controller.scope.kinds.get(kind)?;
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
fn written(awaited: &Awaited) -> Option<State> {
    let Sign::Version(version) = &awaited.sign else {
        return None;
    };
    Some(State {
        informer: awaited.informer,
        key: awaited.key.clone(),
        version: version.clone(),
    })
}
