//! One plugin in a hub: its queue, its read sets, and what is known of its keys.

mod running;
mod waking;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::Settings;
use super::outage::Outage;
use super::resync::Resync;
use super::share::Share;
use super::status::{BrokenKey, LastError, ReconcileCounts, SeatStatus};
use super::subject::SubjectKind;
use super::turn::Controller;
use crate::backoff::Backoff;
use crate::cache::Grant;
use crate::gate::Gates;
use crate::key::ObjectKey;
use crate::manifest::{Manifest, Subject};
use crate::outcome::ActionResult;
use crate::permission::Permissions;
use crate::plugin::Plugin;
use crate::queue::{Time, WorkQueue};
use crate::reader::Scope;
use crate::reads::ReadSets;
use crate::snapshot::{InformerId, Snapshot};

pub(super) use running::Work;

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
    /// While the plugin's writes find no cluster.
    outage: Option<Outage>,
    /// How often a key's writes found no cluster, in a row; keys whose last did are not here.
    tries: HashMap<ObjectKey, u32>,
    /// Lookups under way.
    looking: usize,
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
            outage: None,
            tries: HashMap::new(),
            looking: 0,
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
    pub fn next_due(&self, threads: usize) -> Option<Time> {
        let key = match &self.outage {
            _ if !self.has_room() || self.deciding >= threads => None,
            Some(outage) => outage.next_probe(),
            None => self.queue.next_due(),
        };
        let resync = self.resync.as_ref().map(Resync::due);
        key.into_iter().chain(resync).min()
    }

    pub fn is_synced(&self, snapshot: &Snapshot) -> bool {
        let mut grants = self.grants.iter();
        grants.all(|(informer, grant)| snapshot.informers[*informer].is_synced(grant.payload))
    }

    /// Whether there is a key to run, and, if there is a limit to the threads that the plugin may keep busy, a thread.
    pub fn is_ready(&self, snapshot: &Snapshot, threads: usize, now: Time) -> bool {
        let has_key = match &self.outage {
            Some(outage) => outage.next_probe().is_some_and(|due| due <= now),
            None => self.queue.is_ready(now),
        };
        has_key && self.deciding < threads && self.has_room() && self.is_synced(snapshot)
    }

    /// A key that is being looked up for is as good as running.
    fn has_room(&self) -> bool {
        self.queue.running() + self.looking < self.concurrency
    }

    pub fn drain(&mut self) {
        self.queue.drain();
    }

    /// What waits for a kind that is not synced will not run any more.
    pub fn is_drained(&self, snapshot: &Snapshot) -> bool {
        self.queue.is_empty() || (self.queue.running() == 0 && !self.is_synced(snapshot))
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
            held: self.queue.held(),
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
