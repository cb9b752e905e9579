//! A plugin's turns: from a key that is handed out to a key that is given back.

use std::sync::Arc;
use std::time::Duration;

use super::Seat;
use crate::backoff::Backoff;
use crate::gate::{Awaited, Passage, Sign};
use crate::hub::changelog::Missed;
use crate::hub::outage::Outage;
use crate::hub::status::LastError;
use crate::hub::turn::{Decision, Start, Turn, TurnError};
use crate::hub::{Lookup, PluginId};
use crate::key::ObjectKey;
use crate::outcome::Failure;
use crate::plan::{Accepted, Effect, Executed};
use crate::plugin::{Request, RunError};
use crate::queue::{NORMAL, Taken, Time};
use crate::reader::{Read, Reader};
use crate::snapshot::{InformerId, Snapshot};

/// How long a key waits whose writes found no cluster.
const STRANDED: Backoff = Backoff {
    base: Duration::from_secs(1),
    max: Duration::from_secs(30),
};

/// How long a key waits at least that has asked so often in a row to be run again soon. What it waits for cannot come from outside, which
/// would wake it: only time passes.
const HURRY: Backoff = Backoff {
    base: Duration::from_millis(5),
    max: Duration::from_secs(1),
};

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
        loop {
            let is_probe = self.outage.is_some();
            let taken = match &mut self.outage {
                Some(outage) => self.queue.claim(&outage.probe(now)?, now),
                None => Some(self.queue.next(now)?),
            };
            let Some(taken) = taken.and_then(|taken| self.keep_if_mine(taken, now)) else {
                self.end_empty_outage();
                continue;
            };
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
                Passage::Ask(objects, gate, until) => {
                    self.queue.hold(&taken, until, now);
                    self.looking += 1;
                    let kind = |informer: InformerId| snapshot.informers[informer].kind().clone();
                    let objects = objects.into_iter();
                    return Some(Work::Look(Lookup {
                        plugin: id,
                        key: taken.key,
                        gate,
                        objects: objects
                            .map(|(informer, object)| (informer, kind(informer), object))
                            .collect(),
                    }));
                }
            }
        }
    }

    /// Drops a key whose object the plugin may not see. What it may not see is not gone, and nothing to clean up after.
    fn keep_if_mine(&mut self, taken: Taken, now: Time) -> Option<Taken> {
        if self.is_mine(&taken.key) {
            return Some(taken);
        }
        self.hurries.remove(&taken.key);
        self.queue.forget(&taken.key);
        self.queue.done(&taken.key, now);
        None
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
            None => {}
        }
    }

    /// What a key waited for has been looked up, and is in the caches.
    pub fn looked_up(
        &mut self,
        lookup: &Lookup,
        informer: InformerId,
        object: &ObjectKey,
        snapshot: &Snapshot,
    ) {
        let Lookup { key, gate, .. } = lookup;
        if self.gates.looked_up(key, *gate, informer, object, snapshot) {
            self.queue.release(key);
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
        self.deciding += 1;
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
        };
        Turn::new(id, self.controller.clone(), request, reader, start)
    }

    /// The guest has ended. Replaces the key's reads by the run's own, or adds those of a failed run, and runs the key again if
    /// something it read has changed since its snapshot.
    pub fn register(&mut self, turn: &Turn, decision: &Decision, missed: Missed<'_>, now: Time) {
        self.deciding -= 1;
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
            Missed::TooMuch => true,
            Missed::Changes(mut changes) => changes.any(|(informer, change)| {
                let view = self.grants.get(&informer).and_then(|grant| grant.view);
                let mut reads = decision.reads.iter();
                reads.any(|read| read.informer() == informer && read.is_touched_by(change, view))
            }),
        };
        if is_stale {
            self.queue.add(key, NORMAL, now);
        }
        let reads = decision.reads.iter();
        let reads = reads.filter(|read| !self.is_own(read, key));
        let reads = reads.cloned().collect();
        match &decision.result {
            Ok(_) => self.reads.set(key, reads),
            Err(_) => self.reads.join(key, reads),
        }
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
            self.health.condemn(&panic.to_string(), now);
            return true;
        }
        let strike = error.filter(|error| error.is_strike());
        let reason = strike.map(ToString::to_string);
        self.health.ran(&turn.request.key, reason.as_deref(), now)
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
        self.keep(key, executed, snapshot, now);
        match error {
            TurnError::Run(RunError::Failure(Failure::Terminal(_))) => {
                self.reconciles.terminal += 1;
                self.queue.fail_terminally(key, now);
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
        self.tries.remove(key);
        let is_answer = turn.is_probe && matches!(error, TurnError::Write { .. });
        if is_answer {
            self.rescue(false);
        }
        self.end_empty_outage();
        if self.queue.is_broken(key) {
            self.reasons.insert(key.clone(), error.to_string());
        }
        self.queue.done(key, now);
    }

    /// Holds a key until the cluster can be reached. One whose own writes alone find none waits longer each time.
    fn strand(&mut self, turn: &Turn, now: Time) {
        let taken = Taken {
            key: turn.request.key.clone(),
            failures: turn.request.attempt.saturating_sub(1),
            priority: turn.priority,
            waited: Duration::ZERO,
        };
        let tries = self.tries.entry(taken.key.clone()).or_default();
        *tries += 1;
        let delay = STRANDED.delay(*tries);
        self.queue.hold(&taken, now + delay, now);
        let outage = self.outage.get_or_insert_with(|| Outage::new(now));
        outage.strand(taken.key);
    }

    /// An outage with nobody left to try with would never end.
    fn end_empty_outage(&mut self) {
        let is_empty = |outage: &Outage| outage.next_probe().is_none();
        if self.looking == 0 && self.outage.as_ref().is_some_and(is_empty) {
            self.rescue(false);
        }
    }

    /// The cluster can be reached: the keys that have been tried once can run. Others have failed while it could be, and wait for
    /// their time, unless it is known that nothing at all could be reached.
    pub fn rescue(&mut self, all: bool) {
        let outage = self.outage.take();
        for key in outage.into_iter().flat_map(Outage::into_stranded) {
            if all || self.tries.get(&key).is_none_or(|tries| *tries <= 1) {
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
    ) {
        let key = &turn.request.key;
        if self.is_of_another_kind(turn) {
            return self.queue.done(key, now);
        }
        self.judge(turn, None, now);
        self.tries.remove(key);
        let is_certain = |accepted: &Accepted| accepted.effect != Effect::Unknown;
        if turn.is_probe || executed.accepted.iter().any(is_certain) {
            self.rescue(false);
        }
        self.queue.forget(key);
        self.reasons.remove(key);
        self.keep(key, executed, snapshot, now);
        if turn.is_gone {
            self.reads.clear(key);
            self.results.remove(key);
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

    /// Remembers what became of the actions, and waits for what was written to be seen.
    fn keep(&mut self, key: &ObjectKey, executed: Executed, snapshot: &Snapshot, now: Time) {
        let awaited = executed
            .accepted
            .iter()
            .filter_map(|accepted| self.awaited(accepted));
        self.gates.close(key, awaited.collect(), snapshot, now);
        if executed.results.is_empty() {
            self.results.remove(key);
        } else {
            self.results.insert(key.clone(), executed.results);
        }
    }

    /// What shows an accepted write to the plugin, if it reads the object.
    fn awaited(&self, accepted: &Accepted) -> Option<Awaited> {
        let scope = self.controller.scope.kinds.get(&accepted.kind)?;
        let part = scope.part_of(&accepted.key.namespace)?;
        Some(Awaited {
            informer: part.informer,
            key: accepted.key.clone(),
            sign: match &accepted.effect {
                Effect::Version(version) => Sign::Version(version.clone()),
                Effect::Deletion(uid) => Sign::Deletion(uid.as_str().into()),
                Effect::Unknown => Sign::Unknown,
            },
        })
    }
}
