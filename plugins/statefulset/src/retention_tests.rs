use pilothouse_sdk::ObjectRef;
use serde_json::{Value, json};

use super::*;

const POLICIES: [(&str, &str); 4] = [
    ("Retain", "Retain"),
    ("Retain", "Delete"),
    ("Delete", "Retain"),
    ("Delete", "Delete"),
];

fn set(scaled: &str, deleted: &str) -> StatefulSet {
    let set = json!({
        "metadata": {"namespace": "default", "name": "set", "uid": "set-uid"},
        "spec": {
            "replicas": 2,
            "persistentVolumeClaimRetentionPolicy": {"whenScaled": scaled, "whenDeleted": deleted},
        },
    });
    serde_json::from_value(set).expect("a set")
}

fn owner(kind: &str, name: &str, uid: &str, controls: bool) -> OwnerReference {
    let owner = OwnerReference::new(&ObjectRef::new(kind, "default", name), uid);
    if controls {
        owner.controller().block_owner_deletion()
    } else {
        owner
    }
}

fn set_owner() -> OwnerReference {
    owner("apps/v1/StatefulSet", "set", "set-uid", true)
}

fn pod_owner(ordinal: i64) -> OwnerReference {
    owner("v1/Pod", &format!("set-{ordinal}"), "pod-uid", true)
}

fn claim(owners: &[OwnerReference]) -> Claim {
    let claim = json!({"metadata": {"name": "data", "ownerReferences": owners}});
    serde_json::from_value(claim).expect("a claim")
}

fn owners(set: &StatefulSet, ordinal: i64) -> Owners<'_> {
    Owners {
        set,
        ordinal,
        pod_uid: "pod-uid",
    }
}

/// `TestIsClaimOwnerUpToDate`: only the owners that the policy wants are up to date, for a pod that
/// is wanted (0) and one that is scaled down (2).
#[test]
fn a_claim_has_the_owners_that_its_policy_wants() {
    let wanted: [(i64, [(bool, bool); 4]); 2] = [
        (
            0,
            [(false, false), (true, false), (false, false), (true, false)],
        ),
        (
            2,
            [(false, false), (true, false), (false, true), (false, true)],
        ),
    ];
    for (ordinal, wanted) in wanted {
        for ((scaled, deleted), wanted) in POLICIES.into_iter().zip(wanted) {
            let set = set(scaled, deleted);
            let owners = owners(&set, ordinal);
            for (of_set, of_pod) in [(false, false), (true, false), (false, true), (true, true)] {
                let had = [of_set.then(set_owner), of_pod.then(|| pod_owner(ordinal))];
                let had: Vec<OwnerReference> = had.into_iter().flatten().collect();
                let is_up_to_date = owners.are_up_to_date(&claim(&had));
                let case = format!("{scaled} {deleted} {ordinal} {of_set} {of_pod}");
                assert_eq!(is_up_to_date, (of_set, of_pod) == wanted, "{case}");
                let fixed = claim(&owners.wanted(&claim(&had)));
                assert!(owners.are_up_to_date(&fixed), "{case}");
            }
        }
    }
}

/// `TestClaimOwnerUpToDateEdgeCases`.
#[test]
fn owners_of_an_earlier_object_or_another_controller_are_special() {
    let other = || owner("apps/v1/ReplicaSet", "random", "xyz", true);
    let watching = || owner("apps/v1/ReplicaSet", "random", "xyz", false);
    let of_set = |uid: &str| owner("apps/v1/StatefulSet", "set", uid, true);
    let of_pod = |uid: &str| owner("v1/Pod", "set-0", uid, true);
    let without_control = |mut owner: OwnerReference| {
        owner.controller = false;
        owner
    };
    let cases = [
        (
            "a normal controller",
            vec![pod_owner(0)],
            ("Retain", "Retain"),
            false,
        ),
        (
            "a pod of before",
            vec![of_pod("old")],
            ("Retain", "Retain"),
            true,
        ),
        (
            "a set of before",
            vec![of_set("old")],
            ("Retain", "Retain"),
            true,
        ),
        (
            "a controller of somebody else",
            vec![other()],
            ("Retain", "Retain"),
            true,
        ),
        (
            "somebody else controls, the pod owns",
            vec![other(), pod_owner(0)],
            ("Retain", "Retain"),
            false,
        ),
        (
            "somebody else controls, to delete with the pod",
            vec![other()],
            ("Delete", "Retain"),
            true,
        ),
        (
            "somebody else controls, to delete with the set",
            vec![other()],
            ("Retain", "Delete"),
            true,
        ),
        (
            "both control",
            vec![other(), set_owner()],
            ("Retain", "Delete"),
            false,
        ),
        (
            "somebody else only owns",
            vec![watching(), set_owner()],
            ("Retain", "Delete"),
            true,
        ),
        (
            "the set owns without control",
            vec![without_control(set_owner())],
            ("Retain", "Delete"),
            false,
        ),
        (
            "the pod owns without control",
            vec![without_control(pod_owner(0))],
            ("Retain", "Delete"),
            false,
        ),
    ];
    for (case, had, (scaled, deleted), is_up_to_date) in cases {
        let set = set(scaled, deleted);
        let found = owners(&set, 0).are_up_to_date(&claim(&had));
        assert_eq!(found, is_up_to_date, "{case}");
    }
}

/// `TestUpdateClaimOwnerRefForSetAndPod`, `TestUpdateClaimControllerRef`.
#[test]
fn our_owners_give_way_to_another_controller_and_gain_control_otherwise() {
    let set = set("Delete", "Delete");
    let other = owner("apps/v1/ReplicaSet", "random", "xyz", true);
    let found = owners(&set, 0).wanted(&claim(&[other.clone(), set_owner()]));
    assert_eq!(found, [other]);
    let mut weak = set_owner();
    weak.controller = false;
    let watching = owner("apps/v1/ReplicaSet", "random", "xyz", false);
    let found = owners(&set, 0).wanted(&claim(&[weak, watching.clone()]));
    assert_eq!(found, [watching, set_owner()]);
}

/// `TestHasUnexpectedController`.
#[test]
fn who_else_controls_a_claim_matters_unless_it_is_retained() {
    let earlier_set = || owner("apps/v1/StatefulSet", "set", "old", true);
    let earlier_pod = || owner("v1/Pod", "set-0", "old", true);
    let other = || owner("apps/v1/ReplicaSet", "random", "xyz", true);
    for (scaled, deleted) in POLICIES {
        let set = set(scaled, deleted);
        let owners = owners(&set, 0);
        let is_policy = (scaled, deleted) != ("Retain", "Retain");
        for had in [earlier_set(), earlier_pod(), other()] {
            assert_eq!(owners.has_unexpected_controller(&claim(&[had])), is_policy);
        }
        for had in [
            set_owner(),
            pod_owner(0),
            owner("v1/Pod", "random", "xyz", false),
        ] {
            assert!(!owners.has_unexpected_controller(&claim(&[had])));
        }
    }
}

/// `TestPodClaimIsStale`.
#[test]
fn a_claim_of_an_earlier_pod_is_stale_if_it_goes_with_its_pod() {
    let stale = |scaled: &str, had: &[OwnerReference], pod_uid: &str| {
        let set = set(scaled, "Retain");
        Owners {
            set: &set,
            ordinal: 0,
            pod_uid,
        }
        .is_stale(&claim(had))
    };
    assert!(stale("Delete", &[pod_owner(0)], "new"));
    assert!(stale("Delete", &[pod_owner(0)], ""));
    assert!(!stale("Delete", &[pod_owner(0)], "pod-uid"));
    assert!(!stale("Delete", &[pod_owner(1)], ""));
    assert!(!stale("Delete", &[], ""));
    assert!(!stale("Retain", &[pod_owner(0)], "new"));
}

#[test]
fn a_policy_that_is_absent_retains() {
    let set: Value = json!({"metadata": {"name": "set"}, "spec": {}});
    let set: StatefulSet = serde_json::from_value(set).expect("a set");
    let owners = Owners {
        set: &set,
        ordinal: 5,
        pod_uid: "pod-uid",
    };
    assert!(owners.are_up_to_date(&claim(&[])));
    assert!(!owners.are_up_to_date(&claim(&[pod_owner(5)])));
}
