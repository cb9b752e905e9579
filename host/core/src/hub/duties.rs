//! Which keys this host runs, where several hosts divide the work.
//!
//! A plugin's keys are divided into *shards*: ranges of a hash of their names. A host's *duty* is
//! the set of shards that it runs. It hands out no key of another shard, and remembers nothing of
//! one; its caches are full all the same, so that it can begin at once.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;

use crate::model::key::KeyRef;
use crate::model::subject_key::SubjectKey;

/// The most shards that a plugin can have. Settings with more are to be refused: each shard takes
/// some memory and is handed over on its own.
pub const MAX_SHARDS: u32 = 1024;

/// Which keys this host runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Duties {
    /// All keys of all plugins.
    #[default]
    All,
    /// The keys of these shards, by the plugin's name. A plugin without an entry runs nothing.
    Shards(BTreeMap<String, HeldShards>),
}

/// Some of a plugin's shards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldShards {
    /// Into how many shards the plugin's keys are divided. If the plugin has another number by now,
    /// these stand for nothing, unless they are all: ranges of one division are no ranges of
    /// another.
    pub of: NonZeroU32,
    /// Which of them, from zero.
    pub held: BTreeSet<u32>,
}

impl HeldShards {
    /// None of a plugin with this many shards.
    pub fn none(of: NonZeroU32) -> Self {
        let held = BTreeSet::new();
        Self { of, held }
    }

    fn is_all(&self) -> bool {
        (0..self.of.get()).all(|shard| self.held.contains(&shard))
    }

    /// These, if the plugin has this many shards.
    fn among(&self, shards: NonZeroU32) -> BTreeSet<u32> {
        match self {
            all if all.is_all() => (0..shards.get()).collect(),
            Self { of, held } if *of == shards => held.range(..shards.get()).copied().collect(),
            _ => BTreeSet::new(),
        }
    }
}

impl Duties {
    /// Nothing: what a standby runs.
    pub fn none() -> Self {
        Self::Shards(BTreeMap::new())
    }

    /// Whether these have something that others do not.
    pub(super) fn exceed(&self, others: &Self) -> bool {
        match (self, others) {
            (_, Self::All) => false,
            (Self::All, _) => true,
            (Self::Shards(of), _) => of.iter().any(|(plugin, shards)| {
                let mut held = shards.held.iter();
                held.any(|shard| !others.has(plugin, shards.of, *shard))
            }),
        }
    }

    /// Whether these contain a shard of a plugin that has this many.
    pub(super) fn has(&self, plugin: &str, of: NonZeroU32, shard: u32) -> bool {
        match self {
            Self::All => true,
            Self::Shards(held) => held
                .get(plugin)
                .is_some_and(|held| held.among(of).contains(&shard)),
        }
    }
}

/// How shards are given up, as far as keys of them are running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relinquish {
    /// What runs may end, and its writes are made. Until then the shard is
    /// [unfinished](crate::Hub::unfinished).
    Finish,
    /// Nothing more is written, as when a plugin is halted. This includes what has gone on running
    /// since it was to finish.
    Stop,
}

/// The shard of a key, if its plugin has this many: from zero, less than `shards`.
///
/// The hash is FNV-1a (64 bits) of the namespace, a zero byte, and the name, followed by the final
/// mixing step of MurmurHash3 (`fmix64`), because the high bits of FNV-1a alone are uneven for
/// short names. A shard is one of `shards` equal ranges of the hash. The kind is no part of it: a
/// plugin's keys of one name are in one shard. A singleton's key has an empty namespace and name.
///
/// This never changes: hosts of two versions must agree on it.
pub fn shard_of(key: KeyRef<'_>, shards: NonZeroU32) -> u32 {
    let scaled = u128::from(hash(key)) * u128::from(shards.get());
    u32::try_from(scaled >> 64).expect("it is less than `shards`")
}

fn hash(key: KeyRef<'_>) -> u64 {
    const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    let bytes = key.namespace.bytes().chain([0]).chain(key.name.bytes());
    let fnv = bytes.fold(BASIS, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(PRIME)
    });
    mix(fnv)
}

/// MurmurHash3's `fmix64`: each bit of the result depends on each bit of the argument.
fn mix(mut bits: u64) -> u64 {
    bits ^= bits >> 33;
    bits = bits.wrapping_mul(0xff51_afd7_ed55_8ccd);
    bits ^= bits >> 33;
    bits = bits.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    bits ^ (bits >> 33)
}

/// The shards of one plugin that this host runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Duty {
    shards: NonZeroU32,
    /// Each is less than `shards`.
    held: BTreeSet<u32>,
}

impl Duty {
    /// A plugin's part of the host's duties, if it has this many shards.
    pub fn of(duties: &Duties, plugin: &str, shards: NonZeroU32) -> Self {
        let held = match duties {
            Duties::All => (0..shards.get()).collect(),
            Duties::Shards(of) => of
                .get(plugin)
                .map_or_else(BTreeSet::new, |held| held.among(shards)),
        };
        Self { shards, held }
    }

    pub fn shards(&self) -> NonZeroU32 {
        self.shards
    }

    pub fn held(&self) -> &BTreeSet<u32> {
        &self.held
    }

    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    fn is_all(&self) -> bool {
        self.held.len() == self.shards.get() as usize
    }

    /// Whether a key of an object with this name is run.
    pub fn has_object(&self, key: KeyRef<'_>) -> bool {
        // A host that runs all or nothing of a plugin makes no hash.
        self.is_all() || (!self.is_empty() && self.held.contains(&shard_of(key, self.shards)))
    }

    /// Whether a key is run.
    pub fn has(&self, key: &SubjectKey) -> bool {
        self.has_object(key.object.parts())
    }

    /// Of this many objects about this many are of these shards.
    pub fn share_of(&self, objects: usize) -> usize {
        match self.is_all() {
            true => objects,
            false => (objects * self.held.len()).div_ceil(self.shards.get() as usize),
        }
    }

    /// What of this duty goes on when the next one follows: nothing, if their numbers of shards
    /// differ and this one is not everything, because ranges of the one are no ranges of the other.
    pub fn kept_in(&self, next: &Self) -> Self {
        let held = match self.is_all() {
            true => return next.clone(),
            false if self.shards == next.shards => &self.held & &next.held,
            false => BTreeSet::new(),
        };
        Self {
            shards: next.shards,
            held,
        }
    }

    /// What is in both. More, if their numbers of shards differ: then everything of `kept`.
    pub fn narrowed_to(&self, kept: &Self) -> Self {
        let is_exact = self.shards == kept.shards;
        match kept.is_all() {
            true => self.clone(),
            false if is_exact => self.kept_in(kept),
            false => kept.clone(),
        }
    }

    /// What is in this one and not in the other: all of it, if their numbers of shards differ and
    /// neither is everything.
    pub fn without(&self, other: &Self) -> Self {
        let held = match other.is_all() {
            true => BTreeSet::new(),
            false if self.shards == other.shards => &self.held - &other.held,
            false => self.held.clone(),
        };
        Self {
            shards: self.shards,
            held,
        }
    }
}

#[cfg(test)]
mod tests;
