//! Durations and amounts of memory, in Kubernetes' notation.

use std::time::Duration;

/// Parses `1h30m` or `90s`; `0` is zero.
pub fn duration(text: &str) -> Result<Duration, String> {
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let parsed = text.parse::<jiff::SignedDuration>().ok();
    parsed
        .and_then(|duration| duration.try_into().ok())
        .ok_or_else(|| format!("{text:?} is not a duration; write 12h, 1h30m, 90s or 0"))
}

/// Parses an amount of memory with a binary suffix: `512Mi`. Must be more than 0.
pub fn bytes(text: &str) -> Result<usize, String> {
    let digits = text
        .find(|byte: char| !byte.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit = match unit {
        "" => 1,
        "Ki" => 1 << 10,
        "Mi" => 1 << 20,
        "Gi" => 1 << 30,
        _ => 0,
    };
    let bytes = number
        .parse()
        .ok()
        .and_then(|number: usize| number.checked_mul(unit));
    bytes
        .filter(|bytes| *bytes > 0)
        .ok_or_else(|| format!("{text:?} is not an amount of memory; write 512Mi or 4Gi"))
}

/// Formats an amount of memory for people.
pub fn size(bytes: usize) -> String {
    match bytes {
        0..10_240 => format!("{bytes} B"),
        10_240..10_485_760 => format!("{} KiB", bytes >> 10),
        _ => format!("{} MiB", bytes >> 20),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_written_as_in_kubernetes() {
        assert_eq!(duration("1h30m"), Ok(Duration::from_secs(5400)));
        assert_eq!(duration("0"), Ok(Duration::ZERO));
        for wrong in ["12", "-5s", "soon", ""] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn memory_is_written_as_in_kubernetes() {
        assert_eq!(bytes("512Mi"), Ok(512 << 20));
        assert_eq!(bytes("1000"), Ok(1000));
        for wrong in ["", "0", "4GB", "Mi", "-1Gi", "99999999999999999999Gi"] {
            assert!(bytes(wrong).is_err(), "{wrong}");
        }
    }
}
