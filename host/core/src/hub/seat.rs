//! One plugin in a hub: its queue, its read sets, and what is known of its keys.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use super::changelog::Missed;
use super::scope::scope_of;
use super::subject::SubjectKind;
use super::turn::{Controller, Decision, Turn, TurnError};
use super::{PluginId, Settings};
use crate::backoff::Backoff;
use crate::cache::{Change, KindCache};
use crate::children;
use crate::gate::{Awaited, Gates};
use crate::key::{Kind, ObjectKey};
use crate::manifest::{Manifest, Subject};
use crate::object::ViewId;
use crate::outcome::{ActionResult, Failure};
use crate::permission::Permissions;
use crate::plan::{Accepted, Effect, Executed};
use crate::plugin::{Plugin, Request, RunError};
use crate::queue::{Counts, LOW, NORMAL, Taken, Time, WorkQueue};
use crate::reader::Reader;
use crate::reads::{ReadSets, is_visible};
use crate::snapshot::{KindId, Snapshot};

pub(super) struct Seat {
    controller: Arc<Controller>,
    config: String,
    concurrency: usize,
    subject: Option<SubjectKind>,
    queue: WorkQueue,
    reads: ReadSets,
    gates: Gates,
    /// What became of the actions of a key's last outcome; keys whose last outcome had none are not here.
    results: HashMap<ObjectKey, Vec<ActionResult>>,
    /// How often a key of this plugin was handed out: who has the least is next. A plugin that had nothing to run has no claim
    /// on the turns that others had meanwhile.
    turns: u64,
    was_ready: bool,
    /// All its kinds are synced, and the keys that only then can be known are queued.
    is_started: bool,
    reconciles: ReconcileCounts,
    last_error: Option<LastError>,
}

/// How a plugin's reconciles ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReconcileCounts {
    /// Well.
    pub success: u64,
    /// Well, and asked to be run again after a time.
    pub requeue_after: u64,
    /// With an error, terminal ones among them.
    pub error: u64,
    /// With an error that is not retried.
    pub terminal: u64,
    /// Because the guest broke: a trap, a limit, a timeout.
    pub trapped: u64,
}

/// The latest error of a plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastError {
    /// Of which key.
    pub key: ObjectKey,
    /// What.
    pub message: String,
    /// When.
    pub at: Time,
}

/// A plugin's state, for people and metrics.
#[derive(Clone, Debug)]
pub struct SeatStatus {
    /// Its name.
    pub name: String,
    /// Its own version.
    pub version: String,
    /// Whose keys it reconciles; none for a singleton.
    pub subject: Option<Kind>,
    /// What it reads, and whether that is synced.
    pub reads: Vec<(Kind, bool)>,
    /// Keys ready to run.
    pub queued: usize,
    /// Keys running, or held while their writes are under way.
    pub running: usize,
    /// Keys waiting for their time.
    pub delayed: usize,
    /// Keys that failed when they last ran.
    pub failing: usize,
    /// Recorded reads.
    pub recorded_reads: usize,
    /// Keys that may run at the same time.
    pub concurrency: usize,
    /// How reconciles ended.
    pub reconciles: ReconcileCounts,
    /// What the queue counted.
    pub queue: Counts,
    /// The latest error.
    pub last_error: Option<LastError>,
}

impl Seat {
    pub fn new(
        plugin: Arc<dyn Plugin>,
        settings: &Settings,
        kinds: &mut [KindCache],
        ids: &HashMap<Kind, KindId>,
    ) -> Self {
        let manifest = plugin.manifest();
        let subject = match &manifest.subject {
            Subject::Each(selection) => SubjectKind::new(selection, ids),
            Subject::Singleton => None,
        };
        let controller = Controller {
            permissions: Permissions::of(manifest),
            applied: Arc::default(),
            scope: Arc::new(scope_of(manifest, kinds, ids)),
            plugin,
        };
        Self {
            controller: Arc::new(controller),
            config: settings.config.clone(),
            concurrency: settings.concurrency.max(1) as usize,
            subject,
            queue: WorkQueue::new(Backoff::default()),
            reads: ReadSets::default(),
            gates: Gates::default(),
            results: HashMap::new(),
            turns: 0,
            was_ready: false,
            is_started: false,
            reconciles: ReconcileCounts::default(),
            last_error: None,
        }
    }

    pub fn name(&self) -> &str {
        &self.manifest().name
    }

    fn manifest(&self) -> &Manifest {
        self.controller.plugin.manifest()
    }

    pub fn kinds(&self) -> impl Iterator<Item = KindId> {
        self.controller.scope.kinds.values().map(|scope| scope.kind)
    }

    pub fn turns(&self) -> u64 {
        self.turns
    }

    pub fn next_due(&self) -> Option<Time> {
        (self.queue.running() < self.concurrency).then(|| self.queue.next_due())?
    }

    pub fn is_synced(&self, snapshot: &Snapshot) -> bool {
        self.kinds().all(|kind| snapshot.kinds[kind].is_synced())
    }

    pub fn is_ready(&self, snapshot: &Snapshot, now: Time) -> bool {
        self.queue.running() < self.concurrency
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

    /// Notes whether the plugin has a key to run. One that had none until now starts from `floor` turns.
    pub fn update_readiness(&mut self, snapshot: &Snapshot, floor: u64, now: Time) {
        let is_ready = self.is_ready(snapshot, now);
        if is_ready && !self.was_ready {
            self.turns = self.turns.max(floor);
        }
        self.was_ready = is_ready;
    }

    /// Queues a first run for every subject that is already cached.
    pub fn start(&mut self, snapshot: &Snapshot, now: Time) {
        let Some(subject) = &self.subject else {
            self.queue.add(&ObjectKey::singleton(), NORMAL, now);
            return;
        };
        let objects = snapshot.kinds[subject.kind].list(None);
        for object in objects.filter(|object| subject.selects(object)) {
            self.queue.add(&object.header.key, LOW, now);
        }
    }

    /// Once all kinds are synced: queues the keys of what subjects that are gone have left behind. Not earlier, when a subject
    /// may only not have been listed yet.
    pub fn start_when_synced(&mut self, snapshot: &Snapshot, now: Time) {
        if self.is_started || !self.is_synced(snapshot) {
            return;
        }
        self.is_started = true;
        let companions = self.subject.iter().flat_map(|subject| &subject.companions);
        let companions = companions
            .flat_map(|kind| snapshot.kinds[*kind].list(None))
            .filter_map(|object| {
                let key = &object.header.key;
                self.subject
                    .as_ref()
                    .is_some_and(|subject| subject.wants_companion(snapshot, key))
                    .then(|| key.clone())
            });
        let children = self
            .children_kinds()
            .flat_map(|kind| snapshot.kinds[kind].list(None));
        let children = children.filter_map(|object| children::key_of(self.name(), object));
        let keys: Vec<ObjectKey> = companions.chain(children).collect();
        for key in keys {
            self.queue.add(&key, LOW, now);
        }
    }

    fn children_kinds(&self) -> impl Iterator<Item = KindId> {
        let scopes = &self.controller.scope.kinds;
        let children = &self.controller.permissions.children;
        children
            .iter()
            .filter_map(|kind| scopes.get(kind))
            .map(|scope| scope.kind)
    }

    /// Queues the keys that a change concerns: those that read it, the key of the object itself, and the one whose child it is.
    pub fn wake(
        &mut self,
        snapshot: &Snapshot,
        kind: KindId,
        change: &Change,
        is_initial: bool,
        now: Time,
    ) {
        let Some(view) = self.view_of(kind) else {
            return;
        };
        if change.new.is_none() {
            self.controller
                .applied
                .forget(snapshot.kinds[kind].kind(), change.key());
        }
        let priority = if is_initial { LOW } else { NORMAL };
        for key in self.reads.touched(kind, change, view) {
            self.queue.add(key, priority, now);
        }
        let is_subject = self.subject.as_ref().is_some_and(|subject| {
            let is_companion = self.is_started
                && subject.companions.contains(&kind)
                && is_visible(change, view)
                && subject.wants_companion(snapshot, change.key());
            is_companion || (kind == subject.kind && subject.is_touched_by(change, view))
        });
        if is_subject {
            self.queue.add(change.key(), priority, now);
        }
        if self.is_started
            && change.old.is_none()
            && self.children_kinds().any(|children| children == kind)
        {
            // Its key may have gone before the child came; then nobody reads it any more.
            let owner = change
                .new
                .as_ref()
                .and_then(|child| children::key_of(self.name(), child));
            owner
                .iter()
                .for_each(|key| self.queue.add(key, priority, now));
        }
    }

    /// The plugin's view of a kind; none if it does not read the kind.
    fn view_of(&self, kind: KindId) -> Option<ViewId> {
        let scopes = self.controller.scope.kinds.values();
        scopes
            .into_iter()
            .find(|scope| scope.kind == kind)
            .map(|scope| scope.view)
    }

    /// The next key whose last writes the snapshot shows. Those that come before it are held.
    fn next_visible(&mut self, snapshot: &Snapshot, now: Time) -> Option<Taken> {
        loop {
            let taken = self.queue.next(now)?;
            match self.gates.try_pass(&taken.key, snapshot, now) {
                Ok(()) => return Some(taken),
                Err(until) => self.queue.hold(&taken, until, now),
            }
        }
    }

    /// Releases the held keys whose writes the caches now show.
    pub fn open_gates(&mut self, snapshot: &Snapshot) {
        for key in self.gates.opened(snapshot) {
            self.queue.release(&key);
        }
    }

    pub fn take(
        &mut self,
        id: PluginId,
        snapshot: &Snapshot,
        now: Time,
        wall_clock_ms: u64,
    ) -> Option<Turn> {
        let taken = self.next_visible(snapshot, now)?;
        self.turns += 1;
        let request = Request {
            attempt: taken.failures.saturating_add(1),
            previous: self.results.get(&taken.key).cloned().unwrap_or_default(),
            config: self.config.clone(),
            key: taken.key,
        };
        let mut reader = Reader::new(
            snapshot.clone(),
            self.controller.scope.clone(),
            wall_clock_ms,
        );
        if let Some(subject) = &self.subject {
            reader.set_subject(subject.kind, &request.key, |object| subject.selects(object));
        }
        let schedule = (taken.priority, taken.waited);
        Some(Turn::new(
            id,
            self.controller.clone(),
            request,
            reader,
            schedule,
        ))
    }

    /// Replaces the key's reads by the run's own, or adds those of a failed run, and runs the key again if something it read has
    /// changed since its snapshot.
    pub fn register(&mut self, turn: &Turn, decision: &Decision, missed: Missed<'_>, now: Time) {
        let key = &turn.request.key;
        let is_stale = match missed {
            Missed::TooMuch => true,
            Missed::Changes(mut changes) => changes.any(|(kind, change)| {
                let view = self.view_of(kind).unwrap_or_default();
                decision
                    .reads
                    .iter()
                    .any(|read| read.kind() == kind && read.is_touched_by(change, view))
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
        if let TurnError::Run(RunError::Failure(Failure::Terminal(_))) = error {
            self.reconciles.terminal += 1;
            self.queue.fail_terminally(key);
        } else {
            // A retry keeps the priority of the run that failed (controller-runtime's rule).
            self.queue.fail(key, turn.priority, now);
        }
        self.keep(key, executed, snapshot, now);
        self.queue.done(key, now);
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

    /// What shows an accepted write to the plugin, if it reads the kind.
    fn awaited(&self, accepted: &Accepted) -> Option<Awaited> {
        let kind = self.controller.scope.kinds.get(&accepted.kind)?.kind;
        Some(match &accepted.effect {
            Effect::Version(version) => Awaited::Version(kind, version.clone()),
            Effect::Deletion(uid) => {
                Awaited::Deletion(kind, accepted.key.clone(), uid.as_str().into())
            }
        })
    }

    pub fn status(&self, snapshot: &Snapshot) -> SeatStatus {
        let manifest = self.manifest();
        let scopes = self.controller.scope.kinds.iter();
        SeatStatus {
            name: manifest.name.clone(),
            version: manifest.version.clone(),
            subject: manifest.subject_kind().cloned(),
            reads: scopes
                .map(|(kind, scope)| (kind.clone(), snapshot.kinds[scope.kind].is_synced()))
                .collect(),
            queued: self.queue.pending(),
            running: self.queue.running(),
            delayed: self.queue.delayed(),
            failing: self.queue.failing(),
            recorded_reads: self.reads.len(),
            concurrency: self.concurrency,
            reconciles: self.reconciles,
            queue: self.queue.counts(),
            last_error: self.last_error.clone(),
        }
    }
}
