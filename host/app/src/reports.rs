//! What the host itself logs about plugins. Guests and API objects influence these texts, so their
//! number is limited for each plugin: no plugin can fill a disk or drown the lines about others.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use pilothouse_core::PluginId;
use pilothouse_core::text::cut;
use pilothouse_wasm::LogBudget;
use tracing::warn;

/// The most distinct denied reads and warnings per plugin; a guest may make up kinds.
const TOLD: usize = 100;
/// The length in bytes to which one of them is cut.
const TEXT_BYTES: usize = 2 << 10;
/// Failed reconciles per second that get a line each; ten times as many in a burst.
const FAILURES: u32 = 20;
/// The number of plugins that are remembered. The oldest are forgotten first.
const PLUGINS: usize = 1_000;

/// What has been logged about each plugin.
#[derive(Default)]
pub struct Reports {
    plugins: Mutex<BTreeMap<PluginId, Report>>,
    hashes: RandomState,
}

struct Report {
    /// The hashes of texts that have been logged.
    told: BTreeSet<u64>,
    failures: Arc<LogBudget>,
}

impl Reports {
    /// The text to log, if it has not been logged for the plugin before.
    pub fn news(&self, plugin: PluginId, name: &str, text: &str) -> Option<String> {
        let hash = self.hashes.hash_one(text);
        let mut plugins = self.of(plugin, name);
        let told = &mut plugins.get_mut(&plugin)?.told;
        (told.len() < TOLD && told.insert(hash)).then(|| cut(text, TEXT_BYTES))
    }

    /// Returns whether another failed reconcile gets a log line of its own. Logs from time to time
    /// how many did not.
    pub fn takes_failure(&self, plugin: PluginId, name: &str) -> bool {
        let Some(budget) = self
            .of(plugin, name)
            .get(&plugin)
            .map(|report| report.failures.clone())
        else {
            return true;
        };
        let is_taken = budget.take(0);
        if let Some(dropped) = budget.report() {
            warn!(
                plugin = name,
                dropped, "too many failed reconciles for the log; lines dropped"
            );
        }
        is_taken
    }

    fn of(&self, plugin: PluginId, name: &str) -> MutexGuard<'_, BTreeMap<PluginId, Report>> {
        let mut plugins = self.plugins.lock();
        plugins.entry(plugin).or_insert_with(|| Report {
            told: BTreeSet::new(),
            failures: Arc::new(LogBudget::new(name.into(), FAILURES)),
        });
        if plugins.len() > PLUGINS {
            plugins.pop_first();
        }
        plugins
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_plugin_that_says_too_much_keeps_no_other_from_being_heard() {
        let reports = Reports::default();
        let heard = |plugin, text: &str| reports.news(plugin, "p", text).is_some();
        let said = (0..1_000).filter(|number| heard(1, &number.to_string()));
        assert_eq!(said.count(), TOLD);
        assert!(heard(2, "0") && !heard(2, "0"));
    }

    #[test]
    fn what_is_said_is_cut() {
        let reports = Reports::default();
        let said = reports.news(1, "p", &"a".repeat(4 << 20)).unwrap();
        assert!(said.len() < TEXT_BYTES + 10);
    }

    #[test]
    fn failures_have_a_line_each_until_they_are_too_many() {
        let reports = Reports::default();
        let taken = |plugin| {
            (0..10_000)
                .filter(|_| reports.takes_failure(plugin, "p"))
                .count()
        };
        let burst = 10 * FAILURES as usize;
        assert!((burst..2 * burst).contains(&taken(1)));
        assert!(taken(2) >= burst);
    }

    #[test]
    fn plugins_that_came_long_ago_are_forgotten() {
        let reports = Reports::default();
        for plugin in 0..2 * PLUGINS as u64 {
            drop(reports.news(plugin, "p", "text"));
        }
        assert_eq!(reports.plugins.lock().len(), PLUGINS);
    }
}
