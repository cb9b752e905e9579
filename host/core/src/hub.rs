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
//! - While a plugin cannot reach the cluster, nothing is lost and nothing counts as a key's
//!   failure.

use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use crate::access::grants::Grants;
use crate::cache::snapshot::{InformerId, Snapshot};
use crate::cache::{Change, Delta, Unreadable};
use crate::hub::gate::GateId;
use crate::model::informer_key::{Detail, InformerKey};
use crate::model::key::{Kind, ObjectKey, ResourceVersion};
use crate::model::manifest::Manifest;
use crate::model::object::{Object, Schema};
use crate::plan::write::{Author, FIELD_MANAGER_PREFIX};
use crate::queue::{LOW, NORMAL, Time};

mod changelog;
mod controller;
mod fetch;
pub mod gate;
mod health;
mod joining;
mod outage;
mod pace;
pub mod plugin;
mod preparation;
mod reconcile;
mod rehearsal;
mod resync;
mod share;
mod status;
mod subject;
mod wanted_informers;

use changelog::Changelog;
pub use controller::LoopingKey;
use controller::{Controller, Work};
pub use fetch::{Fetch, Purpose, Question, ReadFailure};
pub use health::Quarantine;
pub use joining::{Exchange, Garbage, JoinError};
pub use preparation::Preparation;
pub use reconcile::{
    Conclusion, Finished, Ran, Reconcile, ReconcileError, RunningKey, Sending, Writing,
};
pub use rehearsal::Rehearsal;
pub use status::{BrokenKey, ControllerStatus, InformerStatus, LastError, ReconcileCounts};

/// Identifies a plugin in a hub. Never reused.
pub type PluginId = u64;

/// How a plugin is run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControllerSettings {
    /// The plugin's configuration, as JSON.
    pub config: String,
    /// How many keys may run at the same time: the manifest's limit, as far as it is granted.
    pub concurrency: u32,
    /// The plugin's share of the workers' time, relative to the other plugins' weights.
    pub weight: u32,
    /// Every subject is reconciled again after one to two times this period, even if nothing has
    /// changed. `None` disables the resync.
    pub resync: Option<Duration>,
    /// Whether the plugin may read the values of Secrets, if its manifest asks for them.
    pub secret_values: bool,
    /// The part of the manifest's requests that is granted.
    pub grants: Grants,
    /// While true, nothing of the plugin runs. Its caches are kept current and its keys are queued.
    pub is_paused: bool,
    /// Whether a version that fails on most of its keys is put in quarantine.
    pub quarantine: bool,
    /// The field manager of the plugin's writes. `None` means `pilothouse.dev/NAME`.
    pub field_manager: Option<String>,
    /// The user that the plugin's writes impersonate. `None` means the host's own user.
    pub user: Option<String>,
}

impl ControllerSettings {
    /// The author of the writes of a plugin with this name. No other place decides its field
    /// manager.
    pub fn author(&self, plugin: &str) -> Author {
        let own = || format!("{FIELD_MANAGER_PREFIX}{plugin}");
        Author {
            plugin: plugin.to_owned(),
            field_manager: self.field_manager.clone().unwrap_or_else(own),
            user: self.user.clone(),
        }
    }
}

/// The default concurrency is 16: reconciles are pure, so keys do not disturb each other, and a key
/// stays held while its writes are under way. Everything the manifest asks for is granted.
impl Default for ControllerSettings {
    fn default() -> Self {
        Self {
            config: "{}".into(),
            concurrency: 16,
            weight: 1,
            resync: None,
            secret_values: false,
            grants: Grants::as_requested(),
            is_paused: false,
            quarantine: true,
            field_manager: None,
            user: None,
        }
    }
}

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
    last_plugin: PluginId,
    /// Incremented when a plugin leaves and when caches are exchanged. A preparation that began
    /// before cannot be used.
    layout: u64,
    /// What the plugin that was chosen last had used before that reconcile. A plugin that had
    /// nothing to run starts again from here.
    floor: Duration,
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

    /// Applies the settings that can change without running any key again.
    pub fn configure(&mut self, id: PluginId, settings: &ControllerSettings, now: Time) {
        if let Some(controller) = self.controllers.get_mut(&id) {
            controller.configure(settings, now);
        }
    }

    /// The informers that must run now, and how much of each object they must bring.
    pub fn wanted(&self) -> BTreeMap<InformerId, (InformerKey, Detail)> {
        let informers = self.snapshot.informers.iter().enumerate();
        let used = informers.filter(|(_, cache)| cache.users() > 0);
        used.map(|(id, cache)| (id, (cache.informer_key().clone(), cache.schema().detail())))
            .collect()
    }

    /// How many informers there are.
    pub fn watched(&self) -> usize {
        let informers = self.snapshot.informers.iter();
        informers.filter(|cache| cache.users() > 0).count()
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
        if self.snapshot.informers[informer].users() == 0 {
            return 0;
        }
        let cache = self.snapshot.cache_mut(informer);
        let priority = if cache.is_initial() { LOW } else { NORMAL };
        if matches!(&delta, Delta::Replace(listing) if listing.is_rollback) {
            let controllers = self.controllers.values();
            controllers.for_each(|controller| controller.forget_applied(cache.kind()));
        }
        let changes = cache.apply(delta);
        self.spread(informer, changes, priority, now)
    }

    /// Counts that an informer's list-watch has dropped something older than its cache.
    pub fn note_stale(&mut self, informer: InformerId) {
        self.snapshot.cache_mut(informer).note_stale();
    }

    /// Queues the keys that changes concern.
    fn spread(
        &mut self,
        informer: InformerId,
        changes: Vec<Change>,
        priority: i32,
        now: Time,
    ) -> usize {
        self.snapshot.sequence += changes.len() as u64;
        // Plugins that keep a change's key then share its texts. Changes come by namespace, so
        // consecutive keys also share the namespace's name.
        let mut key = ObjectKey::singleton();
        for change in &changes {
            key = change.key().to_key_beside(&key);
            for controller in self.controllers.values_mut() {
                controller.wake(&self.snapshot, informer, &key, change, priority, now);
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
        count
    }

    /// Queues the keys that asked for objects which have become unreadable, or readable again. This
    /// takes a sequence number of its own, as a change does.
    fn spread_turned(&mut self, informer: InformerId, priority: i32, now: Time) {
        let turned = self.snapshot.cache_mut(informer).take_turned();
        if turned.is_empty() {
            return;
        }
        self.snapshot.sequence += 1;
        self.changelog
            .push(self.snapshot.sequence, informer, vec![]);
        for controller in self.controllers.values_mut() {
            for key in &turned {
                controller.wake_reader(informer, key, priority, now);
            }
            controller.note_turned(informer, self.snapshot.sequence);
        }
    }

    /// The next key to run: a key of the plugin that has used the least of the workers' time.
    pub fn next(&mut self, now: Time, wall_clock_ms: u64) -> Next {
        loop {
            let threads = self.threads(now);
            for controller in self.controllers.values_mut() {
                controller.resync(&self.snapshot, now);
                let is_ready = controller.is_ready(&self.snapshot, threads, now);
                controller.share.update(is_ready, self.floor);
            }
            let ready = self
                .controllers
                .iter_mut()
                .filter(|(_, controller)| controller.is_ready(&self.snapshot, threads, now));
            let Some((id, controller)) =
                ready.min_by_key(|(_, controller)| controller.share.used())
            else {
                break;
            };
            let floor = controller.share.used();
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
        let synced = self
            .controllers
            .values()
            .filter(|controller| controller.is_synced(&self.snapshot));
        let threads = self.threads(now);
        Next::Idle(
            synced
                .filter_map(|controller| controller.next_due(threads, now))
                .min(),
        )
    }

    /// How many threads one plugin, and the slow plugins together, may keep busy now.
    fn threads(&self, now: Time) -> Threads {
        let Some(threads) = self.threads.filter(|_| self.controllers.len() > 1) else {
            return Threads::default();
        };
        let slow = self
            .controllers
            .values()
            .filter(|controller| controller.pace.is_slow(now));
        let (count, running) = slow.fold((0, 0), |(count, running), controller| {
            (count + 1, running + controller.pace.running())
        });
        // If all plugins are slow, there is no quick one to keep threads free for.
        let is_shared = count < self.controllers.len();
        let for_slow = (threads / 2).max(1).saturating_sub(running);
        Threads {
            of_one: threads.saturating_sub(1).max(1),
            more_for_slow: if is_shared { for_slow } else { usize::MAX },
        }
    }

    /// Registers what a reconcile read. Its writes can be sent now; or it has finished already,
    /// because there is no outcome.
    pub fn ran(&mut self, ran: Ran, now: Time) -> ControlFlow<Finished, Writing> {
        {
            let missed = self.changelog.close(ran.held.sequence);
            if let Some(controller) = self.controllers.get_mut(&ran.held.plugin) {
                controller.register(&ran, missed, now);
            }
        }
        drop(self.changelog.trim());
        ran.into_writing()
    }

    /// Gives the key of a reconcile back. After a failure it runs again with back-off, unless the
    /// failure is terminal. If the cluster could not be reached, the plugin only tries one such key
    /// a second until one succeeds. A key whose writes were stopped on the way is queued again.
    pub fn finished(&mut self, finished: Finished, now: Time) -> Conclusion {
        let controller = self.controllers.get_mut(&finished.held.plugin);
        controller
            .map(|controller| controller.finished(finished, &self.snapshot, now))
            .unwrap_or_default()
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
                Ok(found) => self.overlay(question, found.as_deref(), now),
                Err(ReadFailure::Refused(_)) => Known::All,
                Err(ReadFailure::NoAnswer(_)) => {
                    is_answered = false;
                    Known::Nothing
                }
            };
            if let Some(controller) = self.controllers.get_mut(&fetch.plugin) {
                controller.fetch_ended(&fetch.key, gate, question, &known, &self.snapshot);
            }
        }
        if let Some(controller) = self.controllers.get_mut(&fetch.plugin) {
            controller.fetched(&fetch.key, is_answered, now);
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
                    let is_known =
                        self.is_as_asked(question) || (found.is_none() && self.is_absent(question));
                    if is_known && self.put_right(question, found.as_deref(), now) {
                        repaired.push(question.clone());
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

    /// Whether a cache has no such object now.
    fn is_absent(&self, question: &Question) -> bool {
        let cache = &self.snapshot.informers[question.informer];
        cache.version_of(&question.key).is_none()
    }

    /// Whether a cache still shows of an object what it showed when the question was asked. An
    /// absent object may have come and gone since, which is ruled out only if nothing at all has
    /// come to the cache.
    fn is_as_asked(&self, question: &Question) -> bool {
        let cache = &self.snapshot.informers[question.informer];
        let is_same = cache.version_of(&question.key) == question.cached.as_ref();
        let is_still = question.cached.is_some() || *cache.resource_version() == question.at;
        cache.users() > 0 && is_same && is_still
    }

    /// Puts the API server's state of an object into a cache, if the cache shows something else
    /// that is not newer. Returns whether this was a repair: the cache had already come past that
    /// state, so it should have shown it.
    fn put_right(&mut self, question: &Question, found: Option<&str>, now: Time) -> bool {
        let Question {
            informer,
            kind,
            key,
            uid,
            ..
        } = question;
        let cache = self.snapshot.cache_mut(*informer);
        let repairs = cache.repairs();
        let change = match found {
            None => cache.repair_gone(key, uid.as_deref()),
            Some(json) => Object::parse(kind, json, cache.schema())
                .ok()
                .filter(|object| object.key() == key.parts())
                .filter(|object| cache.informer_key().selects(object, json))
                .and_then(|object| cache.repair(object)),
        };
        let is_repair = cache.repairs() > repairs;
        self.spread(*informer, change.into_iter().collect(), NORMAL, now);
        is_repair
    }

    /// Stores a fetched state of an object in a cache. Returns how far that answers the question.
    fn overlay(&mut self, question: &Question, found: Option<&str>, now: Time) -> Known {
        let Question {
            informer,
            kind,
            key,
            ..
        } = question;
        let cache = self.snapshot.cache_mut(*informer);
        if cache.users() == 0 {
            return Known::All;
        }
        let state = match found.map(|json| (json, Object::parse(kind, json, cache.schema()))) {
            None => Found::Nothing,
            Some((json, Ok(object))) if object.key() == key.parts() => {
                match cache.informer_key().selects(&object, json) {
                    true => Found::Object(object),
                    // Only the server knows what its field selectors select, so the watch must
                    // decide.
                    false if cache.informer_key().labels.matches(&object) => {
                        return Known::Version(object.resource_version().clone());
                    }
                    // For this informer the object counts as gone, but the cache already has a
                    // newer state.
                    false if cache.is_newer_than(&object) => return Known::All,
                    false => Found::Nothing,
                }
            }
            Some((json, Err(error))) if is_of(json, key) => Found::Unreadable(error.to_string()),
            Some(_) => return Known::Nothing,
        };
        let has_moved = cache.version_of(key) != question.cached.as_ref();
        let changes = match state {
            // The object is unreadable in the cache, in an unknown version, which may be newer than
            // the answer.
            Found::Object(_)
                if cache.unreadable().contains_key(key)
                    && *cache.resource_version() != question.at =>
            {
                return Known::Nothing;
            }
            Found::Object(object) => cache.apply(Delta::Read(object)),
            // The watch has brought something since, and it is not known which of the two is older.
            // The watch will show the write, or the question is asked again.
            _ if has_moved => return Known::Nothing,
            Found::Nothing => {
                let gone = cache.overlay_gone(key, question.uid.as_deref());
                gone.into_iter().collect()
            }
            Found::Unreadable(reason) => cache.apply(Delta::Unreadable(Unreadable {
                key: key.clone(),
                resource_version: ResourceVersion::default(),
                reason,
            })),
        };
        self.spread(*informer, changes, NORMAL, now);
        Known::All
    }

    /// The cluster can be reached again: a list-watch that had failed works. Keys whose writes had
    /// no answer can run.
    pub fn recovered(&mut self) {
        self.controllers
            .values_mut()
            .for_each(|controller| controller.release_parked(true));
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
            .is_none_or(|controller| controller.is_drained(&self.snapshot, now))
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
            .all(|controller| controller.is_drained(&self.snapshot, now))
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
            .map(|cache| cache.bytes())
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
            .map(|(id, (informer_key, detail))| {
                let cache = &self.snapshot.informers[id];
                InformerStatus {
                    informer: id,
                    informer_key,
                    detail,
                    is_synced: cache.is_synced(detail),
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

/// The API server's state of an object, as JSON; `None` if there is no such object.
type Answer = Result<Option<String>, ReadFailure>;

/// What an answer tells about an object that a key has written.
enum Known {
    /// Nothing, or nothing that is still valid.
    Nothing,
    /// Everything that can be known, and the cache shows it.
    All,
    /// The server has reached this version of the object. Once the informer has reached it too, the
    /// cache shows the current state.
    Version(ResourceVersion),
}

/// The result of a fetch.
enum Found {
    Object(Object),
    /// There is no such object, or the informer does not select it.
    Nothing,
    /// The object exists, but only its name can be read. Holds the reason.
    Unreadable(String),
}

/// Whether a text that cannot be parsed as an object at least has this key's name and namespace.
fn is_of(json: &str, key: &ObjectKey) -> bool {
    let object: serde_json::Value = serde_json::from_str(json).unwrap_or_default();
    let text = |path| object.pointer(path).and_then(serde_json::Value::as_str);
    text("/metadata/name") == Some(&*key.name)
        && text("/metadata/namespace").unwrap_or_default() == &*key.namespace
}

#[cfg(test)]
mod tests;
