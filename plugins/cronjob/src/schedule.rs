//! When a CronJob runs: `spec.schedule`, in the syntax of robfig/cron v3 (`ParseStandard`).
//!
//! No crate parses that syntax as it is: `?` for `*`, lists with empty entries, a step that turns a
//! number into a range, `*` that does or does not restrict a day, `@every` with Go's durations, a
//! time zone in front, and what becomes of hours that a clock skips or repeats. Each is a rule that
//! users' schedules rest on, so the rules are here, with upstream's cases beside them.

mod duration;
mod fields;
mod walk;

use crate::zone::Zone;
use fields::Fields;

/// Milliseconds since the Unix epoch.
pub type Millis = i64;

pub const SECOND: Millis = 1_000;

/// A time zone in front of a schedule.
const ZONES: [&str; 2] = ["TZ=", "CRON_TZ="];

/// When something happens again and again.
pub enum Schedule {
    /// At the times that match, on the clocks of a time zone.
    Matching { fields: Fields, zone: Zone },
    /// With this time in between, which is whole seconds.
    Every(Millis),
}

impl Schedule {
    /// Parses `30 6-16/4 * * 1-5`, `@hourly`, `@every 90m`, each with `TZ=Europe/Rome ` in front if
    /// need be. Without it, the schedule is of UTC.
    ///
    /// # Errors
    ///
    /// The words of robfig/cron, which users know from their Events.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("empty spec string".to_owned());
        }
        let (zone, text) = split_zone(text)?;
        if text.starts_with('@') {
            return Self::described(text, zone);
        }
        let fields = Fields::parse(text)?;
        Ok(Self::Matching { fields, zone })
    }

    fn described(text: &str, zone: Zone) -> Result<Self, String> {
        let fields = match text {
            "@yearly" | "@annually" => "0 0 1 1 *",
            "@monthly" => "0 0 1 * *",
            "@weekly" => "0 0 * * 0",
            "@daily" | "@midnight" => "0 0 * * *",
            "@hourly" => "0 * * * *",
            _ => return Self::every(text),
        };
        let fields = Fields::parse(fields)?;
        Ok(Self::Matching { fields, zone })
    }

    fn every(text: &str) -> Result<Self, String> {
        let Some(duration) = text.strip_prefix("@every ") else {
            return Err(format!("unrecognized descriptor: {text}"));
        };
        let nanoseconds = duration::parse(duration)
            .map_err(|error| format!("failed to parse duration {text}: {error}"))?;
        // At least a second, and no parts of one.
        let seconds = (nanoseconds / 1_000_000_000).max(1);
        Ok(Self::Every(seconds * SECOND))
    }

    /// The next time after this one. `None`: there is none within five years.
    ///
    /// It is a whole second.
    pub fn next(&self, after: Millis) -> Option<Millis> {
        let second = after.div_euclid(SECOND);
        match self {
            Self::Matching { fields, zone } => Some(walk::next(fields, zone, second)? * SECOND),
            Self::Every(period) => (second * SECOND).checked_add(*period),
        }
    }
}

/// The time zone in front of a schedule, and the rest.
fn split_zone(text: &str) -> Result<(Zone, &str), String> {
    let Some(rest) = ZONES.iter().find_map(|zone| text.strip_prefix(zone)) else {
        return Ok((Zone::utc(), text));
    };
    let (name, rest) = rest.split_once(' ').ok_or_else(|| {
        format!("invalid schedule format: nothing follows the time zone {rest:?}")
    })?;
    let zone =
        Zone::named(name).map_err(|error| format!("provided bad location {name}: {error}"))?;
    Ok((zone, rest.trim()))
}

#[cfg(test)]
#[path = "schedule_tests.rs"]
mod tests;
