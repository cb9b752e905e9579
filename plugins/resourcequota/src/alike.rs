//! Pods that are alike: of the same spec and status, as far as the controller sees them. Those of
//! one workload mostly are, and what a pod uses is worked out once for all of them.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use pilothouse_sdk::Failure;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::pod_objects::{Pod, PodMetadata, PodSpec, PodStatus};
use crate::pods::{has_ended, holds, usage};
use crate::scopes::InvalidScope;
use crate::usage::{Tally, Usage};

/// How many kinds of pods are remembered, so that any number of pods fits into the memory.
const MOST: usize = 1_000;

/// By text, with a hash that costs less fuel than the text's decoding. Whoever makes many texts of
/// one hash makes the counting of these pods slower, no more: there are at most [`MOST`].
type ByText<T> = HashMap<Box<str>, T, BuildHasherDefault<Fast>>;

/// Multiplies and rotates eight bytes at a time.
#[derive(Default)]
struct Fast(u64);

impl Fast {
    fn mix(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

impl Hasher for Fast {
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        words
            .iter()
            .for_each(|word| self.mix(u64::from_le_bytes(*word)));
        rest.iter().for_each(|byte| self.mix(u64::from(*byte)));
    }

    fn finish(&self) -> u64 {
        self.0
    }
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
        if self.all.len() == MOST {
            *self = Self::default();
        }
        let place = self.all.len();
        self.all.push(likeness);
        let of_spec = self.places.entry(spec.into()).or_default();
        of_spec.insert(status.into(), place);
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
