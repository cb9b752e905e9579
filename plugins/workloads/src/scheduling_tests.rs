//! After `nodeaffinity_test.go` (TestNodeSelectorMatch, TestPodMatchesNodeSelectorAndAffinityTerms)
//! and `toleration_test.go` (TestTolerationToleratesTaint).

use serde_json::{Value, json};

use super::*;

fn node(name: &str, labels: &Value) -> Node {
    let node = json!({"metadata": {"name": name, "labels": labels}});
    serde_json::from_value(node).expect("this is a node")
}

/// True if a pod with this spec may run on this node, by selector and affinity.
fn fits(spec: &Value, node: &Node) -> bool {
    let choice: NodeChoice = serde_json::from_value(spec.clone()).expect("this is a pod's spec");
    choice.required().matches(node)
}

/// The spec of a pod whose required affinity has these terms.
fn requiring(terms: &Value) -> Value {
    let required = json!({"nodeSelectorTerms": terms});
    json!({"affinity": {"nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": required,
    }}})
}

fn expression(key: &str, operator: &str, values: &[&str]) -> Value {
    json!([{"matchExpressions": [{"key": key, "operator": operator, "values": values}]}])
}

#[test]
fn a_node_has_to_have_every_label_of_the_selector() {
    let selector = json!({"nodeSelector": {"foo": "bar", "baz": "blah"}});
    assert!(!fits(&selector, &node("n", &json!({}))));
    assert!(!fits(&selector, &node("n", &json!({"foo": "bar"}))));
    let both = node("n", &json!({"foo": "bar", "baz": "blah"}));
    assert!(fits(&selector, &both));
    assert!(fits(&json!({}), &node("n", &json!({}))));
}

#[test]
fn each_operator_is_applied_to_the_label() {
    let labelled = node("n", &json!({"foo": "bar", "gpu": "0206", "zone": "a"}));
    let cases = [
        ("foo", "In", &["bar", "value2"][..], true),
        ("foo", "In", &["other"], false),
        ("none", "In", &["bar"], false),
        ("gpu", "Gt", &["204"], true),
        ("gpu", "Gt", &["206"], false),
        ("gpu", "Lt", &["207"], true),
        ("gpu", "Lt", &["206"], false),
        ("foo", "Gt", &["1"], false),
        ("none", "Lt", &["1"], false),
        ("mem-type", "NotIn", &["DDR", "DDR2"], true),
        ("zone", "NotIn", &["a", "b"], false),
        ("foo", "Exists", &[], true),
        ("none", "Exists", &[], false),
        ("none", "DoesNotExist", &[], true),
        ("foo", "DoesNotExist", &[], false),
    ];
    for (key, operator, values, expected) in cases {
        let spec = requiring(&expression(key, operator, values));
        let found = fits(&spec, &labelled);
        assert_eq!(found, expected, "{key} {operator} {values:?}");
    }
}

#[test]
fn a_term_that_is_empty_or_not_valid_matches_no_node() {
    let labelled = node("n", &json!({"foo": "bar"}));
    for terms in [
        json!([]),
        json!([{}]),
        json!([{"matchExpressions": []}]),
        expression("foo", "In", &[]),
        expression("foo", "NotIn", &["not a label's value"]),
        expression("none", "NotIn", &[]),
        expression("foo", "Exists", &["bar"]),
        expression("none", "DoesNotExist", &["bar"]),
        expression("foo", "Is", &["bar"]),
        expression("none", "Gt", &["1", "2"]),
        expression("none", "Lt", &["one"]),
        expression("a bad key", "DoesNotExist", &[]),
        expression("-.example/none", "DoesNotExist", &[]),
        expression("/none", "DoesNotExist", &[]),
        expression("", "DoesNotExist", &[]),
        json!([{"matchFields": [
            {"key": "metadata.name", "operator": "In", "values": ["n", "m"]},
        ]}]),
        json!([{"matchFields": [{"key": "metadata.name", "operator": "Exists"}]}]),
    ] {
        assert!(!fits(&requiring(&terms), &labelled), "{terms}");
    }
    let prefixed = expression("example.com/none", "DoesNotExist", &[]);
    assert!(fits(&requiring(&prefixed), &labelled));
}

#[test]
fn one_term_is_enough_and_takes_all_of_its_conditions() {
    let first = node("first", &json!({"foo": "bar"}));
    let second = node("second", &json!({"foo": "bar"}));
    let on_second = json!([
        {"matchExpressions": [{"key": "diffkey", "operator": "In", "values": ["wrong"]}]},
        {
            "matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["first"]}],
            "matchExpressions": [{"key": "foo", "operator": "In", "values": ["bar"]}],
        },
    ]);
    assert!(!fits(&requiring(&on_second), &first));
    assert!(fits(&requiring(&on_second), &second));
    let unlabelled = node("second", &json!({}));
    assert!(!fits(&requiring(&on_second), &unlabelled));

    let invalid_first = json!([
        {"matchExpressions": [{"key": "foo", "operator": "In", "values": []}]},
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["first"]}]},
    ]);
    assert!(fits(&requiring(&invalid_first), &first));
    assert!(!fits(&requiring(&invalid_first), &second));

    let other_field =
        json!([{"matchFields": [{"key": "spec.x", "operator": "In", "values": [""]}]}]);
    assert!(fits(&requiring(&other_field), &first));
}

#[test]
fn the_selector_and_the_affinity_both_have_to_match() {
    let mut spec = requiring(&expression("foo", "Exists", &[]));
    spec["nodeSelector"] = json!({"foo": "bar"});
    assert!(fits(&spec, &node("n", &json!({"foo": "bar"}))));
    assert!(!fits(&spec, &node("n", &json!({"foo": "other"}))));
    let preferred = json!({"affinity": {"nodeAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [],
    }}});
    assert!(fits(&preferred, &node("n", &json!({}))));
    assert!(fits(&json!({"affinity": {}}), &node("n", &json!({}))));
}

#[test]
fn a_toleration_tolerates_taints_of_its_key_value_and_effect() {
    let taint = json!({"key": "foo", "value": "bar", "effect": "NoSchedule"});
    let taint: Taint = serde_json::from_value(taint).expect("this is a taint");
    for (toleration, expected) in [
        (
            json!({"key": "foo", "operator": "Exists", "effect": "NoSchedule"}),
            true,
        ),
        (json!({"key": "foo", "operator": "Exists"}), true),
        (
            json!({"key": "foo", "operator": "Equal", "value": "bar"}),
            true,
        ),
        (json!({"key": "foo", "value": "bar"}), true),
        (json!({"operator": "Exists"}), true),
        (json!({"key": "foo", "value": "other"}), false),
        (json!({"key": "foo"}), false),
        (json!({"key": "other", "operator": "Exists"}), false),
        (
            json!({"key": "foo", "operator": "Exists", "effect": "NoExecute"}),
            false,
        ),
        (
            json!({"key": "foo", "operator": "Gt", "value": "bar"}),
            false,
        ),
    ] {
        let found: Toleration =
            serde_json::from_value(toleration.clone()).expect("this is a toleration");
        assert_eq!(found.tolerates(&taint), expected, "{toleration}");
    }
}

#[test]
fn the_first_taint_that_counts_and_is_not_tolerated_is_found() {
    let tainted = json!({"metadata": {"name": "n"}, "spec": {"taints": [
        {"key": "a", "effect": "PreferNoSchedule"},
        {"key": "b", "effect": "NoSchedule"},
        {"key": "c", "effect": "NoExecute"},
    ]}});
    let tainted: Node = serde_json::from_value(tainted).expect("this is a node");
    let key = |tolerations: &[Toleration], effects: &[&str]| {
        let found = tainted.untolerated(tolerations, effects);
        found.map(|taint| taint.key.clone())
    };
    let both = [NO_SCHEDULE, NO_EXECUTE];
    assert_eq!(key(&[], &both).as_deref(), Some("b"));
    assert_eq!(key(&[], &[NO_EXECUTE]).as_deref(), Some("c"));
    let toleration = |key: &str| Toleration {
        key: key.to_owned(),
        operator: "Exists".to_owned(),
        ..Toleration::default()
    };
    assert_eq!(key(&[toleration("b")], &both).as_deref(), Some("c"));
    assert_eq!(key(&[toleration("b"), toleration("c")], &both), None);
}
