//! Labels as a few bits. By them a list with a label selector passes over most of the objects that
//! it does not select, without reading them.

use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;

use super::selector::{LabelSelector, Requirement};

/// How many bits a label sets. More would fill the 64 of an object with many labels.
const BITS_OF_LABEL: u32 = 3;

/// A condition with more values is not looked for in bits: most objects have the bits of one of
/// them.
const MAX_VALUES: usize = 8;

/// Nobody who chooses labels can choose their bits.
static HASHER: LazyLock<RandomState> = LazyLock::new(RandomState::new);

/// The bits of some labels: those that each of them sets. Other labels may set the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LabelBits(u64);

impl LabelBits {
    fn of_label(key: &str, value: &str) -> Self {
        let hash = HASHER.hash_one((key, value));
        // Each six bits of the hash are the position of one.
        let positions = (0..BITS_OF_LABEL).map(|at| (hash >> (6 * at)) % u64::from(u64::BITS));
        Self(positions.fold(0, |bits, position| bits | 1 << position))
    }

    /// Of labels, as keys and values.
    pub fn of<'a>(labels: impl Iterator<Item = (&'a str, &'a str)>) -> Self {
        let bits = labels.map(|(key, value)| Self::of_label(key, value));
        bits.fold(Self::default(), |all, bits| Self(all.0 | bits.0))
    }

    fn include(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// What a label selector asks of the bits of an object's labels. Conditions that no bits answer
/// (`!canary`) are left out.
#[derive(Clone, Debug, Default)]
pub struct WantedBits {
    /// All of these.
    all: LabelBits,
    /// For each condition with several values: all bits of one value.
    one_of: Vec<Vec<LabelBits>>,
}

impl WantedBits {
    /// What this selector asks.
    pub fn of(selector: &LabelSelector) -> Self {
        let mut wanted = Self::default();
        for requirement in &selector.requirements {
            match requirement {
                Requirement::Equals(key, value) => {
                    wanted.all.0 |= LabelBits::of_label(key, value).0;
                }
                Requirement::OneOf(key, values) if values.len() <= MAX_VALUES => {
                    let bits = values.iter().map(|value| LabelBits::of_label(key, value));
                    wanted.one_of.push(bits.collect());
                }
                _ => {}
            }
        }
        wanted
    }

    /// False if the selector does not select an object whose labels have these bits. True says
    /// nothing.
    pub fn may_be_met_by(&self, labels: LabelBits) -> bool {
        let has_one = |values: &Vec<LabelBits>| values.iter().any(|one| labels.include(*one));
        labels.include(self.all) && self.one_of.iter().all(has_one)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(selector: &str) -> WantedBits {
        WantedBits::of(&LabelSelector::parse(selector).unwrap())
    }

    #[test]
    fn most_objects_with_ten_other_labels_are_passed_over() {
        let labels = |number: usize| -> Vec<(String, String)> {
            let label = |at: usize| (format!("key-{at}"), format!("value-{}", number * 10 + at));
            (0..10).map(label).collect()
        };
        let bits = |number: usize| {
            let labels = labels(number);
            LabelBits::of(labels.iter().map(|(key, value)| (&**key, &**value)))
        };
        let left = |selector: &str| {
            let wanted = wanted(selector);
            let objects = (0..10_000).map(bits);
            objects.filter(|bits| wanted.may_be_met_by(*bits)).count()
        };
        assert!((1..1_000).contains(&left("key-3=value-7003")));
        assert!((2..2_000).contains(&left("key-3 in (value-7003,value-8003)")));
        assert!((1..200).contains(&left("key-3=value-7003,key-4=value-7004")));
    }

    #[test]
    fn a_condition_that_bits_do_not_answer_passes_over_nothing() {
        let none = LabelBits::default();
        for selector in [
            "",
            "!app",
            "app notin (web)",
            "app",
            "app in (a,b,c,d,e,f,g,h,i)",
        ] {
            assert!(wanted(selector).may_be_met_by(none), "{selector}");
        }
        assert!(!wanted("app in (a,b)").may_be_met_by(none));
    }
}
