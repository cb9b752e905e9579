//! Times in the format of Kubernetes.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::Failure;

const DAY: u64 = 24 * 60 * 60;
const NANOSECONDS: u32 = 1_000_000_000;

/// A time in an object, such as `metadata.creationTimestamp`, since the Unix epoch. As text and in
/// JSON it is RFC 3339; it is written as [`rfc3339`] does, and read in any of that format's forms.
///
/// ```
/// use std::time::Duration;
///
/// use pilothouse_sdk::Time;
///
/// let created: Time = "2026-01-02T03:04:05Z".parse()?;
/// let ends = Time(created.0 + Duration::from_secs(60));
/// assert_eq!(ends.to_string(), "2026-01-02T03:05:05Z");
/// # Ok::<(), pilothouse_sdk::InvalidTime>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time(pub Duration);

/// A text that is not a [`Time`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidTime(String);

impl fmt::Display for InvalidTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = &self.0;
        write!(
            f,
            "{text:?} is not a time from 1970 on in RFC 3339; write 2026-01-02T03:04:05Z"
        )
    }
}

impl std::error::Error for InvalidTime {}

/// A terminal failure, because the text would be the same on every retry.
impl From<InvalidTime> for Failure {
    fn from(error: InvalidTime) -> Self {
        Self::Terminal(error.to_string())
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&rfc3339(self.0))
    }
}

impl FromStr for Time {
    type Err = InvalidTime;

    fn from_str(text: &str) -> Result<Self, InvalidTime> {
        let time = parse(text).ok_or_else(|| InvalidTime(text.to_owned()));
        time.map(Self)
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// A time in an object that counts microseconds, such as `spec.renewTime` of a Lease or `eventTime`
/// of an Event. It is read as [`Time`] is, and written with six digits after the second: the API
/// server takes no other number of them for `MicroTime`.
///
/// ```
/// use std::time::Duration;
///
/// use pilothouse_sdk::MicroTime;
///
/// let renewed: MicroTime = serde_json::from_str("\"2026-01-02T03:04:05.250000Z\"")?;
/// let ends = MicroTime(renewed.0 + Duration::from_secs(15));
/// assert_eq!(serde_json::to_string(&ends)?, "\"2026-01-02T03:04:20.250000Z\"");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct MicroTime(pub Duration);

impl fmt::Display for MicroTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&rfc3339_micro(self.0))
    }
}

impl FromStr for MicroTime {
    type Err = InvalidTime;

    fn from_str(text: &str) -> Result<Self, InvalidTime> {
        text.parse().map(|Time(time)| Self(time))
    }
}

impl Serialize for MicroTime {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for MicroTime {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Time::deserialize(deserializer).map(|Time(time)| Self(time))
    }
}

/// A time since the Unix epoch, such as [`Host::now`](crate::Host::now), in the format that
/// objects use: RFC 3339, in UTC, to the second (`2026-01-02T03:04:05Z`). Parts of a second are cut
/// off.
#[must_use]
pub fn rfc3339(time: Duration) -> String {
    let (days, second) = (time.as_secs() / DAY, time.as_secs() % DAY);
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// As [`rfc3339`], with microseconds: `2026-01-02T03:04:05.678901Z`. Parts of a microsecond are cut
/// off.
#[must_use]
pub fn rfc3339_micro(time: Duration) -> String {
    let whole = rfc3339(time);
    let micros = time.subsec_micros();
    format!("{}.{micros:06}Z", whole.trim_end_matches('Z'))
}

/// The date that is `days` days after 1970-01-01, in the Gregorian calendar.
///
/// Years are counted from March, so that the leap day is the last day of a year, and in eras of 400
/// years, which all have the same length (Howard Hinnant, "chrono-Compatible Low-Level Date
/// Algorithms").
fn civil(days: u64) -> (u64, u64, u64) {
    const ERA: u64 = 146_097;
    let days = days + 719_468;
    let (era, day_of_era) = (days / ERA, days % ERA);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    (year, month, day)
}

/// The days from 1970-01-01 to this date: the inverse of [`civil`]. `None`: there is no such date.
fn days_to(year: u64, month: u64, day: u64) -> Option<u64> {
    let year_from_march = year.checked_sub(u64::from(month <= 2))?;
    let month_from_march = (month + 9) % 12;
    let day_of_year = ((153 * month_from_march + 2) / 5 + day).checked_sub(1)?;
    let leap_days = year_from_march / 4 - year_from_march / 100 + year_from_march / 400;
    let days = (365 * year_from_march + leap_days + day_of_year).checked_sub(719_468)?;
    (civil(days) == (year, month, day)).then_some(days)
}

/// Parses RFC 3339: `2026-01-02T03:04:05.678+01:00`.
fn parse(text: &str) -> Option<Duration> {
    let (date, time) = (text.get(..10)?, text.get(11..19)?);
    let is_separated = matches!(text.as_bytes()[10], b'T' | b't' | b' ');
    let [year, month, day] = numbers(date, '-', [4, 2, 2])?;
    let [hour, minute, second] = numbers(time, ':', [2, 2, 2])?;
    // A leap second is the first of the next minute, as on the clocks that skip it.
    if !is_separated || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let (nanoseconds, zone) = fraction(&text[19..])?;
    let local = days_to(year, month, day)? * DAY + hour * 3600 + minute * 60 + second;
    let seconds = local.checked_add_signed(-offset(zone)?)?;
    Some(Duration::new(seconds, nanoseconds))
}

/// The numbers of a text such as `03:04:05`, which have this many digits.
fn numbers<const N: usize>(text: &str, separator: char, digits: [usize; N]) -> Option<[u64; N]> {
    let mut numbers = [0; N];
    let mut parts = text.split(separator);
    for (number, digits) in numbers.iter_mut().zip(digits) {
        let part = parts.next()?;
        if part.len() != digits || !part.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        *number = part.parse().ok()?;
    }
    parts.next().is_none().then_some(numbers)
}

/// The nanoseconds of `.678`, if the text begins with that, and what follows. Digits after the
/// ninth are cut off.
fn fraction(text: &str) -> Option<(u32, &str)> {
    let Some(rest) = text.strip_prefix('.') else {
        return Some((0, text));
    };
    let is_digit = |byte: &u8| byte.is_ascii_digit();
    let digits = rest.bytes().take_while(is_digit).count();
    let mut unit = NANOSECONDS;
    let nanoseconds = rest.bytes().take(digits).map(|byte| {
        unit /= 10;
        u32::from(byte - b'0') * unit
    });
    (digits > 0).then_some((nanoseconds.sum(), &rest[digits..]))
}

/// The seconds by which a zone is ahead of UTC: `Z` or `+01:00`.
fn offset(zone: &str) -> Option<i64> {
    if matches!(zone, "Z" | "z") {
        return Some(0);
    }
    let sign = match zone.as_bytes().first()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let [hours, minutes] = numbers(&zone[1..], ':', [2, 2])?;
    let seconds = i64::try_from(hours * 3600 + minutes * 60).ok()?;
    (hours <= 23 && minutes <= 59).then_some(sign * seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_written_as_kubernetes_writes_it() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (951_868_800, "2000-03-01T00:00:00Z"),
            (1_767_323_045, "2026-01-02T03:04:05Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
            (253_402_300_799, "9999-12-31T23:59:59Z"),
        ] {
            assert_eq!(rfc3339(Duration::from_secs(seconds)), text);
        }
    }

    #[test]
    fn a_time_is_read_in_every_form_of_the_format() {
        let wanted = Duration::from_secs(1_767_323_045);
        for (text, more) in [
            ("2026-01-02T03:04:05Z", 0),
            ("2026-01-02t03:04:05z", 0),
            ("2026-01-02 03:04:05+00:00", 0),
            ("2026-01-02T04:34:05+01:30", 0),
            ("2026-01-01T22:04:05-05:00", 0),
            ("2026-01-02T03:04:05.25Z", 250_000_000),
            ("2026-01-02T03:04:05.000001Z", 1_000),
            ("2026-01-02T03:04:05.1234567899+00:00", 123_456_789),
        ] {
            let time = text.parse::<Time>();
            assert_eq!(
                time,
                Ok(Time(wanted + Duration::from_nanos(more))),
                "{text}"
            );
        }
    }

    #[test]
    fn a_day_that_was_written_is_read_as_the_same() {
        for day in 0..200_000 {
            let time = Time(Duration::from_secs(day * DAY + day % DAY));
            assert_eq!(time.to_string().parse(), Ok(time));
        }
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for text in [
            "",
            "2026-01-02",
            "2026-01-02T03:04:05",
            "2026-01-02T03:04Z",
            "2026-1-02T03:04:05Z",
            "2026-02-29T03:04:05Z",
            "2026-13-01T03:04:05Z",
            "2026-00-01T03:04:05Z",
            "2026-01-00T03:04:05Z",
            "2026-01-02T24:04:05Z",
            "2026-01-02T03:60:05Z",
            "2026-01-02T03:04:61Z",
            "2026-01-02T03:04:05.Z",
            "2026-01-02T03:04:05+24:00",
            "2026-01-02T03:04:05+1:00",
            "2026-01-02T03:04:05Zulu",
            "2026-01-02T+3:04:05Z",
            "2026-01-02_03:04:05Z",
            "1969-12-31T23:59:59Z",
            "1970-01-01T00:00:00+00:01",
            "0000-01-01T00:00:00Z",
            "2026-01-02\u{e9}03:04:05Z",
        ] {
            assert!(text.parse::<Time>().is_err(), "{text}");
        }
        let error = "tomorrow"
            .parse::<Time>()
            .map_err(|error| error.to_string());
        let wanted = "\"tomorrow\" is not a time from 1970 on in RFC 3339; \
                      write 2026-01-02T03:04:05Z";
        assert_eq!(error, Err(wanted.to_owned()));
    }

    #[test]
    fn a_time_in_json_is_its_text() {
        let time: Time = serde_json::from_str("\"2026-01-02T03:04:05.5Z\"").unwrap();
        assert_eq!(time.0, Duration::from_millis(1_767_323_045_500));
        let text = serde_json::to_string(&time).unwrap();
        assert_eq!(text, "\"2026-01-02T03:04:05Z\"");
        let error = serde_json::from_str::<Time>("\"soon\"").unwrap_err();
        assert!(error.to_string().starts_with("\"soon\" is not a time"));
    }

    #[test]
    fn a_micro_time_is_written_with_six_digits() {
        for (text, written) in [
            ("2026-01-02T03:04:05Z", "2026-01-02T03:04:05.000000Z"),
            ("2026-01-02T03:04:05.000001Z", "2026-01-02T03:04:05.000001Z"),
            (
                "2026-01-02T04:04:05.9999999+01:00",
                "2026-01-02T03:04:05.999999Z",
            ),
        ] {
            let time: MicroTime = serde_json::from_value(text.into()).unwrap();
            assert_eq!(serde_json::to_value(time).unwrap(), written);
            assert_eq!(written.parse::<MicroTime>().unwrap().to_string(), written);
        }
        assert!("soon".parse::<MicroTime>().is_err());
        assert!(serde_json::from_str::<MicroTime>("\"soon\"").is_err());
    }

    #[test]
    fn parts_of_a_second_are_left_out() {
        assert_eq!(
            rfc3339(Duration::from_millis(1_999)),
            "1970-01-01T00:00:01Z"
        );
    }
}
