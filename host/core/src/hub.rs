//! Where caches, read sets and queues meet: a change goes in, the keys it concerns come out.
//!
//! Guarantees:
//! - A change and the keys it wakes are one step: no snapshot shows a change whose keys are not queued.
//! - A change that lands while a key runs counts for that key: what it read is held against everything after its snapshot.
//! - A plugin's keys run only once all the kinds it reads are synced.
//! - No key runs twice at once, and a key is held until its writes have ended and its next snapshot shows them.
//! - Between plugins with keys to run, the workers' time is shared by weight, however long a queue is and however slow a guest.
//! - While a plugin cannot reach the cluster nothing is lost and nothing counts as a key's failure.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use crate::cache::{Change, Delta, Unreadable};
use crate::cluster::{Author, FIELD_MANAGER_PREFIX, ReadFailure};
use crate::gate::GateId;
use crate::grants::Grants;
use crate::key::{Kind, ObjectKey, ResourceVersion};
use crate::manifest::Manifest;
use crate::object::{Object, Schema};
use crate::plan::Executed;
use crate::queue::{LOW, NORMAL, Time};
use crate::snapshot::{InformerId, Snapshot};
use crate::source::{Payload, Source};

mod changelog;
mod health;
mod joining;
mod outage;
mod pace;
mod preparation;
mod resync;
mod scope;
mod seat;
mod share;
mod status;
mod subject;
mod turn;

use changelog::Changelog;
pub use health::Quarantine;
pub use joining::{Exchange, Garbage, JoinError};
pub use preparation::Preparation;
pub use seat::LoopingKey;
use seat::{Seat, Work};
pub use status::{BrokenKey, InformerStatus, LastError, MAX_LISTED, ReconcileCounts, SeatStatus};
pub use turn::{Decision, Turn, TurnError};

/// A plugin of a hub. Never reused.
pub type PluginId = u64;

/// How a plugin is to be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The plugin's configuration, as JSON.
    pub config: String,
    /// Keys that may run at the same time: what the manifest asks for, as far as it is granted.
    pub concurrency: u32,
    /// Its share of the workers' time, against other plugins'.
    pub weight: u32,
    /// Run every subject again after one to two times this period, though nothing has changed. None: never.
    pub resync: Option<Duration>,
    /// Whether it may read the values of Secrets, if its manifest asks for them.
    pub secret_values: bool,
    /// What it is granted of what its manifest asks for.
    pub grants: Grants,
    /// Whether it is to run nothing, until that changes. Its caches are kept current, and its keys are queued.
    pub is_paused: bool,
    /// Whether a version that breaks on most of what it runs is put in quarantine.
    pub quarantine: bool,
    /// Who owns the fields that the plugin writes. None: `pilothouse.dev/NAME`.
    pub field_manager: Option<String>,
    /// The user that its writes are made as. None: the host itself.
    pub user: Option<String>,
}

impl Settings {
    /// On whose behalf a plugin of this name writes: the only place that knows its field manager.
    pub fn author(&self, plugin: &str) -> Author {
        let own = || format!("{FIELD_MANAGER_PREFIX}{plugin}");
        Author {
            plugin: plugin.to_owned(),
            field_manager: self.field_manager.clone().unwrap_or_else(own),
            user: self.user.clone(),
        }
    }
}

/// Sixteen at once: a reconcile is pure, and a key is held while its writes are under way. All that the manifest asks for is granted.
impl Default for Settings {
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

/// What to do next.
pub enum Next {
    /// Run this.
    Run(Box<Turn>),
    /// Look these up, and tell [`Hub::looked`].
    Look(Lookup),
    /// Nothing can run before this time, or before something changes.
    Idle(Option<Time>),
}

/// Objects to be read from the cluster itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lookup {
    /// Whose key.
    pub plugin: PluginId,
    /// The key that they are looked up for.
    pub key: ObjectKey,
    /// Why.
    pub purpose: Purpose,
    /// What is to be looked up.
    pub questions: Vec<Question>,
}

/// What a lookup is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The key waits at this gate: it has written the objects, and no watch shows that.
    Gate(GateId),
    /// The key keeps failing on what the caches show of the objects. It does not wait for the answers.
    Doubt,
}

/// An object to be read from the cluster itself, and what the cache showed of it when that was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The informer whose cache lacks it.
    pub informer: InformerId,
    /// Its kind.
    pub kind: Kind,
    /// The object.
    pub key: ObjectKey,
    /// The state that was cached; none if there was no object. An answer is about the time at which it was asked for: if the watch has
    /// brought something since, it cannot be said which is newer.
    pub cached: Option<ResourceVersion>,
    /// How far the cache had come.
    pub at: ResourceVersion,
    /// The uid of the object in question, where it is known: of what was cached, or was deleted.
    pub uid: Option<Box<str>>,
}

impl Question {
    /// What the cluster has of an object that this snapshot shows so, or does not show.
    pub(crate) fn of(snapshot: &Snapshot, informer: InformerId, key: ObjectKey) -> Self {
        let cache = &snapshot.informers[informer];
        let cached = cache.get(key.parts());
        Self {
            informer,
            kind: cache.kind().clone(),
            cached: cached.map(|object| object.resource_version().clone()),
            at: cache.resource_version().clone(),
            uid: cached.map(|object| object.uid().into()),
            key,
        }
    }
}

/// How many threads there are.
#[derive(Clone, Copy)]
struct Threads {
    /// That one plugin may keep busy.
    of_one: usize,
    /// That plugins whose guests take long may keep busy beside those that they do.
    more_for_slow: usize,
}

/// As many as anybody wants.
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
    ids: HashMap<Source, InformerId>,
    /// The caches as they are now. Whoever holds a clone of it keeps what it saw.
    snapshot: Snapshot,
    changelog: Changelog,
    seats: BTreeMap<PluginId, Seat>,
    last_plugin: PluginId,
    /// How often plugins have come or gone: what has been prepared before the last time fits no more.
    layout: u64,
    /// What the plugin that was chosen last had used, before that turn: where a plugin starts that had nothing to run.
    floor: Duration,
    /// Threads that run guests; none means that it is not known.
    threads: Option<usize>,
    is_draining: bool,
}

impl Hub {
    /// A hub whose turns are run by so many threads: no plugin is given all of them while there are
    /// others, and those whose guests take long get half of them together, so that they delay no
    /// one else.
    pub fn with_threads(threads: usize) -> Self {
        Self {
            threads: Some(threads),
            ..Self::default()
        }
    }

    /// Changes how a plugin is run, of what needs no key to run again.
    pub fn configure(&mut self, id: PluginId, settings: &Settings, now: Time) {
        if let Some(seat) = self.seats.get_mut(&id) {
            seat.configure(settings, now);
        }
    }

    /// The informers there must be now, and how much of each object they must bring.
    pub fn wanted(&self) -> BTreeMap<InformerId, (Source, Payload)> {
        let informers = self.snapshot.informers.iter().enumerate();
        let used = informers.filter(|(_, cache)| cache.users() > 0);
        used.map(|(id, cache)| (id, (cache.source().clone(), cache.schema().payload())))
            .collect()
    }

    /// How many informers there are.
    pub fn watched(&self) -> usize {
        let informers = self.snapshot.informers.iter();
        informers.filter(|cache| cache.users() > 0).count()
    }

    /// How many informers there would have to be more, and of which kinds, for a plugin that is granted this.
    pub fn unwatched(&self, granted: &Manifest) -> Vec<(Kind, usize)> {
        let is_there = |source: &Source| {
            let id = self.ids.get(source);
            id.is_some_and(|id| self.snapshot.informers[*id].users() > 0)
        };
        let missing = granted.reads.iter().map(|read| {
            let sources = scope::sources(read).into_iter();
            let missing = sources.filter(|source| !is_there(source)).count();
            (read.kind.clone(), missing)
        });
        missing.filter(|(_, missing)| *missing > 0).collect()
    }

    /// How an informer's objects are to be parsed now.
    pub fn schema(&self, informer: InformerId) -> Arc<Schema> {
        self.snapshot.informers[informer].schema().clone()
    }

    /// The caches as they are now.
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// Stores what a watch says and queues the keys it concerns. Says how many objects changed. What an informer says that has
    /// ended is ignored.
    pub fn apply(&mut self, informer: InformerId, delta: Delta, now: Time) -> usize {
        if self.snapshot.informers[informer].users() == 0 {
            return 0;
        }
        let cache = self.snapshot.cache_mut(informer);
        let priority = if cache.is_initial() { LOW } else { NORMAL };
        if matches!(&delta, Delta::Replace(listing) if listing.is_rollback) {
            let seats = self.seats.values();
            seats.for_each(|seat| seat.forget_applied(cache.kind()));
        }
        let changes = cache.apply(delta);
        self.spread(informer, changes, priority, now)
    }

    /// An informer's list-watch has dropped something older than its cache.
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
        // Plugins that keep a change's key keep the same texts of it; changes come by namespace, and their keys share its name.
        let mut key = ObjectKey::singleton();
        for change in &changes {
            key = change.key().to_key_beside(&key);
            for seat in self.seats.values_mut() {
                seat.wake(&self.snapshot, informer, &key, change, priority, now);
            }
        }
        let count = changes.len();
        self.changelog
            .push(self.snapshot.sequence, informer, changes);
        self.spread_turned(informer, priority, now);
        for seat in self.seats.values_mut() {
            seat.start_when_synced(&self.snapshot, now);
            seat.open_gates(informer, &self.snapshot);
        }
        count
    }

    /// Queues the keys that asked for objects which have become unreadable, or are so no more. It has a number, as a change has.
    fn spread_turned(&mut self, informer: InformerId, priority: i32, now: Time) {
        let turned = self.snapshot.cache_mut(informer).take_turned();
        if turned.is_empty() {
            return;
        }
        self.snapshot.sequence += 1;
        self.changelog
            .push(self.snapshot.sequence, informer, vec![]);
        for seat in self.seats.values_mut() {
            for key in &turned {
                seat.wake_reader(informer, key, priority, now);
            }
            seat.note_turned(informer, self.snapshot.sequence);
        }
    }

    /// The next key to run: of the plugin that has used the least of the workers' time.
    pub fn next(&mut self, now: Time, wall_clock_ms: u64) -> Next {
        loop {
            let threads = self.threads(now);
            for seat in self.seats.values_mut() {
                seat.resync(&self.snapshot, now);
                let is_ready = seat.is_ready(&self.snapshot, threads, now);
                seat.share.update(is_ready, self.floor);
            }
            let ready = self
                .seats
                .iter_mut()
                .filter(|(_, seat)| seat.is_ready(&self.snapshot, threads, now));
            let Some((id, seat)) = ready.min_by_key(|(_, seat)| seat.share.used()) else {
                break;
            };
            let floor = seat.share.used();
            // None when all that was ready is held; it is not ready any more.
            let Some(work) = seat.take(*id, &self.snapshot, now, wall_clock_ms) else {
                continue;
            };
            match work {
                Work::Later => return Next::Idle(Some(now)),
                Work::Look(lookup) => return Next::Look(lookup),
                Work::Run(turn) => {
                    self.floor = floor;
                    self.changelog.open(turn.sequence());
                    return Next::Run(turn);
                }
            }
        }
        let synced = self
            .seats
            .values()
            .filter(|seat| seat.is_synced(&self.snapshot));
        let threads = self.threads(now);
        Next::Idle(synced.filter_map(|seat| seat.next_due(threads, now)).min())
    }

    /// How many threads there are for whom.
    fn threads(&self, now: Time) -> Threads {
        let Some(threads) = self.threads.filter(|_| self.seats.len() > 1) else {
            return Threads::default();
        };
        let slow = self.seats.values().filter(|seat| seat.pace.is_slow(now));
        let (count, running) = slow.fold((0, 0), |(count, running), seat| {
            (count + 1, running + seat.pace.running())
        });
        // Where all are slow nobody waits for what is quick.
        let is_shared = count < self.seats.len();
        let for_slow = (threads / 2).max(1).saturating_sub(running);
        Threads {
            of_one: threads.saturating_sub(1).max(1),
            more_for_slow: if is_shared { for_slow } else { usize::MAX },
        }
    }

    /// Registers what a run read. The key stays held; [`settled`](Self::settled) or [`failed`](Self::failed) gives it back.
    pub fn decided(&mut self, turn: &Turn, decision: &Decision, now: Time) {
        {
            let missed = self.changelog.close(turn.sequence());
            if let Some(seat) = self.seats.get_mut(&turn.plugin) {
                seat.register(turn, decision, missed, now);
            }
        }
        drop(self.changelog.trim());
    }

    /// The run, or one of its writes, failed: the key runs again with back-off, unless the failure is terminal. If the cluster could
    /// not be reached, the plugin does nothing more than try with one such key a second, until one succeeds. Says whether the plugin is
    /// in quarantine for it, from now on.
    pub fn failed(
        &mut self,
        turn: &Turn,
        error: &TurnError,
        executed: Executed,
        now: Time,
    ) -> bool {
        let seat = self.seats.get_mut(&turn.plugin);
        seat.is_some_and(|seat| seat.failed(turn, error, executed, &self.snapshot, now))
    }

    /// The plugin of this name.
    pub fn id_of(&self, name: &str) -> Option<PluginId> {
        let mut seats = self.seats.iter();
        let found = seats.find(|(_, seat)| seat.name() == name);
        found.map(|(id, _)| *id)
    }

    /// Whether a plugin's version is worth coming back to: it is not in quarantine, and if it has run at all, some run was no strike.
    pub fn is_fit(&self, id: PluginId) -> bool {
        self.seats.get(&id).is_some_and(Seat::is_fit)
    }

    /// Puts a plugin's version in quarantine, whatever its record.
    pub fn condemn(&mut self, id: PluginId, reason: &str, now: Time) {
        if let Some(seat) = self.seats.get_mut(&id) {
            seat.condemn(reason, now);
        }
    }

    /// Ends a plugin's quarantine, if it is in one.
    pub fn forgive(&mut self, id: PluginId) {
        if let Some(seat) = self.seats.get_mut(&id) {
            seat.forgive();
        }
    }

    /// The plugins that run nothing because their version is not fit to.
    pub fn quarantined(&self, now: Time) -> Vec<(PluginId, Quarantine)> {
        let seats = self.seats.iter();
        let quarantined = seats.filter_map(|(id, seat)| Some((*id, seat.quarantine(now)?.clone())));
        quarantined.collect()
    }

    /// The run and all its writes have ended well. Names the key if it is found to loop now: nothing but its own writes has run it
    /// many times in a row.
    pub fn settled(
        &mut self,
        turn: &Turn,
        requeue_after: Option<Duration>,
        executed: Executed,
        now: Time,
    ) -> Option<LoopingKey> {
        let seat = self.seats.get_mut(&turn.plugin)?;
        seat.settled(turn, requeue_after, executed, &self.snapshot, now)
    }

    /// A turn was stopped on the way, because its plugin was: its key is queued.
    pub fn halted(&mut self, turn: &Turn, executed: Executed, now: Time) {
        if let Some(seat) = self.seats.get_mut(&turn.plugin) {
            seat.halted(turn, executed, &self.snapshot, now);
        }
    }

    /// The answer to a [`Lookup`], object by object: its JSON, or none if there is no such object, or why that is not known. A key that waits
    /// for it runs if everything is known that can be, and else waits on. Says which objects the caches had shown otherwise than the cluster
    /// has them, though they had come that far.
    pub fn looked(
        &mut self,
        lookup: &Lookup,
        answers: Vec<Result<Option<String>, ReadFailure>>,
        now: Time,
    ) -> Vec<Question> {
        let answered = lookup.questions.iter().zip(answers);
        match lookup.purpose {
            Purpose::Gate(gate) => {
                self.pass(lookup, gate, answered, now);
                Vec::new()
            }
            Purpose::Doubt => self.repair(lookup, answered, now),
        }
    }

    fn pass<'a>(
        &mut self,
        lookup: &Lookup,
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
            if let Some(seat) = self.seats.get_mut(&lookup.plugin) {
                seat.looked_up(&lookup.key, gate, question, &known, &self.snapshot);
            }
        }
        if let Some(seat) = self.seats.get_mut(&lookup.plugin) {
            seat.looked(&lookup.key, is_answered, now);
        }
    }

    fn repair<'a>(
        &mut self,
        lookup: &Lookup,
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
            // What has come since is not what was asked about.
            if is_known {
                let state = Question::of(&self.snapshot, question.informer, question.key.clone());
                states.push(state);
            }
        }
        if let Some(seat) = self.seats.get_mut(&lookup.plugin) {
            seat.doubt_ended(lookup, states, is_answered, now);
        }
        repaired
    }

    /// Whether a cache has no such object now.
    fn is_absent(&self, question: &Question) -> bool {
        let cache = &self.snapshot.informers[question.informer];
        cache.version_of(&question.key).is_none()
    }

    /// Whether a cache shows of an object what it showed when the question was asked. Of what was not there nobody can say whether it has
    /// come and gone since, unless nothing at all has come.
    fn is_as_asked(&self, question: &Question) -> bool {
        let cache = &self.snapshot.informers[question.informer];
        let is_same = cache.version_of(&question.key) == question.cached.as_ref();
        let is_still = question.cached.is_some() || *cache.resource_version() == question.at;
        cache.users() > 0 && is_same && is_still
    }

    /// Puts into a cache what the cluster has of an object, if the cache shows something else that
    /// is not newer. Says whether the cache had come so far that it should not have.
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
                .filter(|object| cache.source().selects(object, json))
                .and_then(|object| cache.repair(object)),
        };
        let is_repair = cache.repairs() > repairs;
        self.spread(*informer, change.into_iter().collect(), NORMAL, now);
        is_repair
    }

    /// Brings into a cache what was found of an object. Says how far that has answered the
    /// question.
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
                match cache.source().selects(&object, json) {
                    true => Found::Object(object),
                    // What field selectors select is for the server to say, as it understands them: its watch will.
                    false if cache.source().labels.matches(&object) => {
                        return Known::Version(object.resource_version().clone());
                    }
                    // The server would say that it is gone, as far as this informer is concerned.
                    false if cache.is_newer_than(&object) => return Known::All,
                    false => Found::Nothing,
                }
            }
            Some((json, Err(error))) if is_of(json, key) => Found::Unreadable(error.to_string()),
            Some(_) => return Known::Nothing,
        };
        let has_moved = cache.version_of(key) != question.cached.as_ref();
        let changes = match state {
            // What could not be read may have come after it; of that no version is known.
            Found::Object(_)
                if cache.unreadable().contains_key(key)
                    && *cache.resource_version() != question.at =>
            {
                return Known::Nothing;
            }
            Found::Object(object) => cache.apply(Delta::Read(object)),
            // Which of this and what the watch has brought since is older cannot be said. It will be shown, or is asked again.
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

    /// The cluster can be reached again: a list-watch that had failed works. The keys whose writes had no answer can run.
    pub fn recovered(&mut self) {
        self.seats.values_mut().for_each(|seat| seat.rescue(true));
    }

    /// From now on only what is pending or running is finished.
    pub fn drain(&mut self) {
        self.is_draining = true;
        let seats = self.seats.values_mut();
        seats.for_each(|seat| seat.drain(&self.snapshot));
    }

    /// The same of one plugin, which is to [leave](Self::leave) when that is done.
    pub fn drain_plugin(&mut self, plugin: PluginId) {
        if let Some(seat) = self.seats.get_mut(&plugin) {
            seat.drain(&self.snapshot);
        }
    }

    /// From now on nothing of a plugin is handed out, whatever it has queued.
    pub fn halt_plugin(&mut self, plugin: PluginId) {
        self.seats.get_mut(&plugin).into_iter().for_each(Seat::halt);
    }

    /// Whether nothing of a plugin is pending that can run, and nothing runs.
    pub fn is_plugin_drained(&self, plugin: PluginId, now: Time) -> bool {
        self.seats
            .get(&plugin)
            .is_none_or(|seat| seat.is_drained(&self.snapshot, now))
    }

    /// Whether a plugin's writes have found no cluster, and it tries but once a second.
    pub fn is_cut_off(&self, plugin: PluginId) -> bool {
        self.seats.get(&plugin).is_some_and(Seat::is_cut_off)
    }

    /// Whether nothing is pending that can run, and nothing runs.
    pub fn is_drained(&self, now: Time) -> bool {
        self.seats
            .values()
            .all(|seat| seat.is_drained(&self.snapshot, now))
    }

    /// Every plugin's state, in the order they joined.
    pub fn status(&self, now: Time) -> Vec<SeatStatus> {
        self.seats
            .values()
            .map(|seat| seat.status(&self.snapshot, now))
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

    /// Every informer's state.
    pub fn informers(&self) -> Vec<InformerStatus> {
        let users = |id: InformerId| {
            let seats = self.seats.values();
            let users = seats.filter(move |seat| seat.grants().contains_key(&id));
            users.map(|seat| seat.name().to_owned()).collect()
        };
        let informers = self.wanted().into_iter();
        informers
            .map(|(id, (source, payload))| {
                let cache = &self.snapshot.informers[id];
                InformerStatus {
                    informer: id,
                    source,
                    payload,
                    is_synced: cache.is_synced(payload),
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

/// What the cluster has of an object, as JSON.
type Answer = Result<Option<String>, ReadFailure>;

/// What an answer says of an object that a key has written.
enum Known {
    /// Nothing, or nothing that holds any more.
    Nothing,
    /// All there is to know, and the cache shows it.
    All,
    /// That the cluster has come so far with it: once its informer has come that far as well, the
    /// cache shows what there is.
    Version(ResourceVersion),
}

/// What a lookup has found.
enum Found {
    Object(Object),
    /// No such object, or none that the informer is to bring.
    Nothing,
    /// It is there; but for its name it cannot be read, and why.
    Unreadable(String),
}

/// Whether a text that is no readable object says at least that it is this one.
fn is_of(json: &str, key: &ObjectKey) -> bool {
    let object: serde_json::Value = serde_json::from_str(json).unwrap_or_default();
    let text = |path| object.pointer(path).and_then(serde_json::Value::as_str);
    text("/metadata/name") == Some(&*key.name)
        && text("/metadata/namespace").unwrap_or_default() == &*key.namespace
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
