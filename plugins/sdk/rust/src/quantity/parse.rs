//! Reads the text of a quantity.

use super::{BINARY, DECIMAL, Format, NANO, Quantity};

/// What a quantity with a binary suffix is at most, in Kubernetes.
const MAX_BINARY: i128 = i64::MAX as i128 * NANO;

pub(super) fn parse(text: &str) -> Option<Quantity> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let is_digit = |character: char| character.is_ascii_digit();
    let rest = unsigned.trim_start_matches(is_digit);
    let whole = &unsigned[..unsigned.len() - rest.len()];
    let after_point = rest.strip_prefix('.').unwrap_or(rest);
    let has_point = after_point.len() < rest.len();
    let suffix = if has_point {
        after_point.trim_start_matches(is_digit)
    } else {
        rest
    };
    let fraction = &after_point[..after_point.len() - suffix.len()];
    let (format, power, factor) = interpret(suffix)?;
    let nano = billionths(whole, fraction, power, factor)?;
    let nano = if format == Format::Binary {
        nano.min(MAX_BINARY)
    } else {
        nano
    };
    let is_small = format == Format::Binary && nano < NANO;
    // What is less than one has no binary suffix any more.
    let format = if is_small { Format::Decimal } else { format };
    let sign = if text.starts_with('-') { -1 } else { 1 };
    // As Kubernetes takes it, a sign or a suffix alone is nothing; but no text is no quantity.
    (!text.is_empty()).then_some(Quantity {
        nano: sign * nano,
        format,
    })
}

/// A suffix as a format, a power of ten and a factor.
fn interpret(suffix: &str) -> Option<(Format, i32, i128)> {
    if let Some((_, power)) = DECIMAL.iter().find(|(decimal, _)| *decimal == suffix) {
        return Some((Format::Decimal, *power, 1));
    }
    if let Some(index) = BINARY.iter().position(|binary| *binary == suffix) {
        return Some((Format::Binary, 0, 1 << (10 * (index + 1))));
    }
    let power = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
    Some((Format::Exponent, power, 1))
}

/// The billionths of `whole.fraction`, times a power of ten and a factor, rounded up. `None`: more
/// than there can be.
fn billionths(whole: &str, fraction: &str, power: i32, factor: i128) -> Option<i128> {
    if fraction.is_empty()
        && let Some(nano) = of_few_digits(whole, power, factor)
    {
        return Some(nano);
    }
    let digits = whole.bytes().chain(fraction.bytes());
    let digits: Vec<i128> = digits.map(|digit| i128::from(digit - b'0')).collect();
    if digits.iter().all(|digit| *digit == 0) {
        return Some(0);
    }
    // How many digits are left of the point, which is moved.
    let whole = i64::try_from(whole.len()).ok()? + i64::from(power) + 9;
    let mut amount: i128 = 0;
    for place in 0..whole {
        let digit = usize::try_from(place)
            .ok()
            .and_then(|place| digits.get(place));
        let digit = digit.copied().unwrap_or_default();
        amount = amount
            .checked_mul(10)?
            .checked_add(digit.checked_mul(factor)?)?;
    }
    // Zeros between the point and the digits change nothing: a power of ten has the factor one, and
    // so what is right of the point comes to at most one.
    let right = usize::try_from(whole).unwrap_or_default();
    let right = digits.get(right..).unwrap_or_default();
    amount.checked_add(rounded_up(right, factor))
}

/// The same of a whole number that fits into 64 bits, as nearly all do: in a guest an operation on
/// 128 bits costs many instructions. `None`: it does not, or there is none.
fn of_few_digits(whole: &str, power: i32, factor: i128) -> Option<i128> {
    let number: i64 = whole.parse().ok()?;
    let number = number.checked_mul(i64::try_from(factor).ok()?)?;
    let zeros = u32::try_from(power.checked_add(9)?).ok()?;
    let tens = 10_i64.checked_pow(zeros)?;
    i128::from(number).checked_mul(i128::from(tens))
}

/// What digits right of the point come to, times a factor.
fn rounded_up(digits: &[i128], factor: i128) -> i128 {
    let (mut amount, mut has_rest) = (0, false);
    for digit in digits.iter().rev() {
        let tenfold = digit * factor + amount;
        amount = tenfold / 10;
        has_rest |= tenfold % 10 != 0;
    }
    amount + i128::from(has_rest)
}
