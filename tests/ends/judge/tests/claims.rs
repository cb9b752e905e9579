//! When a claim is let go.

use std::time::Duration;

use super::{Story, Thing};
use crate::facts::{Facts, PROTECTION};
use crate::judge::CLAIM_ENDS;

const USED: &str = "a pod uses it";
const ASKED: &str = "the pod did not use the claim when the host asked";

fn claim() -> Thing {
    Thing::claim().dying()
}

/// A claim that is made for the pod.
fn made() -> Thing {
    claim().made_for(&Thing::maker())
}

fn without_node(mut pod: Thing) -> Thing {
    pod.object["spec"]["nodeName"] = serde_json::Value::Null;
    pod
}

#[test]
fn a_claim_that_no_pod_uses_is_let_go() {
    let story = Story::of(&[&Thing::user("pod"), &claim()]).unknown_gone(&Thing::user("pod"));
    story.finalizes(&claim(), None).passes(CLAIM_ENDS);
}

#[test]
fn a_claim_stays_while_a_pod_names_it() {
    let story = Story::of(&[&Thing::user("pod"), &claim()]);
    story.finalizes(&claim(), None).breaks(USED);
}

#[test]
fn a_claim_stays_while_a_pod_names_it_that_is_being_deleted() {
    for pod in [Thing::user("pod").ending(), Thing::user("pod").dying()] {
        let story = Story::of(&[&pod, &claim()]);
        story.finalizes(&claim(), None).breaks(USED);
    }
}

#[test]
fn a_claim_that_is_not_being_deleted_stays_protected() {
    let story = Story::of(&[&Thing::claim()]);
    let bare = Thing::claim().without(PROTECTION);
    story
        .finalizes(&Thing::claim(), Some(&bare))
        .breaks("it is not being deleted");
}

#[test]
fn a_pod_without_a_node_does_not_use_its_claims() {
    let pod = without_node(Thing::user("pod"));
    let story = Story::of(&[&pod, &claim()]);
    story.finalizes(&claim(), None).passes(CLAIM_ENDS);
}

#[test]
fn a_pod_in_another_namespace_does_not_use_the_claim() {
    let pod = Thing::user("pod").in_namespace("elsewhere");
    let story = Story::of(&[&pod, &claim()]);
    story.finalizes(&claim(), None).passes(CLAIM_ENDS);
}

#[test]
fn a_pod_that_names_another_claim_does_not_use_this_one() {
    let volume = serde_json::json!({"persistentVolumeClaim": {"claimName": "another"}});
    let pod = Thing::pod("pod", &[volume]);
    let story = Story::of(&[&pod, &claim()]);
    story.finalizes(&claim(), None).passes(CLAIM_ENDS);
}

#[test]
fn a_claim_stays_while_the_pod_is_there_for_which_it_is_made() {
    for pod in [Thing::maker(), Thing::maker().ending()] {
        let story = Story::of(&[&pod, &made()]);
        story.finalizes(&made(), None).breaks(USED);
    }
}

#[test]
fn a_claim_goes_when_the_kubelet_is_done_with_the_pod_for_which_it_is_made() {
    let story = Story::of(&[&Thing::maker().dying(), &made()]);
    story.finalizes(&made(), None).passes(CLAIM_ENDS);
}

#[test]
fn a_claim_of_a_pod_that_has_no_such_volume_is_not_used_by_it() {
    let pod = Thing::pod("pod", &[]);
    let story = Story::of(&[&pod, &made()]);
    story.finalizes(&made(), None).passes(CLAIM_ENDS);
}

#[test]
fn no_pod_uses_a_claim_of_another_namespace() {
    let facts = |thing: &Thing| Facts::of(thing.resource, &thing.object);
    let (pod, claim) = (Thing::user("pod"), claim());
    assert!(facts(&pod).uses(&facts(&claim)));
    let far = claim.in_namespace("elsewhere");
    assert!(!facts(&pod).uses(&facts(&far)));
}

#[test]
fn a_claim_that_is_made_for_another_pod_is_not_used_by_this_one() {
    let claim = claim().made_for(&Thing::maker().reborn());
    let story = Story::of(&[&Thing::maker(), &claim]);
    story.finalizes(&claim, None).passes(CLAIM_ENDS);
    // Its owner, but not the one that controls it.
    let claim = Thing::claim().dying().owned_by(&Thing::maker());
    let story = Story::of(&[&Thing::maker(), &claim]);
    story.finalizes(&claim, None).passes(CLAIM_ENDS);
}

#[test]
fn a_pod_that_comes_after_the_host_has_listed_the_pods_sets_apart() {
    let story = Story::of(&[&claim()])
        .lists_pods()
        .unknown(&Thing::user("pod"));
    story.finalizes(&claim(), None).sets_apart(ASKED);
}

#[test]
fn a_pod_that_gets_a_node_after_the_host_has_listed_the_pods_sets_apart() {
    let pod = without_node(Thing::user("pod"));
    let story = Story::of(&[&claim(), &pod])
        .lists_pods()
        .unknown(&Thing::user("pod"));
    story.finalizes(&claim(), None).sets_apart(ASKED);
}

#[test]
fn a_pod_that_was_there_when_the_host_listed_the_pods_is_not_set_apart() {
    let story = Story::of(&[&claim()])
        .unknown(&Thing::user("pod"))
        .lists_pods();
    story.finalizes(&claim(), None).breaks(USED);
}

#[test]
fn a_pod_that_comes_is_not_set_apart_when_the_host_has_not_listed_the_pods() {
    let story = Story::of(&[&claim()]).unknown(&Thing::user("pod"));
    story.finalizes(&claim(), None).breaks(USED);
}

#[test]
fn a_pod_that_comes_is_not_set_apart_when_the_host_has_listed_the_pods_long_before() {
    let story = Story::of(&[&claim()])
        .lists_pods()
        .unknown(&Thing::user("pod"));
    let story = story.later(Duration::from_secs(3));
    story.finalizes(&claim(), None).breaks(USED);
}

#[test]
fn each_list_shortly_before_the_write_may_be_the_one_that_it_was_decided_on() {
    let pod = Thing::user("pod");
    let story = || Story::of(&[&claim()]).lists_pods().unknown(&pod);
    let listed_again = story().lists_pods().finalizes(&claim(), None);
    listed_again.sets_apart(ASKED);
    let long_ago = story().later(Duration::from_secs(3)).lists_pods();
    long_ago.finalizes(&claim(), None).breaks(USED);
    let listed_after = story().finalizes(&claim(), None).lists_pods();
    listed_after.sets_apart(ASKED);
}

#[test]
fn a_question_about_the_pod_does_not_do_for_one_that_names_the_claim() {
    let story = Story::of(&[&claim()])
        .asks(&Thing::user("pod"))
        .unknown(&Thing::user("pod"));
    story.finalizes(&claim(), None).breaks(USED);
}

#[test]
fn the_pod_for_which_the_claim_is_made_sets_apart_when_the_host_asked_before_it_came() {
    let story = Story::of(&[&made()])
        .asks(&Thing::maker())
        .unknown(&Thing::maker());
    story.finalizes(&made(), None).sets_apart(ASKED);
    let another = Thing::maker().reborn();
    let story = Story::of(&[&made(), &another])
        .asks(&another)
        .unknown_gone(&another);
    let story = story.unknown(&Thing::maker());
    story.finalizes(&made(), None).sets_apart(ASKED);
}

#[test]
fn the_pod_for_which_the_claim_is_made_sets_apart_when_it_had_no_node_when_the_host_asked() {
    let pod = without_node(Thing::maker());
    let story = Story::of(&[&made(), &pod])
        .asks(&pod)
        .unknown(&Thing::maker());
    story.finalizes(&made(), None).sets_apart(ASKED);
}

#[test]
fn the_pod_for_which_the_claim_is_made_is_not_set_apart_when_the_host_did_not_ask_for_it() {
    // A list of the pods that name the claim says nothing of it.
    let story = Story::of(&[&made()]).lists_pods().unknown(&Thing::maker());
    story.finalizes(&made(), None).breaks(USED);
}

#[test]
fn the_pod_for_which_the_claim_is_made_is_not_set_apart_when_the_host_asked_long_before() {
    let story = Story::of(&[&made()])
        .asks(&Thing::maker())
        .unknown(&Thing::maker());
    let story = story.later(Duration::from_secs(3));
    story.finalizes(&made(), None).breaks(USED);
}

#[test]
fn the_pod_for_which_the_claim_is_made_is_not_set_apart_when_it_was_there_when_the_host_asked() {
    let story = Story::of(&[&made()])
        .unknown(&Thing::maker())
        .asks(&Thing::maker());
    story.finalizes(&made(), None).breaks(USED);
}
