//! What the hub knows of each plugin: its queue and its reconciles. Read at each scrape.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use pilothouse_core::{ControllerStatus, Priority};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use super::depth::depth_series;
use super::{controller_label, queue_label};
use crate::shared::Shared;

/// The metrics of queues and reconciles.
pub struct HubMetrics {
    shared: Arc<Shared>,
    /// The priorities seen so far, by plugin. A series stays for as long as its plugin does.
    priorities: Mutex<HashMap<String, BTreeSet<Priority>>>,
}

impl HubMetrics {
    pub fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            priorities: Mutex::default(),
        }
    }
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
    value: fn(&ControllerStatus) -> u64,
}

const QUEUE_COUNTERS: &[PerPlugin] = &[
    PerPlugin {
        name: "workqueue_adds",
        help: "Keys that became ready to run",
        value: |plugin| plugin.keys.queue.adds,
    },
    PerPlugin {
        name: "workqueue_retries",
        help: "Retries after a failure",
        value: |plugin| plugin.keys.queue.retries,
    },
];

const CONTROLLER_GAUGES: &[PerPlugin] = &[
    PerPlugin {
        name: "controller_runtime_active_workers",
        help: "Keys running",
        value: |plugin| plugin.keys.running as u64,
    },
    PerPlugin {
        name: "controller_runtime_max_concurrent_reconciles",
        help: "Keys that may run at once",
        value: |plugin| plugin.concurrency as u64,
    },
    PerPlugin {
        name: "pilothouse_delayed_keys",
        help: "Keys waiting for their time",
        value: |plugin| plugin.keys.delayed as u64,
    },
    PerPlugin {
        name: "pilothouse_failing_keys",
        help: "Keys that failed when they last ran",
        value: |plugin| plugin.keys.failing as u64,
    },
    PerPlugin {
        name: "pilothouse_broken_keys",
        help: "Keys that fail each time they run, and that changes bring back only now and then",
        value: |plugin| plugin.keys.broken_keys as u64,
    },
    PerPlugin {
        name: "pilothouse_looping_keys",
        help: "Keys that nothing but their own writes keeps running, and that are slowed down for it",
        value: |plugin| plugin.keys.looping_keys as u64,
    },
    PerPlugin {
        name: "pilothouse_coarse_keys",
        help: "Keys whose reads are more than is remembered, and that any change of what they read wakes",
        value: |plugin| plugin.keys.coarse as u64,
    },
    PerPlugin {
        name: "pilothouse_plugin_cached_bytes",
        help: "The plugin's part of the caches, each shared evenly among its users",
        value: |plugin| plugin.cached_bytes as u64,
    },
    PerPlugin {
        name: "pilothouse_plugin_paused",
        help: "1 while the plugin runs nothing because it is paused",
        value: |plugin| u64::from(plugin.is_paused),
    },
    PerPlugin {
        name: "pilothouse_plugin_quarantined",
        help: "1 while the plugin runs nothing because its version is not fit to",
        value: |plugin| u64::from(plugin.quarantine.is_some()),
    },
    PerPlugin {
        name: "pilothouse_recorded_reads",
        help: "Recorded reads, counted once per key",
        value: |plugin| plugin.keys.recorded_reads as u64,
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
    PerPlugin {
        name: "pilothouse_refused_outcomes",
        help: "Outcomes refused as a whole: an action not granted, or not valid",
        value: |plugin| plugin.reconciles.refused,
    },
    PerPlugin {
        name: "pilothouse_contradicted_reconciles",
        help: "Reconciles that wrote nothing, because the API server contradicted what they had seen",
        value: |plugin| plugin.reconciles.contradicted,
    },
    PerPlugin {
        name: "pilothouse_denied_reads",
        help: "Reconciles that read what they may not",
        value: |plugin| plugin.reconciles.denied_reads,
    },
    PerPlugin {
        name: "pilothouse_self_triggered_reconciles",
        help: "Reconciles that nothing but what the key had written before has caused",
        value: |plugin| plugin.reconciles.self_triggered,
    },
];

impl Collector for HubMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let plugins = self.shared.status();
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
        reconciles(&mut encoder, &plugins)
    }
}

fn gauge<L: EncodeLabelSet>(
    encoder: &mut DescriptorEncoder<'_>,
    metric: &PerPlugin,
    plugins: &[ControllerStatus],
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
    plugins: &[ControllerStatus],
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

/// `controller_runtime_reconcile_total{controller,result}`, with every result from zero.
fn reconciles(
    encoder: &mut DescriptorEncoder<'_>,
    plugins: &[ControllerStatus],
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
        plugins: &[ControllerStatus],
    ) -> Result<(), std::fmt::Error> {
        let value = ConstGauge::new(0i64);
        let (name, help) = ("workqueue_depth", "Keys ready to run, by priority");
        let mut family = encoder.encode_descriptor(name, help, None, value.metric_type())?;
        for (plugin, priority, depth) in self.depths(plugins) {
            let labels = [
                ("name", plugin),
                ("controller", plugin),
                ("priority", &priority),
            ];
            let depth = i64::try_from(depth).unwrap_or(i64::MAX);
            ConstGauge::new(depth).encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }

    /// The series of each plugin. Forgets the priorities of plugins that have gone.
    fn depths<'a>(&self, plugins: &'a [ControllerStatus]) -> Vec<(&'a str, String, usize)> {
        let mut seen = self.priorities.lock();
        seen.retain(|name, _| plugins.iter().any(|plugin| plugin.name == *name));
        let mut depths = Vec::new();
        for plugin in plugins {
            let name = plugin.name.as_str();
            let seen = seen.entry(plugin.name.clone()).or_default();
            let series = depth_series(seen, &plugin.keys.depth).into_iter();
            depths.extend(series.map(|(priority, depth)| (name, priority, depth)));
        }
        depths
    }

    /// For how long keys have been running: the sum and the maximum.
    fn unfinished(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        plugins: &[ControllerStatus],
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
                let seconds = measure(&plugin.keys.running_for).as_secs_f64();
                let labels = queue_label(&plugin.name);
                ConstGauge::new(seconds).encode(family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use pilothouse_core::{
        ControllerSettings, Kind, Limits, Manifest, Outcome, Plugin, ReadDeclaration, Reader,
        Request, RunError,
    };

    use super::*;
    use crate::shared::Cause;

    struct Idle(Manifest);

    impl Plugin for Idle {
        fn manifest(&self) -> &Manifest {
            &self.0
        }

        fn reconcile(&self, _: &Request, _: &mut Reader) -> Result<Outcome, RunError> {
            Ok(Outcome::default())
        }
    }

    fn idle(name: &str) -> Arc<Idle> {
        let pods = ReadDeclaration::new(Kind::new("", "v1", "Pod"), vec![]);
        Arc::new(Idle(Manifest {
            name: name.into(),
            version: "1.0.0".into(),
            reconciles: vec![],
            reads: vec![pods],
            indexes: vec![],
            writes: vec![],
            limits: Limits::default(),
            config_schema: None,
            optional: BTreeSet::new(),
        }))
    }

    #[test]
    fn nothing_is_kept_of_a_plugin_that_has_gone() {
        let shared = Arc::new(Shared::new(1));
        let metrics = HubMetrics::new(shared.clone());
        for number in 0..10 {
            let (plugin, settings) = (
                idle(&format!("plugin-{number}")),
                ControllerSettings::default(),
            );
            let joined = shared.change(Cause::Plugins, |hub, now| hub.join(plugin, &settings, now));
            let id = joined.expect("nobody has its name");
            assert_eq!(metrics.depths(&shared.status()).len(), 2);
            drop(shared.change(Cause::Plugins, |hub, _| hub.leave(id)));
        }
        assert_eq!(metrics.depths(&shared.status()), []);
        assert!(metrics.priorities.lock().is_empty());
    }
}
