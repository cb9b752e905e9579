//! Measures for how long the hub is held, and for what. While it is held no plugin can take a key
//! and no change is delivered, so long holds must be traceable to their cause.
//!
//! Nothing here needs the hub's lock: [`Holds::current`] answers while somebody else holds it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use pilothouse_core::Time;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;
use tracing::warn;

/// A longer hold is logged.
const LONG: Duration = Duration::from_secs(1);
/// At most one line is logged in this time.
const BETWEEN_LINES: Duration = Duration::from_secs(10);

/// What the hub is held for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// To store a change from the cluster, and queue the keys that it concerns.
    Change,
    /// To find the next key to run.
    Reconcile,
    /// To record what a reconcile has read.
    Reads,
    /// To end a reconcile.
    End,
    /// Because a plugin comes, goes, or gets other settings.
    Plugins,
    /// To report the state of the plugins.
    Status,
}

impl Cause {
    const ALL: [Self; 6] = [
        Self::Change,
        Self::Reconcile,
        Self::Reads,
        Self::End,
        Self::Plugins,
        Self::Status,
    ];

    fn as_str(self) -> &'static str {
        match self {
            Self::Change => "change",
            Self::Reconcile => "reconcile",
            Self::Reads => "reads",
            Self::End => "end",
            Self::Plugins => "plugins",
            Self::Status => "status",
        }
    }

    /// The same cause, attributed to a plugin: how long the hub is held depends on how much the
    /// plugin has read and written.
    pub fn of(self, plugin: &str) -> Holder<'_> {
        Holder {
            cause: self,
            plugin: Some(plugin),
        }
    }
}

impl std::fmt::Display for Cause {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What the hub is held for, and for which plugin, if for one.
#[derive(Clone, Copy, Debug)]
pub struct Holder<'a> {
    cause: Cause,
    plugin: Option<&'a str>,
}

impl From<Cause> for Holder<'_> {
    fn from(cause: Cause) -> Self {
        Self {
            cause,
            plugin: None,
        }
    }
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct CauseLabel {
    cause: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ControllerLabel {
    controller: String,
}

type Seconds = Counter<f64, AtomicU64>;

/// See the module's documentation.
#[derive(Debug)]
pub struct Holds {
    /// By [`Cause`], in the order of [`Cause::ALL`].
    times: [Histogram; Cause::ALL.len()],
    of_causes: Family<CauseLabel, Histogram, fn() -> Histogram>,
    of_plugins: Family<ControllerLabel, Seconds>,
    /// Zero while the hub is free. Otherwise the time at which the hold began, in microseconds,
    /// shifted left by three bits, plus the cause's index in [`Cause::ALL`].
    current: AtomicU64,
    told: Mutex<Told>,
}

/// When the last line was logged.
#[derive(Debug, Default)]
struct Told {
    at: Option<Time>,
    /// Long holds since then that were not logged.
    others: u64,
}

impl Told {
    /// If another line may be logged now, returns how many holds were not logged since the last
    /// one.
    fn next(&mut self, now: Time) -> Option<u64> {
        if self.at.is_some_and(|at| now < at + BETWEEN_LINES) {
            self.others += 1;
            return None;
        }
        self.at = Some(now);
        Some(std::mem::take(&mut self.others))
    }
}

/// Buckets from a microsecond to ten seconds.
fn histogram() -> Histogram {
    Histogram::new(exponential_buckets(1e-6, 10.0, 8))
}

impl Default for Holds {
    fn default() -> Self {
        let of_causes = Family::new_with_constructor(histogram as fn() -> Histogram);
        let times = Cause::ALL.map(|cause| {
            let cause = cause.as_str();
            of_causes.get_or_create_owned(&CauseLabel { cause })
        });
        Self {
            times,
            of_causes,
            of_plugins: Family::default(),
            current: AtomicU64::new(0),
            told: Mutex::default(),
        }
    }
}

impl Holds {
    pub fn register(&self, registry: &mut Registry) {
        registry.register(
            "pilothouse_hub_held_seconds",
            "How long the hub was held at a time, while nobody else got a turn",
            self.of_causes.clone(),
        );
        registry.register(
            "pilothouse_plugin_hub_held_seconds",
            "How long the hub was held for a plugin's own turns, together",
            self.of_plugins.clone(),
        );
    }

    /// Starts a new plugin's series at zero.
    pub fn add(&self, plugin: &str) {
        drop(self.of_plugins.get_or_create(&controller(plugin)));
    }

    /// Removes the series of a plugin that has gone.
    pub fn remove(&self, plugin: &str) {
        self.of_plugins.remove(&controller(plugin));
    }

    /// Records that the hub is held from now on.
    pub(super) fn begin(&self, holder: Holder<'_>, now: Time) {
        let micros = u64::try_from(now.as_micros()).unwrap_or(u64::MAX >> 3);
        let mark = (micros.max(1) << 3) | holder.cause as u64;
        self.current.store(mark, Ordering::Relaxed);
    }

    /// Records that the hub is free again. Must be called while it is still locked; otherwise it
    /// could overwrite the next holder's mark.
    pub(super) fn end(&self) {
        self.current.store(0, Ordering::Relaxed);
    }

    /// What the hub is held for, and since when, if it is held.
    pub(super) fn current(&self) -> Option<(Cause, Time)> {
        let mark = self.current.load(Ordering::Relaxed);
        let place = usize::try_from(mark & 7).ok()?;
        let cause = Cause::ALL.get(place).filter(|_| mark != 0)?;
        Some((*cause, Duration::from_micros(mark >> 3)))
    }

    /// Counts a hold that took `time` and has just ended.
    pub(super) fn note(&self, holder: Holder<'_>, time: Duration, now: Time) {
        let Holder { cause, plugin } = holder;
        self.times[cause as usize].observe(time.as_secs_f64());
        // A plugin that has gone has no series any more.
        let seconds = plugin.and_then(|plugin| self.of_plugins.get(&controller(plugin)));
        if let Some(seconds) = seconds {
            seconds.inc_by(time.as_secs_f64());
        }
        if time < LONG {
            return;
        }
        let mut told = self.told.lock();
        if let Some(others) = told.next(now) {
            let held_ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
            warn!(%cause, plugin, held_ms, others, "the hub was held for long; no plugin got a turn meanwhile");
        }
    }
}

fn controller(plugin: &str) -> ControllerLabel {
    let controller = plugin.to_owned();
    ControllerLabel { controller }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_log::logged;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn who_holds_the_hub_is_known_while_it_is_held() {
        let holds = Holds::default();
        assert_eq!(holds.current(), None);
        for cause in Cause::ALL {
            holds.begin(cause.into(), 7 * SECOND);
            assert_eq!(holds.current(), Some((cause, 7 * SECOND)));
        }
        holds.begin(Cause::Change.into(), Duration::ZERO);
        assert!(holds.current().is_some(), "at the very start too");
        holds.end();
        assert_eq!(holds.current(), None);
    }

    #[test]
    fn holds_are_counted_by_cause_and_plugin() {
        let holds = Holds::default();
        let mut registry = Registry::default();
        holds.register(&mut registry);
        holds.add("a");
        holds.note(Cause::End.of("a"), SECOND / 2, SECOND);
        holds.note(Cause::End.of("gone"), SECOND / 4, SECOND);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        for line in [
            "pilothouse_hub_held_seconds_sum{cause=\"end\"} 0.75",
            "pilothouse_hub_held_seconds_count{cause=\"reconcile\"} 0",
            "pilothouse_plugin_hub_held_seconds_total{controller=\"a\"} 0.5",
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
        assert!(!text.contains("gone"), "{text}");
        holds.remove("a");
        text.clear();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        assert!(!text.contains("controller"), "{text}");
    }

    #[test]
    fn long_holds_are_told_now_and_then() {
        let mut told = Told::default();
        assert_eq!(told.next(3 * SECOND), Some(0));
        assert_eq!(told.next(4 * SECOND), None);
        assert_eq!(told.next(12 * SECOND), None);
        assert_eq!(told.next(13 * SECOND), Some(2));
    }

    #[test]
    fn a_hold_of_more_than_a_second_is_told_in_the_log() {
        let (log, _guard) = logged();
        let holds = Holds::default();
        holds.note(Cause::Reconcile.into(), SECOND / 2, SECOND);
        holds.note(Cause::Reads.of("a"), 2 * SECOND, 3 * SECOND);
        holds.note(Cause::Change.into(), 2 * SECOND, 6 * SECOND);
        let lines = log.lines();
        assert_eq!(lines.len(), 1, "{lines:?}");
        for word in ["cause=reads", "plugin=\"a\"", "held_ms=2000"] {
            assert!(lines[0].contains(word), "{lines:?}");
        }
    }
}
