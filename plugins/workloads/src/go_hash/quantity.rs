//! A `resource.Quantity` as go-spew shows it: what `ParseQuantity` makes of the text that the API
//! server writes, which is in canonical form.

use serde_json::Value;

/// The most digits for which `ParseQuantity` keeps a 64-bit number.
const DIGITS: usize = 18;

/// What is absent is null.
pub fn dump(value: &Value) -> String {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Null => return show(0, 0, "", ""),
        other => other.to_string(),
    };
    // Numbers of more digits, and fractions of binary units, are not kept in 64 bits.
    parse(&text).unwrap_or_else(|| format!("({text})"))
}

fn parse(text: &str) -> Option<String> {
    if text == "0" {
        return Some(show(0, 0, text, "DecimalSI"));
    }
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    let end = unsigned.find(|c: char| !c.is_ascii_digit());
    let (digits, suffix) = unsigned.split_at(end.unwrap_or(unsigned.len()));
    let number: i64 = digits.parse().ok()?;
    let sign = if text.len() == unsigned.len() { 1 } else { -1 };
    if let Some(exponent) = binary(suffix) {
        let lost = usize::try_from(exponent * 3 / 10).ok()? + 1;
        15_usize.checked_sub(digits.len() + lost)?;
        let is_kept = number & 7 != 0;
        let value = number.checked_mul(1 << exponent)? * sign;
        return Some(show(value, 0, if is_kept { text } else { "" }, "BinarySI"));
    }
    DIGITS.checked_sub(digits.len())?;
    let (scale, format) = decimal(suffix)?;
    let is_kept = scale % 3 == 0 && !digits.ends_with("000") && !digits.starts_with('0');
    let kept = if is_kept { text } else { "" };
    Some(show(number * sign, scale, kept, format))
}

fn binary(suffix: &str) -> Option<u32> {
    let units = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    let place = units.iter().position(|unit| *unit == suffix)?;
    Some(10 * (u32::try_from(place).ok()? + 1))
}

fn decimal(suffix: &str) -> Option<(i32, &'static str)> {
    let units = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
    if let Some(place) = units.iter().position(|unit| *unit == suffix) {
        return Some((3 * i32::try_from(place).ok()? - 9, "DecimalSI"));
    }
    let exponent = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
    Some((exponent, "DecimalExponent"))
}

fn show(value: i64, scale: i32, kept: &str, format: &str) -> String {
    format!(
        "{{i:(resource.int64Amount){{value:(int64){value} scale:(resource.Scale){scale}}} \
         d:(resource.infDecAmount){{Dec:(*inf.Dec)<nil>}} s:(string){kept} \
         Format:(resource.Format){format}}}"
    )
}
