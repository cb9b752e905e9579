//! Random schedules.

use std::collections::BTreeMap;

use super::counts::Counts;
use super::world::{Network, World};
use crate::model::division::Division;
use crate::sharing::records::{Offer, Owners, Record};

/// For how long after the end of all faults a group may take to be in order, in milliseconds: 45
/// retry periods. A host's last request may be done 30 s late, a dead host's Lease expires 15 s
/// after that, and if the answer to its deletion is lost, its shards are free 15 s later.
pub const RECOVERY: u64 = 90_000;

/// Runs the schedule of a seed. An error says what went wrong.
pub fn run(seed: u64, recovers: bool) -> Result<Counts, String> {
    let mut world = World::new(seed);
    let end = begin(&mut world);
    let faults = world.rng.between(1, 9);
    let mut times: Vec<u64> = (0..faults).map(|_| world.rng.below(end)).collect();
    times.sort_unstable();
    for time in times {
        world.run_until(time);
        fault(&mut world);
    }
    world.run_until(end);
    if recovers {
        recover(&mut world);
    }
    match world.violation {
        Some(violation) => Err(format!("seed {seed}: {violation}")),
        None => Ok(world.counts),
    }
}

fn begin(world: &mut World) -> u64 {
    world.network = match world.rng.below(4) {
        0 => Network::default(),
        1 => Network {
            lost: 3,
            late: 5,
            failed: 2,
        },
        2 => Network {
            lost: 20,
            late: 20,
            failed: 10,
        },
        _ => Network {
            lost: 5,
            late: 40,
            failed: 0,
        },
    };
    let hosts = match world.rng.below(8) {
        0 => world.rng.between(4, 6),
        _ => world.rng.between(2, 3),
    };
    for _ in 0..hosts {
        start(world);
        let pause = world.rng.below(3_000);
        world.run_until(world.now + pause);
    }
    world.now + world.rng.between(15_000, 60_000)
}

fn start(world: &mut World) {
    let offer = some_offer(world);
    let watches = world.rng.chance(60);
    // Clocks that differ in speed by up to 6 in 100, hundreds of times what hardware has.
    let rate = world.rng.between(970, 1_030);
    world.start(offer, watches, rate);
}

fn some_offer(world: &mut World) -> Offer {
    let mut offer = Offer::from([
        ("single".into(), Division::into(1)),
        ("double".into(), Division::into(2)),
    ]);
    if world.rng.chance(20) {
        offer.remove("single");
    }
    if world.rng.chance(20) {
        let other = match world.rng.below(2) {
            0 => Division::into(3),
            _ => Division::by_namespace(Division::into(2).shards),
        };
        offer.insert("double".into(), other);
    }
    offer
}

/// One fault, or a change.
fn fault(world: &mut World) {
    let alive: Vec<usize> = (0..world.hosts.len())
        .filter(|host| world.hosts[*host].is_alive)
        .collect();
    let kind = world.rng.below(12);
    if alive.is_empty() || (kind == 0 && alive.len() < 5) {
        return start(world);
    }
    let host = alive[world.rng.below(alive.len() as u64) as usize];
    match kind {
        1 => world.crash(host),
        2 => world.leave(host),
        3 => {
            let offer = some_offer(world);
            world.offer(host, offer);
        }
        4 | 5 => {
            let length = world.rng.between(1_000, 25_000);
            world.hosts[host].cut_until = world.now + length;
            world.hosts[host].cut_is_one_way = kind == 5;
        }
        6 => {
            let id = world.hosts[host].sharing.id().clone();
            world.server.delete(&id);
        }
        7 => {
            world.crash(host);
            start(world);
        }
        _ => {
            let longest = if kind == 8 { 90_000 } else { 25_000 };
            let length = world.rng.between(10, longest);
            world.pause(host, length);
        }
    }
}

/// Ends all faults, and checks that the group comes in order.
fn recover(world: &mut World) {
    world.network = Network::default();
    if world
        .hosts
        .iter()
        .all(|host| !host.is_alive || host.is_leaving)
    {
        start(world);
    }
    for host in 0..world.hosts.len() {
        world.hosts[host].cut_until = 0;
        world.resume(host);
    }
    world.run_until(world.now + RECOVERY);
    if world.violation.is_none() {
        world.violation = disorder(world).err();
    }
    let before = (world.counts.gained, world.counts.finished, world.moves);
    world.run_until(world.now + 30_000);
    if before != (world.counts.gained, world.counts.finished, world.moves) {
        let violation = || "shards move although nothing happens".to_owned();
        world.violation.get_or_insert_with(violation);
    }
}

/// Who owns what, as the server has it.
pub fn owners(world: &World) -> Owners {
    match world
        .server
        .assignment
        .as_ref()
        .map(|stored| &stored.record)
    {
        Some(Record::Assignment(record)) => record.owners.clone(),
        _ => Owners::new(),
    }
}

/// What is not in order: every shard that a living host has is run by exactly one, under one
/// number, and counts of hosts with the same plugins differ by at most one.
pub fn disorder(world: &World) -> Result<(), String> {
    let hosts = world.hosts.iter();
    let alive: Vec<_> = hosts.filter(|host| host.is_alive).collect();
    if let Some(host) = alive.iter().find(|host| host.is_leaving) {
        return Err(format!("{} has not left", host.sharing.id()));
    }
    if world.server.members.len() != alive.len() {
        let members = world.server.members.len();
        return Err(format!("{members} Leases of {} hosts", alive.len()));
    }
    let mut run = Owners::new();
    for host in &alive {
        for shard in host.runs() {
            if run
                .insert(shard.clone(), host.sharing.id().clone())
                .is_some()
            {
                return Err(format!("{shard} is run twice"));
            }
        }
    }
    let owners = owners(world);
    if !alive.is_empty() && run != owners {
        return Err(format!("run is {run:?}, owned {owners:?}"));
    }
    for (plugin, of) in alive.iter().flat_map(|host| &host.offer) {
        let numbers: Vec<_> = run.keys().filter(|shard| shard.plugin == *plugin).collect();
        let of = numbers.first().map_or(*of, |shard| shard.of);
        if numbers.len() != of.shards.get() as usize {
            return Err(format!(
                "{} of {of} shards of {plugin} are run",
                numbers.len()
            ));
        }
    }
    balanced(&alive)
}

fn balanced(alive: &[&super::host::Host]) -> Result<(), String> {
    let mut counts: BTreeMap<&Offer, Vec<usize>> = BTreeMap::new();
    for host in alive {
        counts
            .entry(&host.offer)
            .or_default()
            .push(host.runs().count());
    }
    for counts in counts.values() {
        let (least, most) = (counts.iter().min(), counts.iter().max());
        if most > least.map(|least| least + 1).as_ref() {
            return Err(format!(
                "hosts with the same plugins have {counts:?} shards"
            ));
        }
    }
    Ok(())
}
