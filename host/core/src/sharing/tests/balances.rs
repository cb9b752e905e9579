//! Who should have what, for random groups.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::rng::Rng;
use crate::model::division::Division;
use crate::sharing::balance::{Candidate, Situation, desired};
use crate::sharing::records::{MemberId, Offer, Owners};

fn candidate(name: u64, offer: &Arc<Offer>) -> Candidate {
    Candidate {
        id: MemberId::new(&format!("m{name}")),
        offer: offer.clone(),
        leaving: false,
    }
}

fn decide(members: &[Candidate], owners: &Owners) -> Owners {
    desired(&Situation {
        members: members.to_vec(),
        owners: owners.iter().collect(),
        ..Situation::default()
    })
}

fn some_offer(rng: &mut Rng) -> Arc<Offer> {
    let plugins = rng.between(1, 12);
    let offer = (0..plugins).map(|plugin| {
        let of = if rng.chance(25) { rng.between(2, 9) } else { 1 };
        let of = Division::into(of as u32);
        (format!("p{plugin}").as_str().into(), of)
    });
    Arc::new(offer.collect())
}

fn spread(owners: &Owners, members: &[Candidate]) -> usize {
    let mut counts: BTreeMap<_, usize> = members.iter().map(|member| (&member.id, 0)).collect();
    for owner in owners.values() {
        *counts.entry(owner).or_default() += 1;
    }
    counts.values().max().unwrap_or(&0) - counts.values().min().unwrap_or(&0)
}

fn moved(before: &Owners, after: &Owners) -> usize {
    let kept = before
        .iter()
        .filter(|(shard, owner)| after.get(shard) == Some(owner));
    before.len() - kept.count()
}

#[test]
fn joins_and_leaves_move_a_share_and_leave_counts_that_differ_by_one_at_most() {
    let mut rng = Rng::new(1);
    for _ in 0..300 {
        let offer = some_offer(&mut rng);
        let shards: u32 = offer.values().map(|of| of.shards.get()).sum();
        let mut members = vec![candidate(0, &offer)];
        let mut owners = decide(&members, &Owners::new());
        for step in 1..12 {
            let most = if members.len() > 1 && rng.chance(40) {
                let gone = members.swap_remove(rng.below(members.len() as u64) as usize);
                owners.values().filter(|owner| **owner == gone.id).count()
            } else {
                members.push(candidate(step, &offer));
                (shards as usize).div_ceil(members.len())
            };
            let next = decide(&members, &owners);
            assert_eq!(next.len(), shards as usize, "every shard has an owner");
            assert!(spread(&next, &members) <= 1, "{next:?}");
            assert!(moved(&owners, &next) <= most, "{owners:?} {next:?}");
            assert_eq!(decide(&members, &next), next, "nothing moves at rest");
            owners = next;
        }
    }
}

#[test]
fn whoever_leaves_gets_nothing_and_keeps_nothing() {
    let offer = Arc::new(Offer::from([("p".into(), Division::into(8))]));
    let mut members = vec![candidate(0, &offer), candidate(1, &offer)];
    let owners = decide(&members, &Owners::new());
    members[0].leaving = true;
    let next = decide(&members, &owners);
    assert!(next.values().all(|owner| *owner == members[1].id));
    members[1].leaving = true;
    assert_eq!(decide(&members, &next), Owners::new());
}

#[test]
fn a_member_gets_only_what_it_has() {
    let all = Arc::new(Offer::from([
        ("p".into(), Division::into(1)),
        ("q".into(), Division::into(4)),
    ]));
    let one = Arc::new(Offer::from([("p".into(), Division::into(1))]));
    let members = [candidate(0, &all), candidate(1, &one)];
    let next = decide(&members, &Owners::new());
    let of_one = next.iter().filter(|(_, owner)| **owner == members[1].id);
    let of_one: Vec<_> = of_one.map(|(shard, _)| shard.to_string()).collect();
    assert_eq!(of_one, ["p/0-of-1"]);
}

#[test]
fn the_order_in_which_members_are_known_changes_nothing() {
    let mut rng = Rng::new(2);
    let offer = some_offer(&mut rng);
    let mut members: Vec<_> = (0..5).map(|name| candidate(name, &offer)).collect();
    let forward = decide(&members, &Owners::new());
    members.reverse();
    assert_eq!(decide(&members, &Owners::new()), forward);
}
