//! Whether this host may write now. Of several hosts only one may write for a plugin at a time; who
//! that is, a Lease says, and the right to write ends some time before another host can have it.
//!
//! The right is looked at before a write is handed to the HTTP client, and again where its bytes go
//! to the kernel (`connect::rightful`). What remains is the way from there to the API server:
//! Kubernetes has no tokens by which it could refuse a write that comes too late. So each request
//! also has a deadline that ends before another host may have the right: until then the host waits
//! for a connection and for the answer, and the server, which is told the same time, carries it
//! out.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use pilothouse_core::Time;

/// Until when this host may write. See the module's documentation.
#[derive(Debug)]
pub struct WriteRight {
    /// In microseconds of `clock`; 0 for no right at all, `u64::MAX` for a right without an end.
    until: AtomicU64,
    /// From the end of the right until another host may have it.
    slack: Duration,
    clock: fn() -> Time,
}

/// A host that is alone.
impl Default for WriteRight {
    fn default() -> Self {
        Self {
            until: AtomicU64::new(u64::MAX),
            slack: Duration::ZERO,
            clock: || Time::ZERO,
        }
    }
}

impl WriteRight {
    /// No right yet. `clock` must go on while the process is stopped and while the machine is
    /// suspended, and must not jump with the time of day. `slack` is the least time from the end of
    /// the right until another host may have it.
    pub fn none(slack: Duration, clock: fn() -> Time) -> Self {
        Self {
            until: AtomicU64::new(0),
            slack,
            clock,
        }
    }

    /// From now on this host may write until this time; with `None`, not at all.
    pub fn set(&self, until: Option<Time>) {
        let micros = until.map_or(0, |until| {
            u64::try_from(until.as_micros()).unwrap_or(u64::MAX - 1)
        });
        self.until.store(micros, Ordering::SeqCst);
    }

    /// For how long the right has been over without anybody having said so ([`WriteRight::set`]),
    /// once another host may have it.
    pub fn overdue(&self) -> Option<Duration> {
        let until = self.until.load(Ordering::SeqCst);
        if matches!(until, 0 | u64::MAX) {
            return None;
        }
        let over = (self.clock)().checked_sub(Duration::from_micros(until))?;
        (over > self.slack).then_some(over)
    }

    /// How long a request that is sent now may take, at most `deadline`. `None`: it must not be
    /// sent.
    pub(super) fn deadline(&self, deadline: Duration) -> Option<Duration> {
        match self.until.load(Ordering::SeqCst) {
            u64::MAX => Some(deadline),
            0 => None,
            micros => {
                let left = Duration::from_micros(micros).checked_sub((self.clock)())?;
                (!left.is_zero()).then(|| deadline.min(left + self.slack))
            }
        }
    }

    /// Whether this host may write now.
    pub(crate) fn lasts(&self) -> bool {
        self.deadline(Duration::MAX).is_some()
    }

    /// Whether a right has an end, so that a request must name its deadline to the server.
    pub(super) fn has_end(&self) -> bool {
        self.until.load(Ordering::SeqCst) != u64::MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn clock() -> Time {
        100 * SECOND
    }

    #[test]
    fn a_host_that_is_alone_may_always_write() {
        let right = WriteRight::default();
        assert_eq!(right.deadline(30 * SECOND), Some(30 * SECOND));
        assert!(!right.has_end());
    }

    #[test]
    fn a_right_ends_when_its_time_is_over() {
        let right = WriteRight::none(5 * SECOND, clock);
        assert_eq!(right.deadline(SECOND), None);
        for (until, allowed) in [(99, None), (100, None), (101, Some(SECOND))] {
            right.set(Some(until * SECOND));
            assert_eq!(right.deadline(SECOND), allowed, "until {until}");
        }
        right.set(None);
        assert_eq!(right.deadline(SECOND), None);
    }

    #[test]
    fn a_request_is_over_before_another_host_may_have_the_right() {
        let right = WriteRight::none(5 * SECOND, clock);
        right.set(Some(102 * SECOND));
        assert_eq!(right.deadline(30 * SECOND), Some(7 * SECOND));
        assert_eq!(right.deadline(3 * SECOND), Some(3 * SECOND));
        assert!(right.has_end());
    }
}
