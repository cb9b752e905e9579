//! The identity of a pod: its ordinal, and what follows from it.

use pilothouse_sdk::OwnerReference;
use serde_json::Value;

use crate::objects::{Pod, REVISION_LABEL, StatefulSet};
use crate::storage;

/// Label of a pod: its own name, by which a Service selects this pod alone.
pub const POD_NAME_LABEL: &str = "statefulset.kubernetes.io/pod-name";
/// Label of a pod: its ordinal.
pub const POD_INDEX_LABEL: &str = "apps.kubernetes.io/pod-index";

/// The name of the set and the ordinal that a pod's name consists of. `None`: it does not end in a
/// hyphen and digits. An ordinal of `None` does not fit into 32 bits.
pub fn parent_and_ordinal(name: &str) -> Option<(&str, Option<i64>)> {
    let (parent, digits) = name.rsplit_once('-')?;
    let is_number = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
    is_number.then(|| (parent, digits.parse::<i32>().ok().map(i64::from)))
}

/// True if the pod's name says that it belongs to the set.
pub fn is_member(set: &StatefulSet, pod: &str) -> bool {
    parent_and_ordinal(pod).is_some_and(|(parent, _)| parent == set.name())
}

/// The name of the pod with this ordinal.
pub fn pod_name(set: &StatefulSet, ordinal: i64) -> String {
    format!("{}-{ordinal}", set.name())
}

/// The labels that follow from the ordinal.
pub fn labels(set: &StatefulSet, ordinal: i64) -> [(&'static str, String); 2] {
    [
        (POD_NAME_LABEL, pod_name(set, ordinal)),
        (POD_INDEX_LABEL, ordinal.to_string()),
    ]
}

/// True if the pod has the label with its own name.
pub fn is_labelled(pod: &Pod) -> bool {
    let label = pod.metadata.labels.get(POD_NAME_LABEL);
    label.is_some_and(|label| label == pod.name())
}

/// A reference to the set as the controller of what it makes.
pub fn controller_reference(set: &StatefulSet) -> OwnerReference {
    OwnerReference::controller_of(&set.object(), set.uid())
}

/// The pod with this ordinal, made from the template that a revision of this name records.
pub fn new_pod(set: &StatefulSet, template: &Value, revision: &str, ordinal: i64) -> Value {
    let name = pod_name(set, ordinal);
    let mut labels = template["metadata"]["labels"]
        .as_object()
        .cloned()
        .unwrap_or_default();
    for (label, value) in self::labels(set, ordinal) {
        labels.insert(label.to_owned(), value.into());
    }
    labels.insert(REVISION_LABEL.to_owned(), revision.into());
    let mut pod = workloads::template::pod(template, &set.object(), &controller_reference(set));
    pod["spec"] = spec(set, &template["spec"], &name, ordinal);
    pod["metadata"]["name"] = name.into();
    pod["metadata"]["labels"] = Value::Object(labels);
    pod
}

fn spec(set: &StatefulSet, spec: &Value, name: &str, ordinal: i64) -> Value {
    let mut spec = spec.as_object().cloned().unwrap_or_default();
    spec.insert("hostname".to_owned(), name.into());
    spec.remove("subdomain");
    if !set.spec.service_name.is_empty() {
        spec.insert(
            "subdomain".to_owned(),
            set.spec.service_name.as_str().into(),
        );
    }
    storage::mount(set, ordinal, &mut spec);
    Value::Object(spec)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `TestGetParentNameAndOrdinal`.
    #[test]
    fn a_pod_name_consists_of_a_set_and_an_ordinal() {
        assert_eq!(parent_and_ordinal("web-3"), Some(("web", Some(3))));
        assert_eq!(parent_and_ordinal("web-db-03"), Some(("web-db", Some(3))));
        assert_eq!(parent_and_ordinal("-1"), Some(("", Some(1))));
        assert_eq!(parent_and_ordinal("web"), None);
        assert_eq!(parent_and_ordinal("web-"), None);
        assert_eq!(parent_and_ordinal("web-3a"), None);
        assert_eq!(parent_and_ordinal("web-+3"), None);
        assert_eq!(
            parent_and_ordinal("web-2147483647"),
            Some(("web", Some(2_147_483_647)))
        );
        assert_eq!(parent_and_ordinal("web-2147483648"), Some(("web", None)));
    }
}
