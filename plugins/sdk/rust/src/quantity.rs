//! Quantities of resources: `100m` CPUs, `1.5Gi` bytes.
//!
//! The rules are those of apimachinery's `resource.Quantity`. They are here and not in a crate,
//! because the one that there is (`kube_quantity`) brings k8s-openapi and a parser library along.

mod parse;

use std::cmp::Ordering;
use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Neg, Sub, SubAssign};
use std::str::FromStr;

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::Failure;
use parse::parse;

/// Parts of a whole: the smallest quantity is a billionth.
const NANO: i128 = 1_000_000_000;

/// The suffixes of powers of ten.
const DECIMAL: [(&str, i32); 10] = [
    ("n", -9),
    ("u", -6),
    ("m", -3),
    ("", 0),
    ("k", 3),
    ("M", 6),
    ("G", 9),
    ("T", 12),
    ("P", 15),
    ("E", 18),
];

/// The suffixes of powers of 1,024, from the first power on.
const BINARY: [&str; 6] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/// How a quantity is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Format {
    /// `12M`.
    #[default]
    Decimal,
    /// `12Mi`.
    Binary,
    /// `12e6`.
    Exponent,
}

/// An amount of a resource, such as `spec.containers[*].resources.requests.memory` of a Pod.
///
/// It is read as Kubernetes reads it, and written in Kubernetes' canonical form: without a
/// fraction, with the largest suffix of the same sort that loses nothing. Parts of a billionth are
/// rounded up. Quantities are compared by their amount: `1` equals `1000m`. What is beyond 170
/// billion `E` is refused when it is read, and is the most that there is after an addition.
///
/// ```
/// use pilothouse_sdk::Quantity;
///
/// let memory: Quantity = "1.5Gi".parse()?;
/// assert_eq!(memory.to_string(), "1536Mi");
/// assert_eq!(memory.value(), 1_610_612_736);
///
/// let requests = ["100m", "1", "2e3"].iter().map(|text| text.parse());
/// let cpus: Quantity = requests.sum::<Result<_, _>>()?;
/// assert_eq!(cpus.to_string(), "2001100m");
/// assert!(cpus > Quantity::from(2_001));
/// # Ok::<(), pilothouse_sdk::InvalidQuantity>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Quantity {
    nano: i128,
    format: Format,
}

/// A text that is not a [`Quantity`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidQuantity(String);

impl Quantity {
    /// So many thousandths: `Quantity::milli(100)` is `100m`.
    #[must_use]
    pub fn milli(thousandths: i64) -> Self {
        Self {
            nano: i128::from(thousandths) * (NANO / 1_000),
            format: Format::Decimal,
        }
    }

    /// So many bytes, written with a binary suffix: `Quantity::bytes(1024)` is `1Ki`.
    #[must_use]
    pub fn bytes(bytes: i64) -> Self {
        Self {
            nano: i128::from(bytes) * NANO,
            format: Format::Binary,
        }
    }

    /// The amount in whole units. A fraction is rounded away from zero, as Kubernetes does: `100m`
    /// is 1. What 64 bits cannot hold is the most that they can.
    #[must_use]
    pub fn value(self) -> i64 {
        self.in_parts_of(NANO)
    }

    /// The amount in thousandths, rounded as in [`value`](Self::value).
    #[must_use]
    pub fn milli_value(self) -> i64 {
        self.in_parts_of(NANO / 1_000)
    }

    /// True for nothing at all.
    #[must_use]
    pub fn is_zero(self) -> bool {
        self.nano == 0
    }

    fn in_parts_of(self, part: i128) -> i64 {
        let away = self.nano.signum() * i128::from(self.nano % part != 0);
        let parts = self.nano / part + away;
        let bounded = parts.clamp(i64::MIN.into(), i64::MAX.into());
        i64::try_from(bounded).expect("a number between the bounds of 64 bits")
    }

    /// A sum of this quantity and as many billionths of another one, whose format it takes if it is
    /// zero.
    fn plus(self, nano: i128, other: Self) -> Self {
        let format = if self.is_zero() {
            other.format
        } else {
            self.format
        };
        let nano = self.nano.saturating_add(nano);
        Self { nano, format }
    }

    /// `12` and `M`.
    fn write_decimal(self, f: &mut fmt::Formatter<'_>, format: Format) -> fmt::Result {
        let (mut amount, mut exponent) = without_zeros(self.nano);
        let most = if format == Format::Decimal {
            18
        } else {
            exponent
        };
        while exponent % 3 != 0 || exponent > most {
            amount *= 10;
            exponent -= 1;
        }
        match format {
            Format::Exponent if exponent == 0 => write!(f, "{amount}"),
            Format::Exponent => write!(f, "{amount}e{exponent}"),
            Format::Decimal | Format::Binary => {
                let suffix = DECIMAL.iter().find(|(_, power)| *power == exponent);
                write!(f, "{amount}{}", suffix.map_or("", |(suffix, _)| suffix))
            }
        }
    }

    /// `12` and `Mi`, of an amount without a fraction.
    fn write_binary(self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut amount = self.nano / NANO;
        let mut suffix = "";
        for next in BINARY {
            // No division, which costs much in a guest.
            if amount.trailing_zeros() < 10 {
                break;
            }
            amount >>= 10;
            suffix = next;
        }
        write!(f, "{amount}{suffix}")
    }
}

/// So many billionths without the zeros at the end, and the power of ten of what is left. In a
/// guest a division of 128 bits costs many instructions, so there are few of them.
fn without_zeros(nano: i128) -> (i128, i32) {
    let (mut amount, mut exponent) = (nano, -9);
    if amount % NANO == 0 {
        (amount, exponent) = (amount / NANO, 0);
    }
    let Ok(mut small) = i64::try_from(amount) else {
        while amount % 10 == 0 {
            (amount, exponent) = (amount / 10, exponent + 1);
        }
        return (amount, exponent);
    };
    while small % 10 == 0 {
        (small, exponent) = (small / 10, exponent + 1);
    }
    (small.into(), exponent)
}

/// The canonical form.
impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_zero() {
            return f.write_str("0");
        }
        // Less than the smallest binary suffix, or a fraction, is written with a decimal one.
        let is_binary = self.nano.abs() >= 1_024 * NANO && self.nano % NANO == 0;
        match self.format {
            Format::Binary if is_binary => self.write_binary(f),
            Format::Binary | Format::Decimal => self.write_decimal(f, Format::Decimal),
            Format::Exponent => self.write_decimal(f, Format::Exponent),
        }
    }
}

impl FromStr for Quantity {
    type Err = InvalidQuantity;

    fn from_str(text: &str) -> Result<Self, InvalidQuantity> {
        parse(text).ok_or_else(|| InvalidQuantity(text.to_owned()))
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nano == other.nano
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nano.cmp(&other.nano)
    }
}

/// A sum is written as its first part, or if that is zero, as its second.
impl Add for Quantity {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        self.plus(other.nano, other)
    }
}

impl Sub for Quantity {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        self.plus(other.nano.saturating_neg(), other)
    }
}

impl AddAssign for Quantity {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl SubAssign for Quantity {
    fn sub_assign(&mut self, other: Self) {
        *self = *self - other;
    }
}

impl Neg for Quantity {
    type Output = Self;

    fn neg(self) -> Self {
        Self {
            nano: self.nano.saturating_neg(),
            ..self
        }
    }
}

impl Sum for Quantity {
    fn sum<I: Iterator<Item = Self>>(quantities: I) -> Self {
        quantities.fold(Self::default(), Add::add)
    }
}

/// So many whole units.
impl From<i64> for Quantity {
    fn from(units: i64) -> Self {
        Self {
            nano: i128::from(units) * NANO,
            format: Format::Decimal,
        }
    }
}

impl fmt::Display for InvalidQuantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = &self.0;
        write!(f, "{text:?} is not a quantity; write 100m, 1.5Gi or 2e3")
    }
}

impl std::error::Error for InvalidQuantity {}

/// A terminal failure, because the text would be the same on every retry.
impl From<InvalidQuantity> for Failure {
    fn from(error: InvalidQuantity) -> Self {
        Self::Terminal(error.to_string())
    }
}

impl Serialize for Quantity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// From a text or, as in YAML that people write, a number.
impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextOrNumber)
    }
}

struct TextOrNumber;

impl Visitor<'_> for TextOrNumber {
    type Value = Quantity;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a quantity such as \"100m\" or 2")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Quantity, E> {
        text.trim().parse().map_err(E::custom)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Quantity, E> {
        Ok(number.into())
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Quantity, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Quantity, E> {
        self.visit_str(&number.to_string())
    }
}
