//! How an object is deleted: in the background, in the foreground, or leaving its dependents.

use super::{Story, Thing};
use crate::facts::{FOREGROUND, HOLD, ORPHAN, PROTECTION};
use crate::judge::DELETION;

const WAITED: &str = "its owner still waited when the host asked";
const WAY: &str = "its deletion does not do what its finalizers say";

fn owner() -> Thing {
    Thing::config("owner")
}

fn dependent() -> Thing {
    Thing::config("dependent").owned_by(&owner())
}

#[test]
fn a_deletion_orphans_when_the_object_has_that_finalizer() {
    let dependent = dependent().with(ORPHAN);
    let story = Story::of(&[&owner(), &dependent]).unknown_gone(&owner());
    story
        .deletes(&dependent, Some(&dependent.clone().dying()))
        .passes(DELETION);
}

#[test]
fn a_deletion_waits_for_dependents_when_the_object_has_that_finalizer() {
    let dependent = dependent().with(FOREGROUND);
    let story = Story::of(&[&owner(), &dependent]).unknown_gone(&owner());
    story
        .deletes(&dependent, Some(&dependent.clone().dying()))
        .passes(DELETION);
}

#[test]
fn a_deletion_does_not_pass_over_the_finalizers_of_the_object() {
    for finalizer in [FOREGROUND, ORPHAN] {
        let dependent = dependent().with(finalizer);
        let story = Story::of(&[&owner(), &dependent]).unknown_gone(&owner());
        story.deletes(&dependent, None).breaks(WAY);
    }
}

#[test]
fn a_deletion_does_not_wait_for_dependents_of_what_is_to_leave_them() {
    let dependent = dependent().with(ORPHAN);
    let other = Thing::config("other").owned_by(&dependent);
    let story = Story::of(&[&owner(), &dependent, &other]).unknown_gone(&owner());
    let after = dependent.clone().without(ORPHAN).with(FOREGROUND).dying();
    story.deletes(&dependent, Some(&after)).breaks(WAY);
}

#[test]
fn a_deletion_orphans_nothing_that_the_object_does_not_say() {
    let story = Story::of(&[&owner(), &dependent()]).unknown_gone(&owner());
    let after = dependent().with(ORPHAN).dying();
    story.deletes(&dependent(), Some(&after)).breaks(WAY);
}

#[test]
fn a_deletion_waits_for_dependents_only_when_an_owner_does() {
    let leaf = Thing::config("leaf").owned_by(&dependent());
    let story = Story::of(&[&owner(), &dependent(), &leaf]).unknown_gone(&owner());
    let after = dependent().with(FOREGROUND).dying();
    story.deletes(&dependent(), Some(&after)).breaks(WAY);
}

#[test]
fn a_deletion_is_in_the_foreground_when_an_owner_waits_and_there_are_dependents() {
    for own in [None, Some(ORPHAN)] {
        let dependent = own.into_iter().fold(dependent(), Thing::with);
        let leaf = Thing::config("leaf").owned_by(&dependent);
        let story = Story::of(&[&Thing::waiting("owner"), &dependent, &leaf]);
        let after = dependent.clone().without(ORPHAN).with(FOREGROUND).dying();
        story.deletes(&dependent, Some(&after)).passes(DELETION);
    }
}

#[test]
fn a_deletion_is_not_in_the_foreground_when_there_are_no_dependents() {
    let story = Story::of(&[&Thing::waiting("owner"), &dependent()]);
    let after = dependent().with(FOREGROUND).dying();
    story.deletes(&dependent(), Some(&after)).breaks(WAY);
}

#[test]
fn dependents_of_whose_end_the_watches_have_not_told_are_set_apart() {
    let leaf = Thing::config("leaf").owned_by(&dependent());
    let given_up = leaf.clone().disowned(&dependent());
    let after = dependent().with(FOREGROUND).dying();
    let story = || Story::of(&[&Thing::waiting("owner"), &dependent(), &leaf]);
    let just_told = story().unknown_gone(&leaf).told_gone(&leaf);
    for story in [
        story().unknown_gone(&leaf),
        just_told,
        story().unknown(&given_up),
    ] {
        let story = story.deletes(&dependent(), Some(&after));
        story.sets_apart("the watches had not told that its dependents are gone");
    }
}

#[test]
fn dependents_that_have_gone_long_ago_are_not_set_apart() {
    let leaf = Thing::config("leaf").owned_by(&dependent());
    let given_up = leaf.clone().disowned(&dependent());
    let after = dependent().with(FOREGROUND).dying();
    let story = || Story::of(&[&Thing::waiting("owner"), &dependent(), &leaf]);
    for story in [story().known_gone(&leaf), story().known(&given_up)] {
        story.deletes(&dependent(), Some(&after)).breaks(WAY);
    }
}

#[test]
fn a_deletion_may_be_in_the_foreground_when_an_owner_waited_when_the_host_asked() {
    let leaf = Thing::config("leaf").owned_by(&dependent());
    let story = Story::of(&[&Thing::waiting("owner").with(HOLD), &dependent(), &leaf]);
    let story = story.asks(&owner()).unknown(&owner().with(HOLD).dying());
    let after = dependent().with(FOREGROUND).dying();
    story.deletes(&dependent(), Some(&after)).sets_apart(WAITED);
}

#[test]
fn an_owner_that_waits_changes_nothing_for_what_waits_for_its_own_dependents() {
    let dependent = dependent().with(FOREGROUND);
    let leaf = Thing::config("leaf").owned_by(&dependent);
    let story = || Story::of(&[&Thing::waiting("owner"), &dependent, &leaf]);
    let after = dependent.clone().dying();
    story().deletes(&dependent, Some(&after)).passes(DELETION);
    story().deletes(&dependent, None).breaks(WAY);
}

#[test]
fn what_has_both_finalizers_orphans() {
    let both = dependent().with(FOREGROUND).with(ORPHAN);
    let story = || Story::of(&[&owner(), &both]).unknown_gone(&owner());
    let orphaning = dependent().with(ORPHAN).dying();
    story().deletes(&both, Some(&orphaning)).passes(DELETION);
    let waiting = dependent().with(FOREGROUND).dying();
    story().deletes(&both, Some(&waiting)).breaks(WAY);
}

#[test]
fn dependents_go_first_when_an_owner_waits() {
    let leaf = Thing::config("leaf").owned_by(&dependent());
    let story = Story::of(&[&Thing::waiting("owner"), &dependent(), &leaf]);
    story
        .deletes(&dependent(), None)
        .breaks("its dependents do not go first");
}

#[test]
fn a_dependent_that_the_watches_have_not_told_need_not_go_first() {
    let leaf = Thing::config("leaf").owned_by(&dependent());
    let story = Story::of(&[&Thing::waiting("owner"), &dependent()]).unknown(&leaf);
    story.deletes(&dependent(), None).passes(DELETION);
}

#[test]
fn no_dependent_need_go_first_when_the_owner_is_absent_or_does_not_wait_for_long() {
    let leaf = Thing::config("leaf").owned_by(&dependent());
    let story = Story::of(&[&owner(), &dependent(), &leaf]).known_gone(&owner());
    story.deletes(&dependent(), None).passes(DELETION);
    let story = Story::of(&[&owner(), &dependent(), &leaf]).unknown(&Thing::waiting("owner"));
    story.deletes(&dependent(), None).passes(DELETION);
}

#[test]
fn a_finalizer_sets_apart_when_the_deletion_names_no_version_and_the_host_had_asked() {
    let story = Story::of(&[&owner(), &dependent()]).known_gone(&owner());
    let orphan = dependent().with(ORPHAN);
    let story = story.asks(&dependent()).unknown(&orphan);
    let story = story.deletes_by_uid(&orphan, None);
    story.sets_apart("it did not have this finalizer when the host asked");
}

#[test]
fn a_finalizer_is_not_set_apart_when_the_host_had_been_told_of_it() {
    let story = || Story::of(&[&owner(), &dependent()]).known_gone(&owner());
    let orphan = dependent().with(ORPHAN);
    // It asked after that, or it named the version.
    let asked = story().unknown(&orphan).asks(&orphan);
    asked.deletes_by_uid(&orphan, None).breaks(WAY);
    let named = story().asks(&dependent()).unknown(&orphan);
    named.deletes(&orphan, None).breaks(WAY);
}

#[test]
fn what_is_protected_is_not_gone_at_once() {
    let pod = Thing::maker();
    let claim = Thing::claim().made_for(&pod);
    let story = Story::of(&[&pod, &claim]).unknown_gone(&pod);
    assert!(claim.finalizers()[0] == PROTECTION);
    story.deletes(&claim, None).breaks("it is protected");
}
