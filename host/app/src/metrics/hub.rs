//! What the hub knows, read when somebody asks: queues, reconciles, caches.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pilothouse_core::cache::KindCache;
use pilothouse_core::hub::{Hub, SeatStatus};
use pilothouse_core::key::Kind;
use pilothouse_core::queue::{LOW, NORMAL, Priority};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use super::informers::Informers;
use super::running::Running;
use super::{controller_label, queue_label};
use crate::shared::Shared;
use crate::watches::Troubles;

/// Distinct values of the label `priority`, per plugin (controller-runtime's `maxRecommendedUniquePriorities`).
const MAX_PRIORITIES: usize = 25;

/// What the others are called (controller-runtime's `priorityCardinalityExceededPlaceholder`).
const OTHER_PRIORITIES: &str = "exceeded_cardinality_limit";

/// What the hub itself knows.
pub struct HubMetrics {
    shared: Arc<Shared>,
    troubles: Troubles,
    running: Arc<Running>,
    informers: Arc<Informers>,
    /// Priorities that were seen, by plugin. A series that was there stays.
    priorities: Mutex<HashMap<String, BTreeSet<Priority>>>,
}

impl HubMetrics {
    pub fn new(
        shared: Arc<Shared>,
        troubles: Troubles,
        running: Arc<Running>,
        informers: Arc<Informers>,
    ) -> Self {
        Self {
            shared,
            troubles,
            running,
            informers,
            priorities: Mutex::default(),
        }
    }
}

impl std::fmt::Debug for HubMetrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("HubMetrics")
    }
}

/// Keys ready to run, by priority. The hub counts them together so far, and all but the first of a start are of the normal one.
fn depths(plugin: &SeatStatus) -> Vec<(Priority, usize)> {
    vec![(NORMAL, plugin.queued)]
}

/// The value of each series of one plugin's depth: of those seen before too, and of the two that the hub itself uses.
fn depth_series(
    seen: &mut BTreeSet<Priority>,
    depths: &[(Priority, usize)],
) -> Vec<(String, usize)> {
    seen.extend([NORMAL, LOW]);
    let mut others = None;
    for (priority, depth) in depths {
        if seen.len() < MAX_PRIORITIES {
            seen.insert(*priority);
        }
        if !seen.contains(priority) {
            *others.get_or_insert(0) += depth;
        }
    }
    let depth_of = |priority: &Priority| {
        let same = depths.iter().filter(|(have, _)| have == priority);
        same.map(|(_, depth)| depth).sum()
    };
    let series = seen
        .iter()
        .map(|priority| (priority.to_string(), depth_of(priority)));
    let others = others.map(|depth| (OTHER_PRIORITIES.to_owned(), depth));
    series.chain(others).collect()
}

/// One number per plugin.
struct PerPlugin {
    name: &'static str,
    help: &'static str,
    value: fn(&SeatStatus) -> u64,
}

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
        let plugins = self.shared.look(Hub::status);
        self.depth(&mut encoder, &plugins)?;
        self.unfinished(&mut encoder, &plugins)?;
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
        self.objects(&mut encoder)?;
        self.resource_versions(&mut encoder)?;
        self.watches(&mut encoder)
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
    /// `workqueue_depth{name,controller,priority}`.
    fn depth(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        plugins: &[SeatStatus],
    ) -> Result<(), std::fmt::Error> {
        let mut seen = self
            .priorities
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let value = ConstGauge::new(0i64);
        let (name, help) = ("workqueue_depth", "Keys ready to run, by priority");
        let mut family = encoder.encode_descriptor(name, help, None, value.metric_type())?;
        for plugin in plugins {
            let seen = seen.entry(plugin.name.clone()).or_default();
            for (priority, depth) in depth_series(seen, &depths(plugin)) {
                let name = plugin.name.as_str();
                let labels = [
                    ("name", name),
                    ("controller", name),
                    ("priority", &priority),
                ];
                let depth = i64::try_from(depth).unwrap_or(i64::MAX);
                ConstGauge::new(depth).encode(family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }

    /// For how long keys have been running, together and at most.
    fn unfinished(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        plugins: &[SeatStatus],
    ) -> Result<(), std::fmt::Error> {
        type Measure = fn(&[Duration]) -> Duration;
        let metrics: [(&str, &str, Measure); 2] = [
            (
                "workqueue_unfinished_work_seconds",
                "How long the running keys have been running, together",
                |ages| ages.iter().sum(),
            ),
            (
                "workqueue_longest_running_processor_seconds",
                "How long the key that runs longest has been running",
                |ages| ages.iter().max().copied().unwrap_or_default(),
            ),
        ];
        for (name, help, measure) in metrics {
            let value = ConstGauge::new(0.0f64);
            let mut family = encoder.encode_descriptor(name, help, None, value.metric_type())?;
            for plugin in plugins {
                let seconds = measure(&self.running.ages(&plugin.name)).as_secs_f64();
                let labels = queue_label(&plugin.name);
                ConstGauge::new(seconds).encode(family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }

    /// `informer_store_resource_version`, of the kinds whose path is known.
    fn resource_versions(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
    ) -> Result<(), std::fmt::Error> {
        let snapshot = self.shared.look(|hub| hub.snapshot().clone());
        let value = ConstGauge::new(0i64);
        let name = "informer_store_resource_version";
        let help = "The last 15 digits of the resourceVersion that the cache has reached";
        let mut family = encoder.encode_descriptor(name, help, None, value.metric_type())?;
        for cache in snapshot.kinds.iter() {
            if let Some(labels) = self.informers.labels(cache.kind()) {
                let version = last_digits(cache.resource_version().as_str());
                ConstGauge::new(version).encode(family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }

    /// Which kinds are being followed.
    fn watches(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let snapshot = self.shared.look(|hub| hub.snapshot().clone());
        let troubles = self.troubles.lock().unwrap_or_else(PoisonError::into_inner);
        let value = ConstGauge::new(0i64);
        let name = "pilothouse_watch_up";
        let help =
            "1 while the list-watch of a kind works, 0 while it fails and its cache may be behind";
        let mut family = encoder.encode_descriptor(name, help, None, value.metric_type())?;
        for kind in snapshot.kinds.iter().map(KindCache::kind) {
            let is_up = i64::from(!troubles.contains_key(kind));
            ConstGauge::new(is_up).encode(family.encode_family(&kind_labels(kind))?)?;
        }
        Ok(())
    }

    /// What the shared caches hold.
    fn objects(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let snapshot = self.shared.look(|hub| hub.snapshot().clone());
        let value = ConstGauge::new(0i64);
        let name = "pilothouse_cached_objects";
        let mut family = encoder.encode_descriptor(
            name,
            "Objects in the cache of a kind",
            None,
            value.metric_type(),
        )?;
        for cache in snapshot.kinds.iter() {
            let kind = cache.kind();
            let count = i64::try_from(cache.len()).unwrap_or(i64::MAX);
            ConstGauge::new(count).encode(family.encode_family(&kind_labels(kind))?)?;
        }
        Ok(())
    }
}

/// 15 digits are exact in a float of 64 bits (client-go's `parseRVForMetricsWithTruncation`).
fn last_digits(version: &str) -> i64 {
    let start = version.len().saturating_sub(15);
    version
        .get(start..)
        .and_then(|digits| digits.parse().ok())
        .unwrap_or(0)
}

fn kind_labels(kind: &Kind) -> [(&'static str, &str); 3] {
    [
        ("group", &*kind.group),
        ("version", &*kind.version),
        ("kind", &*kind.kind),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plugin_has_at_most_25_priorities_and_one_for_the_others() {
        let mut seen = BTreeSet::new();
        let none = [(LOW.to_string(), 0), (NORMAL.to_string(), 0)];
        assert_eq!(depth_series(&mut seen, &[]), none, "both from the start");
        let many: Vec<(Priority, usize)> = (1..=23).map(|priority| (priority, 1)).collect();
        assert_eq!(depth_series(&mut seen, &many).len(), 25);
        let series = depth_series(&mut seen, &[(5, 7), (100, 2), (101, 3)]);
        assert_eq!(series.len(), 26);
        assert!(series.contains(&("5".to_owned(), 7)), "{series:?}");
        assert!(series.contains(&("6".to_owned(), 0)), "{series:?}");
        assert_eq!(series[25], (OTHER_PRIORITIES.to_owned(), 5));
    }

    #[test]
    fn a_resource_version_is_shown_by_its_last_15_digits() {
        assert_eq!(last_digits(""), 0);
        assert_eq!(last_digits("42"), 42);
        assert_eq!(last_digits("1234567890123456789"), 567_890_123_456_789);
        assert_eq!(last_digits("not a number"), 0);
    }
}
