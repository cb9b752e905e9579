//! Counts watches that the server accepts and that bring nothing, and decides when a relist is to
//! settle whether anything was missed.

use std::time::Duration;

use super::failure_class::FailureClass;
use super::pacing::PACE;
use super::step::WatchEnd;

/// After this many fruitless watches in a row, everything is listed. A watch is fruitless if it was
/// accepted and brought nothing, not even its end in time. The number doubles with every such list,
/// up to [`MAX_FRUITLESS_DOUBLINGS`] times.
const MAX_FRUITLESS: u32 = 3;

const MAX_FRUITLESS_DOUBLINGS: u32 = 4;

/// The fruitless watches of late.
#[derive(Debug)]
pub(super) struct FruitlessWatches {
    /// A lost watch is fruitless if it has lasted this long.
    quiet_limit: Duration,
    /// Number of watches in a row that brought nothing: closed at once, or silent.
    in_a_row: u32,
    /// Number of relists because of fruitless watches, since a watch last brought something.
    lists: u32,
    /// Number of fruitless watches that caused the current relist, until `take` reports it.
    unreported: Option<u32>,
}

impl FruitlessWatches {
    pub(super) fn new(quiet_limit: Duration) -> Self {
        Self {
            quiet_limit,
            in_a_row: 0,
            lists: 0,
            unreported: None,
        }
    }

    /// A watch has ended. Returns whether it was one fruitless watch too many. The server may
    /// accept watches from a position that it cannot really serve; a list settles that.
    pub(super) fn watch_ended(&mut self, end: WatchEnd, lasted: Duration, lines: u64) -> bool {
        if lines > 0 {
            self.in_a_row = 0;
            self.lists = 0;
            return false;
        }
        match end {
            WatchEnd::Closed if lasted < PACE => self.in_a_row += 1,
            WatchEnd::Failed(FailureClass::Lost) if lasted >= self.quiet_limit => {
                self.in_a_row += 1;
            }
            // It ended in time, although without a bookmark: it worked.
            WatchEnd::Closed => self.in_a_row = 0,
            WatchEnd::Quiet | WatchEnd::Doubted | WatchEnd::Unproven | WatchEnd::Failed(_) => {}
        }
        let doublings = self.lists.min(MAX_FRUITLESS_DOUBLINGS);
        let is_too_many = self.in_a_row >= MAX_FRUITLESS << doublings;
        if is_too_many {
            self.unreported = Some(std::mem::take(&mut self.in_a_row));
            self.lists += 1;
        }
        is_too_many
    }

    /// The number of fruitless watches in a row, once after they have caused a relist.
    pub(super) fn take(&mut self) -> Option<u32> {
        self.unreported.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUIET: Duration = Duration::from_secs(10);

    fn watches() -> FruitlessWatches {
        FruitlessWatches::new(QUIET)
    }

    #[test]
    fn twice_as_many_fruitless_watches_cause_each_next_relist_until_one_brings_something() {
        let mut watches = watches();
        let mut until_relist = || {
            let at_once = Duration::ZERO;
            while !watches.watch_ended(WatchEnd::Closed, at_once, 0) {}
            watches.take().unwrap()
        };
        let counts: Vec<u32> = (0..6).map(|_| until_relist()).collect();
        assert_eq!(counts, [3, 6, 12, 24, 48, 48]);
        watches.watch_ended(WatchEnd::Closed, Duration::ZERO, 1);
        for is_too_many in [false, false, true] {
            let ended = watches.watch_ended(WatchEnd::Closed, Duration::ZERO, 0);
            assert_eq!(ended, is_too_many);
        }
        assert_eq!((watches.take(), watches.take()), (Some(3), None));
    }

    #[test]
    fn a_watch_is_fruitless_if_it_closed_at_once_or_was_lost_in_silence() {
        let lost = WatchEnd::Failed(FailureClass::Lost);
        for (end, lasted, is_fruitless) in [
            (WatchEnd::Closed, Duration::ZERO, true),
            (lost, QUIET, true),
            (lost, Duration::ZERO, false),
            (WatchEnd::Quiet, QUIET, false),
            (WatchEnd::Doubted, Duration::ZERO, false),
        ] {
            let mut watches = watches();
            let are_too_many = (0..3).any(|_| watches.watch_ended(end, lasted, 0));
            assert_eq!(are_too_many, is_fruitless, "{end:?} after {lasted:?}");
        }
    }

    #[test]
    fn a_watch_that_ended_in_time_ends_a_row() {
        let mut watches = watches();
        for _ in 0..10 {
            assert!(!watches.watch_ended(WatchEnd::Closed, Duration::ZERO, 0));
            assert!(!watches.watch_ended(WatchEnd::Closed, Duration::ZERO, 0));
            assert!(!watches.watch_ended(WatchEnd::Closed, QUIET, 0));
        }
    }
}
