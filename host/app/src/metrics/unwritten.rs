//! Counts Events that were not written. Such a failure stops nothing, so it is reported nowhere
//! else.

use std::collections::BTreeSet;

use parking_lot::{Mutex, MutexGuard};
use pilothouse_core::ActionResult;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use tracing::warn;

use crate::events::MAX_QUEUED;

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

    /// Counts an Event if it was not written. Each Event is a write of its own, so a reason is
    /// logged once per plugin: it probably applies to all of them.
    pub fn note(&self, plugin: &str, result: &ActionResult) {
        let Some(error) = result.error() else {
            return;
        };
        let is_new = self.count(plugin, reason(result), 1);
        // An outage has its own log line.
        if is_new && !matches!(result, ActionResult::Unavailable(_)) {
            warn!(
                plugin,
                error, "an Event was not written; more for the same reason are only counted"
            );
        }
    }

    /// Counts Events that were dropped because too many of the plugin's wait to be written.
    pub fn dropped(&self, plugin: &str, events: usize) {
        if events > 0 && self.count(plugin, QUEUE_FULL, events) {
            warn!(
                plugin,
                events,
                "Events were dropped: {MAX_QUEUED} of the plugin wait to be written; more are only counted"
            );
        }
    }

    /// Returns whether it is the first time for this plugin. The last Events of a plugin may be
    /// written after it has gone, and then it has no counters any more.
    fn count(&self, plugin: &str, reason: &'static str, events: usize) -> bool {
        let labels = Labels {
            controller: plugin.to_owned(),
            reason,
        };
        let Some(counter) = self.counters.get(&labels) else {
            return false;
        };
        counter.inc_by(events as u64);
        drop(counter);
        self.told().insert(labels)
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

/// Too many Events wait.
const QUEUE_FULL: &str = "queue-full";

const REASONS: [&str; 8] = [
    "conflict",
    "not-found",
    "forbidden",
    "invalid",
    "busy",
    "unavailable",
    "failed",
    QUEUE_FULL,
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

    #[test]
    fn events_that_cannot_be_written_are_said_once_for_each_plugin_and_reason_and_all_are_counted()
    {
        let (log, _guard) = logged();
        let unwritten = Unwritten::new(&mut Registry::default());
        let forbidden = ActionResult::Forbidden("events are forbidden".into());
        let missing = ActionResult::NotFound("404 page not found".into());
        unwritten.add("a");
        unwritten.add("b");
        for _ in 0..100 {
            unwritten.note("a", &forbidden);
        }
        unwritten.note("a", &missing);
        unwritten.note("b", &missing);
        unwritten.note("a", &ActionResult::Done(None));
        unwritten.dropped("a", 0);
        unwritten.dropped("a", 3);
        unwritten.dropped("a", 4);
        // The last Events of a plugin that has gone.
        unwritten.note("gone", &missing);
        // In an outage all writes fail, which is logged elsewhere.
        let lost = ActionResult::Unavailable("connection refused".into());
        unwritten.note("a", &lost);
        let line = |plugin: &str, error: &str| {
            format!(
                " WARN an Event was not written; more for the same reason are only counted plugin={plugin:?} error={error:?}"
            )
        };
        let wanted = [
            line("a", "events are forbidden"),
            line("a", "404 page not found"),
            line("b", "404 page not found"),
            " WARN Events were dropped: 1000 of the plugin wait to be written; more are only counted plugin=\"a\" events=3".to_owned(),
        ];
        assert_eq!(log.lines(), wanted);
        let counter = |controller: &str, reason| {
            let controller = controller.to_owned();
            let counter = unwritten.counters.get(&Labels { controller, reason });
            counter.map(|counter| counter.get())
        };
        let reasons = [
            "forbidden",
            "not-found",
            "unavailable",
            "failed",
            QUEUE_FULL,
        ];
        let counts = reasons.map(|reason| counter("a", reason).unwrap());
        assert_eq!(counts, [100, 1, 1, 0, 7]);
        assert_eq!(counter("gone", "not-found"), None);
    }
}
