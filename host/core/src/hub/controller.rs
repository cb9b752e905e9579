//! One plugin's controller in the hub: its queue, its read sets, and what is remembered of its
//! keys.

mod gone;
mod keys;
mod loops;
mod running;
mod suspects;
mod sweep;
mod waking;

use std::collections::BTreeMap;
use std::sync::Arc;

use super::health::{Health, Quarantine};
use super::outage::Outage;
use super::pace::Pace;
use super::reconcile::PluginVersion;
use super::resync::Resync;
use super::share::Share;
use super::status::{BrokenKey, ControllerStatus, LastError, MAX_LISTED, ReconcileCounts};
use super::subject::SubjectKind;
use super::{ControllerSettings, Garbage, Threads};
use crate::access::permission::Permissions;
use crate::access::scope::Scope;
use crate::cache::Subscribed;
use crate::cache::snapshot::{InformerId, Snapshot};
use crate::hub::gate::Gates;
use crate::hub::plugin::Plugin;
use crate::model::key::ObjectKey;
use crate::model::manifest::{Manifest, Subject};
use crate::plan::Halt;
use crate::queue::backoff::Backoff;
use crate::queue::{LOW, NORMAL, Time, WorkQueue};
use crate::reads::ReadSets;

pub use loops::LoopingKey;
pub(super) use running::Work;

pub(super) struct Controller {
    version: Arc<PluginVersion>,
    /// The plugin's subscription to each informer it uses.
    subscriptions: BTreeMap<InformerId, Subscribed>,
    settings: ControllerSettings,
    health: Health,
    subject: Option<SubjectKind>,
    queue: WorkQueue,
    /// The reconciles that all subjects are still to have; `None` when every subject has had its
    /// own.
    sweep: Option<sweep::Sweep>,
    reads: ReadSets,
    gates: Gates,
    /// The keys whose objects are gone. They are forgotten once nothing can wake them.
    gone: gone::GoneKeys,
    /// The keys that are queued by their own writes.
    loops: loops::Loops,
    /// The keys that keep failing, perhaps on a wrong cache.
    suspects: suspects::Suspects,
    /// Present while the plugin's writes cannot reach the cluster.
    outage: Option<Outage>,
    keys: keys::KeyRecords,
    /// Fetches that held keys wait for.
    fetching: usize,
    pub share: Share,
    resync: Option<Resync>,
    /// Which reconciles are running a guest, and whether they take long.
    pub pace: Pace,
    /// Stops the writes of the reconciles that have been handed out.
    halt: Halt,
    /// When a readable object last became unreadable, or readable again. A reconcile on an older
    /// snapshot may have asked for it.
    turned_at: u64,
    /// All its kinds are synced, and the keys that can be known only then are queued.
    is_started: bool,
    reconciles: ReconcileCounts,
    last_error: Option<LastError>,
}

impl Controller {
    /// `manifest` is the granted part of the plugin's own manifest.
    pub fn new(
        plugin: Arc<dyn Plugin>,
        manifest: Manifest,
        settings: &ControllerSettings,
        scope: Scope,
        now: Time,
    ) -> Self {
        Self {
            subscriptions: subscriptions(&scope),
            subject: subject(&manifest, &scope),
            settings: settings.clone(),
            health: Health::new(settings.quarantine),
            queue: WorkQueue::new(Backoff::default()),
            sweep: None,
            reads: ReadSets::default(),
            gates: gates(&manifest),
            gone: gone::GoneKeys::default(),
            loops: loops::Loops::default(),
            suspects: suspects::Suspects::default(),
            outage: None,
            keys: keys::KeyRecords::default(),
            fetching: 0,
            share: Share::new(settings.weight),
            resync: resync(settings, &manifest.name, now),
            pace: Pace::default(),
            halt: Halt::default(),
            turned_at: 0,
            is_started: false,
            reconciles: ReconcileCounts::default(),
            last_error: None,
            version: Arc::new(PluginVersion {
                permissions: Permissions::of(plugin.manifest(), &settings.grants),
                applied: Arc::default(),
                author: Arc::new(settings.author(&plugin.manifest().name)),
                scope: Arc::new(scope),
                manifest,
                plugin,
            }),
        }
    }

    /// Installs another version, or the same one with other settings, as prepared. The caller then
    /// [queues](Self::queue_first) the keys that the version runs first. Returns the previous
    /// version's subscriptions.
    pub fn replace(
        &mut self,
        plugin: &Arc<dyn Plugin>,
        settings: &ControllerSettings,
        prepared: &Self,
        snapshot: &Snapshot,
        garbage: &mut Garbage,
        now: Time,
    ) -> BTreeMap<InformerId, Subscribed> {
        let PluginVersion {
            manifest, scope, ..
        } = &*prepared.version;
        let old = std::mem::replace(&mut self.subscriptions, subscriptions(scope));
        if manifest.subject_kind() != self.version.manifest.subject_kind() {
            self.forget_keys();
        }
        garbage.add(std::mem::take(&mut self.reads));
        self.subject = subject(manifest, scope);
        self.is_started = prepared.is_started;
        if Arc::ptr_eq(plugin, &self.version.plugin) {
            self.health.pardon();
        } else {
            self.health = Health::new(settings.quarantine);
        }
        let author = Arc::new(settings.author(&manifest.name));
        // Another field manager owns nothing of what the previous one applied.
        let is_same_manager = author.field_manager == self.version.author.field_manager;
        let applied = is_same_manager.then(|| self.version.applied.clone());
        let version = Arc::new(PluginVersion {
            permissions: Permissions::of(plugin.manifest(), &settings.grants),
            applied: applied.unwrap_or_default(),
            author,
            scope: scope.clone(),
            manifest: manifest.clone(),
            plugin: plugin.clone(),
        });
        garbage.add(std::mem::replace(&mut self.version, version));
        let is_kept = |informer| self.subscriptions.contains_key(&informer);
        for key in self.gates.keep(is_kept, snapshot) {
            self.queue.release(&key);
        }
        self.gates.share(is_serial(manifest));
        self.queue.end_cool_downs();
        self.loops = loops::Loops::default();
        // Nothing else wakes these keys soon: their read sets are gone, and there may be no object
        // of their names.
        let failed: Vec<ObjectKey> = self.queue.failed().cloned().collect();
        for key in failed.into_iter().chain(self.gone.take()) {
            self.queue.add(&key, LOW, now);
        }
        if self.subject.is_some() {
            self.start(snapshot, now);
        }
        self.configure(settings, now);
        old
    }

    /// All queued keys.
    pub fn into_keys(mut self, now: Time) -> Vec<ObjectKey> {
        std::iter::from_fn(|| self.queue.next(now))
            .map(|taken| taken.key)
            .collect()
    }

    /// Queues the keys that a new version runs first, in addition to those of the existing
    /// subjects.
    pub fn queue_first(&mut self, keys: &[ObjectKey], now: Time) {
        let priority = if self.subject.is_some() { LOW } else { NORMAL };
        for key in keys {
            self.queue.add(key, priority, now);
        }
    }

    /// Forgets all keys, because the new version's keys are of another kind.
    fn forget_keys(&mut self) {
        self.queue.clear();
        self.sweep = None;
        self.gates = Gates::default();
        self.gone = gone::GoneKeys::default();
        self.loops = loops::Loops::default();
        self.suspects = suspects::Suspects::default();
        self.outage = None;
        self.keys = keys::KeyRecords::default();
    }

    /// Applies settings that take effect without running any key again.
    pub fn configure(&mut self, settings: &ControllerSettings, now: Time) {
        if settings.is_paused || settings.grants != self.settings.grants {
            self.stop_writes();
        }
        self.share.set_weight(settings.weight);
        self.health.judge(settings.quarantine);
        if settings.resync != self.settings.resync {
            self.resync = resync(settings, self.name(), now);
        }
        self.settings = settings.clone();
    }

    pub fn name(&self) -> &str {
        &self.manifest().name
    }

    #[cfg(test)]
    pub fn plugin(&self) -> Arc<dyn Plugin> {
        self.version.plugin.clone()
    }

    #[cfg(test)]
    pub fn applied(&self) -> Arc<crate::plan::unchanged::Applied> {
        self.version.applied.clone()
    }

    /// How many keys are in the queue itself, without those of a sweep.
    #[cfg(test)]
    pub fn queued(&self) -> usize {
        self.queue.pending()
    }

    fn manifest(&self) -> &Manifest {
        &self.version.manifest
    }

    /// The plugin's subscriptions to the informers it uses.
    pub fn subscriptions(&self) -> &BTreeMap<InformerId, Subscribed> {
        &self.subscriptions
    }

    pub fn put_in_quarantine(&mut self, reason: &str, now: Time) {
        self.health.put_in_quarantine(reason, now);
        self.stop_writes();
    }

    pub fn pardon(&mut self) {
        self.health.pardon();
    }

    pub fn may_roll_back_to(&self) -> bool {
        self.health.may_roll_back_to()
    }

    pub fn quarantine(&self, now: Time) -> Option<&Quarantine> {
        self.health.current(now)
    }

    /// When there is something to do even if nothing changes.
    pub fn next_due(&self, threads: Threads, now: Time) -> Option<Time> {
        let key = match &self.outage {
            Some(outage) if !outage.is_empty() => Some(outage.next_probe()),
            _ if self.sweep.is_some() => Some(Time::ZERO),
            _ => self.queue.next_ready(),
        };
        let outage = self.outage.as_ref().map(Outage::next_probe);
        let key = key.map(|due| due.max(outage.unwrap_or_default()));
        let work = key.into_iter().chain(self.suspects.due()).min();
        let is_held =
            self.settings.is_paused || !self.has_room() || self.pace.running() >= threads.of_one;
        let work = work.filter(|_| !is_held);
        // If it is a thread that is missing, the end of a reconcile frees one. If the plugin is
        // only held back as slow, that ends by itself at a known time.
        let slow_until = (!self.has_thread(threads, now)).then(|| self.pace.slow_until());
        let slow_until = slow_until.filter(|until| *until > now);
        let work = work.filter(|_| slow_until.is_some() || self.has_thread(threads, now));
        let work = work.map(|due| due.max(slow_until.unwrap_or_default()));
        let work = work.map(|due| due.max(self.health.until()));
        let resync = self.resync.as_ref().map(Resync::due);
        work.into_iter().chain(resync).min()
    }

    pub fn is_synced(&self, snapshot: &Snapshot) -> bool {
        let mut subscriptions = self.subscriptions.iter();
        subscriptions.all(|(informer, subscribed)| {
            snapshot.informers[*informer].is_synced(subscribed.detail)
        })
    }

    /// Whether there is a key to run and a thread that the plugin may use for it.
    pub fn is_ready(&self, snapshot: &Snapshot, threads: Threads, now: Time) -> bool {
        let has_key = match &self.outage {
            Some(outage) => outage.next_probe() <= now && (!outage.is_empty() || self.has_key(now)),
            None => self.has_key(now),
        };
        let has_suspects = self.suspects.due().is_some_and(|due| due <= now);
        (has_key || has_suspects)
            && !self.settings.is_paused
            && !self.health.is_quarantined(now)
            && self.has_thread(threads, now)
            && self.has_room()
            && self.is_synced(snapshot)
    }

    fn has_thread(&self, threads: Threads, now: Time) -> bool {
        let is_enough = threads.more_for_slow > 0 || !self.pace.is_slow(now);
        is_enough && self.pace.running() < threads.of_one
    }

    /// A key that something is being fetched for counts as running.
    fn has_room(&self) -> bool {
        self.queue.running() + self.fetching < self.concurrency()
    }

    fn concurrency(&self) -> usize {
        self.settings.concurrency.max(1) as usize
    }

    pub fn drain(&mut self, snapshot: &Snapshot) {
        self.queue.drain();
        self.sweep
            .iter_mut()
            .for_each(|sweep| sweep.finish(snapshot));
    }

    pub fn halt(&mut self) {
        self.settings.is_paused = true;
        self.stop_writes();
    }

    /// Reconciles that have been handed out write nothing more. Those handed out from now on do.
    fn stop_writes(&mut self) {
        std::mem::take(&mut self.halt).halt();
    }

    /// Whether nothing more will run. Keys that wait for a kind which is not synced, or for the
    /// plugin to be resumed, do not count.
    pub fn is_drained(&self, snapshot: &Snapshot, now: Time) -> bool {
        let is_halted = self.settings.is_paused || self.health.is_quarantined(now);
        let will_run = !is_halted && self.is_synced(snapshot);
        let has_nothing = self.queue.is_empty() && self.sweep.is_none();
        has_nothing || (self.queue.running() == 0 && !will_run)
    }

    pub fn is_cut_off(&self) -> bool {
        self.outage.is_some()
    }

    /// Takes no time that grows without bound: it is called often, under the hub's lock.
    pub fn status(&self, snapshot: &Snapshot, now: Time) -> ControllerStatus {
        let manifest = self.manifest();
        let parts = self.version.scope.kinds.values();
        let swept = self.sweep.as_ref().map_or(0, sweep::Sweep::left);
        let mut depth = self.queue.depth().clone();
        if swept > 0 {
            *depth.entry(LOW).or_default() += swept;
        }
        let broken = self.queue.broken().map(|(key, failures, due)| BrokenKey {
            key: key.clone(),
            failures,
            reason: self.keys.error(key).to_owned(),
            retry_in: due.map(|due| due.saturating_sub(now)),
        });
        ControllerStatus {
            name: manifest.name.clone(),
            version: manifest.version.clone(),
            subject: manifest.subject_kind().cloned(),
            reads: parts
                .flat_map(|scope| &scope.parts)
                .map(|part| {
                    let cache = &snapshot.informers[part.informer];
                    (
                        cache.informer_key().clone(),
                        cache.is_synced(part.subscribed.detail),
                    )
                })
                .collect(),
            queued: self.queue.pending() + swept,
            held: self.queue.held(),
            depth,
            running: self.queue.running(),
            running_for: self.queue.running_for(now).collect(),
            delayed: self.queue.delayed(),
            failing: self.queue.failing(),
            broken_keys: broken.len(),
            broken: broken.take(MAX_LISTED).collect(),
            looping_keys: self.loops.looping().len(),
            looping: self.loops.looping().take(MAX_LISTED).collect(),
            recorded_reads: self.reads.len(),
            coarse: self.reads.coarse(),
            concurrency: self.concurrency(),
            is_paused: self.settings.is_paused,
            quarantine: self.health.current(now).cloned(),
            cached_bytes: self
                .subscriptions
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

/// The plugin's subscription to each informer of its scope.
fn subscriptions(scope: &Scope) -> BTreeMap<InformerId, Subscribed> {
    let parts = scope.kinds.values().flat_map(|scope| &scope.parts);
    let subscriptions = parts.map(|part| (part.informer, part.subscribed.clone()));
    subscriptions.collect()
}

/// Whether the manifest asks to run one key at a time. Its keys then see each other's writes. A
/// lower limit set by the operator does not count: it does not tell what the keys depend on.
fn is_serial(manifest: &Manifest) -> bool {
    manifest.limits.concurrency == Some(1)
}

fn gates(manifest: &Manifest) -> Gates {
    let mut gates = Gates::default();
    gates.share(is_serial(manifest));
    gates
}

fn subject(manifest: &Manifest, scope: &Scope) -> Option<SubjectKind> {
    match &manifest.subject {
        Subject::Each(selection) => Some(SubjectKind::new(selection, scope)),
        Subject::Singleton => None,
    }
}

fn resync(settings: &ControllerSettings, name: &str, now: Time) -> Option<Resync> {
    let period = settings.resync?;
    Some(Resync::new(period, name, now))
}
