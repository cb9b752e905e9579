//! Durations as Go writes them: `1h30m`, `1.5h`, `90s`.

/// The nanoseconds of each unit. Both letters that look like µ are known.
const UNITS: [(&str, u64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("\u{b5}s", 1_000),
    ("\u{3bc}s", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// The nanoseconds of a duration, by the rules of Go's `time.ParseDuration`.
///
/// # Errors
///
/// Go's words.
pub fn parse(text: &str) -> Result<i64, String> {
    let invalid = || format!("time: invalid duration {text:?}");
    let (is_negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Ok(0);
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut sum: u64 = 0;
    while !rest.is_empty() {
        let (number, after) = split(rest, |c| c.is_ascii_digit() || c == '.');
        let (unit, after) = split(after, |c| !c.is_ascii_digit() && c != '.');
        if !number.bytes().any(|byte| byte.is_ascii_digit()) {
            return Err(invalid());
        }
        // A second point begins another number.
        let unit = if number.matches('.').count() > 1 {
            ""
        } else {
            unit
        };
        let nanoseconds = nanoseconds(unit).map_err(|problem| match problem {
            Problem::Missing => format!("time: missing unit in duration {text:?}"),
            Problem::Unknown => format!("time: unknown unit {unit:?} in duration {text:?}"),
        })?;
        let part = times(number, nanoseconds);
        let next = part.and_then(|part| sum.checked_add(part));
        sum = next.filter(|sum| *sum <= 1 << 63).ok_or_else(invalid)?;
        rest = after;
    }
    if is_negative {
        return Ok(0i64.saturating_sub_unsigned(sum));
    }
    i64::try_from(sum).map_err(|_| invalid())
}

enum Problem {
    Missing,
    Unknown,
}

fn nanoseconds(unit: &str) -> Result<u64, Problem> {
    if unit.is_empty() {
        return Err(Problem::Missing);
    }
    let found = UNITS.iter().find(|(name, _)| *name == unit);
    found.map(|(_, value)| *value).ok_or(Problem::Unknown)
}

/// The longest beginning of such characters, and the rest.
fn split(text: &str, belongs: impl Fn(char) -> bool) -> (&str, &str) {
    let end = text.find(|c| !belongs(c)).unwrap_or(text.len());
    text.split_at(end)
}

/// A number times a unit. `None`: it is too large.
fn times(number: &str, unit: u64) -> Option<u64> {
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    let whole: u64 = match whole {
        "" => 0,
        digits => digits.parse().ok()?,
    };
    let part = part
        .bytes()
        .rev()
        .fold(0.0, |sum, digit| (sum + f64::from(digit - b'0')) / 10.0);
    #[allow(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a part of at most an hour of nanoseconds, which a float holds"
    )]
    let part = (part * unit as f64) as u64;
    whole.checked_mul(unit)?.checked_add(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000_000;

    #[test]
    fn durations_are_read_as_go_reads_them() {
        for (text, wanted) in [
            ("0", 0),
            ("5s", 5 * SECOND),
            ("+5s", 5 * SECOND),
            ("-5s", -5 * SECOND),
            ("1h30m", 5_400 * SECOND),
            ("1.5h", 5_400 * SECOND),
            (".5s", SECOND / 2),
            ("5.s", 5 * SECOND),
            ("1h1m1s1ms1us1\u{b5}s1\u{3bc}s1ns", 3_661_001_003_001),
            ("9223372036854775807ns", i64::MAX),
            ("-9223372036854775808ns", i64::MIN),
        ] {
            assert_eq!(parse(text), Ok(wanted), "{text}");
        }
    }

    #[test]
    fn what_is_no_duration_is_refused_in_the_words_of_go() {
        for text in [
            "",
            "-",
            "s",
            "Xm",
            ".s",
            "1.2.3s",
            "1 h",
            "9223372036854775808ns",
            "3000000h",
        ] {
            let error = parse(text).err().unwrap_or_default();
            assert!(error.starts_with("time: "), "{text}: {error}");
        }
        let error = |text: &str| parse(text).err().unwrap_or_default();
        assert_eq!(error("Xm"), "time: invalid duration \"Xm\"");
        assert_eq!(error("1.2.3s"), "time: missing unit in duration \"1.2.3s\"");
        assert_eq!(error("5"), "time: missing unit in duration \"5\"");
        assert_eq!(error("5d"), "time: unknown unit \"d\" in duration \"5d\"");
    }
}
