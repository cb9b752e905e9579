//! Counts swaps, rollbacks and quarantines of plugin versions.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use super::{ControllerLabel, controller_label};

type Counters = Family<ControllerLabel, Counter>;

/// See the module's documentation.
#[derive(Debug)]
pub struct LifecycleMetrics {
    swaps: Counters,
    rollbacks: Counters,
    quarantines: Counters,
}

impl LifecycleMetrics {
    pub fn new(registry: &mut Registry) -> Self {
        let lives = Self {
            swaps: Family::default(),
            rollbacks: Family::default(),
            quarantines: Family::default(),
        };
        for (name, help, family) in [
            (
                "pilothouse_plugin_swaps",
                "Versions that took the place of another, rollbacks among them",
                &lives.swaps,
            ),
            (
                "pilothouse_plugin_rollbacks",
                "Versions that were replaced by the one before because they broke",
                &lives.rollbacks,
            ),
            (
                "pilothouse_plugin_quarantines",
                "Times that a version was not fit to run",
                &lives.quarantines,
            ),
        ] {
            registry.register(name, help, family.clone());
        }
        lives
    }

    fn all(&self) -> [&Counters; 3] {
        [&self.swaps, &self.rollbacks, &self.quarantines]
    }

    /// Starts a new plugin's series at zero.
    pub fn add(&self, plugin: &str) {
        for family in self.all() {
            drop(family.get_or_create(&controller_label(plugin)));
        }
    }

    pub fn remove(&self, plugin: &str) {
        for family in self.all() {
            family.remove(&controller_label(plugin));
        }
    }

    pub fn swapped(&self, plugin: &str) {
        self.swaps.get_or_create(&controller_label(plugin)).inc();
    }

    pub fn rolled_back(&self, plugin: &str) {
        self.rollbacks
            .get_or_create(&controller_label(plugin))
            .inc();
    }

    pub fn quarantined(&self, plugin: &str) {
        self.quarantines
            .get_or_create(&controller_label(plugin))
            .inc();
    }
}
