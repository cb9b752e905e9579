//! Names: of kinds, of objects, and the version order of objects.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

/// A group-version-kind. The core group is the empty string.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Kind {
    /// API group, `apps`; empty for the core group.
    pub group: Arc<str>,
    /// API version, `v1`.
    pub version: Arc<str>,
    /// Kind, `Deployment`.
    pub kind: Arc<str>,
}

impl Kind {
    /// A kind from its three parts.
    pub fn new(group: &str, version: &str, kind: &str) -> Self {
        Self {
            group: group.into(),
            version: version.into(),
            kind: kind.into(),
        }
    }

    /// From an object's `apiVersion` and `kind`.
    pub fn from_api_version(api_version: &str, kind: &str) -> Self {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        Self::new(group, version, kind)
    }

    /// `apps/v1`, or `v1` in the core group: what an object's `apiVersion` says.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_string()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }
}

/// `apps/v1/Deployment`, `v1/Pod`.
impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.group.is_empty() {
            write!(f, "{}/", self.group)?;
        }
        write!(f, "{}/{}", self.version, self.kind)
    }
}

/// Names one object of a kind. Ordered by namespace, then name: the order in which objects are listed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectKey {
    /// Empty for cluster-scoped objects.
    pub namespace: Arc<str>,
    /// `metadata.name`.
    pub name: Arc<str>,
}

impl ObjectKey {
    /// A key from its two parts; an empty namespace means cluster-scoped.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    /// The one key of a singleton plugin, which names no object.
    pub fn singleton() -> Self {
        Self::new("", "")
    }
}

/// `namespace/name`, or `name` alone: client-go's form of a key.
impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.namespace.is_empty() {
            write!(f, "{}/", self.namespace)?;
        }
        f.write_str(&self.name)
    }
}

/// A `metadata.resourceVersion`: a decimal integer of any length, which may be compared (KEP-5504).
///
/// One that is not a number (an aggregated API server may still do that) sorts below all that are.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct ResourceVersion(Box<str>);

impl ResourceVersion {
    /// As it stands in the object.
    pub fn new(text: &str) -> Self {
        Self(text.into())
    }

    /// As it stands in the object.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Digits without leading zeros; none if it is not a number.
    fn digits(&self) -> Option<&str> {
        let is_number = !self.0.is_empty() && self.0.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| self.0.trim_start_matches('0'))
    }
}

impl Ord for ResourceVersion {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self.digits(), other.digits()) {
            (Some(a), Some(b)) => a.len().cmp(&b.len()).then_with(|| a.cmp(b)),
            (Some(_), None) => Ordering::Greater,
            (None, Some(_)) => Ordering::Less,
            (None, None) => self.0.cmp(&other.0),
        }
        .then_with(|| self.0.cmp(&other.0))
    }
}

impl PartialOrd for ResourceVersion {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_reads_as_its_api_version_and_name() {
        assert_eq!(
            Kind::new("apps", "v1", "Deployment").to_string(),
            "apps/v1/Deployment"
        );
        assert_eq!(Kind::from_api_version("v1", "Pod").to_string(), "v1/Pod");
        assert_eq!(
            Kind::from_api_version("apps/v1", "Deployment").api_version(),
            "apps/v1"
        );
    }

    #[test]
    fn resource_versions_compare_as_integers_of_any_length() {
        let version = ResourceVersion::new;
        assert!(version("9") < version("10"));
        assert!(version("18446744073709551616") < version("18446744073709551617"));
        assert!(version("99999999999999999999") < version("100000000000000000000"));
        assert!(version("abc") < version("1"));
        assert!(version("7") > version(""));
    }
}
