//! `/metrics`: the names and labels of client-go's work queue and controller-runtime, so that existing dashboards work.
//! The label `controller` is the plugin's name.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use pilothouse_core::hub::{Hub, InformerStatus, SeatStatus};
use pilothouse_core::source::Source;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use crate::shared::Shared;
use crate::watches::Troubles;

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

/// What is counted as it happens; the rest is read from the hub when somebody asks.
pub struct Metrics {
    registry: Registry,
    queue_duration: Histograms<QueueLabel>,
    work_duration: Histograms<QueueLabel>,
    reconcile_time: Histograms<ControllerLabel>,
    reconcile_timeouts: Family<ControllerLabel, Counter>,
}

/// 10 ns … 100,000 s in steps of ten, as controller-runtime's queue histograms.
fn queue_histogram() -> Histogram {
    Histogram::new(exponential_buckets(1e-8, 10.0, 12))
}

/// As controller-runtime's `reconcile_time_seconds`.
fn reconcile_histogram() -> Histogram {
    Histogram::new([
        0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8,
        0.9, 1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0,
        15.0, 20.0, 25.0, 30.0, 40.0, 50.0, 60.0,
    ])
}

impl Metrics {
    pub fn new(shared: Arc<Shared>, troubles: Troubles) -> Self {
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
        registry.register_collector(Box::new(HubMetrics { shared, troubles }));
        Self {
            registry,
            queue_duration,
            work_duration,
            reconcile_time,
            reconcile_timeouts,
        }
    }

    /// A plugin is there: its series begin at zero.
    pub fn add_plugin(&self, plugin: &str) {
        drop(self.queue_duration.get_or_create(&queue_label(plugin)));
        drop(self.work_duration.get_or_create(&queue_label(plugin)));
        drop(self.reconcile_time.get_or_create(&controller_label(plugin)));
        drop(
            self.reconcile_timeouts
                .get_or_create(&controller_label(plugin)),
        );
    }

    pub fn waited(&self, plugin: &str, time: Duration) {
        self.queue_duration
            .get_or_create(&queue_label(plugin))
            .observe(time.as_secs_f64());
    }

    pub fn ran(&self, plugin: &str, time: Duration) {
        self.work_duration
            .get_or_create(&queue_label(plugin))
            .observe(time.as_secs_f64());
        self.reconcile_time
            .get_or_create(&controller_label(plugin))
            .observe(time.as_secs_f64());
    }

    pub fn timed_out(&self, plugin: &str) {
        self.reconcile_timeouts
            .get_or_create(&controller_label(plugin))
            .inc();
    }

    /// In the OpenMetrics text format, which Prometheus reads.
    pub fn text(&self) -> Result<String, std::fmt::Error> {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry)?;
        Ok(text)
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

/// What the hub itself knows.
struct HubMetrics {
    shared: Arc<Shared>,
    troubles: Troubles,
}

impl std::fmt::Debug for HubMetrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("HubMetrics")
    }
}

/// One number per plugin.
struct PerPlugin {
    name: &'static str,
    help: &'static str,
    value: fn(&SeatStatus) -> u64,
}

const QUEUE_GAUGES: &[PerPlugin] = &[PerPlugin {
    name: "workqueue_depth",
    help: "Keys ready to run",
    value: |plugin| plugin.queued as u64,
}];

const QUEUE_COUNTERS: &[PerPlugin] = &[
    PerPlugin {
        name: "workqueue_adds",
        help: "Keys that became ready to run",
        value: |plugin| plugin.queue.adds,
    },
    PerPlugin {
        name: "workqueue_retries",
        help: "Retries after a failure",
        value: |plugin| plugin.queue.retries,
    },
];

const CONTROLLER_GAUGES: &[PerPlugin] = &[
    PerPlugin {
        name: "controller_runtime_active_workers",
        help: "Keys running",
        value: |plugin| plugin.running as u64,
    },
    PerPlugin {
        name: "controller_runtime_max_concurrent_reconciles",
        help: "Keys that may run at once",
        value: |plugin| plugin.concurrency as u64,
    },
    PerPlugin {
        name: "pilothouse_delayed_keys",
        help: "Keys waiting for their time",
        value: |plugin| plugin.delayed as u64,
    },
    PerPlugin {
        name: "pilothouse_failing_keys",
        help: "Keys that failed when they last ran",
        value: |plugin| plugin.failing as u64,
    },
    PerPlugin {
        name: "pilothouse_recorded_reads",
        help: "Recorded reads, counted once per key",
        value: |plugin| plugin.recorded_reads as u64,
    },
];

const CONTROLLER_COUNTERS: &[PerPlugin] = &[
    PerPlugin {
        name: "controller_runtime_reconcile_errors",
        help: "Reconciles that failed",
        value: |plugin| plugin.reconciles.error,
    },
    PerPlugin {
        name: "controller_runtime_terminal_reconcile_errors",
        help: "Failures that are not retried",
        value: |plugin| plugin.reconciles.terminal,
    },
    PerPlugin {
        name: "controller_runtime_reconcile_panics",
        help: "Guests that broke: traps, limits, timeouts",
        value: |plugin| plugin.reconciles.trapped,
    },
];

impl Collector for HubMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let plugins = self.shared.status();
        for metric in QUEUE_GAUGES {
            gauge(&mut encoder, metric, &plugins, queue_label)?;
        }
        for metric in QUEUE_COUNTERS {
            counter(&mut encoder, metric, &plugins, queue_label)?;
        }
        for metric in CONTROLLER_GAUGES {
            gauge(&mut encoder, metric, &plugins, controller_label)?;
        }
        for metric in CONTROLLER_COUNTERS {
            counter(&mut encoder, metric, &plugins, controller_label)?;
        }
        reconciles(&mut encoder, &plugins)?;
        let informers = self.shared.look(Hub::informers);
        for metric in INFORMER_GAUGES {
            metric.encode(&mut encoder, &informers)?;
        }
        self.watches(&mut encoder, &informers)
    }
}

fn gauge<L: EncodeLabelSet>(
    encoder: &mut DescriptorEncoder<'_>,
    metric: &PerPlugin,
    plugins: &[SeatStatus],
    label: fn(&str) -> L,
) -> Result<(), std::fmt::Error> {
    let value = ConstGauge::new(0i64);
    let mut family =
        encoder.encode_descriptor(metric.name, metric.help, None, value.metric_type())?;
    for plugin in plugins {
        let value = ConstGauge::new(i64::try_from((metric.value)(plugin)).unwrap_or(i64::MAX));
        value.encode(family.encode_family(&label(&plugin.name))?)?;
    }
    Ok(())
}

fn counter<L: EncodeLabelSet>(
    encoder: &mut DescriptorEncoder<'_>,
    metric: &PerPlugin,
    plugins: &[SeatStatus],
    label: fn(&str) -> L,
) -> Result<(), std::fmt::Error> {
    let value = ConstCounter::new(0u64);
    let mut family =
        encoder.encode_descriptor(metric.name, metric.help, None, value.metric_type())?;
    for plugin in plugins {
        let value = ConstCounter::new((metric.value)(plugin));
        value.encode(family.encode_family(&label(&plugin.name))?)?;
    }
    Ok(())
}

/// `controller_runtime_reconcile_total{controller,result}`, every result from zero.
fn reconciles(
    encoder: &mut DescriptorEncoder<'_>,
    plugins: &[SeatStatus],
) -> Result<(), std::fmt::Error> {
    let value = ConstCounter::new(0u64);
    let name = "controller_runtime_reconcile";
    let mut family = encoder.encode_descriptor(
        name,
        "Reconciles, by how they ended",
        None,
        value.metric_type(),
    )?;
    for plugin in plugins {
        let counts = &plugin.reconciles;
        for (result, count) in [
            ("success", counts.success),
            ("error", counts.error),
            ("requeue", 0),
            ("requeue_after", counts.requeue_after),
        ] {
            let labels = [("controller", plugin.name.as_str()), ("result", result)];
            ConstCounter::new(count).encode(family.encode_family(&labels)?)?;
        }
    }
    Ok(())
}

impl HubMetrics {
    /// Which informers are being followed.
    fn watches(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        informers: &[InformerStatus],
    ) -> Result<(), std::fmt::Error> {
        let troubles = self.troubles.lock().unwrap_or_else(PoisonError::into_inner);
        let metric = PerInformer {
            name: "pilothouse_watch_up",
            help: "1 while the list-watch of an informer works, 0 while it fails and its cache may be behind",
            value: &|informer| u64::from(!troubles.contains_key(&informer.source)),
        };
        metric.encode(encoder, informers)
    }
}

/// One number per informer.
struct PerInformer<'a> {
    name: &'static str,
    help: &'static str,
    value: &'a dyn Fn(&InformerStatus) -> u64,
}

const INFORMER_GAUGES: &[PerInformer<'_>] = &[
    PerInformer {
        name: "pilothouse_cached_objects",
        help: "Objects in the cache of an informer",
        value: &|informer| informer.objects as u64,
    },
    PerInformer {
        name: "pilothouse_cached_bytes",
        help: "Bytes of the objects in the cache of an informer, plugins' views included",
        value: &|informer| informer.bytes as u64,
    },
    PerInformer {
        name: "pilothouse_informer_users",
        help: "Plugins that use an informer",
        value: &|informer| informer.users.len() as u64,
    },
    PerInformer {
        name: "pilothouse_unreadable_objects",
        help: "Objects that are there and cannot be read",
        value: &|informer| informer.unreadable.len() as u64,
    },
];

impl PerInformer<'_> {
    fn encode(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        informers: &[InformerStatus],
    ) -> Result<(), std::fmt::Error> {
        let value = ConstGauge::new(0i64);
        let mut family =
            encoder.encode_descriptor(self.name, self.help, None, value.metric_type())?;
        for informer in informers {
            let value = ConstGauge::new(i64::try_from((self.value)(informer)).unwrap_or(i64::MAX));
            value.encode(family.encode_family(&InformerLabels::of(&informer.source))?)?;
        }
        Ok(())
    }
}

/// What an informer is of. Namespace and selector are empty where there are none.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct InformerLabels {
    group: String,
    version: String,
    kind: String,
    namespace: String,
    selector: String,
}

impl InformerLabels {
    fn of(source: &Source) -> Self {
        let labels = source.labels.to_string();
        let selectors = [
            labels.as_str(),
            source.fields.as_deref().unwrap_or_default(),
        ];
        let selectors = selectors
            .into_iter()
            .filter(|selector| !selector.is_empty());
        Self {
            group: source.kind.group.to_string(),
            version: source.kind.version.to_string(),
            kind: source.kind.kind.to_string(),
            namespace: source.namespace.as_deref().unwrap_or_default().to_owned(),
            selector: selectors.collect::<Vec<_>>().join(","),
        }
    }
}
