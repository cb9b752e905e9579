//! What a plugin's runs used in total, for metrics.

use std::sync::atomic::{AtomicU64, Ordering};

use pilothouse_core::{Outcome, RunError};

use super::stats::RunStats;

/// What all runs of a plugin used together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunTotals {
    /// Runs that have ended. A run that was repeated to compare it counts once.
    pub runs: u64,
    /// Fuel used by these runs, without that of repetitions.
    pub fuel: u64,
    /// Runs answered by an instance that had answered before.
    pub reused: u64,
    /// Runs that were repeated and compared.
    pub verified: u64,
    /// Compared runs whose two answers differed.
    pub differed: u64,
}

#[derive(Default)]
pub(super) struct Totals {
    runs: AtomicU64,
    fuel: AtomicU64,
    reused: AtomicU64,
    verified: AtomicU64,
    differed: AtomicU64,
}

impl Totals {
    pub fn add(&self, result: &Result<Outcome, RunError>, stats: &RunStats) {
        let differs = matches!(result, Err(RunError::NonDeterministic(_)));
        for (total, more) in [
            (&self.runs, 1),
            (&self.fuel, stats.fuel),
            (&self.reused, stats.is_reused.into()),
            (&self.verified, stats.is_verified.into()),
            (&self.differed, differs.into()),
        ] {
            total.fetch_add(more, Ordering::Relaxed);
        }
    }

    pub fn read(&self) -> RunTotals {
        let read = |total: &AtomicU64| total.load(Ordering::Relaxed);
        RunTotals {
            runs: read(&self.runs),
            fuel: read(&self.fuel),
            reused: read(&self.reused),
            verified: read(&self.verified),
            differed: read(&self.differed),
        }
    }
}
