//! The five fields of a schedule: minute, hour, day of the month, month, day of the week.

/// The values that a field admits, as bits.
type Bits = u64;

/// What a field may hold.
struct Bounds {
    min: u64,
    max: u64,
    names: &'static [&'static str],
}

const MINUTE: Bounds = Bounds {
    min: 0,
    max: 59,
    names: &[],
};
const HOUR: Bounds = Bounds {
    min: 0,
    max: 23,
    names: &[],
};
const DAY: Bounds = Bounds {
    min: 1,
    max: 31,
    names: &[],
};
/// The first name stands for the least value.
const MONTH: Bounds = Bounds {
    min: 1,
    max: 12,
    names: &[
        "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
    ],
};
const WEEKDAY: Bounds = Bounds {
    min: 0,
    max: 6,
    names: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"],
};

/// The times of a schedule: those of which all fields match.
#[derive(Debug, PartialEq, Eq)]
pub struct Fields {
    minutes: Bits,
    hours: Bits,
    days: Bits,
    months: Bits,
    weekdays: Bits,
    /// One of the days is `*`. Then both must match, else it is enough that one does.
    is_any_day: bool,
}

impl Fields {
    /// Parses five fields with white space in between.
    pub fn parse(text: &str) -> Result<Self, String> {
        let fields: Vec<&str> = text.split_whitespace().collect();
        let [minutes, hours, days, months, weekdays] = fields[..] else {
            let (count, fields) = (fields.len(), fields.join(" "));
            return Err(format!(
                "expected exactly 5 fields, found {count}: [{fields}]"
            ));
        };
        let (minutes, _) = field(minutes, &MINUTE)?;
        let (hours, _) = field(hours, &HOUR)?;
        let (days, is_any_day) = field(days, &DAY)?;
        let (months, _) = field(months, &MONTH)?;
        let (weekdays, is_any_weekday) = field(weekdays, &WEEKDAY)?;
        Ok(Self {
            minutes,
            hours,
            days,
            months,
            weekdays,
            is_any_day: is_any_day || is_any_weekday,
        })
    }

    /// True if nothing can match, because a field is a list without entries (`,`).
    pub fn is_never(&self) -> bool {
        self.minutes == 0 || self.hours == 0 || self.months == 0
    }

    pub fn has_minute(&self, minute: i64) -> bool {
        has(self.minutes, minute)
    }

    pub fn has_hour(&self, hour: i64) -> bool {
        has(self.hours, hour)
    }

    pub fn has_month(&self, month: i64) -> bool {
        has(self.months, month)
    }

    /// The weekday is counted from Sunday, which is 0.
    pub fn has_day(&self, day: i64, weekday: i64) -> bool {
        let (day, weekday) = (has(self.days, day), has(self.weekdays, weekday));
        if self.is_any_day {
            day && weekday
        } else {
            day || weekday
        }
    }
}

fn has(bits: Bits, value: i64) -> bool {
    bits >> value & 1 == 1
}

/// A list, of which empty entries are left out, and whether a `*` without a step is in it.
fn field(text: &str, bounds: &Bounds) -> Result<(Bits, bool), String> {
    let mut entries = text.split(',').filter(|entry| !entry.is_empty());
    entries.try_fold((0, false), |(bits, is_any), entry| {
        let (more, is_star) = range(entry, bounds)?;
        Ok((bits | more, is_any || is_star))
    })
}

/// `5`, `mon-fri`, `*`, each with a step (`/2`) if need be.
fn range(text: &str, bounds: &Bounds) -> Result<(Bits, bool), String> {
    let parts: Vec<&str> = text.split('/').collect();
    let ends: Vec<&str> = parts[0].split('-').collect();
    let is_star = matches!(ends[0], "*" | "?");
    let (start, mut end) = if is_star {
        // What follows a `*` and a hyphen is not looked at.
        (bounds.min, bounds.max)
    } else {
        let start = value(ends[0], bounds)?;
        match ends[1..] {
            [] => (start, start),
            [end] => (start, value(end, bounds)?),
            _ => return Err(format!("too many hyphens: {text}")),
        }
    };
    let step = match parts[..] {
        [_] => 1,
        [_, step] => {
            // `5/10` begins at 5 and goes on to the end.
            if ends.len() == 1 {
                end = bounds.max;
            }
            number(step)?
        }
        _ => return Err(format!("too many slashes: {text}")),
    };
    check(start, end, step, bounds, text)?;
    let step_size = usize::try_from(step).unwrap_or(usize::MAX);
    let bits = (start..=end).step_by(step_size).map(|value| 1 << value);
    Ok((bits.sum(), is_star && step == 1))
}

fn check(start: u64, end: u64, step: u64, bounds: &Bounds, text: &str) -> Result<(), String> {
    let Bounds { min, max, .. } = bounds;
    if start < *min {
        return Err(format!(
            "beginning of range ({start}) below minimum ({min}): {text}"
        ));
    }
    if end > *max {
        return Err(format!(
            "end of range ({end}) above maximum ({max}): {text}"
        ));
    }
    if start > end {
        return Err(format!(
            "beginning of range ({start}) beyond end of range ({end}): {text}"
        ));
    }
    if step == 0 {
        return Err(format!("step of range should be a positive number: {text}"));
    }
    Ok(())
}

/// A number, or a name in upper or lower case.
fn value(text: &str, bounds: &Bounds) -> Result<u64, String> {
    let name = text.to_lowercase();
    let named = bounds.names.iter().zip(bounds.min..);
    let mut named = named.filter(|(known, _)| **known == name);
    named
        .next()
        .map_or_else(|| number(text), |(_, value)| Ok(value))
}

/// A number as Go's `strconv.Atoi` reads it.
fn number(text: &str) -> Result<u64, String> {
    use std::num::IntErrorKind::{NegOverflow, PosOverflow};
    let number: i64 = text.parse().map_err(|error: std::num::ParseIntError| {
        let problem = match error.kind() {
            PosOverflow | NegOverflow => "value out of range",
            _ => "invalid syntax",
        };
        format!("failed to parse int from {text}: strconv.Atoi: parsing {text:?}: {problem}")
    })?;
    u64::try_from(number).map_err(|_| format!("negative number ({number}) not allowed: {text}"))
}

#[cfg(test)]
#[path = "fields_tests.rs"]
mod tests;
