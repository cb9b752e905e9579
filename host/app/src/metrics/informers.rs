//! `informer_*`: client-go's metrics about how a change gets from the watch into the cache, one
//! series per informer.
//!
//! Here a change goes straight from the watch into the cache and on to the queues, so at most one
//! is in progress at any time.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use pilothouse_cluster::discovery::Resource;
use pilothouse_core::InformerKey;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use tokio::time::Instant;

use super::Histograms;
use super::cache_labels::CacheLabels;

/// The buckets of component-base's `informer_processing_latency_seconds`.
const SECONDS: [f64; 12] = [
    0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
];

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct InformerLabels {
    name: String,
    group: String,
    version: String,
    resource: String,
}

/// The series of all informers.
pub struct Informers {
    labels: Mutex<BTreeMap<InformerKey, InformerLabels>>,
    queued: Family<InformerLabels, Gauge>,
    latency: Histograms<InformerLabels>,
    rollbacks: Family<CacheLabels, Counter>,
}

/// The series of one informer.
pub struct Informer {
    queued: Gauge,
    latency: Histogram,
    rollbacks: Counter,
}

impl Informers {
    pub fn new(registry: &mut Registry) -> Self {
        let this = Self {
            labels: Mutex::default(),
            queued: Family::default(),
            latency: Histograms::new_with_constructor(|| Histogram::new(SECONDS)),
            rollbacks: Family::default(),
        };
        registry.register(
            "pilothouse_watch_rollbacks",
            "How often the API server was found to have gone back in time",
            this.rollbacks.clone(),
        );
        registry.register(
            "informer_queued_items",
            "Changes that have come and are not in the cache yet",
            this.queued.clone(),
        );
        registry.register(
            "informer_processing_latency_seconds",
            "How long a change takes into the cache and the queues",
            this.latency.clone(),
        );
        this
    }

    /// Starts the series of an informer that is about to run at zero.
    pub fn add(&self, informer_key: &InformerKey, resource: &Resource) -> Informer {
        // Several informers of one kind are told apart by what restricts them.
        let kind = informer_key.kind.to_string();
        let narrowing = informer_key.to_string().split_off(kind.len());
        let labels = InformerLabels {
            name: format!("pilothouse{narrowing}"),
            group: resource.kind.group.to_string(),
            version: resource.kind.version.to_string(),
            resource: resource.plural.clone(),
        };
        let informer = Informer {
            queued: self.queued.get_or_create(&labels).clone(),
            latency: self.latency.get_or_create(&labels).clone(),
            rollbacks: self
                .rollbacks
                .get_or_create(&CacheLabels::of(informer_key))
                .clone(),
        };
        let mut known = self.labels.lock();
        known.insert(informer_key.clone(), labels);
        informer
    }

    /// Removes the series of an informer that has ended.
    pub fn remove(&self, informer_key: &InformerKey) {
        let mut known = self.labels.lock();
        if let Some(labels) = known.remove(informer_key) {
            self.queued.remove(&labels);
            self.latency.remove(&labels);
            self.rollbacks.remove(&CacheLabels::of(informer_key));
        }
    }

    pub fn labels(&self, informer_key: &InformerKey) -> Option<InformerLabels> {
        let known = self.labels.lock();
        known.get(informer_key).cloned()
    }
}

impl Informer {
    pub fn rolled_back(&self) {
        self.rollbacks.inc();
    }

    /// Processes one change, and measures how long that takes.
    pub fn process<R>(&self, change: impl FnOnce() -> R) -> R {
        let started = Instant::now();
        self.queued.inc();
        let result = change();
        self.queued.dec();
        self.latency.observe(started.elapsed().as_secs_f64());
        result
    }
}
