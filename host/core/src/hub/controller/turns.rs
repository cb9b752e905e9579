//! One plugin's turns: how much of the workers' time it has used, and how many threads it keeps
//! busy.

use std::time::Duration;

use crate::hub::Threads;
use crate::hub::pace::Pace;
use crate::hub::share::{Charge, Share};
use crate::queue::Time;

/// See the module's documentation.
pub(in crate::hub) struct Turns {
    share: Share,
    /// Which reconciles are running a guest, and whether they take long.
    pace: Pace,
}

impl Turns {
    pub(super) fn new(weight: u32) -> Self {
        Self {
            share: Share::new(weight),
            pace: Pace::default(),
        }
    }

    pub(super) fn set_weight(&mut self, weight: u32) {
        self.share.set_weight(weight);
    }

    /// A reconcile begins. Returns the time charged for it in advance.
    pub(super) fn begin(&mut self, now: Time) -> Charge {
        self.pace.begin(now);
        self.share.begin()
    }

    /// The guest of a reconcile has ended.
    pub(super) fn end(&mut self, charge: Charge, began: Time, now: Time) {
        self.pace.end(began, now);
        self.share.end(charge, now.saturating_sub(began));
    }

    /// Charges this many comparisons that the host has made for the plugin.
    pub(super) fn charge(&mut self, comparisons: usize) {
        self.share.charge(comparisons);
    }

    /// Records whether there is a key to run; see [`Share::update`].
    pub fn update(&mut self, is_ready: bool, floor: Duration) {
        self.share.update(is_ready, floor);
    }

    /// The time used so far, by weight.
    pub fn used(&self) -> Duration {
        self.share.used()
    }

    /// How many reconciles are running a guest.
    pub fn running(&self) -> usize {
        self.pace.running()
    }

    pub fn is_slow(&self, now: Time) -> bool {
        self.pace.is_slow(now)
    }

    /// Whether there is a thread that the plugin may use.
    pub(super) fn has_thread(&self, threads: Threads, now: Time) -> bool {
        let is_enough = threads.more_for_slow > 0 || !self.is_slow(now);
        is_enough && self.running() < threads.of_one
    }

    /// When there is a thread that the plugin may use, if that is known: the end of a reconcile
    /// frees one at any time, but a plugin that is only held back as slow knows when that ends.
    pub(super) fn thread_due(&self, threads: Threads, now: Time) -> Option<Time> {
        if self.has_thread(threads, now) {
            return Some(Time::ZERO);
        }
        let slow_until = self.pace.slow_until();
        (self.running() < threads.of_one && slow_until > now).then_some(slow_until)
    }
}
