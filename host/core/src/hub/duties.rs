//! Which keys this host runs, where several hosts divide the work.
//!
//! A plugin's keys are divided into *shards*, by a hash. A host's *duty* is the set of shards that
//! it runs. It hands out no key of another shard, and remembers nothing of one. Its caches are full
//! all the same, so that it can begin at once; only of a plugin that is divided by namespace they
//! hold the namespaces of its own shards alone.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::division::Division;
use crate::model::key::KeyRef;
use crate::model::namespaces::Namespaces;
use crate::model::subject_key::SubjectKey;

/// Which keys this host runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Duties {
    /// All keys of all plugins.
    #[default]
    All,
    /// No keys, and perhaps all of them at once: those of a host that stands by while another
    /// leads. Its caches are full, whatever is divided.
    Standby,
    /// The keys of these shards, by the plugin's name. A plugin without an entry runs nothing.
    Shards(BTreeMap<String, HeldShards>),
}

/// Some of a plugin's shards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldShards {
    /// How the plugin's keys are divided. If they are divided in another way by now, these stand
    /// for nothing, unless they are all: shards of two divisions overlap.
    pub of: Division,
    /// Which of them, from zero.
    pub held: BTreeSet<u32>,
}

impl HeldShards {
    /// None of a plugin that is divided in this way.
    pub fn none(of: Division) -> Self {
        let held = BTreeSet::new();
        Self { of, held }
    }

    fn is_all(&self) -> bool {
        self.of.all().all(|shard| self.held.contains(&shard))
    }

    /// These, if the plugin is divided in this way.
    fn among(&self, division: Division) -> BTreeSet<u32> {
        match self {
            all if all.is_all() => division.all().collect(),
            Self { of, held } if *of == division => held.range(division.all()).copied().collect(),
            _ => BTreeSet::new(),
        }
    }
}

impl Duties {
    /// Nothing: those of a member before it has gained something.
    pub fn none() -> Self {
        Self::Shards(BTreeMap::new())
    }

    /// Whether these have something that others do not.
    pub(super) fn exceed(&self, others: &Self) -> bool {
        match (self, others) {
            (_, Self::All) | (Self::Standby, _) => false,
            (Self::All, _) => true,
            (Self::Shards(of), _) => of.iter().any(|(plugin, shards)| {
                let mut held = shards.held.iter();
                held.any(|shard| !others.has(plugin, shards.of, *shard))
            }),
        }
    }

    /// Whether these contain a shard of a plugin that is divided in this way.
    pub(super) fn has(&self, plugin: &str, of: Division, shard: u32) -> bool {
        match self {
            Self::All => true,
            Self::Standby => false,
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
    /// [unfinished](crate::Hub::is_unfinished).
    Finish,
    /// Nothing more is written, as when a plugin is halted. This includes what has gone on running
    /// since it was to finish.
    Stop,
}

/// The shards of one plugin that this host runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Duty {
    division: Division,
    /// Each is one of the division.
    held: BTreeSet<u32>,
    /// Nothing is held, and everything is cached.
    is_standby: bool,
}

impl Duty {
    /// A plugin's part of the host's duties, if it is divided in this way.
    pub fn of(duties: &Duties, plugin: &str, division: Division) -> Self {
        let held = match duties {
            Duties::All => division.all().collect(),
            Duties::Standby => BTreeSet::new(),
            Duties::Shards(of) => of
                .get(plugin)
                .map_or_else(BTreeSet::new, |held| held.among(division)),
        };
        Self {
            division,
            held,
            is_standby: *duties == Duties::Standby,
        }
    }

    pub fn division(&self) -> Division {
        self.division
    }

    pub fn held(&self) -> &BTreeSet<u32> {
        &self.held
    }

    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    fn is_all(&self) -> bool {
        self.held.len() == self.division.shards.get() as usize
    }

    /// Whether a key of an object with this name is run.
    pub fn has_object(&self, key: KeyRef<'_>) -> bool {
        // A host that runs all or nothing of a plugin makes no hash.
        let is_held = || self.held.contains(&self.division.shard_of(key));
        self.is_all() || (!self.is_empty() && is_held())
    }

    /// Whether a key is run.
    pub fn has(&self, key: &SubjectKey) -> bool {
        self.has_object(key.object.parts())
    }

    /// The namespaces of the keys that are run, or that must be known although none is.
    pub fn namespaces(&self) -> Namespaces {
        if self.is_standby {
            return Namespaces::ALL;
        }
        self.division
            .namespaces_of(|shard| self.held.contains(&shard))
    }

    /// Of this many objects about this many are of these shards.
    pub fn share_of(&self, objects: usize) -> usize {
        match self.is_all() {
            true => objects,
            false => (objects * self.held.len()).div_ceil(self.division.shards.get() as usize),
        }
    }

    /// What of this duty goes on when the next one follows: nothing, if they are divided
    /// differently and this one is not everything, because shards of two divisions overlap.
    pub fn kept_in(&self, next: &Self) -> Self {
        let held = match self.is_all() {
            true => return next.clone(),
            false if self.division == next.division => &self.held & &next.held,
            false => BTreeSet::new(),
        };
        Self {
            division: next.division,
            held,
            is_standby: next.is_standby,
        }
    }

    /// What is in both. More, if they are divided differently: then everything of `kept`.
    pub fn narrowed_to(&self, kept: &Self) -> Self {
        let is_exact = self.division == kept.division;
        match kept.is_all() {
            true => self.clone(),
            false if is_exact => self.kept_in(kept),
            false => kept.clone(),
        }
    }

    /// What is in this one and not in the other: all of it, if they are divided differently
    /// and neither is everything.
    pub fn without(&self, other: &Self) -> Self {
        let held = match other.is_all() {
            true => BTreeSet::new(),
            false if self.division == other.division => &self.held - &other.held,
            false => self.held.clone(),
        };
        Self {
            division: self.division,
            held,
            is_standby: false,
        }
    }
}

#[cfg(test)]
mod tests;
