//! One plugin in a hub: its queue, its read sets, and what is known of its keys.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use super::changelog::Missed;
use super::resync::Resync;
use super::share::Share;
use super::status::{BrokenKey, LastError, ReconcileCounts, SeatStatus};
use super::subject::{SubjectKind, informers};
use super::turn::{Controller, Decision, Start, Turn, TurnError};
use super::{Lookup, PluginId, Settings};
use crate::backoff::Backoff;
use crate::cache::{Change, Grant};
use crate::children;
use crate::gate::{Awaited, Gates, Passage, Sign};
use crate::key::ObjectKey;
use crate::manifest::{Manifest, Subject};
use crate::outcome::{ActionResult, Failure};
use crate::permission::Permissions;
use crate::plan::{Accepted, Effect, Executed};
use crate::plugin::{Plugin, Request, RunError};
use crate::queue::{LOW, NORMAL, Priority, Taken, Time, WorkQueue};
use crate::reader::{Reader, Scope};
use crate::reads::{ReadSets, is_visible};
use crate::snapshot::{InformerId, Snapshot};

/// A key whose writes found no cluster is tried again after this time, if nothing shows earlier that there is one.
const STRANDED_FOR: Duration = Duration::from_secs(30);

pub(super) struct Seat {
    controller: Arc<Controller>,
    /// What the plugin has of each informer it uses.
    grants: BTreeMap<InformerId, Grant>,
    config: String,
    concurrency: usize,
    subject: Option<SubjectKind>,
    queue: WorkQueue,
    reads: ReadSets,
    gates: Gates,
    /// Keys held because the cluster could not be reached.
    stranded: HashSet<ObjectKey>,
    /// What became of the actions of a key's last outcome; keys whose last outcome had none are not here.
    results: HashMap<ObjectKey, Vec<ActionResult>>,
    pub share: Share,
    resync: Option<Resync>,
    /// Turns whose guest is running.
    deciding: usize,
    /// All its kinds are synced, and the keys that only then can be known are queued.
    is_started: bool,
    reconciles: ReconcileCounts,
    last_error: Option<LastError>,
    /// Why the broken keys are, each with its last error.
    reasons: HashMap<ObjectKey, String>,
}

/// What a plugin has to do next.
pub(super) enum Work {
    Run(Box<Turn>),
    /// Before a key can run.
    Look(Lookup),
}

impl Seat {
    pub fn new(plugin: Arc<dyn Plugin>, settings: &Settings, scope: Scope, now: Time) -> Self {
        let manifest = plugin.manifest();
        let subject = match &manifest.subject {
            Subject::Each(selection) => Some(SubjectKind::new(selection, &scope)),
            Subject::Singleton => None,
        };
        let parts = scope.kinds.values().flat_map(|scope| &scope.parts);
        let grants = parts.map(|part| (part.informer, part.grant.clone()));
        Self {
            grants: grants.collect(),
            config: settings.config.clone(),
            concurrency: settings.concurrency.max(1) as usize,
            subject,
            queue: WorkQueue::new(Backoff::default()),
            reads: ReadSets::default(),
            gates: Gates::default(),
            stranded: HashSet::new(),
            results: HashMap::new(),
            share: Share::new(settings.weight),
            resync: settings
                .resync
                .map(|period| Resync::new(period, &manifest.name, now)),
            deciding: 0,
            is_started: false,
            reconciles: ReconcileCounts::default(),
            last_error: None,
            reasons: HashMap::new(),
            controller: Arc::new(Controller {
                permissions: Permissions::of(manifest),
                applied: Arc::default(),
                scope: Arc::new(scope),
                plugin,
            }),
        }
    }

    pub fn name(&self) -> &str {
        &self.manifest().name
    }

    fn manifest(&self) -> &Manifest {
        self.controller.plugin.manifest()
    }

    /// What the plugin has of the informers it uses.
    pub fn grants(&self) -> &BTreeMap<InformerId, Grant> {
        &self.grants
    }

    /// When something is to be done though nothing changes.
    pub fn next_due(&self) -> Option<Time> {
        let can_run = self.queue.running() < self.concurrency;
        let key = can_run.then(|| self.queue.next_due()).flatten();
        let resync = self.resync.as_ref().map(Resync::due);
        key.into_iter().chain(resync).min()
    }

    pub fn is_synced(&self, snapshot: &Snapshot) -> bool {
        let mut grants = self.grants.iter();
        grants.all(|(informer, grant)| snapshot.informers[*informer].is_synced(grant.payload))
    }

    /// Whether there is a key to run, and, if there is a limit to the threads that the plugin may keep busy, a thread.
    pub fn is_ready(&self, snapshot: &Snapshot, threads: usize, now: Time) -> bool {
        self.deciding < threads
            && self.queue.running() < self.concurrency
            && self.queue.is_ready(now)
            && self.is_synced(snapshot)
    }

    pub fn drain(&mut self) {
        self.queue.drain();
    }

    /// What waits for a kind that is not synced will not run any more.
    pub fn is_drained(&self, snapshot: &Snapshot) -> bool {
        self.queue.is_empty() || (self.queue.running() == 0 && !self.is_synced(snapshot))
    }

    /// Queues a first run for every subject that is already cached.
    pub fn start(&mut self, snapshot: &Snapshot, now: Time) {
        let Some(subject) = &self.subject else {
            self.queue.add(&ObjectKey::singleton(), NORMAL, now);
            return;
        };
        for object in subject.all(snapshot) {
            self.queue.add(&object.key().to_key(), LOW, now);
        }
    }

    /// Queues every subject, if it is time for that: client-go's resync, a replay of the local store.
    pub fn resync(&mut self, snapshot: &Snapshot, now: Time) {
        let is_due = self
            .resync
            .as_mut()
            .is_some_and(|resync| resync.is_due(now));
        if is_due && self.is_started {
            self.start(snapshot, now);
        }
    }

    /// Once all kinds are synced: queues the keys of what subjects that are gone have left behind. Not earlier, when a subject
    /// may only not have been listed yet.
    pub fn start_when_synced(&mut self, snapshot: &Snapshot, now: Time) {
        if self.is_started || !self.is_synced(snapshot) {
            return;
        }
        self.is_started = true;
        let subject = self.subject.iter();
        let companions = subject.flat_map(|subject| subject.all_companions(snapshot));
        let companions = companions.map(|object| object.key().to_key());
        let children = self
            .children_informers()
            .flat_map(|informer| snapshot.informers[informer].list(None));
        let children = children.filter_map(|object| children::key_of(self.name(), object));
        let keys: Vec<ObjectKey> = companions.chain(children).collect();
        for key in keys {
            self.queue.add(&key, LOW, now);
        }
    }

    fn children_informers(&self) -> impl Iterator<Item = InformerId> {
        let Controller {
            permissions, scope, ..
        } = &*self.controller;
        let kinds = permissions.children.iter();
        kinds.flat_map(|kind| informers(scope, kind))
    }

    /// Queues the keys that a change concerns: those that read it, the key of the object itself, and the one whose child it is.
    pub fn wake(
        &mut self,
        snapshot: &Snapshot,
        informer: InformerId,
        change: &Change,
        priority: Priority,
        now: Time,
    ) {
        let Some(view) = self.grants.get(&informer).map(|grant| grant.view) else {
            return;
        };
        let key = change.key().to_key();
        if change.new.is_none() {
            let kind = snapshot.informers[informer].kind();
            self.controller.applied.forget(kind, &key);
        }
        for key in self.reads.touched(informer, change, view) {
            self.queue.add(key, priority, now);
        }
        let is_subject = self.subject.as_ref().is_some_and(|subject| {
            let is_companion = self.is_started
                && subject.is_companion(informer)
                && is_visible(change, view)
                && subject.wants_companion(snapshot, key.parts());
            is_companion || subject.is_touched_by(informer, change, view)
        });
        if is_subject {
            self.queue.add(&key, priority, now);
        }
        if self.is_started
            && change.old.is_none()
            && self
                .children_informers()
                .any(|children| children == informer)
        {
            // Its key may have gone before the child came; then nobody reads it any more.
            let child = change.new.as_ref();
            let owner = child.and_then(|child| children::key_of(self.name(), child));
            owner
                .iter()
                .for_each(|key| self.queue.add(key, priority, now));
        }
    }

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
            let taken = self.queue.next(now)?;
            match self.gates.try_pass(&taken.key, snapshot, now) {
                Passage::Open => {
                    let turn = self.turn(id, taken, snapshot, now, wall_clock_ms);
                    return Some(Work::Run(Box::new(turn)));
                }
                Passage::Until(until) => self.queue.hold(&taken, until, now),
                Passage::Ask(objects, until) => {
                    self.queue.hold(&taken, until, now);
                    let kind = |informer: InformerId| snapshot.informers[informer].kind().clone();
                    let objects = objects.into_iter();
                    return Some(Work::Look(Lookup {
                        plugin: id,
                        key: taken.key,
                        objects: objects
                            .map(|(informer, object)| (informer, kind(informer), object))
                            .collect(),
                    }));
                }
            }
        }
    }

    /// What a key waited for has been looked up, and is in the caches.
    pub fn looked_up(&mut self, key: &ObjectKey, informer: InformerId, object: &ObjectKey) {
        self.gates.looked_up(key, informer, object);
    }

    /// Releases the held keys whose writes the caches now show.
    pub fn open_gates(&mut self, snapshot: &Snapshot) {
        for key in self.gates.opened(snapshot) {
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
        self.stranded.remove(&taken.key);
        let request = Request {
            attempt: taken.failures.saturating_add(1),
            previous: self.results.get(&taken.key).cloned().unwrap_or_default(),
            config: self.config.clone(),
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
        match &decision.result {
            Ok(_) => self.reads.set(key, decision.reads.clone()),
            Err(_) => self.reads.join(key, decision.reads.clone()),
        }
    }

    pub fn failed(
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
        if let TurnError::Run(
            RunError::Trap(_) | RunError::OverLimit(_) | RunError::Timeout(_) | RunError::Host(_),
        ) = error
        {
            self.reconciles.trapped += 1;
        }
        self.keep(key, executed, snapshot, now);
        match error {
            TurnError::Run(RunError::Failure(Failure::Terminal(_))) => {
                self.reconciles.terminal += 1;
                self.queue.fail_terminally(key, now);
            }
            TurnError::Unavailable(_) => return self.strand(turn, now),
            // A retry keeps the priority of the run that failed (controller-runtime's rule).
            _ => drop(self.queue.fail(key, turn.priority, now)),
        }
        if self.queue.is_broken(key) {
            self.reasons.insert(key.clone(), error.to_string());
        }
        self.queue.done(key, now);
    }

    /// Holds a key until the cluster can be reached.
    fn strand(&mut self, turn: &Turn, now: Time) {
        let taken = Taken {
            key: turn.request.key.clone(),
            failures: turn.request.attempt.saturating_sub(1),
            priority: turn.priority,
            waited: Duration::ZERO,
        };
        self.queue.hold(&taken, now + STRANDED_FOR, now);
        self.stranded.insert(taken.key);
    }

    /// The cluster can be reached.
    pub fn rescue(&mut self) {
        for key in std::mem::take(&mut self.stranded) {
            self.queue.release(&key);
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
                self.queue.add_after(key, delay, NORMAL, now);
            }
            None => self.reconciles.success += 1,
        }
        self.queue.done(key, now);
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

    pub fn status(&self, snapshot: &Snapshot, now: Time) -> SeatStatus {
        let manifest = self.manifest();
        let parts = self.controller.scope.kinds.values();
        let mut broken: Vec<BrokenKey> = self
            .queue
            .broken()
            .map(|(key, failures, due)| BrokenKey {
                key: key.clone(),
                failures,
                reason: self.reasons.get(key).cloned().unwrap_or_default(),
                retry_in: due.map(|due| due.saturating_sub(now)),
            })
            .collect();
        broken.sort_unstable_by(|a, b| a.key.cmp(&b.key));
        SeatStatus {
            name: manifest.name.clone(),
            version: manifest.version.clone(),
            subject: manifest.subject_kind().cloned(),
            reads: parts
                .flat_map(|scope| &scope.parts)
                .map(|part| {
                    let cache = &snapshot.informers[part.informer];
                    (cache.source().clone(), cache.is_synced(part.grant.payload))
                })
                .collect(),
            queued: self.queue.pending(),
            depth: self.queue.depth().clone(),
            running: self.queue.running(),
            running_for: self.queue.running_for(now).collect(),
            delayed: self.queue.delayed(),
            failing: self.queue.failing(),
            broken,
            recorded_reads: self.reads.len(),
            concurrency: self.concurrency,
            cached_bytes: self
                .grants
                .keys()
                .map(|informer| &snapshot.informers[*informer])
                .map(|cache| cache.bytes() / cache.users().max(1))
                .sum(),
            reconciles: self.reconciles,
            queue: self.queue.counts(),
            last_error: self.last_error.clone(),
        }
    }
}
