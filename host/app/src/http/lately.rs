//! Repeats recent answers for a short time, so that clients that ask in a loop do not take time
//! from reconciles.

use std::time::Duration;

use parking_lot::Mutex;
use pilothouse_core::Time;

/// An answer is repeated for this many times the time it took to make. Therefore all clients
/// together use at most a quarter of one core, and an answer that is made quickly is never old.
const REST: u32 = 3;

/// No answer is repeated for longer than this, however long it took to make.
const OLDEST: Duration = Duration::from_secs(1);

/// The last answer to a question, shared by all clients. Only one client at a time makes it; the
/// others wait for that.
#[derive(Debug)]
pub struct Lately<T>(Mutex<Option<Made<T>>>);

#[derive(Debug)]
struct Made<T> {
    answer: T,
    until: Time,
}

impl<T> Default for Lately<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: Clone> Lately<T> {
    /// Returns the last answer, or makes a new one. Blocks for as long as it takes to make one.
    pub fn answer(&self, clock: impl Fn() -> Time, make: impl FnOnce() -> T) -> T {
        let mut last = self.0.lock();
        let began = clock();
        if let Some(made) = last.as_ref().filter(|made| began < made.until) {
            return made.answer.clone();
        }
        let answer = make();
        let ended = clock();
        let rest = REST * ended.saturating_sub(began);
        let until = ended + rest.min(OLDEST);
        *last = Some(Made {
            answer: answer.clone(),
            until,
        });
        answer
    }

    /// Discards the last answer, because it is not true any more.
    pub fn forget(&self) {
        *self.0.lock() = None;
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Asks for a number that takes this long to compute.
    fn ask(lately: &Lately<u32>, now: &Cell<Time>, made: &Cell<u32>, takes: Duration) -> u32 {
        lately.answer(
            || now.get(),
            || {
                now.set(now.get() + takes);
                made.set(made.get() + 1);
                made.get()
            },
        )
    }

    #[test]
    fn who_asks_in_a_loop_takes_a_quarter_of_the_time_at_most() {
        let (lately, now, made) = (Lately::default(), Cell::new(Time::ZERO), Cell::new(0));
        while now.get() < 10_000 * MS {
            ask(&lately, &now, &made, 100 * MS);
            now.set(now.get() + MS);
        }
        assert_eq!(made.get(), 25);
    }

    #[test]
    fn what_is_quickly_made_is_made_each_time() {
        let (lately, now, made) = (Lately::default(), Cell::new(Time::ZERO), Cell::new(0));
        for times in 1..10 {
            assert_eq!(ask(&lately, &now, &made, Duration::ZERO), times);
        }
    }

    #[test]
    fn no_answer_is_given_for_more_than_a_second() {
        let (lately, now, made) = (Lately::default(), Cell::new(Time::ZERO), Cell::new(0));
        ask(&lately, &now, &made, 20_000 * MS);
        now.set(now.get() + 999 * MS);
        assert_eq!(ask(&lately, &now, &made, MS), 1);
        now.set(now.get() + MS);
        assert_eq!(ask(&lately, &now, &made, MS), 2);
    }

    #[test]
    fn what_is_not_true_any_more_is_made_again() {
        let (lately, now, made) = (Lately::default(), Cell::new(Time::ZERO), Cell::new(0));
        ask(&lately, &now, &made, MS);
        assert_eq!(ask(&lately, &now, &made, MS), 1);
        lately.forget();
        assert_eq!(ask(&lately, &now, &made, MS), 2);
    }
}
