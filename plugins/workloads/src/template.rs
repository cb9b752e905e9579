//! The pod that a template describes (upstream's `GetPodFromTemplate`).

use pilothouse_sdk::{ObjectRef, OwnerReference};
use serde_json::{Map, Value, json};

/// Of a template's metadata, only these are the pod's.
const COPIED: [&str; 3] = ["labels", "annotations", "finalizers"];

/// The pod of a template, for an owner that is its controller. Its name is derived from the owner's
/// by the host. All of the template's `spec` is in it, known to us or not.
#[must_use]
pub fn pod(template: &Value, owner: &ObjectRef, controller: &OwnerReference) -> Value {
    let mut metadata: Map<String, Value> = COPIED
        .into_iter()
        .filter_map(|name| Some((name.to_owned(), template["metadata"].get(name)?.clone())))
        .filter(|(_, value)| !value.is_null())
        .collect();
    metadata.insert("namespace".to_owned(), json!(owner.namespace));
    metadata.insert("generateName".to_owned(), json!(format!("{}-", owner.name)));
    metadata.insert("ownerReferences".to_owned(), json!([controller]));
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]})
}

/// The labels of a template.
pub fn labels(template: &Value) -> impl Iterator<Item = (&str, &str)> {
    let labels = template["metadata"]["labels"].as_object();
    let labels = labels.into_iter().flatten();
    labels.filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_has_the_whole_spec_and_of_the_metadata_what_is_a_pods() {
        let template = json!({
            "metadata": {
                "name": "x", "namespace": "y", "creationTimestamp": null,
                "labels": {"app": "web"}, "annotations": {"note": "n"}, "finalizers": ["f/f"],
                "ownerReferences": [{"uid": "u"}],
            },
            "spec": {"containers": [{"name": "c", "unheardOf": {"a": [1]}}], "newField": true},
        });
        let owner = ObjectRef::new("apps/v1/ReplicaSet", "default", "web");
        let controller = OwnerReference::new(&owner, "u1")
            .controller()
            .block_owner_deletion();
        let wanted = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "namespace": "default", "generateName": "web-", "labels": {"app": "web"},
                "annotations": {"note": "n"}, "finalizers": ["f/f"], "ownerReferences": [{
                    "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u1",
                    "controller": true, "blockOwnerDeletion": true,
                }],
            },
            "spec": template["spec"],
        });
        assert_eq!(pod(&template, &owner, &controller), wanted);
        assert_eq!(labels(&template).collect::<Vec<_>>(), [("app", "web")]);
    }

    #[test]
    fn what_a_template_does_not_have_its_pod_does_not_have() {
        let template = json!({"metadata": {"labels": null}, "spec": {}});
        let owner = ObjectRef::new("v1/ReplicationController", "default", "web");
        let pod = pod(&template, &owner, &OwnerReference::default());
        assert_eq!(pod["metadata"].as_object().map(Map::len), Some(3));
        assert_eq!(labels(&template).count(), 0);
    }
}
