//! Into which shards a plugin's keys are divided.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

use super::hash::{fnv1a, mix};
use super::key::KeyRef;
use super::namespaces::{BUCKETS, Namespaces, bucket_of};

/// The most shards that a plugin can have. Settings with more are to be refused: each shard takes
/// some memory and is handed over on its own.
pub const MAX_SHARDS: u32 = 1024;

/// By what keys are divided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DividedBy {
    /// By namespace and name, as evenly as can be.
    #[default]
    Name,
    /// By namespace: all keys of one namespace are in one shard, so that a host needs to know only
    /// the namespaces of its own shards.
    Namespace,
}

/// How a plugin's keys are divided. Shards of two divisions overlap, unless one of them is of one
/// shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Division {
    /// Into how many shards; 1 if they are not divided.
    pub shards: NonZeroU32,
    /// By what.
    pub by: DividedBy,
}

impl Division {
    /// All keys are in one shard.
    pub const UNDIVIDED: Self = Self::by_name(NonZeroU32::MIN);

    /// Into this many shards, by namespace and name.
    pub const fn by_name(shards: NonZeroU32) -> Self {
        let by = DividedBy::Name;
        Self { shards, by }
    }

    /// Into this many shards, by namespace.
    pub const fn by_namespace(shards: NonZeroU32) -> Self {
        let by = DividedBy::Namespace;
        Self { shards, by }
    }

    /// Into this many shards, by namespace and name.
    #[cfg(test)]
    pub(crate) fn into(shards: u32) -> Self {
        Self::by_name(NonZeroU32::new(shards).expect("there is at least one shard"))
    }

    /// The most shards that this can be.
    pub const fn most(by: DividedBy) -> u32 {
        match by {
            DividedBy::Name => MAX_SHARDS,
            DividedBy::Namespace => BUCKETS,
        }
    }

    /// The shards, from 0.
    pub fn all(self) -> std::ops::Range<u32> {
        0..self.shards.get()
    }

    /// The shard of a key: from 0, less than `shards`. The kind is no part of it: a plugin's keys
    /// of one name are in one shard. A singleton's key has an empty namespace and name.
    ///
    /// By name: the hash is FNV-1a (64 bits) of the namespace, a zero byte, and the name, followed
    /// by the final mixing step of MurmurHash3 (`fmix64`), because the high bits of FNV-1a alone
    /// are uneven for short names. A shard is one of `shards` equal ranges of the hash.
    ///
    /// By namespace: a shard is every `shards`-th [bucket](Namespaces) of namespaces. The hash is
    /// that of the API server, without the mixing.
    ///
    /// This never changes: hosts of two versions must agree on it.
    pub fn shard_of(self, key: KeyRef<'_>) -> u32 {
        match self.by {
            DividedBy::Name => {
                let bytes = key.namespace.bytes().chain([0]).chain(key.name.bytes());
                let scaled = u128::from(mix(fnv1a(bytes))) * u128::from(self.shards.get());
                u32::try_from(scaled >> 64).expect("it is less than `shards`")
            }
            DividedBy::Namespace => bucket_of(key.namespace) % self.shards,
        }
    }

    /// The namespaces of the keys of some shards.
    pub fn namespaces_of(self, has: impl Fn(u32) -> bool) -> Namespaces {
        match self.by {
            DividedBy::Name if self.all().any(&has) => Namespaces::ALL,
            DividedBy::Name => Namespaces::NONE,
            DividedBy::Namespace => {
                let buckets = 0..BUCKETS;
                Namespaces::of_buckets(buckets.filter(|bucket| has(*bucket % self.shards)))
            }
        }
    }
}

impl Default for Division {
    fn default() -> Self {
        Self::UNDIVIDED
    }
}

/// `8`, or `8-by-namespace`.
impl fmt::Display for Division {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.by {
            DividedBy::Name => write!(f, "{}", self.shards),
            DividedBy::Namespace => write!(f, "{}-by-namespace", self.shards),
        }
    }
}

/// A text that is no division.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no division: a number of shards is expected, or NUMBER-by-namespace")]
pub struct NotADivision(String);

impl FromStr for Division {
    type Err = NotADivision;

    fn from_str(text: &str) -> Result<Self, NotADivision> {
        let parse = || {
            let (number, by) = match text.split_once("-by-") {
                None => (text, DividedBy::Name),
                Some((number, "namespace")) => (number, DividedBy::Namespace),
                Some(_) => return None,
            };
            let shards = number.parse().ok()?;
            let division = Self { shards, by };
            // Other spellings of the number would be the same division twice.
            (division.to_string() == text).then_some(division)
        };
        parse().ok_or_else(|| NotADivision(text.to_owned()))
    }
}

#[cfg(test)]
mod tests;
