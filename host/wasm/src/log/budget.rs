//! Limits how much a plugin may log over time, across all its runs: a token bucket. A long line
//! counts as several. Dropped lines are counted and reported at intervals.
#![allow(
    clippy::disallowed_types,
    reason = "logging takes place in real time; what is decided here takes the time as an argument"
)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Shortest time between two reports of dropped lines.
const REPORT: Duration = Duration::from_secs(10);
/// The bucket holds as many lines as are allowed in this many seconds.
const BURST: u32 = 10;

/// A line counts as one for each of so many bytes that it has begun, as it is written. So a plugin
/// with the default of 100 lines a second logs at most 50 KiB a second.
const LINE_BYTES: usize = 512;

/// A number of dropped lines, by the limit that they exceeded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Dropped {
    /// Those beyond a limit that is not the budget's, such as that of one run.
    pub elsewhere: u64,
    /// Those beyond the budget's lines per second.
    pub per_second: u64,
}

impl Dropped {
    pub fn total(self) -> u64 {
        self.elsewhere + self.per_second
    }
}

/// A plugin's share of the log.
pub struct LogBudget {
    plugin: Arc<str>,
    lines_per_second: u32,
    began: Instant,
    bucket: Mutex<Bucket>,
}

impl LogBudget {
    /// A budget of `lines_per_second` for a plugin, with a burst of ten times as many.
    pub fn new(plugin: Arc<str>, lines_per_second: u32) -> Self {
        Self {
            plugin,
            lines_per_second,
            began: Instant::now(),
            bucket: Mutex::new(Bucket::new(lines_per_second)),
        }
    }

    pub(crate) fn plugin(&self) -> &str {
        &self.plugin
    }

    pub(super) fn lines_per_second(&self) -> u32 {
        self.lines_per_second
    }

    /// True if another line of this many bytes may be written. Takes its tokens, or counts it as
    /// dropped.
    pub fn take(&self, bytes: usize) -> bool {
        self.with(|bucket, now| bucket.take(bytes, now))
    }

    /// Counts lines that were dropped for another reason.
    pub(crate) fn drop_lines(&self, lines: u64) {
        self.with(|bucket, _| bucket.drop_lines(lines));
    }

    /// The number of lines dropped since the last report, if a report is due.
    pub fn report(&self) -> Option<u64> {
        self.report_by_limit().map(Dropped::total)
    }

    /// Like [`report`](Self::report).
    pub(super) fn report_by_limit(&self) -> Option<Dropped> {
        self.with(Bucket::report)
    }

    /// The number of lines dropped in all.
    pub(crate) fn dropped(&self) -> u64 {
        self.with(|bucket, _| bucket.dropped.total())
    }

    fn with<T>(&self, act: impl FnOnce(&mut Bucket, Duration) -> T) -> T {
        let now = self.began.elapsed();
        let mut bucket = self.bucket.lock();
        act(&mut bucket, now)
    }
}

/// The decisions, with the time as an argument.
struct Bucket {
    per_second: f64,
    tokens: f64,
    filled_at: Duration,
    dropped: Dropped,
    reported: Dropped,
    reported_at: Option<Duration>,
}

impl Bucket {
    fn new(lines_per_second: u32) -> Self {
        let per_second = f64::from(lines_per_second);
        Self {
            per_second,
            tokens: per_second * f64::from(BURST),
            filled_at: Duration::ZERO,
            dropped: Dropped::default(),
            reported: Dropped::default(),
            reported_at: None,
        }
    }

    fn take(&mut self, bytes: usize, now: Duration) -> bool {
        let passed = now.saturating_sub(self.filled_at).as_secs_f64();
        let full = self.per_second * f64::from(BURST);
        self.tokens = (self.tokens + passed * self.per_second).min(full);
        self.filled_at = now;
        let cost = bytes.div_ceil(LINE_BYTES).max(1) as f64;
        if self.tokens < cost {
            self.dropped.per_second += 1;
            return false;
        }
        self.tokens -= cost;
        true
    }

    fn drop_lines(&mut self, lines: u64) {
        self.dropped.elsewhere += lines;
    }

    fn report(&mut self, now: Duration) -> Option<Dropped> {
        let more = Dropped {
            elsewhere: self.dropped.elsewhere - self.reported.elsewhere,
            per_second: self.dropped.per_second - self.reported.per_second,
        };
        let is_due = self.reported_at.is_none_or(|last| now >= last + REPORT);
        if more.total() == 0 || !is_due {
            return None;
        }
        (self.reported, self.reported_at) = (self.dropped, Some(now));
        Some(more)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_burst_is_let_through_and_then_so_many_a_second() {
        let mut bucket = Bucket::new(5);
        let mut taken = |at| (0..100).filter(|_| bucket.take(9, seconds(at))).count();
        assert_eq!(
            [taken(0), taken(1), taken(3), taken(1_000)],
            [50, 5, 10, 50]
        );
        assert_eq!(bucket.dropped.total(), 400 - 115);
    }

    #[test]
    fn dropped_lines_are_reported_at_once_and_then_once_a_period() {
        let mut bucket = Bucket::new(0);
        let dropped = |elsewhere, per_second| {
            Some(Dropped {
                elsewhere,
                per_second,
            })
        };
        assert_eq!(bucket.report(seconds(0)), None);
        bucket.drop_lines(3);
        assert_eq!(bucket.report(seconds(1)), dropped(3, 0));
        bucket.drop_lines(4);
        assert!(!bucket.take(9, seconds(9)));
        assert_eq!(bucket.report(seconds(10)), None);
        assert_eq!(bucket.report(seconds(11)), dropped(4, 1));
        assert_eq!(bucket.report(seconds(99)), None);
    }

    #[test]
    fn a_long_line_counts_as_several() {
        let mut bucket = Bucket::new(5);
        let mut taken = |bytes, at| (0..100).filter(|_| bucket.take(bytes, seconds(at))).count();
        assert_eq!(taken(4_096, 0), 6, "eight tokens of fifty each");
        assert_eq!(taken(512, 0), 2);
        assert_eq!(taken(513, 1), 2);
        assert_eq!(taken(1, 1), 1);
    }

    #[test]
    fn no_lines_are_no_lines() {
        let mut bucket = Bucket::new(0);
        assert!(!bucket.take(0, seconds(0)) && !bucket.take(0, seconds(1_000)));
    }
}
