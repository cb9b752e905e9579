//! A group without faults: what it asks, what it moves, and how fast.

use super::schedules::{disorder, owners};
use super::world::World;
use crate::model::division::Division;
use crate::sharing::records::{Offer, Shard};

/// Sixteen plugins, and one of eight shards.
fn offer() -> Offer {
    let mut offer: Offer = (0..16)
        .map(|plugin| {
            let name = format!("plugin-{plugin}").as_str().into();
            (name, Division::UNDIVIDED)
        })
        .collect();
    offer.insert("heavy".into(), Division::into(8));
    offer
}

/// A group of so many hosts, in order.
fn group(hosts: usize, watches: bool) -> World {
    let mut world = World::new(hosts as u64);
    world.work = 0;
    for _ in 0..hosts {
        world.start(offer(), watches, 1_000);
        world.run_until(world.now + 20_000);
    }
    assert_eq!(disorder(&world), Ok(()));
    world
}

fn heavy_shards(world: &World, host: usize) -> usize {
    let shards = world.hosts[host].runs();
    shards.filter(|shard| &*shard.plugin == "heavy").count()
}

#[test]
fn a_host_that_joins_takes_no_more_than_its_share() {
    for before in 1..6 {
        let mut world = group(before, true);
        world.moves = 0;
        world.start(offer(), true, 1_000);
        world.run_until(world.now + 20_000);
        assert_eq!(disorder(&world), Ok(()));
        let share = 24_u64.div_ceil(before as u64 + 1);
        assert!(world.moves <= share, "{} of {share}", world.moves);
        assert!(world.moves >= share - 1);
    }
}

#[test]
fn a_host_that_leaves_moves_no_more_than_its_share() {
    for hosts in 2..6 {
        let mut world = group(hosts, true);
        world.moves = 0;
        let had = world.hosts[0].runs().count() as u64;
        world.leave(0);
        world.run_until(world.now + 20_000);
        assert_eq!(disorder(&world), Ok(()));
        assert_eq!(world.moves, had);
    }
}

#[test]
fn two_hosts_share_the_shards_of_a_heavy_plugin_equally() {
    let world = group(2, true);
    assert_eq!(heavy_shards(&world, 0), 4);
    assert_eq!(heavy_shards(&world, 1), 4);
}

#[test]
fn a_planned_hand_over_takes_a_fraction_of_a_second() {
    let mut world = group(3, true);
    let gained = world.counts.gained;
    let had = world.hosts[0].runs().count() as u64;
    world.leave(0);
    // Some ten messages of up to 30 ms.
    world.run_until(world.now + 500);
    assert_eq!(world.counts.gained, gained + had);
    assert_eq!(disorder(&world), Ok(()));
}

#[test]
fn the_shards_of_a_dead_host_run_again_within_a_lease_duration_and_a_retry_period() {
    for watches in [true, false] {
        let mut world = group(3, watches);
        world.crash(1);
        world.run_until(world.now + 17_000 + 2_000 * u64::from(!watches));
        assert_eq!(disorder(&world), Ok(()), "{watches}");
    }
}

#[test]
fn a_host_at_rest_renews_once_a_period_and_lists_once_a_period_or_once_a_lease_duration() {
    for (watches, most) in [(false, 60), (true, 34)] {
        let mut world = group(3, watches);
        let before = world.hosts[0].requests;
        world.run_until(world.now + 60_000);
        let asked = world.hosts[0].requests - before;
        assert!((most - 2..=most + 1).contains(&asked), "{asked} of {most}");
    }
}

#[test]
fn a_plugin_with_other_shards_runs_under_the_old_number_until_no_host_has_that() {
    let mut world = group(2, true);
    let mut divided = offer();
    divided.insert("plugin-0".into(), Division::into(2));
    world.offer(0, divided.clone());
    world.run_until(world.now + 10_000);
    let old = Shard::new("plugin-0", 0, Division::into(1));
    assert_eq!(owners(&world).get(&old), Some(world.hosts[1].sharing.id()));
    world.offer(1, divided);
    world.run_until(world.now + 10_000);
    assert_eq!(disorder(&world), Ok(()));
    let numbers = owners(&world).into_keys();
    let numbers: Vec<_> = numbers
        .filter(|shard| &*shard.plugin == "plugin-0")
        .map(|shard| shard.to_string())
        .collect();
    assert_eq!(numbers, ["plugin-0/0-of-2", "plugin-0/1-of-2"]);
}
