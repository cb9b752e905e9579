//! Which plugins keep threads busy for long: together they get no more than half of them.
//!
//! A thread that runs a guest cannot be taken back before the guest has ended. A plugin that has
//! taken long is not to be trusted with the last threads for a while, so that others whose keys
//! come meanwhile wait for none of its runs.

use std::time::Duration;

use crate::queue::Time;

/// A run that takes longer is slow.
const SLOW: Duration = Duration::from_secs(1);
/// For how long a slow run is remembered.
const MEMORY: Duration = Duration::from_secs(60);

/// How long one plugin's runs take.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// When the runs that have not ended began.
    began: Vec<Time>,
    /// Until when a run that was slow is remembered.
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

    /// How many runs have not ended.
    pub(super) fn running(&self) -> usize {
        self.began.len()
    }

    pub(super) fn is_slow(&self, now: Time) -> bool {
        let mut began = self.began.iter();
        now < self.slow_until || began.any(|began| now.saturating_sub(*began) > SLOW)
    }

    /// When a plugin that is slow will be so no more, if none of its runs goes on.
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
