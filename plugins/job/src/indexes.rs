//! Sets of completion indexes, as a Job's status has them: `1,3-5,7`.

use std::fmt;

/// Indexes as intervals `(first, last)` in order, none of which touches the next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Indexes(Vec<(i64, i64)>);

impl Indexes {
    /// Reads `1,3-5,7`. What is no interval is left out, and so is what is not below `completions`.
    pub fn parse(text: &str, completions: i64) -> Self {
        let mut intervals: Vec<(i64, i64)> = Vec::new();
        for interval in text.split(',') {
            let mut limits = interval.split('-').map(str::parse::<i64>);
            let Some(Ok(first)) = limits.next() else {
                continue;
            };
            if first >= completions {
                break;
            }
            let last = match limits.next() {
                None => first,
                Some(Ok(last)) => last.min(completions - 1),
                Some(Err(_)) => continue,
            };
            match intervals.last_mut() {
                Some(before) if before.1 == first - 1 => before.1 = last,
                _ => intervals.push((first, last)),
            }
        }
        Self(intervals)
    }

    /// The indexes of both.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        let mut all: Vec<(i64, i64)> = self.0.iter().chain(&other.0).copied().collect();
        all.sort_by_key(|interval| interval.0);
        let mut merged: Vec<(i64, i64)> = Vec::new();
        for (first, last) in all {
            match merged.last_mut() {
                Some(before) if first <= before.1 + 1 => before.1 = before.1.max(last),
                _ => merged.push((first, last)),
            }
        }
        Self(merged)
    }

    /// How many there are.
    pub fn total(&self) -> i64 {
        self.0.iter().map(|(first, last)| last - first + 1).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn has(&self, index: i64) -> bool {
        let after = self.0.partition_point(|(_, last)| *last < index);
        self.0.get(after).is_some_and(|(first, _)| *first <= index)
    }

    /// How many indexes both have.
    pub fn shared_with(&self, other: &Self) -> i64 {
        let overlap = |a: &(i64, i64), b: &(i64, i64)| (a.1.min(b.1) - a.0.max(b.0) + 1).max(0);
        let (mut mine, mut theirs) = (self.0.iter().peekable(), other.0.iter().peekable());
        let mut shared = 0;
        while let (Some(a), Some(b)) = (mine.peek(), theirs.peek()) {
            shared += overlap(a, b);
            let (a_ends, b_ends) = (a.1, b.1);
            if a_ends <= b_ends {
                mine.next();
            }
            if b_ends <= a_ends {
                theirs.next();
            }
        }
        shared
    }

    /// The first `count` indexes below `completions` that are not among these.
    pub fn first_others(&self, count: usize, completions: i64) -> Vec<i64> {
        let mut others = Vec::new();
        let mut candidate = 0;
        let ends = self.0.iter().copied().chain([(completions, completions)]);
        for (first, last) in ends {
            let end = first.min(completions);
            let missing = count - others.len();
            others.extend((candidate..end).take(missing));
            candidate = candidate.max(last + 1);
        }
        others
    }
}

impl FromIterator<i64> for Indexes {
    fn from_iter<I: IntoIterator<Item = i64>>(indexes: I) -> Self {
        let single = indexes.into_iter().map(|index| (index, index));
        Self(single.collect()).and(&Self::default())
    }
}

/// Two neighbours are `1,2`, three are `1-3`.
impl fmt::Display for Indexes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, (first, last)) in self.0.iter().enumerate() {
            let comma = if place > 0 { "," } else { "" };
            write!(f, "{comma}{first}")?;
            match last - first {
                ..=0 => {}
                1 => write!(f, ",{last}")?,
                _ => write!(f, "-{last}")?,
            }
        }
        Ok(())
    }
}
