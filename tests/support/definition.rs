//! Definitions of custom kinds.

use serde_json::{Value, json};

/// The collection of all definitions.
pub const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// The definition of a namespaced kind such as `Gadget`, of which the server serves `v1` as
/// `gadgets`. Its objects may have any fields.
pub fn definition(group: &str, kind: &str) -> Value {
    let singular = kind.to_lowercase();
    let plural = format!("{singular}s");
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": {"plural": plural, "singular": singular, "kind": kind},
            "versions": [defined_version("v1", true)],
        },
    })
}

/// A version of a defined kind. Of all of them, one is stored.
pub fn defined_version(name: &str, is_stored: bool) -> Value {
    json!({
        "name": name, "served": true, "storage": is_stored,
        "schema": {"openAPIV3Schema": {
            "type": "object", "x-kubernetes-preserve-unknown-fields": true,
        }},
    })
}
