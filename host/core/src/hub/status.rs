//! The state of plugins and informers, for people and metrics.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::controller::loops::LoopingKey;
use super::health::Quarantine;
use crate::cache::snapshot::InformerId;
use crate::model::division::Division;
use crate::model::extent::Extent;
use crate::model::informer_key::InformerKey;
use crate::model::key::{Kind, ObjectKey, ResourceVersion};
use crate::model::subject_key::SubjectKey;
use crate::queue::{Counts, Priority, Time};

/// Maximum number of listed keys of each sort. A plugin can have any number of them, and the hub is
/// locked while they are listed.
pub const MAX_LISTED: usize = 20;

/// How many reconciles of a plugin ended in which way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReconcileCounts {
    /// Succeeded.
    pub success: u64,
    /// Succeeded and asked for a requeue after some time.
    pub requeue_after: u64,
    /// Failed, terminal failures included.
    pub error: u64,
    /// Failed with an error that is not retried.
    pub terminal: u64,
    /// The guest broke: traps, exceeded limits, timeouts and host errors.
    pub trapped: u64,
    /// The outcome was refused as a whole: something in it is not granted, or it is not a valid
    /// outcome.
    pub refused: u64,
    /// Nothing was written, because the API server contradicted the snapshot.
    pub contradicted: u64,
    /// Reconciles with a read that is not allowed.
    pub denied_reads: u64,
    /// Reconciles caused only by the key's own last writes.
    pub self_triggered: u64,
}

/// The latest error of a plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastError {
    /// The key that failed.
    pub key: SubjectKey,
    /// The error's text.
    pub message: String,
    /// When it occurred.
    pub at: Time,
}

/// A key that fails each time it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokenKey {
    /// The key.
    pub key: SubjectKey,
    /// Failures in a row.
    pub failures: u32,
    /// Its last error.
    pub reason: String,
    /// The time until it is retried; `None` if only a change runs it again.
    pub retry_in: Option<Duration>,
}

/// A plugin's state.
#[derive(Clone, Debug)]
pub struct ControllerStatus {
    /// The plugin's name.
    pub name: String,
    /// The version in its manifest.
    pub version: String,
    /// What it reads by name, and whether each of these informers is synced for it.
    pub reads: Vec<(InformerKey, bool)>,
    /// The kinds of its patterns that have an informer, and whether each is listed.
    pub of_patterns: Vec<(Kind, bool)>,
    /// The kinds of its patterns that there is no room for, and why.
    pub refused_kinds: Vec<(Kind, Arc<str>)>,
    /// Its keys.
    pub keys: KeysStatus,
    /// How its keys are divided.
    pub division: Division,
    /// The shards that this host runs.
    pub held_shards: BTreeSet<u32>,
    /// The shards that this host has gained and that it will run once the caches are proven.
    pub pending_shards: BTreeSet<u32>,
    /// Keys that may run at the same time.
    pub concurrency: usize,
    /// Whether it runs nothing because it is paused.
    pub is_paused: bool,
    /// The quarantine of its version, if it is in one and therefore runs nothing.
    pub quarantine: Option<Quarantine>,
    /// Its part of the caches: each informer's bytes, shared evenly among the plugins that use it.
    pub cached_bytes: usize,
    /// How its reconciles ended.
    pub reconciles: ReconcileCounts,
    /// The latest error.
    pub last_error: Option<LastError>,
}

/// The state of a plugin's keys.
#[derive(Clone, Debug)]
pub struct KeysStatus {
    /// Keys ready to run.
    pub queued: usize,
    /// Keys that are held until the caches show what they last wrote, or until the cluster can be
    /// reached.
    pub held: usize,
    /// Keys ready to run, by priority. `NORMAL` and `LOW` are always there.
    pub depth: BTreeMap<Priority, usize>,
    /// Keys that are running, or held while their writes are under way.
    pub running: usize,
    /// How long each of those has been running.
    pub running_for: Vec<Duration>,
    /// Keys waiting for their time.
    pub delayed: usize,
    /// Keys whose last reconcile failed.
    pub failing: usize,
    /// How many of those are broken: they failed so often that changes run them again only now and
    /// then.
    pub broken_keys: usize,
    /// The first `MAX_LISTED` of these, ordered by key.
    pub broken: Vec<BrokenKey>,
    /// How many keys are kept running only by their own writes.
    pub looping_keys: usize,
    /// The first `MAX_LISTED` of these, ordered by key.
    pub looping: Vec<LoopingKey>,
    /// Recorded reads.
    pub recorded_reads: usize,
    /// Keys with so many reads that they are treated as if they had read all objects of these
    /// kinds.
    pub coarse: usize,
    /// The queue's counters.
    pub queue: Counts,
}

/// An informer's state.
#[derive(Clone, Debug)]
pub struct InformerStatus {
    /// Its id.
    pub informer: InformerId,
    /// The kind, namespace and selectors of the objects it brings.
    pub informer_key: InformerKey,
    /// How much of each object it brings.
    pub extent: Extent,
    /// Whether a complete list with that much of each object is stored.
    pub is_synced: bool,
    /// How many objects are cached.
    pub objects: usize,
    /// Bytes of these objects, views included.
    pub bytes: usize,
    /// The plugins that use it.
    pub users: Vec<String>,
    /// The cache's resourceVersion.
    pub resource_version: ResourceVersion,
    /// Objects that exist but cannot be read, and why.
    pub unreadable: Arc<BTreeMap<ObjectKey, String>>,
    /// How often something older than the cache was dropped.
    pub stale: u64,
    /// How often the cache had come past a state of an object that it did not show, and was
    /// corrected from the API server.
    pub repairs: u64,
}
