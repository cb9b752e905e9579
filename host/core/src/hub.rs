//! The place where caches, read sets and work queues meet: a change comes in, and the keys that it
//! concerns are queued.
//!
//! The hub does no I/O and reads no clock. Worker threads ask it for the next key, and the
//! list-watches hand it what they receive.
//!
//! Guarantees:
//! - A change and the keys it wakes are one step: no snapshot shows a change whose keys are not
//!   queued.
//! - A change that arrives while a key is being reconciled is not missed: what the reconcile read
//!   is checked against every change after its snapshot.
//! - A plugin's keys run only when all the kinds it reads are synced.
//! - A key never runs twice at once. It is held until its writes have ended and its next snapshot
//!   shows them.
//! - Plugins that have keys to run share the workers' time by weight, however long a queue is and
//!   however slow a guest is.
//! - Only keys of the host's [duties] run. What has run of others may end. Gained keys run when the
//!   caches have been [proven](doubts) to show what the host before has written.
//! - While a plugin cannot reach the cluster, nothing is lost and nothing counts as a key's
//!   failure.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use crate::cache::snapshot::{InformerId, Snapshot};
use crate::cache::{Cache, Change, Delta, Listing, Subscribed};
use crate::hub::gate::GateId;
use crate::model::detail::Detail;
use crate::model::extent::Extent;
use crate::model::informer_key::InformerKey;
use crate::model::key::{Kind, ObjectKey};
use crate::model::manifest::Manifest;
use crate::model::namespaces::Namespaces;
use crate::model::object::Schema;
use crate::model::subject_key::SubjectKey;
use crate::plan::confirm::Confirmed;
use crate::queue::{LOW, NORMAL, Time};

mod answers;
mod changelog;
mod controller;
pub mod doubts;
pub mod duties;
mod fetch;
pub mod gate;
mod handing_over;
mod health;
mod joining;
mod outage;
mod pace;
pub mod plugin;
mod preparation;
mod reconcile;
mod rehearsal;
mod resync;
mod settings;
mod share;
mod status;
mod subject;
mod subjects;
mod wanted_informers;
mod widening;

use answers::{Answered, Known};
use changelog::{Changelog, Missed};
pub use controller::loops::LoopingKey;
use controller::{Controller, KeyedChange, Listed, Work};
use doubts::Doubts;
use duties::{Duties, Relinquish};
pub use fetch::{Fetch, Purpose, Question, ReadFailure};
use handing_over::Departed;
pub use health::Quarantine;
pub use joining::{Exchange, Garbage, JoinError};
use joining::{MAX_KEYS, MAX_ROUNDS, MAX_WAITING};
use plugin::Plugin;
pub use preparation::Preparation;
use preparation::{Caches, FirstKeys, Joining, PreparationStep, Widening};
pub use reconcile::{
    Conclusion, ConfirmAnswers, ConfirmEnd, Confirming, Decision, Fetching, Finished, Ran,
    Reconcile, ReconcileError, RunningKey, Writing,
};
pub use rehearsal::Rehearsal;
pub use settings::ControllerSettings;
pub use status::{BrokenKey, ControllerStatus, InformerStatus};
use widening::ServedKinds;

/// Identifies a plugin in a hub. Never reused.
pub type PluginId = u64;

/// What a worker does next.
pub enum Next {
    /// Run this reconcile.
    Run(Box<Reconcile>),
    /// Fetch these objects and pass the answers to [`Hub::fetched`].
    Fetch(Fetch),
    /// Nothing can run before this time, or before something changes.
    Idle(Option<Time>),
}

/// Limits on the threads that guests may keep busy.
#[derive(Clone, Copy)]
struct Threads {
    /// How many threads one plugin may keep busy.
    of_one: usize,
    /// How many more threads the slow plugins together may keep busy.
    more_for_slow: usize,
}

/// No limits.
impl Default for Threads {
    fn default() -> Self {
        Self {
            of_one: usize::MAX,
            more_for_slow: usize::MAX,
        }
    }
}

/// See the module's documentation.
#[derive(Default)]
pub struct Hub {
    ids: HashMap<InformerKey, InformerId>,
    /// The current caches. A clone keeps what it saw.
    snapshot: Snapshot,
    changelog: Changelog,
    controllers: BTreeMap<PluginId, Controller>,
    /// The plugins that have left, as long as keys of them run.
    departed: BTreeMap<PluginId, Departed>,
    duties: Duties,
    /// Which caches may not show yet what another host has written.
    doubts: Doubts,
    last_plugin: PluginId,
    /// Incremented when a plugin leaves and when caches are exchanged. A preparation that began
    /// before cannot be used.
    layout: u64,
    /// What the plugin that was chosen last had used before that reconcile. A plugin that had
    /// nothing to run starts again from here.
    floor: Duration,
    served: ServedKinds,
    /// Threads that run guests; `None` if the number is not known.
    threads: Option<usize>,
    is_draining: bool,
}

impl Hub {
    /// A hub whose reconciles run on this many threads. While there are several plugins, one plugin
    /// never gets all threads. Slow plugins together get half of them, so that they do not delay
    /// the others.
    pub fn with_threads(threads: usize) -> Self {
        Self {
            threads: Some(threads),
            ..Self::default()
        }
    }

    /// Adds a plugin at once: its informers, views and indexes, and a first reconcile for every
    /// object of its subject. Takes a second for 100,000 objects. If others wait for the hub, use
    /// [`prepare`](Self::prepare) instead.
    pub fn join(
        &mut self,
        plugin: Arc<dyn Plugin>,
        settings: &ControllerSettings,
        now: Time,
    ) -> Result<PluginId, JoinError> {
        let (id, preparation) = self.prepare(plugin, settings)?;
        self.finish(preparation, now)?;
        Ok(id)
    }

    /// Swaps a plugin's version at once; see [`prepare_replacement`](Self::prepare_replacement).
    pub fn replace(
        &mut self,
        id: PluginId,
        plugin: Arc<dyn Plugin>,
        settings: &ControllerSettings,
        now: Time,
    ) -> Result<(), JoinError> {
        let preparation = self.prepare_replacement(id, plugin, settings)?;
        self.finish(preparation, now)
    }

    fn finish(&mut self, mut preparation: Preparation, now: Time) -> Result<(), JoinError> {
        loop {
            preparation.build(now);
            match self.exchange(preparation, now) {
                Exchange::Again(again) => preparation = *again,
                Exchange::Done(_) => return Ok(()),
                Exchange::Refused(error, _) => return Err(error),
            }
        }
    }

    /// Begins to add a plugin. The caller builds the preparation without the hub and then passes it
    /// to [`exchange`](Self::exchange). Until then the hub keeps all changes.
    pub fn prepare(
        &mut self,
        plugin: Arc<dyn Plugin>,
        settings: &ControllerSettings,
    ) -> Result<(PluginId, Preparation), JoinError> {
        let id = self.last_plugin + 1;
        let joining = Joining::new(id, plugin, settings, false);
        self.check(&joining)?;
        self.last_plugin = id;
        Ok((id, self.begin(Some(joining), None)))
    }

    /// Begins to swap a plugin's version, or the settings of the same version. Running reconciles
    /// end on the version they began on. Every key runs again on the new version. The queue stays,
    /// and with it each key's failures and the plugin's used share of the workers' time.
    pub fn prepare_replacement(
        &mut self,
        id: PluginId,
        plugin: Arc<dyn Plugin>,
        settings: &ControllerSettings,
    ) -> Result<Preparation, JoinError> {
        let joining = Joining::new(id, plugin, settings, true);
        self.check(&joining)?;
        Ok(self.begin(Some(joining), None))
    }

    /// Begins to free what only plugins that have left needed; `None` if there is nothing to free.
    /// The result is built and exchanged like a plugin's preparation.
    pub fn prepare_trim(&mut self) -> Option<Preparation> {
        let is_loose = {
            let mut informers = self.snapshot.informers.iter();
            informers.any(|(_, cache)| cache.is_loose())
        };
        is_loose.then(|| self.begin(None, None))
    }

    fn begin(&mut self, joining: Option<Joining>, widening: Option<Widening>) -> Preparation {
        self.changelog.open(self.snapshot.sequence);
        Preparation::of_caches(self, joining, widening)
    }

    fn check(&self, joining: &Joining) -> Result<(), JoinError> {
        if self.is_draining {
            return Err(JoinError::Draining);
        }
        let manifest = &joining.manifest;
        let name = &manifest.name;
        let mut others = self.controllers.iter().filter(|(id, _)| **id != joining.id);
        if others.any(|(_, controller)| controller.name() == name) {
            return Err(JoinError::DuplicateName(name.clone()));
        }
        let reads_values = manifest.reads.iter().any(|read| {
            read.kind.is_secret() && wanted_informers::detail(manifest, read) == Detail::Full
        });
        if reads_values && !joining.settings.secret_values {
            return Err(JoinError::SecretValues(name.clone()));
        }
        Ok(())
    }

    /// Installs what has been prepared and built. When this returns [`Exchange::Done`], the plugin
    /// has joined.
    pub fn exchange(&mut self, preparation: Preparation, now: Time) -> Exchange {
        let Preparation { step, garbage } = preparation;
        match step {
            PreparationStep::Keys(first) => self.queue_some(first, garbage, now),
            PreparationStep::Caches(caches) => self.exchange_caches(caches, garbage, now),
        }
    }

    /// Queues the next of a new version's first keys.
    fn queue_some(&mut self, mut first: FirstKeys, garbage: Garbage, now: Time) -> Exchange {
        if first.is_built() {
            let rest = first.keys.split_off(first.keys.len().min(MAX_KEYS));
            let some = std::mem::replace(&mut first.keys, rest);
            if let Some(controller) = self.controllers.get_mut(&first.plugin) {
                controller.queue_first(&some, now);
            }
            if first.keys.is_empty() {
                return Exchange::Done(garbage);
            }
        }
        let step = PreparationStep::Keys(first);
        Exchange::Again(Box::new(Preparation { step, garbage }))
    }

    fn exchange_caches(
        &mut self,
        mut caches: Box<Caches>,
        mut garbage: Garbage,
        now: Time,
    ) -> Exchange {
        let again = |caches, garbage| {
            let step = PreparationStep::Caches(caches);
            Exchange::Again(Box::new(Preparation { step, garbage }))
        };
        if !caches.is_built() {
            return again(caches, garbage);
        }
        let missed = self.missed(&caches);
        let joining = caches.joining.as_ref();
        if let Some(Err(error)) = joining.map(|joining| self.check(joining)) {
            garbage.add((caches, missed, self.changelog.trim()));
            return Exchange::Refused(error, garbage);
        }
        if joining
            .is_some_and(|joining| joining.replaces && !self.controllers.contains_key(&joining.id))
        {
            // The plugin has left meanwhile.
            garbage.add((caches, missed, self.changelog.trim()));
            return Exchange::Done(garbage);
        }
        let Some(missed) = missed else {
            // `None`: what was missed is not known, so start again from the present caches.
            let anew = match caches.widening.take() {
                // What is wanted now may be something else.
                Some(widening) => self.prepare_widening(widening.room, now),
                None => Some(self.begin(caches.joining.take(), None)),
            };
            garbage.add((caches, self.changelog.trim()));
            let Some(mut anew) = anew else {
                return Exchange::Done(garbage);
            };
            anew.garbage = garbage;
            return Exchange::Again(Box::new(anew));
        };
        if missed.len() > MAX_WAITING && caches.rounds < MAX_ROUNDS {
            // Still too much to do under the lock: another round outside it. The changelog is
            // opened at the present state before it is trimmed, so that nothing in between is lost.
            self.changelog.open(self.snapshot.sequence);
            let before = std::mem::replace(&mut caches.live, self.snapshot.clone());
            garbage.add((before, self.changelog.trim()));
            caches.missed = missed;
            caches.rounds += 1;
            return again(caches, garbage);
        }
        self.take_over(&mut caches, &missed, &mut garbage, now);
        self.widen(std::mem::take(&mut caches.widened), &mut garbage, now);
        let joining = caches.joining.take();
        let replacement = joining.and_then(|joining| self.controller(joining, &mut garbage, now));
        if replacement.is_some() {
            // What its patterns knew to be late may be listed for it.
            self.settle_kinds(Listed::Anything, now);
        }
        self.show_served(now);
        self.ask_for_subjects(now);
        garbage.add((caches, missed, self.changelog.trim()));
        match replacement {
            None => Exchange::Done(garbage),
            Some((id, prepared)) => {
                let keys = Preparation::of_keys(id, prepared, garbage);
                Exchange::Again(Box::new(keys))
            }
        }
    }

    /// Makes the prepared caches the hub's own, after the changes that they have missed.
    fn take_over(
        &mut self,
        caches: &mut Caches,
        missed: &[(InformerId, Change)],
        garbage: &mut Garbage,
        now: Time,
    ) {
        caches.follow(missed, &self.snapshot, now);
        let informers = Arc::make_mut(&mut self.snapshot.informers);
        for id in &caches.informers {
            let cache = caches.snapshot.informers[*id].clone();
            garbage.add(informers.put(*id, cache));
        }
        self.ids = std::mem::take(&mut caches.ids);
        self.layout += 1;
    }

    /// Installs the plugin, or swaps its version. For a swap, returns what has been prepared,
    /// because its first keys are still to be queued.
    fn controller(
        &mut self,
        joining: Joining,
        garbage: &mut Garbage,
        now: Time,
    ) -> Option<(PluginId, Controller)> {
        let mut prepared = joining.controller?;
        // They may have changed since the preparation began.
        let duty = prepared.duty_of(&self.duties, prepared.settings());
        prepared.set_duty(duty, Relinquish::Finish, self.doubts.last(), garbage);
        prepared.take_over(self.doubts.last(), &self.snapshot, now);
        if !joining.replaces {
            self.controllers.insert(joining.id, prepared);
            return None;
        }
        let controller = self.controllers.get_mut(&joining.id)?;
        let subscriptions = controller.replace(&prepared, &self.snapshot, garbage, now);
        // Only after the new version has subscribed, so that informers used by both versions stay.
        self.release(subscriptions, garbage);
        self.renew_duty(joining.id, garbage, now);
        Some((joining.id, prepared))
    }

    /// The changes of the prepared caches since the preparation was last brought up to date. The
    /// changelog no longer keeps them for it afterwards. `None` if more changed than is kept, or if
    /// other plugins have joined or left: then the preparation cannot be used.
    fn missed(&mut self, caches: &Caches) -> Option<Vec<(InformerId, Change)>> {
        let missed = match self.changelog.close(caches.live.sequence) {
            Missed::Changes(changes) if caches.layout == self.layout => changes,
            _ => return None,
        };
        let concern = missed.filter(|(informer, _)| caches.informers.contains(informer));
        Some(concern.map(|(id, change)| (id, change.clone())).collect())
    }

    /// Removes a plugin, whatever it has queued. What still runs may end, but has no effect any
    /// more. An informer that no other plugin uses ends too, and its cache is emptied. What the
    /// other caches hold for this plugin alone stays until [`prepare_trim`](Self::prepare_trim).
    pub fn leave(&mut self, plugin: PluginId) -> Garbage {
        let mut garbage = Garbage::default();
        let Some(mut controller) = self.controllers.remove(&plugin) else {
            return garbage;
        };
        self.layout += 1;
        self.note_departed(plugin, &mut controller);
        self.release(controller.subscriptions().clone(), &mut garbage);
        garbage.add(controller);
        garbage
    }

    fn release(&mut self, subscriptions: BTreeMap<InformerId, Subscribed>, garbage: &mut Garbage) {
        for (informer, subscribed) in subscriptions {
            let Some(cache) = self.snapshot.cache_mut(informer) else {
                continue;
            };
            cache.leave(&subscribed);
            if cache.users() == 0 {
                self.ids.remove(cache.informer_key());
                self.doubts.end(informer);
                let informers = Arc::make_mut(&mut self.snapshot.informers);
                garbage.add(informers.end(informer));
            }
        }
    }

    /// Applies the settings that can change without running any key again.
    pub fn configure(&mut self, id: PluginId, settings: &ControllerSettings, now: Time) {
        if let Some(controller) = self.controllers.get_mut(&id) {
            controller.configure(settings, now);
        }
        self.renew_duty(id, &mut Garbage::default(), now);
    }

    /// The informers that must run now, and how much they must bring. An informer of no namespace
    /// needs no list-watch: see [`vacate`](Self::vacate).
    pub fn wanted(&self) -> BTreeMap<InformerId, (InformerKey, Extent)> {
        let namespaces = self.namespaces();
        let informers = self.snapshot.informers.iter();
        let used = informers.filter(|(_, cache)| is_watched(cache));
        let wanted = used.map(|(id, cache)| {
            let extent = Extent {
                detail: cache.schema().detail(),
                namespaces: namespaces.get(&id).copied().unwrap_or_default(),
            };
            (id, (cache.informer_key().clone(), extent))
        });
        wanted.collect()
    }

    /// The objects of which namespaces each informer must bring.
    fn namespaces(&self) -> BTreeMap<InformerId, Namespaces> {
        let mut wanted: BTreeMap<InformerId, Namespaces> = BTreeMap::new();
        let controllers = self.controllers.values();
        for (informer, namespaces) in controllers.flat_map(Controller::namespaces) {
            let all = wanted.entry(informer).or_insert(Namespaces::NONE);
            *all = all.and(namespaces);
        }
        wanted
    }

    /// Empties the cache of an informer whose list-watch has ended, because no key that this host
    /// runs can read its objects. Linear in the objects.
    pub fn vacate(&mut self, informer: InformerId, now: Time) {
        let Some(cache) = self.snapshot.informers.get(informer) else {
            return;
        };
        let wanted = self.namespaces().get(&informer).copied();
        if cache.is_initial() || !wanted.is_some_and(Namespaces::is_none) {
            return;
        }
        let listing = Listing {
            resource_version: cache.resource_version().clone(),
            extent: Extent {
                detail: cache.schema().detail(),
                namespaces: Namespaces::NONE,
            },
            ..Listing::default()
        };
        self.apply(informer, Delta::Replace(listing), now);
    }

    /// How many informers there are.
    pub fn watched(&self) -> usize {
        let informers = self.snapshot.informers.iter();
        informers.filter(|(_, cache)| is_watched(cache)).count()
    }

    /// How many more informers a plugin with these granted reads would need, by kind. Kinds that
    /// need none are left out.
    pub fn unwatched(&self, granted: &Manifest) -> Vec<(Kind, usize)> {
        let is_there = |informer_key: &InformerKey| {
            let id = self.ids.get(informer_key);
            id.is_some_and(|id| self.snapshot.informers[*id].users() > 0)
        };
        let missing = granted.reads.iter().map(|read| {
            let informer_keys = wanted_informers::informer_keys(read).into_iter();
            let missing = informer_keys
                .filter(|informer_key| !is_there(informer_key))
                .count();
            (read.kind.clone(), missing)
        });
        missing.filter(|(_, missing)| *missing > 0).collect()
    }

    /// How an informer's objects are to be parsed now.
    pub fn schema(&self, informer: InformerId) -> Arc<Schema> {
        self.snapshot.informers[informer].schema().clone()
    }

    /// The current caches.
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// Stores what a watch has brought and queues the keys it concerns. Returns how many objects
    /// changed. A delta of an informer that has ended is ignored.
    pub fn apply(&mut self, informer: InformerId, delta: Delta, now: Time) -> usize {
        let Some(cache) = self.snapshot.cache_mut(informer) else {
            return 0;
        };
        let priority = if cache.is_initial() { LOW } else { NORMAL };
        if matches!(&delta, Delta::Replace(listing) if listing.is_rollback) {
            let controllers = self.controllers.values_mut();
            controllers.for_each(|controller| controller.forget_written(cache.kind()));
            self.doubts.forget_answer(informer);
        }
        let is_step = matches!(delta, Delta::Upsert(_));
        let is_list = matches!(delta, Delta::Replace(_));
        let before = is_list.then(|| cache.resource_version().clone());
        let changes = cache.apply(delta);
        let count = self.spread_all(informer, changes, is_step, priority, now);
        if let Some(before) = &before {
            for controller in self.controllers.values_mut() {
                controller.listed(informer, before, &self.snapshot, now);
            }
        }
        count
    }

    /// Counts that an informer's list-watch has dropped something older than its cache.
    pub fn note_stale(&mut self, informer: InformerId) {
        if let Some(cache) = self.snapshot.cache_mut(informer) {
            cache.note_stale();
        }
    }

    /// Queues the keys that changes concern which no watch has brought.
    fn spread(
        &mut self,
        informer: InformerId,
        changes: Vec<Change>,
        priority: i32,
        now: Time,
    ) -> usize {
        self.spread_all(informer, changes, false, priority, now)
    }

    /// Queues the keys that changes concern; see [`KeyedChange::is_step`].
    fn spread_all(
        &mut self,
        informer: InformerId,
        changes: Vec<Change>,
        is_step: bool,
        priority: i32,
        now: Time,
    ) -> usize {
        self.snapshot.sequence += changes.len() as u64;
        // Plugins that keep a change's key then share its texts. Changes come by namespace, so
        // consecutive keys also share the namespace's name.
        let mut key = ObjectKey::singleton();
        for change in &changes {
            key = change.key().to_key_beside(&key);
            let changed = KeyedChange {
                informer,
                key: &key,
                change,
                is_step,
            };
            for controller in self.controllers.values_mut() {
                controller.wake(&self.snapshot, changed, priority, now);
            }
        }
        let count = changes.len();
        self.changelog
            .push(self.snapshot.sequence, informer, changes);
        self.spread_turned(informer, priority, now);
        for controller in self.controllers.values_mut() {
            controller.start_when_synced(&self.snapshot, now);
            controller.open_gates(informer, &self.snapshot);
        }
        self.settle_kind(informer, now);
        let cache = &self.snapshot.informers[informer];
        self.doubts.settle(informer, cache);
        self.settle_gains(now);
        count
    }

    /// Queues the keys that asked for objects which have become unreadable, or readable again. This
    /// takes a sequence number of its own, as a change does.
    fn spread_turned(&mut self, informer: InformerId, priority: i32, now: Time) {
        let cache = self.snapshot.cache_mut(informer);
        let turned = cache.map(Cache::take_turned).unwrap_or_default();
        if turned.is_empty() {
            return;
        }
        self.snapshot.sequence += 1;
        self.changelog
            .push(self.snapshot.sequence, informer, vec![]);
        for controller in self.controllers.values_mut() {
            for key in &turned {
                controller.wake_readers(informer, key, priority, now);
            }
            controller.note_turned(informer, self.snapshot.sequence);
        }
    }

    /// The next key to run: a key of the plugin that has used the least of the workers' time.
    pub fn next(&mut self, now: Time, wall_clock_ms: u64) -> Next {
        while self.settle(now) {
            let threads = self.threads(now);
            let ready = self.controllers.iter_mut().filter(|(_, controller)| {
                controller.is_ready(&self.snapshot, &self.doubts, threads, now)
            });
            let Some((id, controller)) =
                ready.min_by_key(|(_, controller)| controller.turns.used())
            else {
                break;
            };
            let floor = controller.turns.used();
            // `None` if every ready key turned out to be held. The plugin is not ready any more, so
            // choose again.
            let Some(work) = controller.take(*id, &self.snapshot, now, wall_clock_ms) else {
                continue;
            };
            match work {
                Work::Later => return Next::Idle(Some(now)),
                Work::Fetch(fetch) => return Next::Fetch(fetch),
                Work::Run(reconcile) => {
                    self.floor = floor;
                    self.changelog.open(reconcile.held().sequence);
                    return Next::Run(reconcile);
                }
            }
        }
        Next::Idle(self.idle_until(now))
    }

    /// The time at which [`next`](Self::next) is to be called: now, if it may have something to do;
    /// a later time, if nothing changes before; `None`, if only a change brings something. While
    /// the hub [drains](Self::drain), it is always now: somebody waits for its end.
    pub fn next_time(&mut self, now: Time) -> Option<Time> {
        match self.settle(now) || self.is_draining {
            true => Some(now),
            false => self.idle_until(now),
        }
    }

    /// Brings up to date what passes with time, and which plugins have something to run. Returns
    /// whether one has.
    fn settle(&mut self, now: Time) -> bool {
        self.settle_kinds(Listed::Nothing, now);
        self.settle_gains(now);
        let threads = self.threads(now);
        let mut is_any_ready = false;
        for controller in self.controllers.values_mut() {
            controller.resync(&self.snapshot, now);
            let is_ready = controller.is_ready(&self.snapshot, &self.doubts, threads, now);
            controller.turns.update(is_ready, self.floor);
            is_any_ready |= is_ready;
        }
        is_any_ready
    }

    /// When something may have to be done, if there is nothing now and nothing changes.
    fn idle_until(&self, now: Time) -> Option<Time> {
        let controllers = self.controllers.values();
        let synced = controllers.filter(|controller| controller.is_synced(&self.snapshot));
        let threads = self.threads(now);
        let due = synced.filter_map(|controller| controller.next_due(&self.doubts, threads, now));
        due.min()
    }

    /// How many threads one plugin, and the slow plugins together, may keep busy now.
    fn threads(&self, now: Time) -> Threads {
        let Some(threads) = self.threads.filter(|_| self.controllers.len() > 1) else {
            return Threads::default();
        };
        let slow = self
            .controllers
            .values()
            .filter(|controller| controller.turns.is_slow(now));
        let (count, running) = slow.fold((0, 0), |(count, running), controller| {
            (count + 1, running + controller.turns.running())
        });
        // If all plugins are slow, there is no quick one to keep threads free for.
        let is_shared = count < self.controllers.len();
        let for_slow = (threads / 2).max(1).saturating_sub(running);
        Threads {
            of_one: threads.saturating_sub(1).max(1),
            more_for_slow: if is_shared { for_slow } else { usize::MAX },
        }
    }

    /// Registers what a reconcile read. Its writes can be sent now, or after the API server has
    /// confirmed what they rest on; or it has finished already, because there is no outcome.
    pub fn ran(&mut self, ran: Ran, now: Time) -> Decision {
        {
            let missed = self.changelog.close(ran.held.sequence);
            if let Some(controller) = self.controllers.get_mut(&ran.held.plugin) {
                controller.register(&ran, missed, &self.snapshot, now);
            }
        }
        drop(self.changelog.trim());
        ran.decide()
    }

    /// Compares the API server's answers with what a reconcile has seen.
    pub fn confirmed(&self, confirming: Confirming, answers: ConfirmAnswers) -> ConfirmEnd {
        confirming.answered(answers, &self.snapshot)
    }

    /// Compares the API server's answers with what a [rehearsal](Rehearsal::confirmed) has seen.
    /// `None`: they agree. Else the objects to be fetched.
    pub fn contradicted(
        &self,
        confirmed: &Confirmed,
        answers: ConfirmAnswers,
    ) -> Result<Option<Vec<Question>>, ReconcileError> {
        reconcile::contradicted(confirmed, answers, &self.snapshot)
    }

    /// A reconcile of this key on the present caches. `None` if there is no such plugin.
    pub fn rehearse(
        &self,
        plugin: PluginId,
        key: &SubjectKey,
        wall_clock_ms: u64,
    ) -> Option<Rehearsal> {
        let controller = self.controllers.get(&plugin)?;
        Some(controller.rehearse(key, &self.snapshot, wall_clock_ms))
    }

    /// Whether a key of this plugin is to run, now or later.
    pub fn is_queued(&self, plugin: PluginId, key: &SubjectKey) -> bool {
        let controller = self.controllers.get(&plugin);
        controller.is_some_and(|controller| controller.is_queued(key))
    }

    /// Gives the key of a reconcile back. After a failure it runs again with back-off, unless the
    /// failure is terminal. If the cluster could not be reached, the plugin only tries one such key
    /// a second until one succeeds. A key whose writes were stopped on the way is queued again.
    pub fn finished(&mut self, finished: Finished, now: Time) -> Conclusion {
        let id = finished.held.plugin;
        let Some(controller) = self.controllers.get_mut(&id) else {
            self.departed_finished(id, &finished.held.request.key);
            return Conclusion::default();
        };
        controller.finished(finished, &self.snapshot, now)
    }

    /// Whether a rollback may return to this plugin's version: it is not quarantined, and it has
    /// never run or at least one of its recent reconciles did not count against it.
    pub fn may_roll_back_to(&self, id: PluginId) -> bool {
        self.controllers
            .get(&id)
            .is_some_and(Controller::may_roll_back_to)
    }

    /// Puts a plugin's version in quarantine, whatever its record.
    pub fn put_in_quarantine(&mut self, id: PluginId, reason: &str, now: Time) {
        if let Some(controller) = self.controllers.get_mut(&id) {
            controller.put_in_quarantine(reason, now);
        }
    }

    /// Ends a plugin's quarantine, if it is in one.
    pub fn pardon(&mut self, id: PluginId) {
        if let Some(controller) = self.controllers.get_mut(&id) {
            controller.pardon();
        }
    }

    /// The plugins that run nothing because their version is in quarantine.
    pub fn quarantined(&self, now: Time) -> Vec<(PluginId, Quarantine)> {
        let controllers = self.controllers.iter();
        let quarantined = controllers
            .filter_map(|(id, controller)| Some((*id, controller.quarantine(now)?.clone())));
        quarantined.collect()
    }

    /// Takes the answers to a [`Fetch`], one for each object: its JSON, `None` if there is no such
    /// object, or why that is not known. A key that waits for the answers runs if everything is
    /// known that can be known; otherwise it waits on. Returns the objects that the caches showed
    /// differently from the API server although the caches had come that far.
    pub fn fetched(
        &mut self,
        fetch: &Fetch,
        answers: Vec<Result<Option<String>, ReadFailure>>,
        now: Time,
    ) -> Vec<Question> {
        let answered = fetch.questions.iter().zip(answers);
        match fetch.purpose {
            Purpose::Gate(gate) => {
                self.pass(fetch, gate, answered, now);
                Vec::new()
            }
            Purpose::Repair => self.repair(fetch, answered, now),
            Purpose::Confirm => {
                for (question, answer) in answered {
                    // Without an answer the key runs again on what the watches bring.
                    if let Ok(found) = answer {
                        let (changes, _) = self.answered(question).overlay(found.as_deref());
                        self.spread(question.informer, changes, NORMAL, now);
                    }
                }
                Vec::new()
            }
        }
    }

    fn pass<'a>(
        &mut self,
        fetch: &Fetch,
        gate: GateId,
        answered: impl Iterator<Item = (&'a Question, Answer)>,
        now: Time,
    ) {
        let mut is_answered = true;
        for (question, answer) in answered {
            let known = match answer {
                Ok(found) => {
                    let (changes, known) = self.answered(question).overlay(found.as_deref());
                    self.spread(question.informer, changes, NORMAL, now);
                    known
                }
                Err(ReadFailure::Refused(_)) => Known::All,
                Err(ReadFailure::NoAnswer(_)) => {
                    is_answered = false;
                    Known::Nothing
                }
            };
            if let Some(controller) = self.controllers.get_mut(&fetch.plugin) {
                controller.object_fetched(&fetch.key, gate, question, &known, &self.snapshot);
            }
        }
        if let Some(controller) = self.controllers.get_mut(&fetch.plugin) {
            controller.fetch_ended(&fetch.key, is_answered, now);
        }
    }

    fn repair<'a>(
        &mut self,
        fetch: &Fetch,
        answered: impl Iterator<Item = (&'a Question, Answer)>,
        now: Time,
    ) -> Vec<Question> {
        let (mut states, mut repaired) = (Vec::new(), Vec::new());
        let mut is_answered = true;
        for (question, answer) in answered {
            let is_known = match answer {
                Ok(found) => {
                    let answered = self.answered(question);
                    let is_known =
                        answered.is_as_asked() || (found.is_none() && answered.is_absent());
                    if is_known {
                        let (change, is_repair) = answered.put_right(found.as_deref());
                        self.spread(question.informer, change.into_iter().collect(), NORMAL, now);
                        repaired.extend(is_repair.then(|| question.clone()));
                    }
                    is_known
                }
                Err(ReadFailure::Refused(_)) => true,
                Err(ReadFailure::NoAnswer(_)) => {
                    is_answered = false;
                    false
                }
            };
            // If the cache has changed since, the answer is not about its present state.
            if is_known {
                let state = Question::of(&self.snapshot, question.informer, question.key.clone());
                states.push(state);
            }
        }
        if let Some(controller) = self.controllers.get_mut(&fetch.plugin) {
            controller.repair_ended(fetch, states, is_answered, now);
        }
        repaired
    }

    fn answered<'a>(&'a mut self, question: &'a Question) -> Answered<'a> {
        Answered {
            question,
            snapshot: &mut self.snapshot,
        }
    }

    /// The cluster can be reached again: a list-watch that had failed works. Keys whose writes had
    /// no answer can run.
    pub fn recovered(&mut self) {
        self.controllers
            .values_mut()
            .for_each(Controller::recovered);
    }

    /// From now on, only what is pending or running is finished.
    pub fn drain(&mut self) {
        self.is_draining = true;
        let controllers = self.controllers.values_mut();
        controllers.for_each(|controller| controller.drain(&self.snapshot));
    }

    /// As [`drain`](Self::drain), for one plugin, which [leaves](Self::leave) when that is done.
    pub fn drain_plugin(&mut self, plugin: PluginId) {
        if let Some(controller) = self.controllers.get_mut(&plugin) {
            controller.drain(&self.snapshot);
        }
    }

    /// From now on no key of this plugin is handed out, whatever is queued.
    pub fn halt_plugin(&mut self, plugin: PluginId) {
        self.controllers
            .get_mut(&plugin)
            .into_iter()
            .for_each(Controller::halt);
    }

    /// Whether nothing of this plugin runs, and nothing is pending that can run.
    pub fn is_plugin_drained(&self, plugin: PluginId, now: Time) -> bool {
        self.controllers
            .get(&plugin)
            .is_none_or(|controller| controller.is_drained(&self.snapshot, &self.doubts, now))
    }

    /// Whether the plugin's writes cannot reach the cluster, so that it only tries one key a
    /// second.
    pub fn is_cut_off(&self, plugin: PluginId) -> bool {
        self.controllers
            .get(&plugin)
            .is_some_and(Controller::is_cut_off)
    }

    /// Whether nothing runs, and nothing is pending that can run.
    pub fn is_drained(&self, now: Time) -> bool {
        self.controllers
            .values()
            .all(|controller| controller.is_drained(&self.snapshot, &self.doubts, now))
    }

    /// The state of every plugin, in the order in which they joined.
    pub fn status(&self, now: Time) -> Vec<ControllerStatus> {
        self.controllers
            .values()
            .map(|controller| controller.status(&self.snapshot, now))
            .collect()
    }

    /// Bytes of all cached objects.
    pub fn cached_bytes(&self) -> usize {
        self.snapshot
            .informers
            .iter()
            .map(|(_, cache)| cache.bytes())
            .sum()
    }

    /// The state of every informer.
    pub fn informers(&self) -> Vec<InformerStatus> {
        let users = |id: InformerId| {
            let controllers = self.controllers.values();
            let users =
                controllers.filter(move |controller| controller.subscriptions().contains_key(&id));
            users
                .map(|controller| controller.name().to_owned())
                .collect()
        };
        let informers = self.wanted().into_iter();
        informers
            .map(|(id, (informer_key, extent))| {
                let cache = &self.snapshot.informers[id];
                InformerStatus {
                    informer: id,
                    informer_key,
                    extent,
                    is_synced: cache.is_synced(extent),
                    objects: cache.len(),
                    bytes: cache.bytes(),
                    users: users(id),
                    resource_version: cache.resource_version().clone(),
                    unreadable: cache.unreadable().clone(),
                    stale: cache.stale(),
                    repairs: cache.repairs(),
                }
            })
            .collect()
    }
}

/// Whether a list-watch is to bring a cache's objects. Those of the served kinds the host brings.
fn is_watched(cache: &Cache) -> bool {
    cache.users() > 0 && !cache.is_of_served_kinds()
}

/// The API server's state of an object, as JSON; `None` if there is no such object.
type Answer = Result<Option<String>, ReadFailure>;

#[cfg(test)]
mod tests;
