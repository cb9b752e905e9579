//! Types that the whole contract shares: kinds, keys, label selectors.

use std::fmt;

use crate::{Kind, LabelRequirement, LabelSelector, ObjectKey};

impl Kind {
    /// A kind of any API group: `Kind::new("apps", "v1", "Deployment")`.
    #[must_use]
    pub fn new(group: &str, version: &str, kind: &str) -> Self {
        Self {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: kind.to_owned(),
        }
    }

    /// A kind of the core group: `Kind::core("v1", "Pod")`.
    #[must_use]
    pub fn core(version: &str, kind: &str) -> Self {
        Self::new("", version, kind)
    }

    /// The `apiVersion` of its objects: `apps/v1`, or `v1` for the core group.
    #[must_use]
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.clone()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.api_version(), self.kind)
    }
}

impl ObjectKey {
    /// The key of an object. A cluster-scoped object has an empty namespace.
    #[must_use]
    pub fn new(namespace: &str, name: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() {
            f.write_str(&self.name)
        } else {
            write!(f, "{}/{}", self.namespace, self.name)
        }
    }
}

/// A selector for objects that have all of these labels, as Kubernetes' `matchLabels`. Without
/// labels it selects everything.
pub fn match_labels<K, V>(labels: impl IntoIterator<Item = (K, V)>) -> LabelSelector
where
    K: Into<String>,
    V: Into<String>,
{
    let equals = |(name, value): (K, V)| LabelRequirement::Equals((name.into(), value.into()));
    labels.into_iter().map(equals).collect()
}
