//! Names of objects.

use std::fmt;

use crate::ObjectRef;

impl ObjectRef {
    /// An object of a kind such as `apps/v1/Deployment`. The namespace of a cluster-scoped object
    /// is empty.
    #[must_use]
    pub fn new(kind: &str, namespace: &str, name: &str) -> Self {
        Self {
            kind: kind.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }

    /// The object of another kind that has the same namespace and name, as Endpoints have those of
    /// their Service.
    #[must_use]
    pub fn of_kind(&self, kind: &str) -> Self {
        Self::new(kind, &self.namespace, &self.name)
    }

    /// Another object of the same kind, in the same namespace.
    #[must_use]
    pub fn named(&self, name: &str) -> Self {
        Self::new(&self.kind, &self.namespace, name)
    }

    /// The object's `apiVersion`: `apps/v1`, or `v1` for the core group.
    #[must_use]
    pub fn api_version(&self) -> &str {
        split_kind(&self.kind).0
    }
}

/// `apps/v1/Deployment default/web`.
impl fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.kind)?;
        if !self.namespace.is_empty() {
            write!(f, "{}/", self.namespace)?;
        }
        f.write_str(&self.name)
    }
}

/// The `apiVersion` and the `kind` of `apps/v1/Deployment`.
pub(crate) fn split_kind(kind: &str) -> (&str, &str) {
    kind.rsplit_once('/').unwrap_or(("", kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_shown_with_its_kind_namespace_and_name() {
        let web = ObjectRef::new("apps/v1/Deployment", "default", "web");
        assert_eq!(web.to_string(), "apps/v1/Deployment default/web");
        assert_eq!(web.api_version(), "apps/v1");
        assert_eq!(
            ObjectRef::new("v1/Node", "", "n1").to_string(),
            "v1/Node n1"
        );
        assert_eq!(
            web.of_kind("v1/Service").to_string(),
            "v1/Service default/web"
        );
        assert_eq!(web.named("db").to_string(), "apps/v1/Deployment default/db");
    }
}
