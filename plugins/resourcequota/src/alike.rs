//! Pods that are alike: of the same spec and status, as far as the controller sees them. Those of
//! one workload mostly are, and what a pod uses is worked out once for all of them.

use std::collections::BTreeMap;

use pilothouse_sdk::Failure;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::pod_objects::{Pod, PodMetadata, PodSpec, PodStatus};
use crate::pods::{has_ended, holds, usage};
use crate::scopes::InvalidScope;
use crate::usage::{Tally, Usage};

/// How many different pods are remembered, and at most how many bytes of their texts, so that any
/// number of pods fits into the memory.
const MOST: usize = 1_000;
const MOST_BYTES: usize = 16 << 20;

/// By a hash of a text, and then by the text. Somebody could make many texts of one hash, and to
/// compare a text with all of these would take more fuel than there is. So they are in order, and
/// it is compared with some ten of them at most.
struct ByText<T>(BTreeMap<u64, BTreeMap<Box<str>, T>>);

impl<T> Default for ByText<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T> ByText<T> {
    fn get(&self, text: &str) -> Option<&T> {
        self.0.get(&hash(text))?.get(text)
    }

    fn of(&mut self, text: &str) -> &mut BTreeMap<Box<str>, T> {
        self.0.entry(hash(text)).or_default()
    }
}

/// Multiplies and rotates eight bytes at a time, which costs less fuel than to decode the text.
fn hash(text: &str) -> u64 {
    let mix = |hash: u64, word: u64| {
        let mixed = hash.rotate_left(5) ^ word;
        mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    };
    let (words, rest) = text.as_bytes().as_chunks::<8>();
    let words = words.iter().map(|word| u64::from_le_bytes(*word));
    let rest = rest.iter().map(|byte| u64::from(*byte));
    words.chain(rest).fold(0, mix)
}

/// A pod whose spec and status are not decoded.
#[derive(Deserialize)]
pub struct PodText {
    pub metadata: PodMetadata,
    spec: Option<Box<RawValue>>,
    status: Option<Box<RawValue>>,
}

/// What pods that are alike have in common.
pub struct Likeness {
    /// Whether the quota's scopes hold.
    pub is_held: Result<bool, InvalidScope>,
    pub has_ended: bool,
    /// What such a pod uses.
    pub charged: Usage,
    /// What it uses once it has ended, or should be gone.
    pub uncharged: Usage,
}

/// What has been worked out.
#[derive(Default)]
pub struct Alike {
    /// The places in `all`, by spec and status.
    places: ByText<ByText<usize>>,
    all: Vec<Likeness>,
    /// Of the texts of all.
    bytes: usize,
}

impl Alike {
    /// What a pod has in common with those that are alike.
    pub fn of(&mut self, pod: &PodText, tally: &Tally) -> Result<&Likeness, Failure> {
        let [spec, status] =
            [&pod.spec, &pod.status].map(|part| part.as_ref().map_or("{}", |text| text.get()));
        let known = self
            .places
            .get(spec)
            .and_then(|of_spec| of_spec.get(status));
        let place = match known {
            Some(place) => *place,
            None => self.add(spec, status, Likeness::of(spec, status, tally)?),
        };
        Ok(&self.all[place])
    }

    fn add(&mut self, spec: &str, status: &str, likeness: Likeness) -> usize {
        let bytes = spec.len() + status.len();
        if self.all.len() == MOST || self.bytes + bytes > MOST_BYTES {
            *self = Self::default();
        }
        self.bytes += bytes;
        let place = self.all.len();
        self.all.push(likeness);
        let of_spec = self.places.of(spec).entry(spec.into()).or_default();
        of_spec.of(status).insert(status.into(), place);
        place
    }
}

impl Likeness {
    fn of(spec: &str, status: &str, tally: &Tally) -> Result<Self, Failure> {
        let pod = Pod {
            metadata: PodMetadata::default(),
            spec: serde_json::from_str::<PodSpec>(spec)?,
            status: serde_json::from_str::<PodStatus>(status)?,
        };
        Ok(Self {
            is_held: tally.scopes.hold(|scope| holds(scope, &pod)),
            has_ended: has_ended(&pod.status),
            charged: tally.limited_part(&usage(&pod, true)),
            uncharged: tally.limited_part(&usage(&pod, false)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_remembered_of_large_pods_is_bounded_by_bytes() {
        let mut alike = Alike::default();
        let likeness = || Likeness {
            is_held: Ok(true),
            has_ended: false,
            charged: Usage::default(),
            uncharged: Usage::default(),
        };
        for number in 0..20 {
            let spec = format!("{number}{}", "x".repeat(1 << 20));
            alike.add(&spec, "{}", likeness());
            let specs = alike.places.0.values().flat_map(BTreeMap::keys);
            let bytes: usize = specs.map(|text| text.len()).sum();
            assert!(bytes <= MOST_BYTES, "{bytes}");
            assert!(alike.places.get(&spec).is_some(), "the last is known");
        }
        assert!(alike.all.len() < 20);
    }

    /// Texts of two words that have one hash: the second undoes what the first has done.
    fn of_one_hash() -> impl Iterator<Item = String> {
        (0_u32..).filter_map(|number| {
            let first = format!("{number:08x}");
            let second = hash(&first).rotate_left(5).to_le_bytes();
            let is_text = second.is_ascii();
            is_text.then(|| first + std::str::from_utf8(&second).unwrap())
        })
    }

    #[test]
    fn texts_of_one_hash_are_told_apart() {
        let texts: Vec<String> = of_one_hash().take(100).collect();
        assert!(texts.iter().all(|text| hash(text) == hash(&texts[0])));
        let mut by_text = ByText::default();
        for (number, text) in texts.iter().enumerate() {
            by_text.of(text).insert(text.as_str().into(), number);
        }
        for (number, text) in texts.iter().enumerate() {
            assert_eq!(by_text.get(text), Some(&number));
        }
    }
}
