//! The next time that matches a schedule, on clocks that are put forward and back.
//!
//! A time is found as robfig/cron's `SpecSchedule.Next` finds it: from the month down to the
//! minute, each is raised until it matches, and when one begins anew, all are looked at again. What
//! happens around a change of the clocks follows from that alone. An hour that is skipped does not
//! match, so what is due in it waits for the next day; of an hour that is repeated, both match. The
//! days and months are counted on the clock, hours and minutes as time passes.

use jiff::Timestamp;
use jiff::civil::{Date, DateTime};
use jiff::tz::Offset;

use super::fields::Fields;
use crate::zone::Zone;

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

/// For how many years a time is looked for.
const YEARS: i64 = 5;

/// The last second from which a time is looked for, in the year 9987: the calendar ends with 9999.
const LAST: i64 = 253_000_000_000;

/// The first second after this one, since the Unix epoch, that matches. `None`: there is none for
/// five years.
pub fn next(fields: &Fields, zone: &Zone, second: i64) -> Option<i64> {
    if fields.is_never() || second > LAST {
        return None;
    }
    let mut walk = Walk {
        zone,
        second: second + 1,
        is_cut: false,
    };
    let last_year = walk.clock().year + YEARS;
    while walk.clock().year <= last_year {
        // Each ends early when it begins anew: what comes before it has changed then.
        let is_found = walk.reach_month(fields)
            && walk.reach_day(fields)
            && walk.reach_hour(fields)
            && walk.reach_minute(fields)
            && walk.reach_second();
        if is_found {
            return Some(walk.second);
        }
    }
    None
}

/// What a clock shows.
struct Clock {
    year: i64,
    month: i64,
    day: i64,
    weekday: i64,
    hour: i64,
    minute: i64,
    second: i64,
}

/// An instant that moves forward, seen on the clocks of a time zone.
struct Walk<'a> {
    zone: &'a Zone,
    second: i64,
    /// Everything below the field that was first raised has been set to its beginning.
    is_cut: bool,
}

impl Walk<'_> {
    fn reach_month(&mut self, fields: &Fields) -> bool {
        loop {
            let clock = self.clock();
            if fields.has_month(clock.month) {
                return true;
            }
            if self.cuts() {
                self.set(clock.year, clock.month, 1, 0);
            }
            let Clock {
                year, month, day, ..
            } = self.clock();
            self.set(year, month + 1, day, self.time_of_day());
            if self.clock().month == 1 {
                return false;
            }
        }
    }

    fn reach_day(&mut self, fields: &Fields) -> bool {
        loop {
            let clock = self.clock();
            if fields.has_day(clock.day, clock.weekday) {
                return true;
            }
            if self.cuts() {
                self.set(clock.year, clock.month, clock.day, 0);
            }
            let Clock {
                year, month, day, ..
            } = self.clock();
            self.set(year, month, day + 1, self.time_of_day());
            // Where the clocks are changed at midnight, another hour has been met.
            match self.clock().hour {
                0 => {}
                late @ 13.. => self.second += (24 - late) * HOUR,
                early => self.second -= early * HOUR,
            }
            if self.clock().day == 1 {
                return false;
            }
        }
    }

    fn reach_hour(&mut self, fields: &Fields) -> bool {
        loop {
            let clock = self.clock();
            if fields.has_hour(clock.hour) {
                return true;
            }
            if self.cuts() {
                self.set(clock.year, clock.month, clock.day, clock.hour * HOUR);
            }
            self.second += HOUR;
            if self.clock().hour == 0 {
                return false;
            }
        }
    }

    fn reach_minute(&mut self, fields: &Fields) -> bool {
        loop {
            if fields.has_minute(self.clock().minute) {
                return true;
            }
            if self.cuts() {
                self.second -= self.second.rem_euclid(MINUTE);
            }
            self.second += MINUTE;
            if self.clock().minute == 0 {
                return false;
            }
        }
    }

    /// Every schedule is of the first second of a minute.
    fn reach_second(&mut self) -> bool {
        let past = self.clock().second;
        if past == 0 {
            return true;
        }
        self.is_cut = true;
        self.second += MINUTE - past;
        false
    }

    /// True the first time.
    fn cuts(&mut self) -> bool {
        !std::mem::replace(&mut self.is_cut, true)
    }

    fn time_of_day(&self) -> i64 {
        let Clock {
            hour,
            minute,
            second,
            ..
        } = self.clock();
        hour * HOUR + minute * MINUTE + second
    }

    fn clock(&self) -> Clock {
        let shown = self.second + self.zone.offset(self.second);
        let shown = date_time(shown);
        Clock {
            year: shown.year().into(),
            month: shown.month().into(),
            day: shown.day().into(),
            weekday: shown.weekday().to_sunday_zero_offset().into(),
            hour: shown.hour().into(),
            minute: shown.minute().into(),
            second: shown.second().into(),
        }
    }

    /// Moves to where the clocks show this. A month or a day may be one too many.
    ///
    /// A time that the clocks skip, or show twice, is the one that Go's `time.Date` takes: of the
    /// offset that holds where the time would be in UTC, or, if that leads out of the period in
    /// which it holds, of the offset that holds there.
    fn set(&mut self, year: i64, month: i64, day: i64, time_of_day: i64) {
        let (year, month) = (year + (month - 1) / 12, (month - 1) % 12 + 1);
        let shown = midnight(year, month) + (day - 1) * DAY + time_of_day;
        let near = shown - self.zone.offset(shown);
        self.second = shown - self.zone.offset(near);
    }
}

fn date_time(second: i64) -> DateTime {
    let time = Timestamp::from_second(second).unwrap_or(Timestamp::MAX);
    Offset::UTC.to_datetime(time)
}

/// The first second of a month, in UTC.
fn midnight(year: i64, month: i64) -> i64 {
    let date = i16::try_from(year).ok().zip(i8::try_from(month).ok());
    let date = date.and_then(|(year, month)| Date::new(year, month, 1).ok());
    let midnight = date.unwrap_or(Date::MAX).at(0, 0, 0, 0);
    let midnight = Offset::UTC.to_timestamp(midnight);
    midnight.unwrap_or(Timestamp::MAX).as_second()
}

#[cfg(test)]
#[path = "walk_tests.rs"]
mod tests;
