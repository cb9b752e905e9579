//! Numbers that may also be written as a text: `maxUnavailable: 1` or `"25%"`, and ports by name.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Failure;

/// A number or a text, as Kubernetes' `IntOrString`: `maxSurge` of a Deployment, `targetPort` of a
/// Service.
///
/// ```
/// use pilothouse_sdk::IntOrString;
///
/// let max_surge: IntOrString = serde_json::from_str("\"25%\"")?;
/// assert_eq!(max_surge.scaled_up(10)?, 3);
/// assert_eq!(max_surge.scaled_down(10)?, 2);
/// assert_eq!(IntOrString::from(4).scaled_up(10)?, 4);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(untagged)]
pub enum IntOrString {
    /// A number.
    Int(i32),
    /// A text: a percentage such as `25%`, or the name of a port.
    String(String),
}

/// A text that is not a percentage, where a number or a percentage is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidPercentage(String);

impl IntOrString {
    /// The number, or the percentage of `total`, rounded up: as `maxSurge` is computed
    /// (`GetScaledValueFromIntOrPercent` of apimachinery).
    ///
    /// # Errors
    ///
    /// The text is not a whole number with a `%` behind it.
    pub fn scaled_up(&self, total: i32) -> Result<i32, InvalidPercentage> {
        self.scaled(total, 99)
    }

    /// The number, or the percentage of `total`, rounded down: as `maxUnavailable` is computed.
    ///
    /// # Errors
    ///
    /// As for [`scaled_up`](Self::scaled_up).
    pub fn scaled_down(&self, total: i32) -> Result<i32, InvalidPercentage> {
        self.scaled(total, 0)
    }

    /// True for a text that ends with `%`.
    #[must_use]
    pub fn is_percentage(&self) -> bool {
        matches!(self, Self::String(text) if text.ends_with('%'))
    }

    /// The number, or the percentage after as many hundredths have been added. What 32 bits cannot
    /// hold becomes the nearest number that they can.
    fn scaled(&self, total: i32, hundredths: i128) -> Result<i32, InvalidPercentage> {
        let text = match self {
            Self::Int(number) => return Ok(*number),
            Self::String(text) => text,
        };
        let percent = text.strip_suffix('%').and_then(|text| text.parse().ok());
        let percent: i64 = percent.ok_or_else(|| InvalidPercentage(text.clone()))?;
        let scaled = (i128::from(percent) * i128::from(total) + hundredths).div_euclid(100);
        let bounded = scaled.clamp(i32::MIN.into(), i32::MAX.into());
        Ok(i32::try_from(bounded).expect("a number between the bounds of 32 bits"))
    }
}

impl fmt::Display for IntOrString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(number) => number.fmt(f),
            Self::String(text) => text.fmt(f),
        }
    }
}

impl From<i32> for IntOrString {
    fn from(number: i32) -> Self {
        Self::Int(number)
    }
}

impl From<&str> for IntOrString {
    fn from(text: &str) -> Self {
        Self::String(text.to_owned())
    }
}

impl fmt::Display for InvalidPercentage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = &self.0;
        write!(
            f,
            "{text:?} is neither a number nor a percentage; write 3 or \"25%\""
        )
    }
}

impl std::error::Error for InvalidPercentage {}

/// A terminal failure, because the text would be the same on every retry.
impl From<InvalidPercentage> for Failure {
    fn from(error: InvalidPercentage) -> Self {
        Self::Terminal(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentage_is_rounded_the_way_that_is_asked_for() {
        for (text, total, up, down) in [
            ("0%", 7, 0, 0),
            ("25%", 10, 3, 2),
            ("25%", 4, 1, 1),
            ("1%", 1, 1, 0),
            ("100%", 7, 7, 7),
            ("150%", 3, 5, 4),
            ("33%", 3, 1, 0),
            ("+10%", 5, 1, 0),
            ("-25%", 10, -2, -3),
            ("25%", 0, 0, 0),
            ("3000000000%", 2_000_000_000, i32::MAX, i32::MAX),
        ] {
            let percentage = IntOrString::from(text);
            assert_eq!(percentage.scaled_up(total), Ok(up), "{text} of {total}");
            assert_eq!(percentage.scaled_down(total), Ok(down), "{text} of {total}");
            assert!(percentage.is_percentage());
        }
    }

    #[test]
    fn a_number_is_not_scaled() {
        assert_eq!(IntOrString::from(4).scaled_up(1), Ok(4));
        assert_eq!(IntOrString::from(-4).scaled_down(1), Ok(-4));
        assert!(!IntOrString::from(4).is_percentage());
    }

    #[test]
    fn a_text_that_is_no_percentage_is_refused() {
        for text in ["", "%", "4", "http", "2.5%", "1 %", "%1", "1%%", "1_0%"] {
            let error = IntOrString::from(text).scaled_up(10);
            let error = error.map_err(|error| error.to_string());
            let wanted =
                format!("{text:?} is neither a number nor a percentage; write 3 or \"25%\"");
            assert_eq!(error, Err(wanted));
        }
    }

    #[test]
    fn it_is_a_number_or_a_text_in_json() {
        for (json, value, shown) in [
            ("8080", IntOrString::from(8080), "8080"),
            ("\"http\"", IntOrString::from("http"), "http"),
            ("\"25%\"", IntOrString::from("25%"), "25%"),
        ] {
            assert_eq!(serde_json::from_str::<IntOrString>(json).unwrap(), value);
            assert_eq!(serde_json::to_string(&value).unwrap(), json);
            assert_eq!(value.to_string(), shown);
        }
        assert!(serde_json::from_str::<IntOrString>("2.5").is_err());
        assert!(serde_json::from_str::<IntOrString>("5000000000").is_err());
    }
}
