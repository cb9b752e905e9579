//! Counts Events that were not written. Such a failure stops nothing, so it is reported nowhere
//! else.

use std::collections::BTreeSet;

use parking_lot::{Mutex, MutexGuard};
use pilothouse_core::{ActionResult, Executed};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use tracing::warn;

#[derive(Clone, Debug, Hash, PartialEq, Eq, PartialOrd, Ord, EncodeLabelSet)]
struct Labels {
    controller: String,
    reason: &'static str,
}

/// See the module's documentation.
#[derive(Debug)]
pub struct Unwritten {
    counters: Family<Labels, Counter>,
    /// The label sets that have been logged.
    told: Mutex<BTreeSet<Labels>>,
}

impl Unwritten {
    pub fn new(registry: &mut Registry) -> Self {
        let this = Self {
            counters: Family::default(),
            told: Mutex::default(),
        };
        registry.register(
            "pilothouse_unwritten_events",
            "Events of a plugin that were not written",
            this.counters.clone(),
        );
        this
    }

    /// Counts the unwritten Events of a plan. Each Event is a write of its own, so a reason is
    /// logged once per plugin: it probably applies to all of them.
    pub fn note(&self, plugin: &str, executed: &Executed) {
        for result in &executed.unwritten {
            let labels = Labels {
                controller: plugin.to_owned(),
                reason: reason(result),
            };
            self.counters.get_or_create(&labels).inc();
            // An outage has its own log line.
            let is_outage = matches!(result, ActionResult::Unavailable(_));
            if !is_outage && self.told().insert(labels) {
                let error = result.error();
                warn!(
                    plugin,
                    error, "an Event was not written; more for the same reason are only counted"
                );
            }
        }
    }

    /// Starts a new plugin's counters at zero.
    pub fn add(&self, plugin: &str) {
        for reason in REASONS {
            let controller = plugin.to_owned();
            drop(self.counters.get_or_create(&Labels { controller, reason }));
        }
    }

    /// Removes the counters of a plugin that has gone.
    pub fn remove(&self, plugin: &str) {
        for reason in REASONS {
            let labels = Labels {
                controller: plugin.to_owned(),
                reason,
            };
            self.counters.remove(&labels);
            self.told().remove(&labels);
        }
    }

    fn told(&self) -> MutexGuard<'_, BTreeSet<Labels>> {
        self.told.lock()
    }
}

const REASONS: [&str; 7] = [
    "conflict",
    "not-found",
    "forbidden",
    "invalid",
    "busy",
    "unavailable",
    "failed",
];

/// One of [`REASONS`].
fn reason(result: &ActionResult) -> &'static str {
    match result {
        ActionResult::Conflict(_) | ActionResult::AlreadyExists(_) => "conflict",
        ActionResult::NotFound(_) => "not-found",
        ActionResult::Forbidden(_) => "forbidden",
        ActionResult::Invalid(_) => "invalid",
        ActionResult::Busy(..) => "busy",
        ActionResult::Unavailable(_) => "unavailable",
        _ => "failed",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_log::logged;

    fn executed(unwritten: &[ActionResult]) -> Executed {
        Executed {
            unwritten: unwritten.to_vec(),
            ..Executed::default()
        }
    }

    #[test]
    fn events_that_cannot_be_written_are_said_once_for_each_plugin_and_reason_and_all_are_counted()
    {
        let (log, _guard) = logged();
        let unwritten = Unwritten::new(&mut Registry::default());
        let forbidden = ActionResult::Forbidden("events are forbidden".into());
        let missing = ActionResult::NotFound("404 page not found".into());
        for _ in 0..50 {
            unwritten.note("a", &executed(&[forbidden.clone(), forbidden.clone()]));
        }
        unwritten.note("a", &executed(std::slice::from_ref(&missing)));
        unwritten.note("b", &executed(&[missing]));
        // In an outage all writes fail, which is logged elsewhere.
        let lost = ActionResult::Unavailable("connection refused".into());
        unwritten.note("a", &executed(&[lost]));
        let line = |plugin: &str, error: &str| {
            format!(
                " WARN an Event was not written; more for the same reason are only counted plugin={plugin:?} error={error:?}"
            )
        };
        let wanted = [
            line("a", "events are forbidden"),
            line("a", "404 page not found"),
            line("b", "404 page not found"),
        ];
        assert_eq!(log.lines(), wanted);
        let count = |reason| {
            let controller = "a".to_owned();
            unwritten
                .counters
                .get_or_create(&Labels { controller, reason })
                .get()
        };
        let counts = ["forbidden", "not-found", "unavailable"].map(count);
        assert_eq!(counts, [100, 1, 1]);
    }
}
