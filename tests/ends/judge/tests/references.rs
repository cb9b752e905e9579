//! Which references an object loses, and when they stop to block.

use std::time::Duration;

use serde_json::json;

use super::{Story, Thing};
use crate::facts::{HOLD, ORPHAN};
use crate::judge::REFERENCE;

const LOST: &str = "it has lost the owner";
const ALONE: &str = "no other owner keeps it";
const OTHER_GONE: &str = "the watches had not told that the other owner is gone";
const NO_MORE: &str = "the watches had not told that the owner orphans no more";
const WAITED: &str = "its owner still waited when the host asked";

fn owner() -> Thing {
    Thing::config("owner")
}

fn other() -> Thing {
    Thing::config("other")
}

/// It has both owners, the first of which it blocks.
fn both() -> Thing {
    Thing::config("dependent")
        .blocking(&owner())
        .owned_by(&other())
}

/// It has given up its owner.
fn given_up() -> Thing {
    both().disowned(&owner())
}

/// A dependent of the owner alone.
fn child() -> Thing {
    Thing::config("dependent").owned_by(&owner())
}

#[test]
fn an_absent_owner_is_given_up_when_another_is_there() {
    let story = Story::of(&[&owner(), &other(), &both()]).unknown_gone(&owner());
    story.refers(&both(), &given_up()).passes(REFERENCE);
}

#[test]
fn an_owner_that_waits_is_given_up_when_another_is_there() {
    let story = Story::of(&[&Thing::waiting("owner"), &other(), &both()]);
    story.refers(&both(), &given_up()).passes(REFERENCE);
}

#[test]
fn an_owner_that_is_there_is_not_given_up() {
    for owner in [owner(), owner().with(HOLD).dying(), owner().with(ORPHAN)] {
        let story = Story::of(&[&owner, &other(), &both()]);
        story.refers(&both(), &given_up()).breaks(LOST);
    }
}

#[test]
fn an_owner_that_is_there_untold_is_not_given_up() {
    let story = Story::of(&[&other(), &both()]).unknown(&owner());
    story.refers(&both(), &given_up()).breaks(LOST);
}

#[test]
fn the_last_owner_is_not_given_up_because_it_waited_when_the_host_asked() {
    let story = Story::of(&[&Thing::waiting("owner").with(HOLD), &child()]);
    let story = story.asks(&owner()).unknown(&owner().with(HOLD).dying());
    let verdict = story
        .refers(&child(), &child().disowned(&owner()))
        .verdict();
    assert_eq!(verdict.violations.len(), 1);
    assert!(verdict.violations[0].contains(ALONE));
}

#[test]
fn an_owner_that_waited_when_the_host_asked_sets_apart() {
    let waiting = Thing::waiting("owner").with(HOLD);
    let waits_no_more = owner().with(HOLD).dying();
    let story = || Story::of(&[&waiting, &other(), &both()]);
    let asked = story().asks(&waiting).unknown(&waits_no_more);
    asked.refers(&both(), &given_up()).sets_apart(WAITED);
    let asked = story().asks(&waiting).unknown(&waits_no_more);
    let long_before = asked.later(Duration::from_secs(3));
    long_before.refers(&both(), &given_up()).breaks(LOST);
    let not_asked = story().unknown(&waits_no_more);
    not_asked.refers(&both(), &given_up()).breaks(LOST);
}

#[test]
fn the_last_owner_is_not_given_up() {
    let alone = child().disowned(&owner());
    let story = Story::of(&[&owner(), &child()]).unknown_gone(&owner());
    story.refers(&child(), &alone).breaks(ALONE);
    let story = Story::of(&[&Thing::waiting("owner"), &child()]);
    story.refers(&child(), &alone).breaks(ALONE);
}

#[test]
fn an_owner_is_not_given_up_for_one_that_has_been_gone_or_waits_for_long() {
    let story = || Story::of(&[&owner(), &other(), &both()]).known_gone(&owner());
    let gone = story().known_gone(&other());
    gone.refers(&both(), &given_up()).breaks(ALONE);
    let waits = story().known(&Thing::waiting("other"));
    waits.refers(&both(), &given_up()).breaks(ALONE);
    let gone_since = story()
        .known(&Thing::waiting("other"))
        .unknown_gone(&other());
    gone_since.refers(&both(), &given_up()).breaks(ALONE);
}

#[test]
fn an_owner_is_not_given_up_for_one_that_never_was_there() {
    let mut reference = other().reference();
    reference["name"] = "wrong".into();
    let both = child().referring(reference);
    let story = Story::of(&[&owner(), &other(), &both]).unknown_gone(&owner());
    story
        .refers(&both, &both.clone().disowned(&owner()))
        .breaks(ALONE);
}

#[test]
fn another_owner_of_whose_end_the_watches_have_not_told_sets_apart() {
    let story = || Story::of(&[&owner(), &other(), &both()]).known_gone(&owner());
    let gone = story().unknown_gone(&other());
    gone.refers(&both(), &given_up()).sets_apart(OTHER_GONE);
    let waits = story().unknown(&Thing::waiting("other"));
    waits.refers(&both(), &given_up()).sets_apart(OTHER_GONE);
}

#[test]
fn nothing_is_given_up_when_nobody_knows_of_another_owner() {
    let unknown = json!({"apiVersion": "gone/v1", "kind": "Gone", "name": "n", "uid": "u"});
    let all = both().referring(unknown);
    let story = Story::of(&[&owner(), &other(), &all]).unknown_gone(&owner());
    story
        .refers(&all, &all.clone().disowned(&owner()))
        .breaks("nobody knows");
}

#[test]
fn nothing_is_given_up_of_a_cluster_scoped_object_with_an_owner_of_a_namespace() {
    let (gone, kept) = (Thing::new("beacons", "gone"), Thing::new("beacons", "kept"));
    let beacon = Thing::new("beacons", "dependent")
        .owned_by(&gone)
        .owned_by(&kept);
    let beacon = beacon.owned_by(&owner());
    let story = Story::of(&[&gone, &kept, &owner(), &beacon]).unknown_gone(&gone);
    story
        .refers(&beacon, &beacon.clone().disowned(&gone))
        .breaks("nobody knows");
}

#[test]
fn an_owner_that_orphans_is_given_up_whether_or_not_another_is_there() {
    for dependent in [both(), child()] {
        let story = Story::of(&[&Thing::orphaning("owner"), &other(), &dependent]);
        let after = dependent.clone().disowned(&owner());
        story.refers(&dependent, &after).passes(REFERENCE);
    }
}

#[test]
fn an_owner_that_orphans_is_given_up_wherever_the_dependent_is() {
    let far = child().in_namespace("elsewhere");
    let beacon = Thing::new("beacons", "dependent").owned_by(&owner());
    for dependent in [far, beacon] {
        let story = Story::of(&[&Thing::orphaning("owner"), &dependent]);
        let after = dependent.clone().disowned(&owner());
        story.refers(&dependent, &after).passes(REFERENCE);
    }
}

#[test]
fn an_owner_that_orphaned_until_it_was_gone_is_given_up() {
    let story = Story::of(&[&Thing::orphaning("owner"), &child()]);
    let story = story.known_gone(&Thing::orphaning("owner"));
    story
        .refers(&child(), &child().disowned(&owner()))
        .passes(REFERENCE);
}

#[test]
fn an_owner_that_orphans_no_more_untold_sets_apart() {
    let no_more = owner().with(HOLD).dying();
    let story = Story::of(&[&Thing::orphaning("owner").with(HOLD), &child()]);
    let story = story.unknown(&no_more);
    story
        .refers(&child(), &child().disowned(&owner()))
        .sets_apart(NO_MORE);
}

#[test]
fn an_owner_that_is_gone_and_had_stopped_to_orphan_untold_sets_apart() {
    let no_more = owner().with(HOLD).dying();
    let story = Story::of(&[&Thing::orphaning("owner").with(HOLD), &child()]);
    let story = story.unknown(&no_more).unknown_gone(&no_more);
    story
        .refers(&child(), &child().disowned(&owner()))
        .sets_apart(NO_MORE);
}

#[test]
fn an_owner_that_is_known_to_orphan_no_more_is_not_given_up() {
    let no_more = owner().with(HOLD).dying();
    let story = Story::of(&[&Thing::orphaning("owner").with(HOLD), &child()]);
    let story = story.known(&no_more);
    story
        .refers(&child(), &child().disowned(&owner()))
        .breaks(LOST);
}

#[test]
fn no_owner_is_added() {
    let story = Story::of(&[&owner(), &other(), &child()]);
    let after = child().owned_by(&other());
    story.refers(&child(), &after).breaks("it has got an owner");
}

#[test]
fn references_may_come_in_another_order() {
    let story = Story::of(&[&owner(), &other(), &both()]);
    let after = Thing::config("dependent")
        .owned_by(&other())
        .blocking(&owner());
    story.refers(&both(), &after).passes(REFERENCE);
}

#[test]
fn a_reference_is_changed_by_the_host_or_an_actor_alone() {
    let story = Story::of(&[&owner(), &other(), &both()]).unknown_gone(&owner());
    story
        .happens(&both(), Some(&given_up()))
        .breaks("neither an actor nor the host");
}

/// A circle: the dependent's own dependent waits, too.
fn leaf() -> Thing {
    Thing::waiting("leaf").owned_by(&child())
}

fn blocking() -> Thing {
    Thing::config("dependent").blocking(&owner())
}

#[test]
fn a_dependent_stops_to_block_when_an_owner_and_one_of_its_own_dependents_wait() {
    let story = Story::of(&[&Thing::waiting("owner"), &blocking(), &leaf()]);
    story.refers(&blocking(), &child()).passes(REFERENCE);
}

#[test]
fn a_dependent_blocks_on_when_none_of_its_own_dependents_waits() {
    let none = "none of its dependents waits";
    let story = || Story::of(&[&Thing::waiting("owner"), &blocking()]);
    story().refers(&blocking(), &child()).breaks(none);
    let leaf = Thing::config("leaf").owned_by(&child());
    story()
        .known(&leaf)
        .refers(&blocking(), &child())
        .breaks(none);
    let no_leaf = Thing::waiting("leaf");
    story()
        .known(&no_leaf)
        .refers(&blocking(), &child())
        .breaks(none);
    let untold = story().unknown(&leaf);
    untold.refers(&blocking(), &child()).breaks(none);
    // It was a dependent, and waited only after that.
    let was_leaf = story().known(&leaf).known(&leaf.disowned(&child()));
    let waits = was_leaf.unknown(&no_leaf);
    waits.refers(&blocking(), &child()).breaks(none);
}

#[test]
fn a_dependent_that_waited_sets_apart_until_the_watches_tell_of_its_end() {
    let reason = "the watches had not told that its dependents are gone";
    let story = || Story::of(&[&Thing::waiting("owner"), &blocking(), &leaf()]);
    let untold = story().unknown_gone(&leaf());
    untold.refers(&blocking(), &child()).sets_apart(reason);
    let told = story().known_gone(&leaf());
    told.refers(&blocking(), &child())
        .breaks("none of its dependents waits");
    let waits_no_more = Thing::config("leaf").owned_by(&child()).with(HOLD).dying();
    let untold = story().unknown(&waits_no_more);
    untold.refers(&blocking(), &child()).sets_apart(reason);
    let told = story().known(&waits_no_more);
    told.refers(&blocking(), &child())
        .breaks("none of its dependents waits");
}

#[test]
fn a_dependent_stops_to_block_an_owner_that_waited_when_the_host_asked() {
    let story = Story::of(&[&Thing::waiting("owner").with(HOLD), &blocking(), &leaf()]);
    let story = story.asks(&owner()).unknown(&owner().with(HOLD).dying());
    story.refers(&blocking(), &child()).sets_apart(WAITED);
}

#[test]
fn a_dependent_blocks_on_while_none_of_its_owners_waits() {
    let story = Story::of(&[&owner(), &blocking(), &leaf()]).unknown_gone(&owner());
    story
        .refers(&blocking(), &child())
        .breaks("none of its owners waits");
}

#[test]
fn a_dependent_blocks_on_while_another_owner_keeps_it() {
    let story = Story::of(&[&Thing::waiting("owner"), &other(), &both(), &leaf()]);
    let after = child().owned_by(&other());
    story.refers(&both(), &after).breaks("its owner keeps it");
}

#[test]
fn a_reference_does_not_begin_to_block_or_say_something_else() {
    let story = || Story::of(&[&Thing::waiting("owner"), &child(), &leaf()]);
    story()
        .refers(&child(), &blocking())
        .breaks("a reference says something else");
    let mut renamed = owner().reference();
    renamed["name"] = "another".into();
    let after = Thing::config("dependent").referring(renamed);
    story()
        .refers(&child(), &after)
        .breaks("a reference says something else");
}
