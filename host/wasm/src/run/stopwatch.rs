//! Measures how long a run takes, by two clocks. CPU time depends only on the guest, and has the
//! limit. Wall-clock time also depends on what else the machine does. It has a much higher ceiling,
//! for a run that waits for something in the host.
#![allow(
    clippy::disallowed_types,
    reason = "a run that uses up its time is stopped in real time; tests bring clocks of their own"
)]

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// A run may take this many times its limit of CPU time on the wall clock. A guest that gets only a
/// tenth of a core can still use all of its CPU time.
const WALL_FACTOR: u32 = 10;

/// A reading of both clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// CPU time of the calling thread.
    pub cpu: Duration,
    /// Time since a fixed moment in the past.
    pub wall: Duration,
}

/// Reads both clocks.
pub type Clocks = fn() -> Reading;

/// Reads the machine's clocks.
pub(crate) fn machine() -> Reading {
    static BEGAN: LazyLock<Instant> = LazyLock::new(Instant::now);
    let cpu = clock_gettime(ClockId::ThreadCPUTime);
    Reading {
        cpu: cpu.try_into().unwrap_or_default(),
        wall: BEGAN.elapsed(),
    }
}

/// The clocks of one run. Must be read on the thread that does the run.
#[derive(Clone, Copy)]
pub(crate) struct Stopwatch {
    clocks: Clocks,
    began: Reading,
    limit: Duration,
}

/// Why a run is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Expired {
    #[error("used more than {0:?} of CPU time")]
    Cpu(Duration),
    #[error("took longer than {0:?}, most of it waiting")]
    Wall(Duration),
}

impl Stopwatch {
    /// Starts timing a run that may use `limit` of CPU time.
    pub fn start(clocks: Clocks, limit: Duration) -> Self {
        Self {
            clocks,
            began: clocks(),
            limit,
        }
    }

    /// CPU time used so far.
    pub fn cpu(&self) -> Duration {
        (self.clocks)().cpu.saturating_sub(self.began.cpu)
    }

    /// How long the run may continue at least before this must be called again.
    pub fn left(&self) -> Result<Duration, Expired> {
        let now = (self.clocks)();
        let ceiling = self.limit.saturating_mul(WALL_FACTOR);
        let left = |limit: Duration, now: Duration, began: Duration| {
            let used = now.saturating_sub(began);
            limit.checked_sub(used).filter(|left| !left.is_zero())
        };
        let cpu = left(self.limit, now.cpu, self.began.cpu).ok_or(Expired::Cpu(self.limit))?;
        let wall = left(ceiling, now.wall, self.began.wall).ok_or(Expired::Wall(ceiling))?;
        // A thread cannot use more CPU time than passes on the wall clock.
        Ok(cpu.min(wall))
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    thread_local! {
        static NOW: Cell<Reading> = const { Cell::new(Reading { cpu: Duration::ZERO, wall: Duration::ZERO }) };
    }

    fn pass(cpu: u64, wall: u64) {
        let Reading { cpu: c, wall: w } = NOW.get();
        NOW.set(Reading {
            cpu: c + Duration::from_secs(cpu),
            wall: w + Duration::from_secs(wall),
        });
    }

    #[test]
    fn only_cpu_time_counts_against_the_limit() {
        pass(100, 1_000);
        let watch = Stopwatch::start(|| NOW.get(), Duration::from_secs(5));
        assert_eq!(watch.left(), Ok(Duration::from_secs(5)));
        pass(3, 20);
        assert_eq!(watch.left(), Ok(Duration::from_secs(2)));
        assert_eq!(watch.cpu(), Duration::from_secs(3));
        pass(2, 2);
        assert_eq!(watch.left(), Err(Expired::Cpu(Duration::from_secs(5))));
    }

    #[test]
    fn a_run_that_waits_ends_at_the_ceiling() {
        let watch = Stopwatch::start(|| NOW.get(), Duration::from_secs(5));
        pass(0, 49);
        assert_eq!(watch.left(), Ok(Duration::from_secs(1)));
        pass(0, 1);
        assert_eq!(watch.left(), Err(Expired::Wall(Duration::from_secs(50))));
    }

    #[test]
    fn the_machine_s_clocks_go_forward() {
        let first = machine();
        let mut sum = 0_u64;
        while machine().cpu == first.cpu {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        let second = machine();
        assert!(second.cpu > first.cpu && second.wall > first.wall);
    }
}
