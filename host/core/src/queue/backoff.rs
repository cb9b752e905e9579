//! How long a failing key waits.

use std::time::Duration;

/// Exponential back-off per key, as client-go's item exponential failure rate limiter: `base ·
/// 2^(failures - 1)`, at most `max`.
#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    /// Delay after the first failure.
    pub base: Duration,
    /// Maximum delay.
    pub max: Duration,
}

/// 5 ms to 1000 s, as `DefaultTypedItemBasedRateLimiter` in controller-runtime's controllers.
impl Default for Backoff {
    fn default() -> Self {
        Self {
            base: Duration::from_millis(5),
            max: Duration::from_secs(1000),
        }
    }
}

impl Backoff {
    /// The delay after this many failures in a row; zero after no failure.
    pub fn delay(&self, failures: u32) -> Duration {
        let Some(doublings) = failures.checked_sub(1) else {
            return Duration::ZERO;
        };
        let factor = 1u32.checked_shl(doublings).unwrap_or(u32::MAX);
        self.base.saturating_mul(factor).min(self.max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_delay_doubles_up_to_the_maximum() {
        let backoff = Backoff::default();
        let ms = |failures| backoff.delay(failures).as_millis();
        assert_eq!(
            [ms(0), ms(1), ms(2), ms(3), ms(17)],
            [0, 5, 10, 20, 327_680]
        );
        assert_eq!(
            [ms(19), ms(33), ms(64), ms(u32::MAX)],
            [1_000_000; 4],
            "no overflow"
        );
    }
}
