//! Which write explains a change.

use http::Method;
use serde_json::json;

use super::{Story, Thing};
use crate::facts::HOLD;
use crate::judge::DELETION;

const NOBODY: &str = "neither an actor nor the host has asked for this";

fn owner() -> Thing {
    Thing::config("owner")
}

fn dependent() -> Thing {
    Thing::config("dependent").owned_by(&owner())
}

#[test]
fn a_deletion_of_an_earlier_version_explains_nothing() {
    let story = Story::of(&[&owner(), &dependent()]).unknown_gone(&owner());
    let old = story.version_of(&dependent()).to_string();
    let story = story.unknown(&dependent().with(HOLD).without(HOLD));
    let named = json!({"uid": dependent().uid(), "resourceVersion": old});
    story.deletes_if(&dependent(), &named, None).breaks(NOBODY);
}

#[test]
fn a_deletion_of_another_object_of_the_name_explains_nothing() {
    let story = Story::of(&[&owner(), &dependent()]).unknown_gone(&owner());
    let named = json!({"uid": "of another"});
    story.deletes_if(&dependent(), &named, None).breaks(NOBODY);
}

#[test]
fn a_deletion_that_names_neither_object_nor_version_is_none_that_the_host_may_send() {
    let story = Story::of(&[&owner(), &dependent()]).unknown_gone(&owner());
    let story = story.deletes_if(&dependent(), &json!({}), None);
    story.breaks("does not say which object");
}

#[test]
fn what_nobody_has_asked_for_is_a_violation() {
    let story = Story::of(&[&owner(), &dependent()]).unknown_gone(&owner());
    story.happens(&dependent(), None).breaks(NOBODY);
}

#[test]
fn a_deletion_whose_answer_shows_the_object_as_it_was_last_explains_that_it_is_gone() {
    let story = Story::of(&[&owner(), &dependent()]).unknown_gone(&owner());
    story.deletes_and_shows(&dependent()).passes(DELETION);
}

#[test]
fn a_write_that_the_server_has_refused_explains_nothing() {
    let story = Story::of(&[&owner(), &dependent()]).unknown_gone(&owner());
    let named = json!({"preconditions": {"uid": dependent().uid()}});
    let story = story.refused(Method::DELETE, &dependent(), &named);
    story.happens(&dependent(), None).breaks(NOBODY);
}

#[test]
fn a_write_that_was_done_to_another_object_of_the_name_explains_nothing() {
    let story = Story::of(&[&owner(), &dependent()]).unknown_gone(&owner());
    let story = story.deletes_if(&dependent(), &json!({}), None);
    let new = dependent().reborn();
    let story = story.known(&new).happens(&new, None);
    story.breaks_all(&["does not say which object", NOBODY]);
}

#[test]
fn a_write_that_was_not_answered_may_have_been_done() {
    let story = Story::of(&[&owner(), &dependent()]).unknown_gone(&owner());
    let named = json!({"preconditions": {"uid": dependent().uid()}});
    let story = story.unanswered(Method::DELETE, &dependent(), &named);
    story.happens(&dependent(), None).passes(DELETION);
}

#[test]
fn a_write_that_has_made_an_earlier_version_explains_no_later_one() {
    let waiting = Thing::waiting("other");
    let both = dependent().owned_by(&waiting);
    let story = Story::of(&[&owner(), &waiting, &both]);
    let story = story.refers(&both, &both.clone().disowned(&waiting));
    story
        .happens(&both, Some(&both.clone().disowned(&owner())))
        .breaks(NOBODY);
}
