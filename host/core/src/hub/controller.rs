//! One plugin's controller in the hub: the version that is installed, whether it may run, and its
//! keys.

mod changed;
mod due;
mod gone;
mod installed;
mod keys;
pub(super) mod loops;
mod patterns;
mod permit;
mod present;
mod ready;
mod recorded;
mod records;
mod running;
mod since;
mod suspects;
mod sweep;
mod tally;
mod tenure;
mod turns;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::changelog::Missed;
use super::doubts::Doubts;
use super::duties::Duty;
use super::gate::GateId;
use super::health::Quarantine;
use super::plugin::{Plugin, Request};
use super::reconcile::{
    Conclusion, End, Finished, PluginVersion, Ran, Reconcile, ReconcileError, Start,
};
use super::rehearsal::Rehearsal;
use super::resync::Resync;
use super::status::ControllerStatus;
use super::{ControllerSettings, Fetch, Garbage, Known, PluginId, Question, Threads};
use crate::access::scope::{PatternKind, Scope};
use crate::cache::snapshot::{InformerId, Snapshot};
use crate::cache::{Subscribed, Subscription};
use crate::model::division::DividedBy;
use crate::model::key::{Kind, ObjectKey, ResourceVersion};
use crate::model::manifest::Manifest;
use crate::model::served_kind::ServedKind;
use crate::model::subject_key::SubjectKey;
use crate::queue::{LOW, NORMAL, Priority, Time};
pub(super) use changed::KeyedChange;
use installed::InstalledVersion;
use keys::{KeyWork, Keys, TakenKey};
use patterns::PatternKinds;
pub(super) use patterns::{Begun, Listed};
use permit::RunPermit;
use present::Present;
pub(super) use running::RunningKeys;
use tally::Tally;
use tenure::Tenure;
use turns::Turns;

pub(super) struct Controller {
    installed: InstalledVersion,
    permit: RunPermit,
    pub turns: Turns,
    resync: Option<Resync>,
    keys: Keys,
    running: RunningKeys,
    tenure: Tenure,
    patterns: PatternKinds,
    tally: Tally,
}

/// What a plugin has to do next.
pub(super) enum Work {
    Run(Box<Reconcile>),
    /// Something must be fetched before a key can run.
    Fetch(Fetch),
    /// Nothing yet. Ask again, after others could use the hub.
    Later,
}

impl Controller {
    /// `manifest` is the granted part of the plugin's own manifest.
    pub fn new(
        plugin: Arc<dyn Plugin>,
        manifest: Manifest,
        settings: &ControllerSettings,
        scope: Scope,
        duty: Duty,
        now: Time,
    ) -> Self {
        let version = PluginVersion::new(plugin, manifest, settings, scope);
        let installed = InstalledVersion::new(version);
        Self {
            permit: RunPermit::new(settings),
            turns: Turns::new(settings.weight),
            resync: resync(settings, &installed.manifest().name, now),
            keys: Keys::new(installed.is_serial(), duty),
            running: RunningKeys::default(),
            tenure: Tenure::default(),
            patterns: PatternKinds::default(),
            tally: Tally::default(),
            installed,
        }
    }

    /// Installs another version, or the same one with other settings, as prepared. The caller then
    /// [queues](Self::queue_first) the keys that the version runs first. Returns the previous
    /// version's subscriptions.
    pub fn replace(
        &mut self,
        prepared: &Self,
        snapshot: &Snapshot,
        garbage: &mut Garbage,
        now: Time,
    ) -> BTreeMap<InformerId, Subscribed> {
        let settings = prepared.permit.settings();
        let mut installed = prepared.installed.in_place_of(&self.installed);
        let waiting = self
            .patterns
            .replace(&mut installed, self.installed.scope());
        let before = std::mem::replace(&mut self.installed, installed);
        let subjects = self.installed.subjects();
        if !subjects.include(before.subjects()) {
            self.keys.retain(subjects);
        }
        let present = Present {
            installed: &self.installed,
            snapshot,
            now,
        };
        self.keys.replace(present, garbage);
        for (key, priority) in waiting {
            if self.installed.subjects().has(&key) {
                self.keys.add(&[key], priority, now);
            }
        }
        self.permit
            .replace(self.installed.is_same_plugin(&before), settings);
        self.configure(settings, now);
        let subscriptions = before.subscriptions().clone();
        garbage.add(before);
        subscriptions
    }

    /// Applies settings that take effect without running any key again.
    pub fn configure(&mut self, settings: &ControllerSettings, now: Time) {
        self.turns.set_weight(settings.weight);
        if settings.resync != self.permit.settings().resync {
            self.resync = resync(settings, self.name(), now);
        }
        self.permit.configure(settings);
    }

    /// All queued keys.
    pub fn into_keys(self, now: Time) -> Vec<SubjectKey> {
        self.keys.into_queued(now)
    }

    /// Queues the keys that a new version runs first, in addition to those of the existing
    /// subjects.
    pub fn queue_first(&mut self, keys: &[SubjectKey], now: Time) {
        let is_singleton = self.installed.subjects().is_singleton();
        let priority = if is_singleton { NORMAL } else { LOW };
        self.keys.add(keys, priority, now);
    }

    pub fn name(&self) -> &str {
        &self.installed.manifest().name
    }

    /// The plugin's subscriptions to the informers it uses.
    pub fn subscriptions(&self) -> &BTreeMap<InformerId, Subscribed> {
        self.installed.subscriptions()
    }

    fn divided_by(&self) -> DividedBy {
        self.permit.settings().division.by
    }

    pub fn is_synced(&self, snapshot: &Snapshot) -> bool {
        self.installed.is_synced(snapshot, self.keys.duty())
    }

    #[cfg(test)]
    pub fn plugin(&self) -> Arc<dyn Plugin> {
        self.installed.version().plugin.clone()
    }

    #[cfg(test)]
    pub fn applied(&self) -> Arc<crate::plan::unchanged::Applied> {
        self.installed.version().applied.clone()
    }

    /// How many keys are in the queue itself, without those of a sweep.
    #[cfg(test)]
    pub fn queued(&self) -> usize {
        self.keys.queued()
    }

    /// Begins to reconcile every subject, or the singleton.
    pub fn start(&mut self, snapshot: &Snapshot, now: Time) {
        self.keys.start(Present {
            installed: &self.installed,
            snapshot,
            now,
        });
    }

    /// Begins a sweep if a resync is due: client-go's resync, which replays the local store.
    pub fn resync(&mut self, snapshot: &Snapshot, now: Time) {
        let resync = self.resync.as_mut();
        let is_due = resync.is_some_and(|resync| resync.is_due(now));
        if is_due && self.installed.is_started() {
            self.start(snapshot, now);
        }
    }

    /// Once all kinds are synced, queues the keys that can be known only then.
    pub fn start_when_synced(&mut self, snapshot: &Snapshot, now: Time) {
        let duty = self.keys.duty();
        if self.installed.start_when_synced(snapshot, duty) && !duty.is_empty() {
            let keys = self.installed.left_behind(snapshot);
            self.keys.add(&keys, LOW, now);
        }
    }

    /// Queues the keys that a change concerns.
    pub fn wake(
        &mut self,
        snapshot: &Snapshot,
        changed: KeyedChange<'_>,
        priority: Priority,
        now: Time,
    ) {
        if !self.installed.uses(changed.informer) {
            return;
        }
        self.installed.forget_ended_apply(snapshot, changed);
        if self.keys.duty().is_empty() {
            return;
        }
        let present = Present {
            installed: &self.installed,
            snapshot,
            now,
        };
        let comparisons = self.keys.wake(changed, priority, present);
        self.turns.charge(comparisons);
    }

    /// Queues the keys that asked for an object which has become unreadable, or readable again.
    pub fn wake_readers(
        &mut self,
        informer: InformerId,
        key: &ObjectKey,
        priority: Priority,
        now: Time,
    ) {
        if self.installed.uses(informer) {
            self.keys
                .wake_readers(informer, key, &self.installed, priority, now);
        }
    }

    /// Some of an informer's objects have become unreadable, or readable again, at this sequence
    /// number.
    pub fn note_turned(&mut self, informer: InformerId, sequence: u64) {
        if self.installed.uses(informer) {
            self.keys.note_turned(sequence);
        }
    }

    /// The server has gone back in time: others may write the versions again that the plugin has
    /// written of a kind.
    pub fn forget_written(&mut self, kind: &Kind) {
        self.installed.forget_applied(kind);
        self.keys.forget_written();
    }

    /// Whether there is a key to run and a thread that the plugin may use for it.
    pub fn is_ready(
        &self,
        snapshot: &Snapshot,
        doubts: &Doubts,
        threads: Threads,
        now: Time,
    ) -> bool {
        self.keys.has_work(now)
            && self.permit.may_run(now)
            && self.turns.has_thread(threads, now)
            && self.has_room()
            && self.is_synced(snapshot)
            && !self.is_widening()
            && self.is_proven(doubts, now)
    }

    /// Whether kinds that are reconciled by a pattern are still to be listed. Until then nothing
    /// runs: what a key reads of them would be waited for anyway, and the sweep over all keys has
    /// not come to those that the lists bring. A kind that keys only read stops no other keys.
    fn is_widening(&self) -> bool {
        let mut patterns = self.installed.subjects().patterns().iter();
        patterns.any(|pattern| self.patterns.waits_for(pattern))
    }

    /// A key that something is being fetched for counts as running.
    fn has_room(&self) -> bool {
        self.keys.in_flight() < self.permit.concurrency()
    }

    /// When there is something to do even if nothing changes.
    pub fn next_due(&self, doubts: &Doubts, threads: Threads, now: Time) -> Option<Time> {
        let resync = self.resync.as_ref().map(Resync::due);
        let resync = resync.filter(|_| !self.keys.duty().is_empty());
        let work = self.next_work(threads, now);
        let work = work.filter(|_| self.is_proven(doubts, now));
        let kinds = self.patterns.due();
        let proven = self.proven_by(doubts, now);
        let due = work.into_iter().chain(resync).chain(kinds);
        due.chain(proven).min()
    }

    /// The kinds of its patterns that need an informer, each with what it needs of their objects.
    pub fn wanted_kinds(&self) -> Vec<(Kind, Subscription)> {
        self.patterns.wanted(self.installed.scope())
    }

    /// The kinds of its patterns that have an informer.
    pub fn kinds_of_patterns(&self) -> Vec<Kind> {
        let kinds = self.installed.scope().of_patterns();
        kinds.map(|known| known.kind.clone()).collect()
    }

    /// The kinds of its patterns that there is no room for, and why.
    pub fn refused_kinds(&self) -> Vec<(Kind, Arc<str>)> {
        let patterns = self.installed.scope().patterns.iter();
        let refused = patterns.flat_map(|pattern| &pattern.refused);
        refused
            .map(|(kind, reason)| (kind.clone(), reason.clone()))
            .collect()
    }

    /// The informers of the kinds that it names.
    pub fn named(&self) -> impl Iterator<Item = InformerId> {
        let required = self.installed.scope().required();
        required.map(|part| part.informer)
    }

    /// Whether some kinds of its patterns need an informer.
    pub fn wants_kinds(&self) -> bool {
        self.patterns.wants_some()
    }

    /// Has the kinds listed that it reconciles by patterns.
    pub fn ask_for_subjects<'a>(
        &mut self,
        served: impl Iterator<Item = &'a Kind>,
        snapshot: &Snapshot,
        now: Time,
    ) {
        let subjects = self.installed.subjects();
        if subjects.are_of_patterns() {
            let kinds = served.filter(|kind| subjects.wants(kind)).cloned();
            self.patterns
                .ask_for_subjects(self.installed.scope(), kinds, snapshot, now);
        }
    }

    /// Has these kinds of its patterns listed.
    pub fn ask_for(&mut self, kinds: &BTreeSet<Kind>) {
        self.patterns.want(self.installed.scope(), kinds);
    }

    /// Has the kinds listed that the cluster serves and whose objects belong to lists of patterns
    /// that its keys have made.
    pub fn ask_for_lists<'a>(&mut self, served: impl Iterator<Item = &'a ServedKind>) {
        let (scope, reads) = (self.installed.scope(), self.keys.reads());
        self.patterns.ask_for_lists(scope, reads, served);
    }

    /// The informers whose objects are in lists of its patterns while the cluster serves these
    /// kinds.
    pub fn in_lists(&self, served: &BTreeMap<Kind, ServedKind>) -> BTreeSet<InformerId> {
        self.installed.in_lists(served)
    }

    /// All objects of an informer come into lists of its patterns, or leave them. Queues the keys
    /// whose lists have some of them.
    pub fn wake_lists(&mut self, informer: InformerId, snapshot: &Snapshot, now: Time) {
        let present = Present {
            installed: &self.installed,
            snapshot,
            now,
        };
        let comparisons = self.keys.wake_lists(informer, present);
        self.turns.charge(comparisons);
    }

    /// Forgets the kinds that were asked about and are not served any more.
    pub fn keep_served(&mut self, is_served: impl Fn(&Kind) -> bool) {
        self.patterns.keep_served(is_served);
    }

    /// Gives kinds of its patterns informers. Returns its subscriptions to those before.
    pub fn widen(
        &mut self,
        begun: Vec<Begun>,
        snapshot: &Snapshot,
    ) -> BTreeMap<InformerId, Subscribed> {
        let before = self.patterns.begin(&mut self.installed, begun);
        if !before.is_empty() {
            self.forget_ended_subjects();
            self.release_gates(snapshot);
        }
        let parts = before.into_iter().flat_map(|before| before.scope.parts);
        parts.map(|part| (part.informer, part.subscribed)).collect()
    }

    /// Kinds of its patterns cannot get an informer now.
    pub fn refuse_kinds(&mut self, kinds: &[Kind], reason: &str, now: Time) {
        self.patterns
            .refuse(&mut self.installed, kinds, reason, now);
    }

    /// Notes which kinds of its patterns have been listed, and releases the keys that have waited
    /// for them. Returns those that have become unavailable, or available again.
    pub fn settle_kinds(
        &mut self,
        listed: Listed<'_>,
        snapshot: &Snapshot,
        now: Time,
    ) -> Vec<Kind> {
        let installed = &mut self.installed;
        let turned = self.patterns.settle(installed, listed, snapshot, now);
        for (key, priority) in self.patterns.take_ready() {
            self.keys.add(&[key], priority, now);
        }
        turned
    }

    /// Kinds of its patterns have got informers, whose objects other plugins may have had listed:
    /// then no change tells of them.
    pub fn start_widened(&mut self, informers: &[InformerId], snapshot: &Snapshot, now: Time) {
        let has_objects = |informer: &InformerId| !snapshot.informers[*informer].is_empty();
        if self.installed.subjects().are_of_patterns() && informers.iter().any(has_objects) {
            self.start(snapshot, now);
        }
    }

    /// The keys of kinds that have ended are no keys any more.
    fn forget_ended_subjects(&mut self) {
        let subjects = self.installed.subjects();
        if subjects.are_of_patterns() {
            self.keys.retain(subjects);
            self.keys.retain_reads(subjects);
        }
    }

    /// Ends the informers of the kinds of its patterns that nobody needs. Returns its subscriptions
    /// to them.
    pub fn narrow(
        &mut self,
        is_served: impl Fn(&Kind) -> bool,
        snapshot: &Snapshot,
        now: Time,
    ) -> BTreeMap<InformerId, Subscribed> {
        self.patterns
            .forget_unserved(&mut self.installed, &is_served);
        let ending = match self.keys.is_sweeping() {
            // A key whose run is still to come may read any kind.
            true => self.patterns.unserved(&self.installed, is_served),
            false => {
                let (installed, reads) = (&self.installed, self.keys.reads());
                let has_read = |informer| reads.has(installed.origin(informer));
                let is_read = |known: &PatternKind| {
                    installed.subjects().wants(&known.kind)
                        || known.informer().is_some_and(has_read)
                };
                self.patterns
                    .ending(installed.scope(), is_read, is_served, now)
            }
        };
        let before = self.installed.subscriptions().clone();
        self.patterns.end(&mut self.installed, &ending);
        if !ending.is_empty() {
            self.forget_ended_subjects();
            self.release_gates(snapshot);
        }
        let is_ended = |informer: &InformerId| !self.installed.uses(*informer);
        let ended = before
            .into_iter()
            .filter(|(informer, _)| is_ended(informer));
        ended.collect()
    }

    /// Releases the keys whose writes only informers that have ended would show.
    fn release_gates(&mut self, snapshot: &Snapshot) {
        let installed = &self.installed;
        self.keys
            .keep_gates(|informer| installed.uses(informer), snapshot);
    }

    /// When there is a key to run, a thread for it, and the permission to. While kinds are to be
    /// listed, no time is known: a list ends that, or the time that it has.
    fn next_work(&self, threads: Threads, now: Time) -> Option<Time> {
        let may_run = self.has_room() && !self.is_widening();
        let work = self.keys.next_due().filter(|_| may_run)?;
        let thread = self.turns.thread_due(threads, now)?;
        let permit = self.permit.runs_from()?;
        Some(work.max(thread).max(permit))
    }

    /// What the plugin has to do next.
    pub fn take(
        &mut self,
        id: PluginId,
        snapshot: &Snapshot,
        now: Time,
        wall_clock_ms: u64,
    ) -> Option<Work> {
        let present = Present {
            installed: &self.installed,
            snapshot,
            now,
        };
        Some(match self.keys.take(id, present)? {
            KeyWork::Later => Work::Later,
            KeyWork::Fetch(fetch) => Work::Fetch(fetch),
            KeyWork::Run(key) => {
                let reconcile = self.reconcile(id, key, snapshot, now, wall_clock_ms);
                Work::Run(Box::new(reconcile))
            }
        })
    }

    fn reconcile(
        &mut self,
        id: PluginId,
        key: TakenKey,
        snapshot: &Snapshot,
        now: Time,
        wall_clock_ms: u64,
    ) -> Reconcile {
        self.tally.begin(key.is_self_triggered);
        let taken = key.taken;
        let request = Request {
            key: taken.key,
            attempt: taken.failures.saturating_add(1),
            previous: key.previous,
            memo: key.memo,
            config: self.permit.settings().config.clone(),
        };
        let start = Start {
            priority: taken.priority,
            waited: taken.waited,
            at: now,
            charge: self.turns.begin(now),
            is_probe: key.is_probe,
            halt: self.running.begin(&request.key, self.permit.halt()),
        };
        let installed = &self.installed;
        let reader = installed.reader(snapshot, &request.key, self.divided_by(), wall_clock_ms);
        let reader = reader.with_fetched(key.fetched);
        Reconcile::new(id, installed.version().clone(), request, reader, start)
    }

    /// See [`Hub::rehearse`](super::Hub::rehearse).
    pub fn rehearse(&self, key: &SubjectKey, snapshot: &Snapshot, wall_clock_ms: u64) -> Rehearsal {
        let installed = &self.installed;
        let request = Request {
            key: key.clone(),
            attempt: 1,
            previous: self.keys.effects(key).to_vec(),
            memo: self.keys.memo(key),
            config: self.permit.settings().config.clone(),
        };
        let reader = installed.reader(snapshot, key, self.divided_by(), wall_clock_ms);
        Rehearsal::new(request, reader, installed.version().clone())
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
        self.keys
            .object_fetched(key, gate, question, known, snapshot);
    }

    /// A fetch that a key waits for has ended, with or without answers.
    pub fn fetch_ended(&mut self, key: &SubjectKey, is_answered: bool, now: Time) {
        self.keys.fetch_ended(key, is_answered, now);
    }

    /// A fetch for a failing key has ended. `states`: what the caches now show of the objects that
    /// need no further fetch. `is_answered`: whether every question was answered.
    pub fn repair_ended(
        &mut self,
        fetch: &Fetch,
        states: Vec<Question>,
        is_answered: bool,
        now: Time,
    ) {
        self.keys.repair_ended(fetch, states, is_answered, now);
    }

    /// Whether a key is to run, now or later.
    pub fn is_queued(&self, key: &SubjectKey) -> bool {
        self.keys.is_queued(key)
    }

    /// Releases the held keys whose writes an informer's cache now shows.
    pub fn open_gates(&mut self, informer: InformerId, snapshot: &Snapshot) {
        self.keys.open_gates(informer, snapshot);
    }

    /// An informer's cache has been listed; `before` is its version before: see [`Keys::listed`].
    pub fn listed(
        &mut self,
        informer: InformerId,
        before: &ResourceVersion,
        snapshot: &Snapshot,
        now: Time,
    ) {
        if self.installed.uses(informer) {
            let cache = &snapshot.informers[informer];
            self.keys.listed(informer, before, cache, now);
        }
    }

    /// The guest has ended. Registers its reads. Queues the key again if something it read has
    /// changed since its snapshot.
    pub fn register(&mut self, ran: &Ran, missed: Missed<'_>, snapshot: &Snapshot, now: Time) {
        let held = &ran.held;
        self.turns.end(held.charge, held.started, now);
        self.tally.ran(ran.denied.is_some());
        if self.running.is_lost(&held.request.key) {
            return;
        }
        if !self.installed.subjects().has(&held.request.key) {
            // The kind of the key has ended meanwhile, and the key with it.
            return;
        }
        if self.installed.is_of(held) {
            if let Err(ReconcileError::Unseen(kinds)) = &ran.result {
                self.patterns
                    .ask(self.installed.scope(), kinds, snapshot, now);
            }
            let present = Present {
                installed: &self.installed,
                snapshot,
                now,
            };
            let costs = self.keys.register(ran, missed, present);
            for comparisons in costs {
                self.turns.charge(comparisons);
            }
        } else {
            // The reads belong to another version and use its numbering of informers and views.
            let key = std::slice::from_ref(&held.request.key);
            self.keys.add(key, NORMAL, now);
        }
    }

    /// Takes a key back.
    pub fn finished(&mut self, finished: Finished, snapshot: &Snapshot, now: Time) -> Conclusion {
        let held = &finished.held;
        if self.running.end(&held.request.key) {
            return self.finished_lost(&finished, snapshot, now);
        }
        if !self.installed.subjects().has(&held.request.key) {
            self.keys.done(&held.request.key, now);
            return Conclusion::default();
        }
        self.tally.finished(&finished, now);
        let is_quarantined = self.installed.is_of(held) && self.permit.judge(&finished, now);
        let present = Present {
            installed: &self.installed,
            snapshot,
            now,
        };
        let (is_unseen, priority) = (matches!(finished.end, End::Unseen), finished.held.priority);
        if !is_unseen {
            self.patterns.wait_no_more(&finished.held.request.key);
        }
        let key = is_unseen.then(|| finished.held.request.key.clone());
        let conclusion = Conclusion {
            looping: self.keys.finished(finished, present),
            is_quarantined,
        };
        if let Some(key) = key.filter(|key| self.patterns.wait(key, priority)) {
            self.keys.add(&[key], priority, now);
        }
        conclusion
    }

    /// The cluster can be reached again. Keys whose writes had no answer can run.
    pub fn recovered(&mut self) {
        self.keys.recovered();
    }

    pub fn is_cut_off(&self) -> bool {
        self.keys.is_cut_off()
    }

    pub fn put_in_quarantine(&mut self, reason: &str, now: Time) {
        self.permit.put_in_quarantine(reason, now);
    }

    pub fn pardon(&mut self) {
        self.permit.pardon();
    }

    pub fn may_roll_back_to(&self) -> bool {
        self.permit.may_roll_back_to()
    }

    pub fn quarantine(&self, now: Time) -> Option<&Quarantine> {
        self.permit.quarantine(now)
    }

    /// From now on nothing runs, whatever is queued.
    pub fn halt(&mut self) {
        self.permit.revoke();
    }

    /// From now on only what is due is finished.
    pub fn drain(&mut self, snapshot: &Snapshot) {
        self.keys.drain(snapshot);
    }

    /// Whether nothing more will run. Keys that wait for a kind which is not synced, for caches to
    /// be proven, or for the plugin to be resumed, do not count.
    pub fn is_drained(&self, snapshot: &Snapshot, doubts: &Doubts, now: Time) -> bool {
        let will_run =
            self.permit.may_run(now) && self.is_synced(snapshot) && self.is_proven(doubts, now);
        self.keys.is_empty() || (!self.keys.is_running() && !will_run)
    }

    /// How many keys are remembered for what they have written.
    #[cfg(test)]
    pub fn cycles(&self) -> usize {
        self.keys.cycles()
    }

    /// Takes no time that grows without bound: it is called often, under the hub's lock.
    pub fn status(&self, snapshot: &Snapshot, now: Time) -> ControllerStatus {
        let manifest = self.installed.manifest();
        ControllerStatus {
            name: manifest.name.clone(),
            version: manifest.version.clone(),
            reads: self.installed.reads(snapshot, self.keys.duty()),
            of_patterns: self.installed.of_patterns(snapshot),
            refused_kinds: self.refused_kinds(),
            keys: self.keys.status(now),
            division: self.keys.duty().division(),
            held_shards: self.keys.duty().held().clone(),
            pending_shards: self.pending_shards(),
            concurrency: self.permit.concurrency(),
            is_paused: self.permit.settings().is_paused,
            quarantine: self.permit.quarantine(now).cloned(),
            cached_bytes: self.installed.cached_bytes(snapshot),
            reconciles: self.tally.counts(),
            last_error: self.tally.last_error().cloned(),
        }
    }
}

fn resync(settings: &ControllerSettings, name: &str, now: Time) -> Option<Resync> {
    let period = settings.resync?;
    Some(Resync::new(period, name, now))
}
