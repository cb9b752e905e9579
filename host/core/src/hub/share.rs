//! Fairness between plugins: whose turn it is.
//!
//! Each plugin has used some of the workers' time, divided by its weight; who has used the least is next. So a plugin with 100,000
//! keys, or with slow ones, gets its share and no more, and another's key waits for at most what is already running.

use std::time::Duration;

/// What one comparison of a recorded read with a change takes, about. There is no clock here, and
/// nobody else is to pay for it.
const COMPARISON: Duration = Duration::from_nanos(50);

/// Comparisons that a change costs nothing: a plugin that has nothing to run is not to fall behind
/// by what others' objects do.
const FREE: usize = 100;

/// What one plugin has used.
#[derive(Clone, Copy, Debug)]
pub(super) struct Share {
    weight: u32,
    /// Time used, divided by the weight.
    used: Duration,
    /// What a run is taken to need until it is known: what the last one needed.
    estimate: Duration,
    was_ready: bool,
}

/// What a run that has not ended is taken to need.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Charge(Duration);

impl Share {
    pub(super) fn new(weight: u32) -> Self {
        Self {
            weight: weight.max(1),
            used: Duration::ZERO,
            estimate: Duration::from_micros(100),
            was_ready: false,
        }
    }

    pub(super) fn set_weight(&mut self, weight: u32) {
        self.weight = weight.max(1);
    }

    pub(super) fn used(&self) -> Duration {
        self.used
    }

    /// Notes whether there is a key to run. A plugin that had none has no claim on the time that others used meanwhile: it starts
    /// from what the last chosen one had used.
    pub(super) fn update(&mut self, is_ready: bool, floor: Duration) {
        if is_ready && !self.was_ready {
            self.used = self.used.max(floor);
        }
        self.was_ready = is_ready;
    }

    /// What the plugin has read has been held against something, in so many comparisons. A few are
    /// everybody's.
    pub(super) fn charge(&mut self, comparisons: usize) {
        let comparisons = comparisons.saturating_sub(FREE);
        let took = COMPARISON.saturating_mul(u32::try_from(comparisons).unwrap_or(u32::MAX));
        self.used += took / self.weight;
    }

    /// A run begins.
    pub(super) fn begin(&mut self) -> Charge {
        let charge = self.estimate / self.weight;
        self.used += charge;
        Charge(charge)
    }

    /// It has taken so long. A microsecond at least, so that runs too short to measure share by number.
    pub(super) fn end(&mut self, charge: Charge, took: Duration) {
        self.estimate = took.max(Duration::from_micros(1));
        self.used = self.used.saturating_sub(charge.0) + self.estimate / self.weight;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs whoever has used the least, for so long; says how often each ran.
    fn contest(shares: &mut [(Share, Duration)], total: Duration) -> Vec<usize> {
        let mut runs = vec![0; shares.len()];
        let mut now = Duration::ZERO;
        while now < total {
            let next = (0..shares.len())
                .min_by_key(|at| shares[*at].0.used())
                .unwrap();
            let (share, took) = &mut shares[next];
            let charge = share.begin();
            share.end(charge, *took);
            now += *took;
            runs[next] += 1;
        }
        runs
    }

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn time_is_shared_and_not_turns() {
        let mut shares = [(Share::new(1), MS), (Share::new(1), MS * 100)];
        let runs = contest(&mut shares, MS * 20_000);
        assert!(runs[0] / runs[1] > 90, "{runs:?}");
    }

    #[test]
    fn twice_the_weight_is_twice_the_time() {
        let mut shares = [(Share::new(2), MS), (Share::new(1), MS)];
        let runs = contest(&mut shares, MS * 3_000);
        assert!((1_990..=2_010).contains(&runs[0]), "{runs:?}");
    }

    #[test]
    fn what_holding_reads_against_changes_takes_is_time_used() {
        let mut shares = [Share::new(1), Share::new(2)];
        shares.iter_mut().for_each(|share| share.charge(FREE));
        assert_eq!(shares[0].used(), Duration::ZERO);
        shares
            .iter_mut()
            .for_each(|share| share.charge(FREE + 1_000));
        assert_eq!(shares[0].used(), COMPARISON * 1_000);
        assert_eq!(shares[1].used(), COMPARISON * 500);
    }

    #[test]
    fn who_had_nothing_to_run_has_nothing_to_catch_up_on() {
        let mut idle = Share::new(1);
        idle.update(false, Duration::ZERO);
        idle.update(true, MS * 500);
        assert_eq!(idle.used(), MS * 500);
    }
}
