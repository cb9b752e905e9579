use pilothouse_sdk::Action;
use pilothouse_sdk::Time;
use pilothouse_sdk::testing::to_json;
use serde_json::Value;

use super::*;

const RS: &str = "apps/v1/ReplicaSet";
const POD: &str = "v1/Pod";

struct Pod(Metadata, Vec<OwnerReference>);

impl Claimable for Pod {
    fn metadata(&self) -> &Metadata {
        &self.0
    }

    fn owners(&self) -> &[OwnerReference] {
        &self.1
    }
}

fn metadata(name: &str) -> Metadata {
    Metadata {
        namespace: "default".to_owned(),
        name: name.to_owned(),
        uid: format!("uid-{name}"),
        deletion_timestamp: None,
    }
}

fn deleted(metadata: Metadata) -> Metadata {
    Metadata {
        deletion_timestamp: Some(Time::default()),
        ..metadata
    }
}

fn owned_by(name: &str) -> OwnerReference {
    metadata(name).owner_reference(RS).controller()
}

fn orphan() -> Pod {
    Pod(metadata("pod"), vec![metadata("x").owner_reference(RS)])
}

fn patch(patch: Patch) -> Value {
    to_json(&Action::from(patch))
}

#[test]
fn what_has_no_controller_and_is_selected_is_adopted() {
    let owner = metadata("rs");
    let claimant = Claimant::new(RS, &owner);
    assert_eq!(claimant.claim(&orphan(), true), Claim::Adopt);
    assert_eq!(claimant.claim(&orphan(), false), Claim::Foreign);
    let leaving = Pod(deleted(metadata("pod")), vec![]);
    assert_eq!(claimant.claim(&leaving, true), Claim::Foreign);
}

#[test]
fn what_is_owned_stays_while_it_is_selected() {
    let owner = metadata("rs");
    let claimant = Claimant::new(RS, &owner);
    let own = Pod(
        deleted(metadata("pod")),
        vec![owned_by("x"), owned_by("rs")],
    );
    assert_eq!(
        claimant.claim(&own, true),
        Claim::Foreign,
        "the first counts"
    );
    let own = Pod(deleted(metadata("pod")), vec![owned_by("rs")]);
    assert_eq!(claimant.claim(&own, true), Claim::Owned);
    assert_eq!(claimant.claim(&own, false), Claim::Release);
    let other = Pod(metadata("pod"), vec![owned_by("other")]);
    assert_eq!(claimant.claim(&other, true), Claim::Foreign);
    assert_eq!(claimant.claim(&other, false), Claim::Foreign);
}

#[test]
fn who_is_being_deleted_keeps_what_it_has_and_changes_nothing() {
    let owner = deleted(metadata("rs"));
    let claimant = Claimant::new(RS, &owner);
    assert_eq!(claimant.claim(&orphan(), true), Claim::Foreign);
    let own = Pod(metadata("pod"), vec![owned_by("rs")]);
    assert_eq!(claimant.claim(&own, true), Claim::Owned);
    assert_eq!(claimant.claim(&own, false), Claim::Foreign);
}

#[test]
fn an_adoption_adds_the_controller_to_this_very_object() {
    let owner = metadata("rs");
    let adoption = Claimant::new(RS, &owner)
        .adoption(POD, &orphan())
        .map(patch);
    let reference = json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": "uid-rs",
        "controller": true, "blockOwnerDeletion": true,
    });
    let wanted = json!({"patch": {
        "object": {"kind": POD, "namespace": "default", "name": "pod"},
        "patch-type": "strategic-merge-patch",
        "body": {"metadata": {"uid": "uid-pod", "ownerReferences": [reference]}},
    }});
    assert_eq!(adoption.ok(), Some(wanted));
}

#[test]
fn a_release_leaves_the_other_owners_and_is_of_one_version() {
    let (owner, other) = (metadata("rs"), metadata("x").owner_reference(RS));
    let pod = Pod(metadata("pod"), vec![owned_by("rs"), other.clone()]);
    let release = Claimant::new(RS, &owner).release(POD, &pod).map(patch);
    let body = release
        .ok()
        .and_then(|patch| patch.pointer("/patch/body").cloned());
    let wanted = json!({"metadata": {
        "uid": "uid-pod", "resourceVersion": "", "ownerReferences": [other],
    }});
    assert_eq!(body, Some(wanted));
}

#[test]
fn claims_tell_what_is_owned_and_what_is_to_be_done() {
    let owner = metadata("rs");
    let claimant = Claimant::new(RS, &owner);
    let pods = || [orphan(), Pod(metadata("own"), vec![owned_by("rs")])];
    let claims = claimant
        .claim_all(POD, pods(), |_| true)
        .expect("patches have a form");
    assert_eq!((claims.owned.len(), claims.adoptions.len()), (1, 1));
    assert!(!claims.are_settled());
    let claims = claimant.claim_all(POD, pods(), |pod| pod.0.name != "own");
    let claims = claims.expect("patches have a form");
    assert_eq!((claims.adoptions.len(), claims.releases.len()), (1, 1));
    let settled = claimant.claim_all(POD, pods().into_iter().skip(1), |_| true);
    assert!(settled.is_ok_and(|claims| claims.are_settled()));
}
