//! Dates as labels have them: `2026-01-31`. They are ordered as their texts are.

use std::time::Duration;

use pilothouse_sdk::{Time, rfc3339};

pub const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// The date of a time, in UTC.
pub fn date(time: Duration) -> String {
    rfc3339(time).chars().take(10).collect()
}

/// When this date begins. `None`: it is none.
pub fn begin(date: &str) -> Option<Duration> {
    let time = format!("{date}T00:00:00Z").parse::<Time>();
    time.ok().map(|time| time.0)
}
