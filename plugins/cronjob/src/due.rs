//! Which run of a CronJob is due, and when the next one will be.

use std::time::Duration;

use pilothouse_sdk::Time;

use crate::objects::CronJob;
use crate::schedule::{Millis, SECOND, Schedule};

/// By how much a requeue is later than the time it is for, in case clocks differ a little.
const MARGIN: Millis = 100;

/// More missed runs than these are told as an Event.
const MANY: i64 = 100;

/// A schedule that is well-formed and has no two times after each other, such as 31 February.
const NO_TIMES: &str = "time difference between two schedules is less than 1 second";

/// What is known of a CronJob's runs.
pub struct History {
    /// The last run, or the CronJob's creation if there was none.
    pub last: Millis,
    /// After this time a run that was due is not started any more.
    pub deadline: Option<Millis>,
}

/// How many runs have been missed, roughly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missed {
    None,
    Few,
    Many,
}

/// The runs between the last one and now.
#[derive(Debug, PartialEq, Eq)]
pub struct Recent {
    /// From when on they have been looked for.
    pub earliest: Millis,
    /// The latest of them.
    pub time: Option<Millis>,
    pub missed: Missed,
}

pub fn millis(time: Duration) -> Millis {
    Millis::try_from(time.as_millis()).unwrap_or(Millis::MAX)
}

/// As it is written into an object.
pub fn time(millis: Millis) -> Time {
    Time(Duration::from_millis(millis.try_into().unwrap_or(0)))
}

impl History {
    pub fn of(cron_job: &CronJob) -> Self {
        let last = cron_job.status.last_schedule_time;
        let last = last.unwrap_or(cron_job.metadata.creation_timestamp);
        let deadline = cron_job.spec.starting_deadline_seconds;
        Self {
            last: millis(last.0),
            deadline: deadline.map(|seconds| seconds.saturating_mul(SECOND)),
        }
    }

    /// The latest run that is due and has not been started, and whether many have been missed.
    ///
    /// # Errors
    ///
    /// Upstream's words for a schedule without times.
    pub fn due(&self, now: Millis, schedule: &Schedule) -> Result<Option<(Millis, bool)>, String> {
        let earliest = match self.deadline {
            Some(deadline) => self.last.max(now.saturating_sub(deadline)),
            None => self.last,
        };
        let recent = recent(earliest, now, schedule)?;
        let is_many = recent.missed == Missed::Many;
        Ok(recent.time.map(|time| (time, is_many)))
    }

    /// How long it is until the next run. `None`: there will be none.
    pub fn until_next(&self, now: Millis, schedule: &Schedule) -> Option<Duration> {
        let from = match recent(self.last, now, schedule) {
            Ok(Recent {
                time: Some(time), ..
            }) => time,
            Ok(Recent {
                earliest,
                missed: Missed::None,
                ..
            }) => earliest,
            _ => now,
        };
        let wait = schedule.next(from)? + MARGIN - now;
        // Zero would ask for nothing.
        Some(Duration::from_millis(wait.max(1).try_into().unwrap_or(1)))
    }
}

/// The latest run after `earliest` that is due.
///
/// What has been missed is estimated by the distance of the first two, so that a CronJob that was
/// not looked at for years does not have all its runs counted. For a schedule with gaps the
/// estimate may find none though there was one; then the next one is waited for, as upstream does.
///
/// # Errors
///
/// Upstream's words for a schedule without times.
pub fn recent(earliest: Millis, now: Millis, schedule: &Schedule) -> Result<Recent, String> {
    let found = |time, missed| {
        Ok(Recent {
            earliest,
            time,
            missed,
        })
    };
    let no_times = || NO_TIMES.to_owned();
    let first = schedule.next(earliest).ok_or_else(no_times)?;
    if now < first {
        return found(None, Missed::None);
    }
    let second = schedule.next(first).ok_or_else(no_times)?;
    if now < second {
        return found(Some(first), Missed::None);
    }
    let distance = second - first;
    let count = (now - first) / distance + 1;
    let mut latest = None;
    let mut next = schedule.next(first + (count - 2) * distance);
    while let Some(time) = next.filter(|time| *time <= now) {
        latest = Some(time);
        next = schedule.next(time);
    }
    let missed = if count > MANY {
        Missed::Many
    } else {
        Missed::Few
    };
    found(latest, missed)
}

#[cfg(test)]
#[path = "due_tests.rs"]
mod tests;
