//! Decides how long to wait before each request, and how long a watch is to last. Counts failures;
//! what they mean for the position is decided elsewhere.

use std::time::Duration;

use pilothouse_core::Jitter;

use super::failure_class::FailureClass;
use super::step::NextRequest;
use crate::watch::settings::WatchSettings;

/// A watch that lasted this long is unrelated to the failures before it, and resets their count.
/// Less than the duration of a quiet kind's watch.
const HEALTHY: Duration = Duration::from_secs(5);

/// Least time from one attempt's start to the next, except where an attempt follows a failure at
/// once.
pub(super) const PACE: Duration = Duration::from_secs(1);

/// Longest `Retry-After` that is obeyed.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(30);

/// Maximum number of attempts without a delay after a failure. No useful chain is longer: after an
/// expired stream, a stream of the newest state may be tried, then a list, then an unpaged list.
const MAX_IMMEDIATE: u32 = 4;

/// The delays of one list-watch.
#[derive(Debug)]
pub(super) struct RequestPacing {
    settings: WatchSettings,
    jitter: Jitter,
    /// Failures since the last watch that lasted.
    failures: u32,
    /// Attempts without a delay after a failure, since the last watch that lasted.
    immediate: u32,
}

impl RequestPacing {
    pub(super) fn new(settings: WatchSettings, seed: u64) -> Self {
        Self {
            settings,
            jitter: Jitter::new(seed),
            failures: 0,
            immediate: 0,
        }
    }

    /// Random delay before the first request.
    pub(super) fn start_delay(&mut self) -> Duration {
        self.settings.start_spread.mul_f64(self.jitter.fraction())
    }

    /// How long the server is asked to keep the answer open; whole seconds, at least 1.
    pub(super) fn timeout(&mut self, next: &NextRequest) -> Duration {
        let (shortest, longest) = self.settings.watch_timeout;
        let timeout = match next {
            NextRequest::Watch { is_quiet: true, .. } => self.settings.quiet_timeout,
            NextRequest::Stream { .. } => longest,
            _ => {
                let range = longest.saturating_sub(shortest);
                shortest + range.mul_f64(self.jitter.fraction())
            }
        };
        Duration::from_secs(timeout.as_secs().max(1))
    }

    /// A watch has ended after `lasted`.
    pub(super) fn watch_ended(&mut self, lasted: Duration) {
        if lasted >= HEALTHY {
            self.failures = 0;
            self.immediate = 0;
        }
    }

    /// The delay after an attempt that worked.
    pub(super) fn pace(lasted: Duration) -> Duration {
        PACE.saturating_sub(lasted)
    }

    /// The delay after another list-watch has found a rollback: random, so that not all
    /// list-watches ask at once.
    pub(super) fn after_alarm(&mut self) -> Duration {
        self.settings.base_delay.mul_f64(self.jitter.fraction())
    }

    /// No delay, unless a chain of immediate attempts has become too long: it must end, whatever
    /// the server answers.
    pub(super) fn at_once(&mut self) -> Duration {
        self.immediate += 1;
        if self.immediate > MAX_IMMEDIATE {
            self.back_off(FailureClass::Broken, Duration::ZERO)
        } else {
            Duration::ZERO
        }
    }

    /// Counts a failure between two watches that work, if it is the first one. Returns whether it
    /// was: then the next watch need not wait.
    pub(super) fn forgives(&mut self) -> bool {
        let is_first = self.failures == 0;
        self.failures = self.failures.max(1);
        is_first
    }

    /// The delay after a failure, counted from one attempt's start to the next, so that a slow
    /// attempt is not waited for twice. Never less than a small random time: whatever broke many
    /// watches at once must not bring them all back at once.
    pub(super) fn back_off(&mut self, class: FailureClass, lasted: Duration) -> Duration {
        let doublings = self.failures.min(16);
        self.failures += 1;
        let delay = self
            .settings
            .base_delay
            .saturating_mul(1 << doublings)
            .min(self.settings.max_delay);
        let chance = self.jitter.fraction() / 4.0;
        let delay = (delay + delay.mul_f64(chance)).saturating_sub(lasted);
        delay
            .max(self.settings.base_delay.mul_f64(chance))
            .max(Duration::from_millis(1))
            .max(class.retry_after().unwrap_or_default().min(MAX_RETRY_AFTER))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn pacing() -> RequestPacing {
        RequestPacing::new(WatchSettings::default(), 1)
    }

    #[test]
    fn delays_double_until_a_watch_has_lasted() {
        let mut pacing = pacing();
        let delays: Vec<Duration> = (0..4)
            .map(|_| pacing.back_off(FailureClass::Lost, Duration::ZERO))
            .collect();
        for (delay, seconds) in delays.iter().zip([1, 2, 4, 4]) {
            let least = seconds * SECOND;
            assert!((least..=least * 5 / 4).contains(delay), "{delays:?}");
        }
        pacing.watch_ended(HEALTHY - SECOND);
        assert!(pacing.back_off(FailureClass::Lost, Duration::ZERO) >= 4 * SECOND);
        pacing.watch_ended(HEALTHY);
        assert!(pacing.back_off(FailureClass::Lost, Duration::ZERO) < 2 * SECOND);
    }

    #[test]
    fn a_chain_of_immediate_attempts_ends_in_delays_until_a_watch_has_lasted() {
        let mut pacing = pacing();
        for _ in 0..MAX_IMMEDIATE {
            assert_eq!(pacing.at_once(), Duration::ZERO);
        }
        assert!(pacing.at_once() >= SECOND);
        pacing.watch_ended(HEALTHY);
        assert_eq!(pacing.at_once(), Duration::ZERO);
    }

    #[test]
    fn only_the_first_failure_after_a_watch_that_lasted_is_forgiven() {
        let mut pacing = pacing();
        assert!(pacing.forgives());
        assert!(!pacing.forgives());
        assert!(pacing.back_off(FailureClass::Lost, Duration::ZERO) >= 2 * SECOND);
        pacing.watch_ended(HEALTHY);
        assert!(pacing.forgives());
    }

    #[test]
    fn a_retry_after_makes_a_delay_longer_and_never_shorter() {
        let mut pacing = pacing();
        let mut busy = |seconds| {
            let retry_after = Some(Duration::from_secs(seconds));
            pacing.back_off(FailureClass::Busy { retry_after }, Duration::ZERO)
        };
        assert_eq!(busy(20), 20 * SECOND);
        assert!(busy(0) >= 2 * SECOND);
        assert_eq!(busy(3600), MAX_RETRY_AFTER);
    }
}
