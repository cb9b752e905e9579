//! Metrics of how several hosts divide the work. Those of the leader election have client-go's
//! names.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct LeaseLabel {
    name: String,
}

/// What is counted of this host among several.
#[derive(Clone, Debug)]
pub struct HostsMetrics {
    is_master: Gauge,
    slow_renewals: Counter<u64, AtomicU64>,
    takeovers: Histogram,
    members: Gauge,
    shards: Gauge,
    shard_changes: Counter<u64, AtomicU64>,
}

impl HostsMetrics {
    /// Registers the metrics for the Lease, or the group, of this name.
    pub fn new(registry: &mut Registry, name: &str) -> Self {
        let label = LeaseLabel {
            name: name.to_owned(),
        };
        let masters: Family<LeaseLabel, Gauge> = Family::default();
        let slow: Family<LeaseLabel, Counter<u64, AtomicU64>> = Family::default();
        let metrics = Self {
            is_master: masters.get_or_create_owned(&label),
            slow_renewals: slow.get_or_create_owned(&label),
            // A millisecond to half a minute.
            takeovers: Histogram::new(exponential_buckets(0.001, 2.0, 16)),
            members: Gauge::default(),
            shards: Gauge::default(),
            shard_changes: Counter::default(),
        };
        registry.register(
            "leader_election_master_status",
            "1 if this host leads, 0 if it stands by",
            masters,
        );
        registry.register(
            "leader_election_slowpath",
            "Renewals for which the Lease had to be read first",
            slow,
        );
        registry.register(
            "pilothouse_takeover_seconds",
            "From the moment at which this host began to lead until its caches were shown to be up to date and keys ran",
            metrics.takeovers.clone(),
        );
        registry.register(
            "pilothouse_members",
            "Hosts that share the work, this one included; 0 if one host leads",
            metrics.members.clone(),
        );
        registry.register(
            "pilothouse_shards",
            "Shards of plugins that this host owns; 0 if one host leads",
            metrics.shards.clone(),
        );
        registry.register(
            "pilothouse_shard_changes",
            "Shards that this host has gained, or has begun to give up",
            metrics.shard_changes.clone(),
        );
        metrics
    }

    /// Whether this host leads, and how many of its renewals were slow until now.
    pub fn set(&self, leads: bool, slow_renewals: u64) {
        self.is_master.set(i64::from(leads));
        let more = slow_renewals.saturating_sub(self.slow_renewals.get());
        self.slow_renewals.inc_by(more);
    }

    /// How many members there are, and how many shards this host owns.
    pub fn set_members(&self, members: usize, shards: usize) {
        self.members.set(i64::try_from(members).unwrap_or(i64::MAX));
        self.shards.set(i64::try_from(shards).unwrap_or(i64::MAX));
    }

    /// This host has gained a shard, or has begun to give one up.
    pub fn changed_shards(&self) {
        self.shard_changes.inc();
    }

    /// This host has taken over.
    pub fn took_over(&self, took: Duration) {
        self.takeovers.observe(took.as_secs_f64());
    }
}
