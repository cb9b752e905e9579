//! What is wrong with the objects of a namespace when nobody writes any more: what must be gone is
//! there, or a finalizer is stuck.

use crate::facts::{FOREGROUND, Facts, ORPHAN, PROTECTION};
use crate::owners::{Standing, standing};
use crate::world::World;

/// What is not yet as it must be in the end, of the namespace's objects and the cluster-scoped ones
/// whose names begin with its name.
pub fn shortcomings(world: &World, namespace: &str) -> Vec<String> {
    let all = world.of_story(namespace);
    let wrong = all.iter().filter_map(|facts| {
        let is_used = || all.iter().any(|pod| pod.uses(facts));
        let reason = fault(world, facts, is_used)?;
        Some(format!("{reason}: {facts:?}"))
    });
    wrong.collect()
}

fn fault(world: &World, facts: &Facts, is_used: impl Fn() -> bool) -> Option<&'static str> {
    let is_claim = facts.resource == "persistentvolumeclaims";
    if facts.is_dying {
        let waits = is_claim && facts.has(PROTECTION) && is_used();
        let is_stuck = facts.has(ORPHAN) || facts.has(FOREGROUND);
        return (!waits || is_stuck).then_some("it is being deleted and does not go");
    }
    if is_claim && !facts.has(PROTECTION) {
        return Some("the claim is not protected");
    }
    let find = |uid: &str| {
        let place = world.get(&facts.namespace, uid);
        place.or_else(|| world.get("", uid))
    };
    let owners = facts.owners.iter();
    let standings: Vec<Standing> = owners.map(|one| standing(one, facts, find)).collect();
    let nobody_knows = |one: &Standing| matches!(one, Standing::Unknown | Standing::Misplaced);
    if standings.is_empty() || standings.iter().any(nobody_knows) {
        return None;
    }
    if standings.iter().all(Standing::lets_go) {
        return Some("none of its owners keeps it");
    }
    let is_given_up = standings.iter().any(Standing::lets_go);
    is_given_up.then_some("it still names an owner that is gone")
}
