//! Which plugins keep threads busy for long. Together they get no more than half of the threads.
//!
//! A thread that runs a guest cannot be taken back before the guest has ended. So for a while after
//! a slow reconcile a plugin may not take the last threads. The keys of other plugins then need not
//! wait for its reconciles.

use std::time::Duration;

use crate::queue::Time;

/// A reconcile that takes longer than this is slow.
const SLOW: Duration = Duration::from_secs(1);
/// A plugin counts as slow for this long after a slow reconcile.
const MEMORY: Duration = Duration::from_secs(60);

/// How long one plugin's reconciles take.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// When each running reconcile began.
    began: Vec<Time>,
    /// Until when the plugin counts as slow because of a reconcile that has ended.
    slow_until: Time,
}

impl Pace {
    pub(super) fn begin(&mut self, now: Time) {
        self.began.push(now);
    }

    pub(super) fn end(&mut self, began: Time, now: Time) {
        if let Some(at) = self.began.iter().position(|have| *have == began) {
            self.began.swap_remove(at);
        }
        if now.saturating_sub(began) > SLOW {
            self.slow_until = now + MEMORY;
        }
    }

    /// How many reconciles are running.
    pub(super) fn running(&self) -> usize {
        self.began.len()
    }

    pub(super) fn is_slow(&self, now: Time) -> bool {
        let mut began = self.began.iter();
        now < self.slow_until || began.any(|began| now.saturating_sub(*began) > SLOW)
    }

    /// When the plugin stops counting as slow, if none of its reconciles is still running then.
    pub(super) fn slow_until(&self) -> Time {
        self.slow_until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plugin_is_slow_while_a_run_takes_long_and_for_a_minute_after() {
        let second = Duration::from_secs(1);
        let mut pace = Pace::default();
        pace.begin(second);
        pace.begin(second * 2);
        assert!(!pace.is_slow(second * 2));
        assert!(pace.is_slow(second * 3));
        pace.end(second, second * 4);
        assert_eq!(pace.running(), 1);
        assert!(pace.is_slow(second * 4));
        pace.end(second * 2, second * 5);
        assert!(pace.is_slow(second * 64));
        assert!(!pace.is_slow(second * 65));
        pace.begin(second * 65);
        pace.end(second * 65, second * 66);
        assert!(!pace.is_slow(second * 66), "a second is not long");
    }
}
