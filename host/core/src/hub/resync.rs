//! When all subjects of a plugin are reconciled again although nothing has changed.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use crate::queue::Time;

/// Minimum period (client-go's `minimumResyncPeriod`).
const MIN_PERIOD: Duration = Duration::from_secs(1);

/// Schedules one plugin's resyncs. The interval between two resyncs is drawn anew each time,
/// between one and two periods, so that plugins do not resync together (kube-controller-manager's
/// rule for `--min-resync-period`). The draw is a hash, so a plugin resyncs at the same times in
/// every run of the host.
#[derive(Debug)]
pub(super) struct Resync {
    period: Duration,
    seed: u64,
    due: Time,
}

impl Resync {
    pub(super) fn new(period: Duration, plugin: &str, now: Time) -> Self {
        let mut resync = Self {
            period: period.max(MIN_PERIOD),
            seed: hash(plugin),
            due: now,
        };
        resync.schedule(now);
        resync
    }

    pub(super) fn due(&self) -> Time {
        self.due
    }

    /// What was due is not done: the next one comes in its time.
    pub(super) fn skip(&mut self, now: Time) {
        if self.due <= now {
            self.schedule(now);
        }
    }

    /// Returns whether a resync is due. If so, the next one is scheduled.
    pub(super) fn is_due(&mut self, now: Time) -> bool {
        let is_due = self.due <= now;
        if is_due {
            self.schedule(now);
        }
        is_due
    }

    fn schedule(&mut self, now: Time) {
        self.seed = hash(&self.seed);
        // The upper half of the bits, as a fraction.
        let extra = f64::from((self.seed >> 32) as u32) / f64::from(u32::MAX);
        self.due = now + self.period + self.period.mul_f64(extra);
    }
}

fn hash(of: &(impl Hash + ?Sized)) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_resync_comes_after_one_to_two_periods() {
        let period = Duration::from_secs(60);
        let mut resync = Resync::new(period, "a", Time::ZERO);
        let mut delays = Vec::new();
        for _ in 0..100 {
            let now = resync.due();
            assert!(!resync.is_due(now - Duration::from_millis(1)));
            assert!(resync.is_due(now));
            delays.push(resync.due() - now);
        }
        assert!(
            delays
                .iter()
                .all(|delay| (period..=period * 2).contains(delay))
        );
        delays.sort_unstable();
        delays.dedup();
        assert!(delays.len() > 90, "they differ");
    }

    #[test]
    fn no_period_is_shorter_than_a_second() {
        let resync = Resync::new(Duration::from_millis(1), "a", Time::ZERO);
        assert!(resync.due() >= Duration::from_secs(1));
    }
}
