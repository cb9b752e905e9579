use serde_json::json;

use super::*;

/// The hashes are those that `ComputeHash` of Kubernetes 1.36 gives.
#[test]
fn a_hash_is_that_of_kube_controller_manager() {
    let cases: Vec<Value> = serde_json::from_str(include_str!("cases.json")).unwrap();
    assert!(!cases.is_empty());
    for case in cases {
        let collisions = case["collisions"].as_i64();
        let collisions = collisions.map(|count| i32::try_from(count).unwrap());
        let hash = compute_hash(&case["template"], collisions);
        assert_eq!(hash, case["hash"], "{}", case["description"]);
    }
}

#[test]
fn an_empty_list_or_map_is_none_and_so_is_null() {
    let none = json!({"spec": {"containers": [{"name": "a"}]}});
    let empty = json!({
        "metadata": {"labels": {}, "creationTimestamp": null},
        "spec": {"containers": [{"name": "a"}], "volumes": []},
    });
    assert_eq!(compute_hash(&none, None), compute_hash(&empty, None));
}

#[test]
fn what_is_not_in_the_types_makes_a_difference_too() {
    let with = |member: &str, value: Value| {
        let mut template = json!({"spec": {"containers": [{"name": "a"}]}});
        template["spec"]["containers"][0][member] = value;
        compute_hash(&template, None)
    };
    let hashes = [
        with("image", json!("one")),
        with("fieldOfTomorrow", json!("one")),
        with("fieldOfTomorrow", json!("two")),
        with("resources", json!({"limits": {"cpu": "0.5Ki"}})),
        with("resources", json!({"limits": {"cpu": "0.25Ki"}})),
    ];
    assert_eq!(BTreeSet::from_iter(&hashes).len(), hashes.len());
}
