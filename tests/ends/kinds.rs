//! The kinds whose objects take part, and how their objects are addressed.

use pilothouse_tests::definition;
use serde_json::Value;

/// A kind whose objects own or are owned.
pub struct KindOf {
    /// Such as `pods`.
    pub resource: &'static str,
    pub api_version: &'static str,
    pub kind: &'static str,
    pub is_namespaced: bool,
}

const fn kind(
    resource: &'static str,
    api_version: &'static str,
    kind: &'static str,
    is_namespaced: bool,
) -> KindOf {
    KindOf {
        resource,
        api_version,
        kind,
        is_namespaced,
    }
}

/// All of them. Gadgets and Beacons are custom kinds.
pub const KINDS: [KindOf; 6] = [
    kind("configmaps", "v1", "ConfigMap", true),
    kind("secrets", "v1", "Secret", true),
    kind("pods", "v1", "Pod", true),
    kind(
        "persistentvolumeclaims",
        "v1",
        "PersistentVolumeClaim",
        true,
    ),
    kind("gadgets", "example.dev/v1", "Gadget", true),
    kind("beacons", "example.dev/v1", "Beacon", false),
];

impl KindOf {
    pub fn of(resource: &str) -> &'static Self {
        let mut kinds = KINDS.iter();
        kinds
            .find(|kind| kind.resource == resource)
            .expect("one of the kinds that take part")
    }

    /// The kind to which a reference points; none if it is to something else.
    pub fn named(api_version: &str, kind: &str) -> Option<&'static Self> {
        let mut kinds = KINDS.iter();
        kinds.find(|one| one.api_version == api_version && one.kind == kind)
    }

    /// The path of an object; of all objects in the namespace if there is no name, and of all
    /// objects if there is no namespace either.
    pub fn path(&self, namespace: &str, name: &str) -> String {
        let root = match self.api_version {
            "v1" => "/api/v1".to_owned(),
            other => format!("/apis/{other}"),
        };
        let place = match self.is_namespaced && !namespace.is_empty() {
            true => format!("/namespaces/{namespace}"),
            false => String::new(),
        };
        let path = format!("{root}{place}/{}/{name}", self.resource);
        path.trim_end_matches('/').to_owned()
    }
}

/// The definitions of the custom kinds.
pub fn definitions() -> [Value; 2] {
    let mut beacon = definition("example.dev", "Beacon");
    beacon["spec"]["scope"] = "Cluster".into();
    [definition("example.dev", "Gadget"), beacon]
}
