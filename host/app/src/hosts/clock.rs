//! The clock by which leases are judged.

use pilothouse_core::Time;
use rustix::time::{ClockId, clock_gettime};

/// The time since the machine was started. Unlike the clock of `Instant` it goes on while the
/// machine is suspended: other hosts' clocks do, too. It does not jump with the time of day.
pub fn now() -> Time {
    let time = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanos = u32::try_from(time.tv_nsec).unwrap_or(0);
    Time::new(seconds, nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_never_goes_back() {
        let times: Vec<Time> = (0..1000).map(|_| now()).collect();
        assert!(times.is_sorted() && times[0] > Time::ZERO);
    }
}
