//! Fairness between plugins: which plugin's turn it is.
//!
//! Each plugin has used some of the workers' time, divided by its weight. The plugin that has used
//! the least is next. So a plugin with 100,000 keys, or with slow ones, gets its share and no more,
//! and a key of another plugin only waits for what is already running.

use std::time::Duration;

/// Approximate time of one comparison of a recorded read with a change. The hub has no clock to
/// measure it, and it must be charged to the plugin that caused it.
const COMPARISON: Duration = Duration::from_nanos(50);

/// Number of comparisons that are free in each call of [`Share::charge`], usually one for each
/// change. A plugin that has nothing to run must not fall behind because other plugins' objects
/// change.
const FREE: usize = 100;

/// The time one plugin has used.
#[derive(Clone, Copy, Debug)]
pub(super) struct Share {
    weight: u32,
    /// Time used, divided by the weight.
    used: Duration,
    /// The assumed time of a running reconcile until it is known: the time of the last one.
    estimate: Duration,
    was_ready: bool,
}

/// The time charged in advance for a reconcile that has not ended.
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

    /// Records whether there is a key to run. A plugin that had none cannot claim the time that
    /// others used meanwhile: it starts from what the last chosen plugin had used.
    pub(super) fn update(&mut self, is_ready: bool, floor: Duration) {
        if is_ready && !self.was_ready {
            self.used = self.used.max(floor);
        }
        self.was_ready = is_ready;
    }

    /// Charges this many comparisons of the plugin's recorded reads with changes. The first few are
    /// free.
    pub(super) fn charge(&mut self, comparisons: usize) {
        let comparisons = comparisons.saturating_sub(FREE);
        let took = COMPARISON.saturating_mul(u32::try_from(comparisons).unwrap_or(u32::MAX));
        self.used += took / self.weight;
    }

    /// A reconcile begins: charges its assumed time.
    pub(super) fn begin(&mut self) -> Charge {
        let charge = self.estimate / self.weight;
        self.used += charge;
        Charge(charge)
    }

    /// A reconcile has ended and took this long. At least one microsecond is charged, so that
    /// reconciles too short to measure are shared by number.
    pub(super) fn end(&mut self, charge: Charge, took: Duration) {
        self.estimate = took.max(Duration::from_micros(1));
        self.used = self.used.saturating_sub(charge.0) + self.estimate / self.weight;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Always runs the plugin that has used the least, for this long. Returns how often each one
    /// ran.
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
