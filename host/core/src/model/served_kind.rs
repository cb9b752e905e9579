//! A kind that the cluster serves, as discovery describes it.
//!
//! The kinds are kept in a cache of their own, as objects are: what a reconcile asks about them is
//! recorded, and wakes its key when the answer changes, by the same rules.

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::key::{Kind, ObjectKey};

/// A kind that the cluster serves, in the version that the server prefers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServedKind {
    /// The kind.
    #[serde(with = "as_text")]
    pub kind: Kind,
    /// All versions in which the server serves it, sorted.
    pub versions: Vec<String>,
    /// Its name in paths and in RBAC rules: `deployments`.
    pub resource: String,
    /// True if its objects live in namespaces.
    pub is_namespaced: bool,
    /// `get`, `list`, `watch`, …, sorted.
    pub verbs: Vec<String>,
    /// `status`, `scale`, …, sorted.
    pub subresources: Vec<String>,
}

impl ServedKind {
    /// True if its objects can be cached.
    pub fn is_watchable(&self) -> bool {
        let has = |verb| self.verbs.iter().any(|have| have == verb);
        has("list") && has("watch")
    }

    /// True if its objects can be read one by one, and cannot be cached.
    pub(crate) fn can_only_be_got(&self) -> bool {
        !self.is_watchable() && self.verbs.iter().any(|have| have == "get")
    }

    /// The kind of the objects by which served kinds are cached. No server serves it.
    pub(crate) fn object_kind() -> Kind {
        Kind::new("pilothouse.dev", "v1", "ServedKind")
    }

    /// The key of the object that describes a kind, in whatever version. Its namespace is the
    /// group, so that a list of a namespace is one of a group.
    pub(crate) fn key_of(kind: &Kind) -> ObjectKey {
        ObjectKey {
            namespace: kind.group.clone(),
            name: kind.kind.clone(),
        }
    }

    /// The object, at this resourceVersion.
    pub(crate) fn object(&self, version: u64) -> String {
        let key = Self::key_of(&self.kind);
        json!({
            "metadata": {
                "namespace": &*key.namespace, "name": &*key.name,
                "uid": self.kind.to_string(), "resourceVersion": version.to_string(),
            },
            "served": self,
        })
        .to_string()
    }

    /// The kind that such an object describes.
    pub(crate) fn of_object(json: &str) -> Option<Self> {
        #[derive(Deserialize)]
        struct Object {
            served: ServedKind,
        }
        let object: Object = serde_json::from_str(json).ok()?;
        Some(object.served)
    }
}

mod as_text {
    use serde::{Deserialize, Deserializer, Serializer, de};

    use super::Kind;

    pub fn serialize<S: Serializer>(kind: &Kind, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(kind)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Kind, D::Error> {
        let text = String::deserialize(from)?;
        text.parse().map_err(de::Error::custom)
    }
}
