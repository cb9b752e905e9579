//! What may be deleted.

use std::time::Duration;

use serde_json::json;

use super::{Story, Thing};
use crate::facts::{FOREGROUND, HOLD};
use crate::judge::DELETION;

const KEEPS: &str = "its owner keeps it";
const WAITED: &str = "its owner still waited when the host asked";

fn owner() -> Thing {
    Thing::config("owner")
}

fn dependent() -> Thing {
    Thing::config("dependent").owned_by(&owner())
}

#[test]
fn what_has_lost_its_only_owner_may_be_deleted() {
    let story = Story::of(&[&owner(), &dependent()]).unknown_gone(&owner());
    story.deletes(&dependent(), None).passes(DELETION);
}

#[test]
fn what_an_actor_does_is_not_judged() {
    let story = Story::of(&[&owner(), &dependent()]).unknown_gone(&dependent());
    assert!(story.verdict().violations.is_empty());
    assert_eq!(story.verdict().checks[DELETION], 0);
}

#[test]
fn a_dependent_stays_while_its_owner_lives() {
    let story = Story::of(&[&owner(), &dependent()]);
    story.deletes(&dependent(), None).breaks(KEEPS);
}

#[test]
fn a_deletion_that_only_begins_is_judged_too() {
    let held = dependent().with(HOLD);
    let story = Story::of(&[&owner(), &held]);
    story
        .deletes(&held, Some(&held.clone().dying()))
        .breaks(KEEPS);
}

#[test]
fn a_dependent_stays_while_one_of_two_owners_lives() {
    let other = Thing::config("other");
    let both = dependent().owned_by(&other);
    let story = Story::of(&[&owner(), &other, &both]).known_gone(&owner());
    story.deletes(&both, None).breaks(KEEPS);
}

#[test]
fn what_has_no_owners_stays() {
    let alone = Thing::config("alone");
    Story::of(&[&alone])
        .deletes(&alone, None)
        .breaks("it has no owners");
}

#[test]
fn an_owner_of_the_same_name_and_another_uid_keeps_nothing() {
    let story = Story::of(&[&owner(), &dependent()]).known_gone(&owner());
    let story = story.known(&owner().reborn());
    story.deletes(&dependent(), None).passes(DELETION);
}

#[test]
fn an_object_that_has_taken_the_name_of_a_dependent_stays_with_its_own_owner() {
    let other = Thing::config("other");
    let new = Thing::config("dependent").reborn().owned_by(&other);
    let story = Story::of(&[&owner(), &other, &dependent()]);
    let story = story
        .known_gone(&owner())
        .unknown_gone(&dependent())
        .unknown(&new);
    story.deletes_by_uid(&new, None).breaks(KEEPS);
}

#[test]
fn an_owner_of_the_same_uid_and_another_name_is_absent() {
    let mut reference = owner().reference();
    reference["name"] = "another".into();
    let dependent = Thing::config("dependent").referring(reference);
    let story = Story::of(&[&owner(), &dependent]);
    story.deletes(&dependent, None).passes(DELETION);
}

#[test]
fn an_owner_of_the_same_uid_and_another_kind_is_absent() {
    let mut reference = owner().reference();
    reference["kind"] = "Secret".into();
    let dependent = Thing::config("dependent").referring(reference);
    let story = Story::of(&[&owner(), &dependent]);
    story.deletes(&dependent, None).passes(DELETION);
}

#[test]
fn an_owner_in_another_namespace_is_absent() {
    let stranger = Thing::config("owner").in_namespace("elsewhere");
    let story = Story::of(&[&stranger, &dependent()]);
    story.deletes(&dependent(), None).passes(DELETION);
}

#[test]
fn a_cluster_scoped_owner_keeps_an_object_of_a_namespace() {
    let beacon = Thing::new("beacons", "owner");
    let dependent = Thing::config("dependent").owned_by(&beacon);
    let story = Story::of(&[&beacon, &dependent]);
    story.deletes(&dependent, None).breaks(KEEPS);
}

#[test]
fn a_cluster_scoped_object_stays_when_its_owner_would_be_in_a_namespace() {
    let beacon = Thing::new("beacons", "dependent").owned_by(&owner());
    let story = Story::of(&[&owner(), &beacon]).known_gone(&owner());
    story.deletes(&beacon, None).breaks("Misplaced");
}

#[test]
fn a_cluster_scoped_object_goes_with_its_cluster_scoped_owner() {
    let owner = Thing::new("beacons", "owner");
    let beacon = Thing::new("beacons", "dependent").owned_by(&owner);
    let story = Story::of(&[&owner, &beacon]).unknown_gone(&owner);
    story.deletes(&beacon, None).passes(DELETION);
}

#[test]
fn an_object_stays_when_its_owner_is_of_a_kind_that_is_not_served() {
    let reference = json!({"apiVersion": "gone/v1", "kind": "Gone", "name": "n", "uid": "u"});
    let dependent = Thing::config("dependent").referring(reference);
    let story = Story::of(&[&dependent]);
    story.deletes(&dependent, None).breaks("Unknown");
}

#[test]
fn an_object_stays_when_its_owner_is_of_a_version_that_is_not_served() {
    let mut reference = Thing::new("gadgets", "owner").reference();
    reference["apiVersion"] = "example.dev/v9".into();
    let dependent = Thing::config("dependent").referring(reference);
    let story = Story::of(&[&dependent]);
    story.deletes(&dependent, None).breaks("Unknown");
}

#[test]
fn an_owner_that_waits_lets_its_dependent_go() {
    let story = Story::of(&[&Thing::waiting("owner"), &dependent()]);
    story.deletes(&dependent(), None).passes(DELETION);
}

#[test]
fn an_owner_that_is_being_deleted_without_waiting_keeps_its_dependent() {
    let story = Story::of(&[&owner().with(HOLD).dying(), &dependent()]);
    story.deletes(&dependent(), None).breaks(KEEPS);
}

#[test]
fn an_owner_that_will_wait_when_it_is_deleted_keeps_its_dependent() {
    let story = Story::of(&[&owner().with(FOREGROUND), &dependent()]);
    story.deletes(&dependent(), None).breaks(KEEPS);
}

#[test]
fn an_owner_that_waited_when_the_host_asked_sets_apart() {
    let story = Story::of(&[&Thing::waiting("owner").with(HOLD), &dependent()]);
    let story = story.asks(&owner()).unknown(&owner().with(HOLD).dying());
    story.deletes(&dependent(), None).sets_apart(WAITED);
}

#[test]
fn an_owner_that_waited_when_the_host_asked_long_before_is_not_set_apart() {
    let story = Story::of(&[&Thing::waiting("owner").with(HOLD), &dependent()]);
    let story = story.asks(&owner()).unknown(&owner().with(HOLD).dying());
    let story = story.later(Duration::from_secs(3));
    story.deletes(&dependent(), None).breaks(KEEPS);
}

#[test]
fn an_owner_that_waited_without_the_host_asking_is_not_set_apart() {
    let story = Story::of(&[&Thing::waiting("owner").with(HOLD), &dependent()]);
    let story = story.unknown(&owner().with(HOLD).dying());
    story.deletes(&dependent(), None).breaks(KEEPS);
}

#[test]
fn an_owner_that_did_not_wait_when_the_host_asked_is_not_set_apart() {
    let story = Story::of(&[&Thing::waiting("owner").with(HOLD), &dependent()]);
    let story = story.unknown(&owner().with(HOLD).dying()).asks(&owner());
    story.deletes(&dependent(), None).breaks(KEEPS);
}

#[test]
fn an_answer_to_another_key_does_not_hide_the_one_before() {
    let story = Story::of(&[&Thing::waiting("owner").with(HOLD), &dependent()]);
    let story = story.asks(&owner()).unknown(&owner().with(HOLD).dying());
    let story = story.asks(&owner());
    story.deletes(&dependent(), None).sets_apart(WAITED);
}

#[test]
fn an_answer_that_comes_after_the_write_excuses_nothing() {
    let waiting = Thing::waiting("owner").with(HOLD);
    let story = Story::of(&[&owner().with(HOLD), &dependent()]);
    let story = story.deletes(&dependent(), None).unknown(&waiting);
    story.asks(&owner()).breaks(KEEPS);
}

#[test]
fn an_answer_that_comes_after_the_write_does_not_hide_the_one_before() {
    let story = Story::of(&[&Thing::waiting("owner").with(HOLD), &dependent()]);
    let story = story.asks(&owner()).unknown(&owner().with(HOLD).dying());
    let story = story.deletes(&dependent(), None).asks(&owner());
    story.sets_apart(WAITED);
}

#[test]
fn another_object_of_the_owners_name_that_waited_excuses_nothing() {
    let predecessor = Thing::waiting("owner").reborn();
    let story = Story::of(&[&predecessor])
        .asks(&owner())
        .unknown_gone(&predecessor);
    let story = story.unknown(&owner()).unknown(&dependent());
    story.deletes(&dependent(), None).breaks(KEEPS);
}

#[test]
fn a_new_owner_sets_apart_when_the_deletion_names_no_version_and_the_host_had_asked() {
    let story = Story::of(&[&owner(), &dependent()]).known_gone(&owner());
    let other = Thing::config("other");
    let both = dependent().owned_by(&other);
    let story = story.asks(&dependent()).unknown(&other).unknown(&both);
    let story = story.deletes_by_uid(&both, None);
    story.sets_apart("it did not have this owner when the host asked");
}

#[test]
fn a_new_owner_is_not_set_apart_when_the_host_had_not_asked() {
    let story = Story::of(&[&owner(), &dependent()]).known_gone(&owner());
    let other = Thing::config("other");
    let both = dependent().owned_by(&other);
    let story = story.unknown(&other).unknown(&both);
    story.deletes_by_uid(&both, None).breaks(KEEPS);
}

#[test]
fn a_new_owner_is_not_set_apart_when_the_host_had_asked_long_before() {
    let story = Story::of(&[&owner(), &dependent()]).known_gone(&owner());
    let other = Thing::config("other");
    let both = dependent().owned_by(&other);
    let story = story.asks(&dependent()).unknown(&other).unknown(&both);
    let story = story.later(Duration::from_secs(3));
    story.deletes_by_uid(&both, None).breaks(KEEPS);
}

#[test]
fn a_new_owner_is_not_set_apart_when_the_deletion_names_the_version_that_has_it() {
    let story = Story::of(&[&owner(), &dependent()]).known_gone(&owner());
    let other = Thing::config("other");
    let both = dependent().owned_by(&other);
    let story = story.asks(&dependent()).unknown(&other).unknown(&both);
    story.deletes(&both, None).breaks(KEEPS);
}
