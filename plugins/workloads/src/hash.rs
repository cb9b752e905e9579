//! The label `pod-template-hash`: a short name for a template of pods.

use pilothouse_sdk::stable_hash;
use serde_json::{Error, Map, Value};

/// The label that tells the pods of one template from those of another.
pub const POD_TEMPLATE_HASH: &str = "pod-template-hash";

/// A name of at most ten characters for a template, which is the same wherever and whenever it is
/// computed. Of two templates with the same name, one gets another by a higher count of collisions.
///
/// The name is not upstream's, which hashes Go's form of the template and changes with every field
/// that Kubernetes adds. Therefore nobody may tell from the name of a ReplicaSet whether it has a
/// template: see [`is_same_template`].
///
/// # Errors
///
/// None: JSON has a JSON form.
pub fn template_hash(template: &Value, collision_count: Option<i32>) -> Result<String, Error> {
    let collisions = collision_count.map(i32::cast_unsigned);
    stable_hash(&normalised(template), collisions)
}

/// True if two templates say the same, whatever label `pod-template-hash` they have.
#[must_use]
pub fn is_same_template(one: &Value, other: &Value) -> bool {
    let bare = |template: &Value| {
        let mut template = template.clone();
        let labels = template.pointer_mut("/metadata/labels");
        if let Some(labels) = labels.and_then(Value::as_object_mut) {
            labels.remove(POD_TEMPLATE_HASH);
        }
        normalised(&template)
    };
    bare(one) == bare(other)
}

/// A template without what Kubernetes takes for nothing: null, an empty list, and labels or
/// annotations without any. Its members are in the order of their names.
fn normalised(template: &Value) -> Value {
    let mut template = without_nothing(template);
    let Some(metadata) = template.get_mut("metadata").and_then(Value::as_object_mut) else {
        return template;
    };
    let is_some = |value: &Value| value.as_object().is_none_or(|map| !map.is_empty());
    metadata.retain(|_, value| is_some(value));
    if metadata.is_empty() {
        template
            .as_object_mut()
            .map(|members| members.remove("metadata"));
    }
    template
}

fn without_nothing(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(without_nothing).collect(),
        Value::Object(members) => {
            let mut names: Vec<&String> = members.keys().collect();
            names.sort();
            let is_nothing = |value: &Value| match value {
                Value::Null => true,
                Value::Array(items) => items.is_empty(),
                _ => false,
            };
            let members = names.into_iter().map(|name| (name, &members[name]));
            let members = members.filter(|(_, value)| !is_nothing(value));
            let members = members.map(|(name, value)| (name.clone(), without_nothing(value)));
            Value::Object(members.collect::<Map<_, _>>())
        }
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::json;

    use super::*;

    fn template(labels: Value, image: &str) -> Value {
        let mut template = json!({"spec": {"containers": [{"image": image}]}});
        template["metadata"]["labels"] = labels;
        template
    }

    fn hash(template: &Value, collision_count: Option<i32>) -> String {
        template_hash(template, collision_count).unwrap()
    }

    #[test]
    fn a_hash_stays_what_it_has_always_been() {
        // A plugin that changed this would roll out every Deployment anew at its next edit.
        let web = template(json!({"app": "web"}), "nginx");
        assert_eq!(hash(&web, None), "7fc5df4c94");
        assert_eq!(hash(&web, Some(1)), "6968dbb779");
    }

    #[test]
    fn a_hash_does_not_depend_on_how_a_template_is_written() {
        let one: Value = serde_json::from_str(
            r#"{"spec": {"b": 1, "a": [{"d": 1, "c": {}}]}, "metadata": {"labels": {"x": "y"}}}"#,
        )
        .unwrap();
        let other: Value = serde_json::from_str(
            r#"{"metadata": {"creationTimestamp": null, "labels": {"x": "y"}, "annotations": {}},
                "spec": {"a": [{"c": {}, "d": 1, "e": []}], "b": 1}}"#,
        )
        .unwrap();
        assert_eq!(hash(&one, None), hash(&other, None));
    }

    /// `TestPodTemplateSpecHash` in hash_test.go: a thousand templates that differ in one number.
    #[test]
    fn templates_that_are_almost_the_same_have_different_hashes() {
        let name = |number| hash(&template(json!({}), &format!("image:{number}")), None);
        let names: BTreeSet<String> = (0..1_000).map(name).collect();
        assert_eq!(names.len(), 1_000);
        let count = |count| hash(&template(json!({}), "image"), Some(count));
        let counted: BTreeSet<String> = (0..100).map(count).collect();
        assert_eq!(counted.len(), 100);
        assert!(names.iter().all(|name| name.len() <= 10));
    }

    /// `TestEqualIgnoreHash` in deployment_util_test.go, in both orders.
    #[test]
    fn the_hash_label_makes_no_difference_and_everything_else_does() {
        let with = |image: &str, labels: Value| template(labels, image);
        let annotated = |name: &str| {
            let mut template = with("foo", json!({"something": "else"}));
            template["metadata"]["annotations"] = json!({name: "value"});
            template
        };
        let labelled = |value: &str| json!({POD_TEMPLATE_HASH: value, "something": "else"});
        for (one, other, wanted) in [
            (with("foo", labelled("1")), with("foo", labelled("1")), true),
            (with("foo", labelled("1")), with("foo", labelled("2")), true),
            (
                with("foo", json!({"something": "else"})),
                with("foo", labelled("2")),
                true,
            ),
            (
                with("foo", json!({"something": "else"})),
                with("foo", json!({POD_TEMPLATE_HASH: "2"})),
                false,
            ),
            (
                with("foo", json!({POD_TEMPLATE_HASH: "1"})),
                with("foo", labelled("1")),
                false,
            ),
            (
                with("foo", json!({POD_TEMPLATE_HASH: "1"})),
                with("foo", json!(null)),
                true,
            ),
            (annotated("former"), annotated("latter"), false),
            (
                with("foo-1", labelled("1")),
                with("foo-2", labelled("2")),
                false,
            ),
            (
                with("foo-1", json!({"something": "else"})),
                with("foo-2", labelled("2")),
                false,
            ),
            (
                with("foo", json!({"something": "else"})),
                with("foo", json!({"nothing": "else"})),
                false,
            ),
        ] {
            assert_eq!(is_same_template(&one, &other), wanted, "{one} {other}");
            assert_eq!(is_same_template(&other, &one), wanted, "{other} {one}");
        }
    }

    #[test]
    fn an_empty_member_of_a_pod_is_not_the_same_as_none() {
        let none = json!({"spec": {"containers": [{"name": "a"}]}});
        let empty = json!({"spec": {"containers": [{"name": "a", "securityContext": {}}]}});
        assert!(!is_same_template(&none, &empty));
    }
}
