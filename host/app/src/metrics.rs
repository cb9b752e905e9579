//! `/metrics`. The names, labels and buckets are those of client-go and controller-runtime, so that
//! existing dashboards work. docs/metrics.md lists them. The label `controller` is the plugin's
//! name.

mod cache_labels;
mod caches;
mod depth;
mod exposition;
mod hosts;
mod hub;
mod informers;
mod lifecycle;
mod process;
mod rest;
mod unwritten;

use std::sync::Arc;
use std::time::Duration;

use pilothouse_cluster::client::Observer;
use pilothouse_cluster::discovery::Resource;
use pilothouse_core::InformerKey;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use crate::informers::errors::WatchErrors;
use crate::shared::Shared;
use caches::CacheMetrics;
pub use exposition::Format;
pub use hosts::HostsMetrics;
use hub::HubMetrics;
pub use informers::Informer;
use informers::Informers;
use lifecycle::LifecycleMetrics;
use process::ProcessMetrics;
use rest::RestClient;
use unwritten::Unwritten;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ControllerLabel {
    controller: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct QueueLabel {
    name: String,
    controller: String,
}

type Histograms<L> = Family<L, Histogram, fn() -> Histogram>;

/// Metrics that are counted as events happen. The rest is read from the hub at each scrape.
pub struct Metrics {
    registry: Registry,
    queue_duration: Histograms<QueueLabel>,
    work_duration: Histograms<QueueLabel>,
    reconcile_time: Histograms<ControllerLabel>,
    reconcile_timeouts: Family<ControllerLabel, Counter>,
    lives: LifecycleMetrics,
    unwritten: Unwritten,
    informers: Arc<Informers>,
    rest_client: Arc<RestClient>,
    shared: Arc<Shared>,
}

/// 10 ns to 1,000 s in steps of ten, as controller-runtime's queue histograms.
fn queue_histogram() -> Histogram {
    Histogram::new(exponential_buckets(1e-8, 10.0, 12))
}

/// The buckets of controller-runtime's `reconcile_time_seconds`.
fn reconcile_histogram() -> Histogram {
    Histogram::new([
        0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8,
        0.9, 1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0,
        15.0, 20.0, 25.0, 30.0, 40.0, 50.0, 60.0,
    ])
}

impl Metrics {
    /// `server` is the API server's host and port.
    pub fn new(shared: Arc<Shared>, watch_errors: WatchErrors, server: &str) -> Self {
        let queue_duration = Histograms::new_with_constructor(queue_histogram as fn() -> Histogram);
        let work_duration = Histograms::new_with_constructor(queue_histogram as fn() -> Histogram);
        let reconcile_time =
            Histograms::new_with_constructor(reconcile_histogram as fn() -> Histogram);
        let reconcile_timeouts = Family::default();
        let mut registry = Registry::default();
        registry.register(
            "workqueue_queue_duration_seconds",
            "How long a key waits before it runs",
            queue_duration.clone(),
        );
        registry.register(
            "workqueue_work_duration_seconds",
            "How long a key runs, its writes included",
            work_duration.clone(),
        );
        registry.register(
            "controller_runtime_reconcile_time_seconds",
            "How long a reconcile takes, its writes included",
            reconcile_time.clone(),
        );
        registry.register(
            "controller_runtime_reconcile_timeouts",
            "Reconciles that ran out of time",
            reconcile_timeouts.clone(),
        );
        let lives = LifecycleMetrics::new(&mut registry);
        let unwritten = Unwritten::new(&mut registry);
        let rest_client = Arc::new(RestClient::new(server, &mut registry));
        let informers = Arc::new(Informers::new(&mut registry));
        shared.holds().register(&mut registry);
        registry.register_collector(Box::new(ProcessMetrics));
        registry.register_collector(Box::new(HubMetrics::new(shared.clone())));
        registry.register_collector(Box::new(CacheMetrics {
            shared: shared.clone(),
            watch_errors,
            informers: informers.clone(),
        }));
        Self {
            registry,
            queue_duration,
            work_duration,
            reconcile_time,
            reconcile_timeouts,
            lives,
            unwritten,
            informers,
            rest_client,
            shared,
        }
    }

    /// Adds the metrics of this host among several.
    pub fn add_hosts(&mut self, lease: &str) -> HostsMetrics {
        HostsMetrics::new(&mut self.registry, lease)
    }

    /// The observer of requests to the API server.
    pub fn rest_client(&self) -> Arc<dyn Observer> {
        self.rest_client.clone()
    }

    /// The API server's host and port.
    pub fn server(&self) -> &str {
        self.rest_client.server()
    }

    /// Adds the series of an informer that is about to run.
    pub fn add_informer(&self, informer_key: &InformerKey, resource: &Resource) -> Informer {
        self.informers.add(informer_key, resource)
    }

    /// Removes the series of an informer that has ended.
    pub fn remove_informer(&self, informer_key: &InformerKey) {
        self.informers.remove(informer_key);
    }

    /// Starts a new plugin's series at zero.
    pub fn add_plugin(&self, plugin: &str) {
        drop(self.queue_duration.get_or_create(&queue_label(plugin)));
        drop(self.work_duration.get_or_create(&queue_label(plugin)));
        drop(self.reconcile_time.get_or_create(&controller_label(plugin)));
        drop(
            self.reconcile_timeouts
                .get_or_create(&controller_label(plugin)),
        );
        self.lives.add(plugin);
        self.unwritten.add(plugin);
        self.shared.holds().add(plugin);
    }

    /// Removes the series of a plugin that has gone.
    pub fn remove_plugin(&self, plugin: &str) {
        self.queue_duration.remove(&queue_label(plugin));
        self.work_duration.remove(&queue_label(plugin));
        self.reconcile_time.remove(&controller_label(plugin));
        self.reconcile_timeouts.remove(&controller_label(plugin));
        self.lives.remove(plugin);
        self.unwritten.remove(plugin);
        self.shared.holds().remove(plugin);
    }

    /// Swaps, rollbacks and quarantines of plugin versions.
    pub fn lives(&self) -> &LifecycleMetrics {
        &self.lives
    }

    /// Events that were not written.
    pub fn unwritten(&self) -> &Unwritten {
        &self.unwritten
    }

    /// Records that a key of a plugin waited for this time in the queue.
    pub fn waited(&self, plugin: &str, time: Duration) {
        self.queue_duration
            .get_or_create(&queue_label(plugin))
            .observe(time.as_secs_f64());
    }

    /// Records that a reconcile took this time, its writes included.
    pub fn ran(&self, plugin: &str, time: Duration) {
        self.work_duration
            .get_or_create(&queue_label(plugin))
            .observe(time.as_secs_f64());
        self.reconcile_time
            .get_or_create(&controller_label(plugin))
            .observe(time.as_secs_f64());
    }

    /// Counts a reconcile that ran out of time.
    pub fn timed_out(&self, plugin: &str) {
        self.reconcile_timeouts
            .get_or_create(&controller_label(plugin))
            .inc();
    }

    /// All metrics as text.
    pub fn text(&self, format: Format) -> Result<String, std::fmt::Error> {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry)?;
        Ok(match format {
            Format::OpenMetrics => text,
            Format::Classic => exposition::to_classic(&text),
        })
    }
}

fn controller_label(plugin: &str) -> ControllerLabel {
    ControllerLabel {
        controller: plugin.to_owned(),
    }
}

fn queue_label(plugin: &str) -> QueueLabel {
    QueueLabel {
        name: plugin.to_owned(),
        controller: plugin.to_owned(),
    }
}
