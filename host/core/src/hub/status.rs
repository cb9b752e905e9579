//! What a hub says of its plugins and informers, for people and metrics.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::health::Quarantine;
use super::seat::LoopingKey;
use crate::key::{Kind, ObjectKey, ResourceVersion};
use crate::queue::{Counts, Priority, Time};
use crate::snapshot::InformerId;
use crate::source::{Payload, Source};

/// Most keys of a plugin that are listed of each sort. There may be any number of them, and nobody
/// else can do anything meanwhile.
pub const MAX_LISTED: usize = 20;

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
    /// The guest broke: traps, limits, timeouts, host errors.
    pub trapped: u64,
    /// The outcome was refused as a whole: not granted, or no outcome at all.
    pub refused: u64,
    /// Runs that read what they may not.
    pub denied_reads: u64,
    /// Runs that nothing but the key's own last writes had caused.
    pub self_triggered: u64,
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

/// A key that fails each time it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokenKey {
    /// Which.
    pub key: ObjectKey,
    /// How often in a row.
    pub failures: u32,
    /// Its last error.
    pub reason: String,
    /// When it is tried again by itself; none if only a change brings it back.
    pub retry_in: Option<Duration>,
}

/// A plugin's state.
#[derive(Clone, Debug)]
pub struct SeatStatus {
    /// Its name.
    pub name: String,
    /// Its own version.
    pub version: String,
    /// Whose keys it reconciles; none for a singleton.
    pub subject: Option<Kind>,
    /// What it reads, and whether that is synced.
    pub reads: Vec<(Source, bool)>,
    /// Keys ready to run.
    pub queued: usize,
    /// Keys that could run if the caches showed what they last wrote, or the cluster could be reached.
    pub held: usize,
    /// Keys ready to run, by priority.
    pub depth: BTreeMap<Priority, usize>,
    /// Keys running, or held while their writes are under way.
    pub running: usize,
    /// How long each of those has been running.
    pub running_for: Vec<Duration>,
    /// Keys waiting for their time.
    pub delayed: usize,
    /// Keys that failed when they last ran.
    pub failing: usize,
    /// How many of those failed so often that changes bring them back only now and then.
    pub broken_keys: usize,
    /// The first [`MAX_LISTED`] of these, in the order of their keys.
    pub broken: Vec<BrokenKey>,
    /// How many keys nothing but their own writes keeps running.
    pub looping_keys: usize,
    /// The first [`MAX_LISTED`] of these, in the order of their keys.
    pub looping: Vec<LoopingKey>,
    /// Recorded reads.
    pub recorded_reads: usize,
    /// Keys that have asked so much that they are taken to have read all of their kinds.
    pub coarse: usize,
    /// Keys that may run at the same time.
    pub concurrency: usize,
    /// Whether it runs nothing because it is paused.
    pub is_paused: bool,
    /// Why it runs nothing, if its version is not fit to.
    pub quarantine: Option<Quarantine>,
    /// Its part of the caches: each informer's bytes, shared evenly among those who use it.
    pub cached_bytes: usize,
    /// How reconciles ended.
    pub reconciles: ReconcileCounts,
    /// What the queue counted.
    pub queue: Counts,
    /// The latest error.
    pub last_error: Option<LastError>,
}

/// An informer's state.
#[derive(Clone, Debug)]
pub struct InformerStatus {
    /// Which.
    pub informer: InformerId,
    /// What it is of.
    pub source: Source,
    /// How much of each object it brings.
    pub payload: Payload,
    /// Whether a complete list with so much is stored.
    pub is_synced: bool,
    /// How many objects are cached.
    pub objects: usize,
    /// Their bytes, views included.
    pub bytes: usize,
    /// The plugins that use it.
    pub users: Vec<String>,
    /// How far the cache has come.
    pub resource_version: ResourceVersion,
    /// Objects that are there and cannot be read, and why.
    pub unreadable: Arc<BTreeMap<ObjectKey, String>>,
    /// How often something older than the cache was dropped.
    pub stale: u64,
    /// How often an object was found to be otherwise on the server, though the cache had come that far, and was put right.
    pub repairs: u64,
}
