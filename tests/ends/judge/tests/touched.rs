//! Which finalizers the host touches, and what else is left alone.

use http::Method;
use serde_json::json;

use super::{Story, Thing, blocker, follower, orphaning, waiting};
use crate::facts::{FOREGROUND, HOLD, ORPHAN, PROTECTION};
use crate::judge::FOREGROUND_ENDS;

const THERE: &str = "its dependent is there";
const AGAINST: &str = "the server removed it though the patch named other finalizers";

#[test]
fn the_finalizer_of_somebody_else_stays() {
    for name in [HOLD, "example.com/any"] {
        let held = waiting().with(name);
        let story = Story::of(&[&held]).finalizes(&held, None);
        story.breaks("the finalizer of somebody else is gone");
    }
}

#[test]
fn the_finalizer_of_somebody_else_stays_in_a_deletion_too() {
    let owner = Thing::config("owner");
    let held = follower().with(HOLD);
    let story = Story::of(&[&owner, &held]).unknown_gone(&owner);
    story
        .deletes(&held, None)
        .breaks("the finalizer of somebody else is gone");
}

#[test]
fn no_finalizer_is_put_on_but_the_protection_of_a_claim() {
    let claim = Thing::claim();
    let bare = claim.clone().without(PROTECTION);
    let story = Story::of(&[&bare]).finalizes(&bare, Some(&claim));
    assert!(story.verdict().violations.is_empty());
    let config = Thing::config("config");
    for (before, name) in [(&bare, HOLD), (&bare, ORPHAN), (&config, PROTECTION)] {
        let after = before.clone().with(name);
        let story = Story::of(&[before]).finalizes(before, Some(&after));
        story.breaks("it has got the finalizers");
    }
}

#[test]
fn no_protection_is_put_on_a_claim_that_is_being_deleted() {
    let bare = Thing::claim().without(PROTECTION).with(HOLD).dying();
    let story = Story::of(&[&bare]);
    let after = bare.clone().with(PROTECTION);
    story
        .finalizes(&bare, Some(&after))
        .breaks("it has got the finalizers");
}

#[test]
fn what_is_being_deleted_is_not_deleted_in_another_way() {
    let orphaning = orphaning().with(HOLD);
    let story = Story::of(&[&orphaning]);
    let after = waiting().with(HOLD);
    story
        .deletes(&orphaning, Some(&after))
        .breaks("it was being deleted in another way");
}

#[test]
fn what_is_being_deleted_is_not_made_to_wait_for_its_dependents() {
    let dying = Thing::config("owner").with(HOLD).dying();
    let story = Story::of(&[&dying]);
    let after = dying.clone().with(FOREGROUND);
    story
        .deletes(&dying, Some(&after))
        .breaks("it was being deleted in another way");
}

#[test]
fn a_second_deletion_sets_apart_when_the_host_had_asked_before_the_first() {
    let held = Thing::config("owner").with(HOLD);
    let again = |story: Story| {
        let dying = held.clone().with(ORPHAN).dying();
        let after = held.clone().dying();
        story.unknown(&dying).deletes_by_uid(&dying, Some(&after))
    };
    let asked = again(Story::of(&[&held]).asks(&held));
    asked.sets_apart("it was not yet being deleted when the host asked");
    again(Story::of(&[&held])).breaks("it was being deleted in another way");
}

#[test]
fn a_patch_of_the_finalizers_explains_more_than_a_deletion_without_an_answer() {
    let named = json!({"preconditions": {"uid": waiting().uid()}});
    let story = Story::of(&[&waiting()]);
    let story = story.unanswered(Method::DELETE, &waiting(), &named);
    story.finalizes(&waiting(), None).passes(FOREGROUND_ENDS);
}

#[test]
fn a_pod_for_which_its_kubelet_is_not_done_is_not_ended() {
    let pod = Thing::pod("pod", &[]);
    let (ending, ended) = (pod.clone().ending(), pod.dying());
    let story = || Story::of(&[&ending]);
    story().happens(&ending, Some(&ended)).breaks_all(&[
        "neither an actor nor the host",
        "somebody else waited for it",
    ]);
    story().deletes(&ending, Some(&ended)).breaks_all(&[
        "it was being deleted in another way",
        "somebody else waited for it",
    ]);
    story()
        .happens(&ending, None)
        .breaks("somebody else waited for it");
}

#[test]
fn a_pod_for_which_its_kubelet_is_done_may_lose_a_finalizer_and_stay() {
    let pod = Thing::pod("pod", &[]).with(FOREGROUND).with(HOLD).dying();
    let story = Story::of(&[&pod]);
    let after = pod.clone().without(FOREGROUND);
    story.finalizes(&pod, Some(&after)).passes(FOREGROUND_ENDS);
}

#[test]
fn a_pod_for_which_nobody_waits_goes_by_itself() {
    let ended = Thing::pod("pod", &[]).dying();
    let story = Story::of(&[&ended]).happens(&ended, None);
    assert!(story.verdict().violations.is_empty());
}

#[test]
fn a_pod_that_is_held_does_not_go_by_itself() {
    let held = Thing::pod("pod", &[]).with(HOLD).dying();
    let story = Story::of(&[&held]).happens(&held, None);
    story.breaks_all(&[
        "the finalizer of somebody else is gone",
        "somebody else waited for it",
    ]);
}

#[test]
fn a_finalizer_that_is_set_while_the_server_removes_the_object_sets_apart() {
    let both = waiting().with(ORPHAN);
    let story = Story::of(&[&both, &follower()]);
    let story = story.finalizes_if(&both, &json!([FOREGROUND]), None);
    story.sets_apart(AGAINST);
}

#[test]
fn the_finalizer_that_the_patch_takes_is_judged_all_the_same() {
    let both = waiting().with(ORPHAN);
    let story = Story::of(&[&both, &blocker()]);
    let story = story.finalizes_if(&both, &json!([FOREGROUND]), None);
    let verdict = story.verdict();
    assert_eq!(verdict.violations.len(), 1, "{:?}", verdict.violations);
    assert!(verdict.violations[0].contains(THERE));
}

#[test]
fn a_finalizer_that_was_set_before_the_patch_is_not_set_apart() {
    // The patch leaves a finalizer, so that it is not by it that the object is gone.
    let both = waiting().with(ORPHAN);
    let story = Story::of(&[&both]);
    let story = story.finalizes_if(&both, &json!([FOREGROUND, HOLD]), None);
    story.breaks("the patch has not taken the last finalizer");
}

#[test]
fn a_finalizer_that_goes_while_the_object_stays_is_not_set_apart() {
    let both = orphaning().with(FOREGROUND);
    let story = Story::of(&[&both, &follower()]);
    let after = waiting();
    let story = story.finalizes_if(&both, &json!([FOREGROUND]), Some(&after));
    story.breaks(THERE);
}

#[test]
fn a_patch_of_which_the_answer_is_not_known_may_have_been_done() {
    let story = Story::of(&[&waiting()]);
    let patch = json!([{"op": "test", "path": "/metadata/finalizers", "value": [FOREGROUND]}]);
    let story = story.unanswered(Method::PATCH, &waiting(), &patch);
    story.happens(&waiting(), None).passes(FOREGROUND_ENDS);
}
