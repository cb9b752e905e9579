//! Where caches, read sets and queues meet: a change goes in, the keys it concerns come out.
//!
//! Guarantees:
//! - A change and the keys it wakes are one step: no snapshot shows a change whose keys are not queued.
//! - A change that lands while a key runs counts for that key: what it read is held against everything after its snapshot.
//! - A plugin's keys run only once all the kinds it reads are synced.
//! - No key runs twice at once, and a key is held until its writes have ended and its next snapshot shows them.
//! - Between plugins with keys to run, turns are shared evenly, however long a queue is.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use crate::cache::{Delta, KindCache};
use crate::key::Kind;
use crate::object::Schema;
use crate::plan::Executed;
use crate::plugin::Plugin;
use crate::queue::Time;
use crate::snapshot::{KindId, Snapshot};

mod changelog;
mod scope;
mod seat;
mod subject;
mod turn;

use changelog::Changelog;
use seat::Seat;
pub use seat::{LastError, ReconcileCounts, SeatStatus};
pub use turn::{Decision, Turn, TurnError};

/// A plugin of a hub. Never reused.
pub type PluginId = u64;

/// How a plugin is to be run.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The plugin's configuration, as JSON.
    pub config: String,
    /// Keys that may run at the same time: what the manifest asks for, as far as it is granted.
    pub concurrency: u32,
}

/// Sixteen at once: a reconcile is pure, and a key is held while its writes are under way.
impl Default for Settings {
    fn default() -> Self {
        Self {
            config: "{}".into(),
            concurrency: 16,
        }
    }
}

/// Why a plugin cannot join.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum JoinError {
    /// Names are unique: they are field managers and metric labels.
    #[error("a plugin named {0:?} is already loaded")]
    DuplicateName(String),
    /// The host finishes what it has and takes nothing new.
    #[error("the host is stopping")]
    Draining,
}

/// What to do next.
pub enum Next {
    /// Run this.
    Run(Box<Turn>),
    /// Nothing can run before this time, or before something changes.
    Idle(Option<Time>),
}

/// See the module's documentation.
#[derive(Default)]
pub struct Hub {
    ids: HashMap<Kind, KindId>,
    /// The caches as they are now. Whoever holds a clone of it keeps what it saw.
    snapshot: Snapshot,
    changelog: Changelog,
    seats: BTreeMap<PluginId, Seat>,
    last_plugin: PluginId,
    /// The turns of the plugin that was chosen last, before that turn: where a plugin starts that had nothing to run.
    floor: u64,
    is_draining: bool,
}

impl Hub {
    /// Adds a plugin: its kinds, views and indexes, and a first run for every object of its subject.
    pub fn join(
        &mut self,
        plugin: Arc<dyn Plugin>,
        settings: &Settings,
        now: Time,
    ) -> Result<PluginId, JoinError> {
        if self.is_draining {
            return Err(JoinError::Draining);
        }
        let name = &plugin.manifest().name;
        if self.seats.values().any(|seat| seat.name() == name) {
            return Err(JoinError::DuplicateName(name.clone()));
        }
        for read in &plugin.manifest().reads {
            self.kind_id(&read.kind);
        }
        let kinds = Arc::make_mut(&mut self.snapshot.kinds);
        let mut seat = Seat::new(plugin, settings, kinds, &self.ids);
        seat.start(&self.snapshot, now);
        seat.start_when_synced(&self.snapshot, now);
        self.last_plugin += 1;
        self.seats.insert(self.last_plugin, seat);
        Ok(self.last_plugin)
    }

    /// The kinds that must be watched for a plugin.
    pub fn kinds_of(&self, plugin: PluginId) -> Vec<(KindId, Kind)> {
        let seat = self.seats.get(&plugin);
        let kinds = seat.into_iter().flat_map(Seat::kinds);
        kinds
            .map(|kind| (kind, self.snapshot.kinds[kind].kind().clone()))
            .collect()
    }

    /// How objects of a kind are to be parsed now.
    pub fn schema(&self, kind: KindId) -> Arc<Schema> {
        self.snapshot.kinds[kind].schema().clone()
    }

    /// The caches as they are now.
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// Stores what a watch says and queues the keys it concerns. Says how many objects changed.
    pub fn apply(&mut self, kind: KindId, delta: Delta, now: Time) -> usize {
        let cache = &mut Arc::make_mut(&mut self.snapshot.kinds)[kind];
        let is_initial = !cache.is_synced();
        let changes = cache.apply(delta);
        self.snapshot.sequence += changes.len() as u64;
        for change in &changes {
            for seat in self.seats.values_mut() {
                seat.wake(&self.snapshot, kind, change, is_initial, now);
            }
        }
        for seat in self.seats.values_mut() {
            seat.start_when_synced(&self.snapshot, now);
            seat.open_gates(&self.snapshot);
        }
        let count = changes.len();
        self.changelog.push(self.snapshot.sequence, kind, changes);
        count
    }

    /// The next key to run: of the plugin that had the fewest turns.
    pub fn next(&mut self, now: Time, wall_clock_ms: u64) -> Next {
        loop {
            for seat in self.seats.values_mut() {
                seat.update_readiness(&self.snapshot, self.floor, now);
            }
            let ready = self
                .seats
                .iter_mut()
                .filter(|(_, seat)| seat.is_ready(&self.snapshot, now));
            let Some((id, seat)) = ready.min_by_key(|(_, seat)| seat.turns()) else {
                break;
            };
            let floor = seat.turns();
            // None when all that was ready is held; it is not ready any more.
            if let Some(turn) = seat.take(*id, &self.snapshot, now, wall_clock_ms) {
                self.floor = floor;
                self.changelog.open(turn.sequence());
                return Next::Run(Box::new(turn));
            }
        }
        let due = self
            .seats
            .values()
            .filter(|seat| seat.is_synced(&self.snapshot));
        Next::Idle(due.filter_map(Seat::next_due).min())
    }

    /// Registers what a run read. The key stays held; [`settled`](Self::settled) or [`failed`](Self::failed) gives it back.
    pub fn decided(&mut self, turn: &Turn, decision: &Decision, now: Time) {
        {
            let missed = self.changelog.close(turn.sequence());
            if let Some(seat) = self.seats.get_mut(&turn.plugin) {
                seat.register(turn, decision, missed, now);
            }
        }
        self.changelog.trim();
    }

    /// The run, or one of its writes, failed: the key runs again with back-off, unless the failure is terminal.
    pub fn failed(&mut self, turn: &Turn, error: &TurnError, executed: Executed, now: Time) {
        if let Some(seat) = self.seats.get_mut(&turn.plugin) {
            seat.failed(turn, error, executed, &self.snapshot, now);
        }
    }

    /// The run and all its writes have ended well.
    pub fn settled(
        &mut self,
        turn: &Turn,
        requeue_after: Option<Duration>,
        executed: Executed,
        now: Time,
    ) {
        if let Some(seat) = self.seats.get_mut(&turn.plugin) {
            seat.settled(turn, requeue_after, executed, &self.snapshot, now);
        }
    }

    /// From now on only what is pending or running is finished.
    pub fn drain(&mut self) {
        self.is_draining = true;
        self.seats.values_mut().for_each(Seat::drain);
    }

    /// Whether nothing is pending and nothing runs.
    pub fn is_drained(&self) -> bool {
        self.seats
            .values()
            .all(|seat| seat.is_drained(&self.snapshot))
    }

    /// Every plugin's state, in the order they joined.
    pub fn status(&self) -> Vec<SeatStatus> {
        self.seats
            .values()
            .map(|seat| seat.status(&self.snapshot))
            .collect()
    }

    fn kind_id(&mut self, kind: &Kind) -> KindId {
        if let Some(id) = self.ids.get(kind) {
            return *id;
        }
        let kinds = Arc::make_mut(&mut self.snapshot.kinds);
        kinds.push(KindCache::new(kind.clone()));
        self.ids.insert(kind.clone(), kinds.len() - 1);
        kinds.len() - 1
    }
}

/// A key of a plugin, for messages.
impl std::fmt::Debug for Turn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} {}",
            self.controller.plugin.manifest().name,
            self.request.key
        )
    }
}

#[cfg(test)]
#[path = "hub_tests.rs"]
mod tests;
