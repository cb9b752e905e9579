//! What is wrong with the objects of a namespace when nobody writes any more: what must be gone is
//! there, or a finalizer is stuck.

use std::sync::Arc;

use crate::facts::{FOREGROUND, Facts, ORPHAN, PROTECTION};
use crate::owners::{Standing, standing};
use crate::world::World;

/// What is not yet as it must be in the end, of the namespace's objects and the cluster-scoped ones
/// whose names begin with its name.
pub fn shortcomings(world: &World, namespace: &str) -> Vec<String> {
    let all = world.of_story(namespace);
    let wrong = all.iter().filter_map(|facts| {
        let is_used = || all.iter().any(|pod| pod.uses(facts));
        let find = |uid: &str| {
            let place = world.get(&facts.namespace, uid);
            place.or_else(|| world.get("", uid))
        };
        let reason = fault(facts, find, is_used)?;
        Some(format!("{reason}: {facts:?}"))
    });
    wrong.collect()
}

/// What is wrong with an object. `find` looks up what may own it.
fn fault(
    facts: &Facts,
    find: impl Fn(&str) -> Option<Arc<Facts>>,
    is_used: impl Fn() -> bool,
) -> Option<&'static str> {
    let is_claim = facts.resource == "persistentvolumeclaims";
    if facts.is_dying {
        let waits = is_claim && facts.has(PROTECTION) && is_used();
        let is_stuck = facts.has(ORPHAN) || facts.has(FOREGROUND);
        return (!waits || is_stuck).then_some("it is being deleted and does not go");
    }
    if is_claim && !facts.has(PROTECTION) {
        return Some("the claim is not protected");
    }
    let owners = facts.owners.iter();
    let standings: Vec<Standing> = owners.map(|one| standing(one, facts, &find)).collect();
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::HOLD;
    use crate::judge::tests::Thing;

    const STAYS: &str = "it is being deleted and does not go";
    const LEFT: &str = "none of its owners keeps it";
    const NAMES: &str = "it still names an owner that is gone";

    /// What is wrong with this object when these others are there.
    fn fault_of(thing: &Thing, others: &[&Thing], is_used: bool) -> Option<&'static str> {
        let facts = |thing: &Thing| Facts::of(thing.resource, &thing.object);
        let find = |uid: &str| {
            let found = others.iter().find(|other| other.uid() == uid);
            found.map(|found| Arc::new(facts(found)))
        };
        fault(&facts(thing), find, || is_used)
    }

    fn owner() -> Thing {
        Thing::config("owner")
    }

    fn dependent() -> Thing {
        Thing::config("dependent").owned_by(&owner())
    }

    #[test]
    fn what_nobody_owns_and_what_its_owner_keeps_may_be_there() {
        assert_eq!(fault_of(&owner(), &[], false), None);
        assert_eq!(fault_of(&dependent(), &[&owner()], false), None);
    }

    #[test]
    fn what_has_lost_all_its_owners_must_be_gone() {
        assert_eq!(fault_of(&dependent(), &[], false), Some(LEFT));
        let waiting = Thing::waiting("owner");
        assert_eq!(fault_of(&dependent(), &[&waiting], false), Some(LEFT));
    }

    #[test]
    fn what_has_another_owner_must_have_given_up_the_one_that_is_gone() {
        let other = Thing::config("other");
        let both = dependent().owned_by(&other);
        assert_eq!(fault_of(&both, &[&other], false), Some(NAMES));
        assert_eq!(fault_of(&both, &[&other, &owner()], false), None);
    }

    #[test]
    fn what_has_an_owner_of_which_nobody_knows_may_be_there() {
        let beacon = Thing::new("beacons", "dependent").owned_by(&owner());
        assert_eq!(fault_of(&beacon, &[], false), None);
        let mut reference = owner().reference();
        reference["kind"] = "Unknown".into();
        let unknown = dependent().referring(reference);
        assert_eq!(fault_of(&unknown, &[], false), None);
    }

    #[test]
    fn what_is_being_deleted_must_be_gone() {
        let dying = owner().with(HOLD).dying();
        assert_eq!(fault_of(&dying, &[], true), Some(STAYS));
        assert_eq!(fault_of(&Thing::claim().dying(), &[], false), Some(STAYS));
    }

    #[test]
    fn a_claim_that_is_used_may_wait_and_for_nothing_else() {
        let claim = Thing::claim().dying();
        assert_eq!(fault_of(&claim, &[], true), None);
        for finalizer in [FOREGROUND, ORPHAN] {
            let stuck = claim.clone().with(finalizer);
            assert_eq!(fault_of(&stuck, &[], true), Some(STAYS));
        }
    }

    #[test]
    fn a_claim_is_protected() {
        let bare = Thing::claim().without(PROTECTION);
        assert_eq!(
            fault_of(&bare, &[], false),
            Some("the claim is not protected")
        );
        assert_eq!(fault_of(&Thing::claim(), &[], false), None);
        let bare = bare.with(HOLD).dying();
        assert_eq!(fault_of(&bare, &[], true), Some(STAYS));
    }
}
