//! Which member should have which shard.
//!
//! A pure function of members and present owners, so that all members that see the same decide the
//! same. Counts of members that have the same plugins differ by at most one, and a plugin's shards
//! are spread where that costs no more moves. What can stay stays: a join takes its share from the
//! others, and a leave distributes what the one has had. Members that have different plugins are
//! balanced as far as moving one shard at a time brings them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::records::{MemberId, Offer, Owners, Shard};
use crate::model::division::Division;
use crate::model::hash::{fnv1a, mix};

/// A member, as far as it matters here.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub id: MemberId,
    pub offer: Arc<Offer>,
    pub leaving: bool,
}

/// What the function is of.
#[derive(Debug, Default)]
pub(super) struct Situation<'a> {
    /// All members, whether leaving or not.
    pub members: Vec<Candidate>,
    /// Who owns what, except what is free: entries of members that are surely gone.
    pub owners: Vec<(&'a Shard, &'a MemberId)>,
    /// Shards that had better move than others: this host is giving them up already.
    pub going: BTreeSet<&'a Shard>,
}

/// Who should have what. A shard that nobody can have is not in it.
pub(super) fn desired(situation: &Situation<'_>) -> Owners {
    let mut deal = Deal::new(situation);
    let free = deal.keep(situation);
    for shard in free {
        deal.give(shard);
    }
    while deal.level() {}
    deal.result()
}

/// How each plugin is divided now: as it is owned, or else as most members have it, or else into
/// the greater number.
fn divisions(situation: &Situation<'_>) -> BTreeMap<Arc<str>, Division> {
    let mut votes: BTreeMap<(&Arc<str>, Division), usize> = BTreeMap::new();
    for member in situation.members.iter().filter(|member| !member.leaving) {
        for (plugin, of) in member.offer.iter() {
            *votes.entry((plugin, *of)).or_default() += 1;
        }
    }
    let mut best: BTreeMap<Arc<str>, (usize, Division)> = BTreeMap::new();
    for ((plugin, of), count) in votes {
        let entry = best.entry(plugin.clone()).or_insert((count, of));
        *entry = (*entry).max((count, of));
    }
    let mut divisions: BTreeMap<_, _> = best
        .into_iter()
        .map(|(plugin, (_, of))| (plugin, of))
        .collect();
    for (shard, _) in &situation.owners {
        divisions.insert(shard.plugin.clone(), shard.of);
    }
    divisions
}

/// Who has what while it is being decided. Members and shards are counted from 0.
struct Deal<'a> {
    /// Those that can take something.
    members: Vec<&'a Candidate>,
    shards: Vec<Shard>,
    /// Who has each shard.
    owner: Vec<Option<usize>>,
    is_going: Vec<bool>,
    /// How many shards each member has.
    count: Vec<usize>,
    /// How many shards of one plugin each member has. Shards of a plugin are neighbours, and share
    /// one entry.
    of_plugin: Vec<Vec<usize>>,
    plugin_of: Vec<usize>,
    /// How much each shard and each member belong together.
    weights: Vec<Vec<u64>>,
}

impl<'a> Deal<'a> {
    fn new(situation: &'a Situation<'_>) -> Self {
        let members: Vec<_> = situation
            .members
            .iter()
            .filter(|member| !member.leaving)
            .collect();
        let (mut shards, mut plugin_of) = (Vec::new(), Vec::new());
        let divisions = divisions(situation);
        for (at, (plugin, of)) in divisions.iter().enumerate() {
            for index in of.all() {
                plugin_of.push(at);
                shards.push(Shard {
                    plugin: plugin.clone(),
                    of: *of,
                    index,
                });
            }
        }
        Self {
            owner: vec![None; shards.len()],
            is_going: shards
                .iter()
                .map(|shard| situation.going.contains(shard))
                .collect(),
            count: vec![0; members.len()],
            of_plugin: vec![vec![0; members.len()]; divisions.len()],
            weights: shards
                .iter()
                .map(|shard| {
                    let weigh = |member: &&Candidate| weight(&member.id, shard);
                    members.iter().map(weigh).collect()
                })
                .collect(),
            members,
            shards,
            plugin_of,
        }
    }

    /// Leaves each shard with its owner, if that can have it. Returns the others.
    fn keep(&mut self, situation: &Situation<'_>) -> Vec<usize> {
        let owners: BTreeMap<_, _> = situation.owners.iter().copied().collect();
        for shard in 0..self.shards.len() {
            let owner = owners.get(&self.shards[shard]);
            let place = owner.and_then(|owner| {
                let mut members = self.members.iter();
                members.position(|member| member.id == **owner)
            });
            if let Some(member) = place.filter(|member| self.can_have(*member, shard)) {
                self.put(shard, member);
            }
        }
        (0..self.shards.len())
            .filter(|shard| self.owner[*shard].is_none())
            .collect()
    }

    fn can_have(&self, member: usize, shard: usize) -> bool {
        let shard = &self.shards[shard];
        self.members[member].offer.get(&shard.plugin) == Some(&shard.of)
    }

    fn put(&mut self, shard: usize, member: usize) {
        if let Some(before) = self.owner[shard].replace(member) {
            self.count[before] -= 1;
            self.of_plugin[self.plugin_of[shard]][before] -= 1;
        }
        self.count[member] += 1;
        self.of_plugin[self.plugin_of[shard]][member] += 1;
    }

    /// Gives a shard that nobody has to the member with the fewest.
    fn give(&mut self, shard: usize) {
        let members = (0..self.members.len()).filter(|member| self.can_have(*member, shard));
        let least = members.min_by_key(|member| {
            (
                self.count[*member],
                self.of_plugin[self.plugin_of[shard]][*member],
                Reverse(self.weight(*member, shard)),
            )
        });
        if let Some(member) = least {
            self.put(shard, member);
        }
    }

    /// Moves one shard from a member to one that has at least two fewer: of all such moves the one
    /// that levels most, the members' counts first and then the plugin's.
    fn level(&mut self) -> bool {
        let pairs = (0..self.shards.len())
            .flat_map(|shard| (0..self.members.len()).map(move |member| (shard, member)));
        let best = pairs
            .filter_map(|(shard, member)| Some((self.gain(shard, member)?, shard, member)))
            .max()
            .map(|(_, shard, member)| (shard, member));
        if let Some((shard, member)) = best {
            self.put(shard, member);
        }
        best.is_some()
    }

    /// How much is gained by moving a shard to a member; greater is better.
    fn gain(&self, shard: usize, member: usize) -> Option<impl Ord> {
        let owner = self.owner[shard]?;
        if self.count[owner] < self.count[member] + 2 || !self.can_have(member, shard) {
            return None;
        }
        let of_plugin = &self.of_plugin[self.plugin_of[shard]];
        Some((
            self.count[owner],
            Reverse(self.count[member]),
            self.is_going[shard],
            of_plugin[owner] as i64 - of_plugin[member] as i64,
            self.weight(member, shard),
        ))
    }

    fn weight(&self, member: usize, shard: usize) -> u64 {
        self.weights[shard][member]
    }

    fn result(self) -> Owners {
        let members = &self.members;
        self.shards
            .into_iter()
            .zip(self.owner)
            .filter_map(|(shard, owner)| Some((shard, members[owner?].id.clone())))
            .collect()
    }
}

/// How much a member and a shard belong together (rendezvous hashing). The same on every host, in
/// every version.
fn weight(member: &MemberId, shard: &Shard) -> u64 {
    let member = member.0.bytes().chain([0]);
    let plugin = shard.plugin.bytes().chain([0]);
    let numbers = [shard.of.shards.get(), shard.index];
    let numbers = numbers.into_iter().flat_map(u32::to_le_bytes);
    mix(fnv1a(member.chain(plugin).chain(numbers)))
}
