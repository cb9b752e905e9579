//! What the log is told of plugins by the host itself. Guests and API objects choose what there is to tell, so it is
//! bounded for each plugin: nobody can fill a disk with it, or keep the log from hearing of others.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pilothouse_core::hub::PluginId;
use pilothouse_core::text::cut;
use pilothouse_wasm::LogBudget;
use tracing::warn;

/// Denied reads and warnings that are told apart: a guest may make up kinds.
const TOLD: usize = 100;
/// Bytes of one of them.
const TEXT_BYTES: usize = 2 << 10;
/// Failed runs a second of which there is a line each; ten times as many at once.
const FAILURES: u32 = 20;
/// Plugins that are remembered. Those that came first are forgotten first.
const PLUGINS: usize = 1_000;

/// What has been told of each plugin.
#[derive(Default)]
pub struct Reports {
    plugins: Mutex<BTreeMap<PluginId, Report>>,
    hashes: RandomState,
}

struct Report {
    /// The hashes of what has been said once.
    told: BTreeSet<u64>,
    failures: Arc<LogBudget>,
}

impl Reports {
    /// What is to be said of this, if it has not been said of the plugin before.
    pub fn news(&self, plugin: PluginId, name: &str, text: &str) -> Option<String> {
        let hash = self.hashes.hash_one(text);
        let mut plugins = self.of(plugin, name);
        let told = &mut plugins.get_mut(&plugin)?.told;
        (told.len() < TOLD && told.insert(hash)).then(|| cut(text, TEXT_BYTES))
    }

    /// Whether another failed run is to have a line of its own. Says now and then how many had none.
    pub fn takes_failure(&self, plugin: PluginId, name: &str) -> bool {
        let Some(budget) = self
            .of(plugin, name)
            .get(&plugin)
            .map(|report| report.failures.clone())
        else {
            return true;
        };
        let is_taken = budget.take();
        if let Some(dropped) = budget.report() {
            warn!(
                plugin = name,
                dropped, "more runs fail than the log is told of; lines dropped"
            );
        }
        is_taken
    }

    fn of(&self, plugin: PluginId, name: &str) -> MutexGuard<'_, BTreeMap<PluginId, Report>> {
        let mut plugins = self.plugins.lock().unwrap_or_else(PoisonError::into_inner);
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
        assert_eq!(reports.plugins.lock().unwrap().len(), PLUGINS);
    }
}
