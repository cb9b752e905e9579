//! When an owner that waits or orphans is let go, and which finalizers the host touches.

use std::time::Duration;

use super::{Story, Thing, blocker, follower, orphaning, waiting};
use crate::facts::{FOREGROUND, HOLD, ORPHAN};
use crate::judge::{FOREGROUND_ENDS, ORPHAN_ENDS};

const THERE: &str = "its dependent is there";
const UNTOLD: &str = "the watches had not told of the dependent";

#[test]
fn an_owner_that_waits_goes_when_it_has_no_dependents() {
    let story = Story::of(&[&waiting(), &blocker()]).unknown_gone(&blocker());
    story.finalizes(&waiting(), None).passes(FOREGROUND_ENDS);
}

#[test]
fn an_owner_that_waits_stays_while_a_dependent_blocks_it() {
    let story = Story::of(&[&waiting(), &blocker()]);
    story.finalizes(&waiting(), None).breaks(THERE);
}

#[test]
fn an_owner_that_waits_and_is_held_by_another_finalizer_is_judged_as_well() {
    let held = waiting().with(HOLD);
    let story = Story::of(&[&held, &blocker()]);
    let after = held.clone().without(FOREGROUND);
    story.finalizes(&held, Some(&after)).breaks(THERE);
}

#[test]
fn each_dependent_that_blocks_is_a_violation() {
    let other = Thing::config("other").blocking(&waiting());
    let story = Story::of(&[&waiting(), &blocker(), &other]);
    story
        .finalizes(&waiting(), None)
        .breaks_all(&[THERE, THERE]);
}

#[test]
fn a_dependent_that_is_being_deleted_blocks_as_long_as_it_is_there() {
    let story = Story::of(&[&waiting(), &blocker().with(HOLD).dying()]);
    story.finalizes(&waiting(), None).breaks(THERE);
}

#[test]
fn an_owner_that_waits_goes_before_dependents_that_do_not_block() {
    let story = Story::of(&[&waiting(), &follower()]);
    story.finalizes(&waiting(), None).passes(FOREGROUND_ENDS);
}

#[test]
fn a_dependent_that_blocks_another_owner_blocks_not_this_one() {
    let other = Thing::config("other");
    let dependent = follower().blocking(&other);
    let story = Story::of(&[&waiting(), &other, &dependent]);
    story.finalizes(&waiting(), None).passes(FOREGROUND_ENDS);
}

#[test]
fn an_object_that_owns_itself_does_not_block_itself() {
    let selfish = waiting().blocking(&waiting());
    let story = Story::of(&[&selfish]);
    story.finalizes(&selfish, None).passes(FOREGROUND_ENDS);
}

#[test]
fn a_dependent_in_another_namespace_blocks_as_its_uid_says() {
    let far = blocker().in_namespace("elsewhere");
    let story = Story::of(&[&waiting(), &far]);
    story.finalizes(&waiting(), None).breaks(THERE);
}

#[test]
fn a_cluster_scoped_dependent_blocks_an_owner_of_a_namespace() {
    let beacon = Thing::new("beacons", "dependent").blocking(&waiting());
    let story = Story::of(&[&waiting(), &beacon]);
    story.finalizes(&waiting(), None).breaks(THERE);
}

#[test]
fn a_dependent_of_the_owners_predecessor_does_not_block_it() {
    let dependent = Thing::config("dependent").blocking(&waiting().reborn());
    let story = Story::of(&[&waiting(), &dependent]);
    story.finalizes(&waiting(), None).passes(FOREGROUND_ENDS);
}

#[test]
fn a_dependent_that_no_watch_has_told_sets_apart() {
    let story = Story::of(&[&waiting()])
        .unknown(&blocker())
        .later(Duration::from_secs(60));
    story.finalizes(&waiting(), None).sets_apart(UNTOLD);
}

#[test]
fn a_dependent_of_which_the_watches_told_a_moment_ago_sets_apart() {
    let story = Story::of(&[&waiting()])
        .unknown(&blocker())
        .told(&blocker());
    let story = story.later(Duration::from_millis(1900));
    story.finalizes(&waiting(), None).sets_apart(UNTOLD);
}

#[test]
fn a_dependent_of_which_the_watches_told_two_seconds_ago_is_not_set_apart() {
    let story = Story::of(&[&waiting()])
        .unknown(&blocker())
        .told(&blocker());
    let story = story.later(Duration::from_millis(2100));
    story.finalizes(&waiting(), None).breaks(THERE);
}

#[test]
fn a_dependent_of_which_the_watches_tell_again_is_not_set_apart() {
    let story = Story::of(&[&waiting(), &blocker()]).told(&blocker());
    story.finalizes(&waiting(), None).breaks(THERE);
}

#[test]
fn a_dependent_that_has_begun_to_block_untold_sets_apart() {
    let story = Story::of(&[&waiting(), &follower()]).unknown(&blocker());
    story.finalizes(&waiting(), None).sets_apart(UNTOLD);
}

#[test]
fn a_dependent_that_blocked_and_was_changed_otherwise_untold_is_not_set_apart() {
    let story = Story::of(&[&waiting(), &blocker()]).unknown(&blocker().with(HOLD));
    story.finalizes(&waiting(), None).breaks(THERE);
}

#[test]
fn a_dependent_that_blocked_not_for_a_while_sets_apart() {
    let story = Story::of(&[&waiting(), &blocker()])
        .known(&follower())
        .unknown(&blocker());
    story.finalizes(&waiting(), None).sets_apart(UNTOLD);
}

#[test]
fn an_owner_that_orphans_goes_when_no_dependent_names_it() {
    let story = Story::of(&[&orphaning(), &follower()]);
    let story = story.unknown(&follower().disowned(&orphaning()));
    story.finalizes(&orphaning(), None).passes(ORPHAN_ENDS);
}

#[test]
fn an_owner_that_orphans_stays_while_a_dependent_names_it_whether_it_blocks_or_not() {
    for dependent in [blocker(), follower()] {
        let story = Story::of(&[&orphaning(), &dependent]);
        story.finalizes(&orphaning(), None).breaks(THERE);
    }
}

#[test]
fn an_owner_that_orphans_and_a_dependent_that_is_not_told_are_set_apart() {
    let story = Story::of(&[&orphaning()]).unknown(&follower());
    story.finalizes(&orphaning(), None).sets_apart(UNTOLD);
}

#[test]
fn both_finalizers_are_judged_when_both_go() {
    let both = waiting().with(ORPHAN);
    let story = Story::of(&[&both, &blocker()]);
    story.finalizes(&both, None).breaks_all(&[THERE, THERE]);
}

#[test]
fn a_finalizer_stays_until_the_object_is_being_deleted() {
    for finalizer in [FOREGROUND, ORPHAN] {
        let owner = Thing::config("owner").with(finalizer);
        let story = Story::of(&[&owner]);
        let after = owner.clone().without(finalizer);
        story
            .finalizes(&owner, Some(&after))
            .breaks("it is not being deleted");
    }
}

#[test]
fn nobody_but_actors_and_the_host_takes_a_finalizer() {
    let story = Story::of(&[&waiting()]);
    story
        .happens(&waiting(), None)
        .breaks("neither an actor nor the host");
}

#[test]
fn a_patch_that_has_made_an_earlier_version_takes_no_finalizer_later() {
    let all = waiting().with(ORPHAN).with(HOLD);
    let (first, then) = (
        all.clone().without(FOREGROUND),
        all.clone().without(FOREGROUND),
    );
    let then = then.without(ORPHAN);
    let story = Story::of(&[&all]).finalizes(&all, Some(&first));
    let story = story.happens(&first, Some(&then));
    story.breaks("neither an actor nor the host");
}

#[test]
fn a_patch_of_something_else_takes_no_finalizer() {
    let held = waiting().with(HOLD);
    let story = Story::of(&[&held]);
    let after = held.clone().without(FOREGROUND);
    story
        .refers(&held, &after)
        .breaks("neither an actor nor the host");
}
