//! URL paths and queries of the Kubernetes API. This is the only place that percent-encodes their
//! parts.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use pilothouse_core::{Kind, ObjectKey};

use super::catalog::Resource;

/// All characters except the unreserved ones of RFC 3986. `system:node` becomes `system%3Anode`, as
/// client-go sends it.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// Why an object has no path.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResourcePathError {
    /// The kind is namespaced, but no namespace is given.
    #[error("{0} is namespaced: metadata.namespace is missing")]
    NoNamespace(Kind),
    /// The kind is cluster-scoped, but a namespace is given.
    #[error("{kind} is cluster-scoped, but namespace {namespace:?} was given")]
    Namespace {
        /// The kind.
        kind: Kind,
        /// The namespace given.
        namespace: String,
    },
    /// A value that is not one path segment (`IsValidPathSegmentName` of apimachinery).
    #[error("{what} {value:?} cannot be part of a path")]
    Segment {
        /// The part of the path: name, namespace or subresource.
        what: &'static str,
        /// The value given.
        value: String,
    },
}

impl ResourcePathError {
    /// True if the error is about the kind's scope: a namespace is given for a cluster-scoped kind,
    /// or missing for a namespaced one.
    pub(crate) fn is_of_scope(&self) -> bool {
        matches!(self, Self::NoNamespace(_) | Self::Namespace { .. })
    }
}

/// The path of all objects of a kind, or of those in one namespace.
pub(crate) fn collection(kind: &Kind, plural: &str, namespace: Option<&str>) -> String {
    let root = if kind.group.is_empty() {
        "/api"
    } else {
        "/apis"
    };
    let parts = [&*kind.group, &*kind.version];
    let namespace = namespace
        .into_iter()
        .flat_map(|namespace| ["namespaces", namespace]);
    let parts = parts
        .into_iter()
        .filter(|part| !part.is_empty())
        .chain(namespace)
        .chain([plural]);
    parts.fold(root.to_owned(), |path, part| path + "/" + &encode(part))
}

/// The path of the collection that contains this object.
pub(crate) fn siblings(resource: &Resource, key: &ObjectKey) -> Result<String, ResourcePathError> {
    let namespace = (!key.namespace.is_empty()).then_some(&*key.namespace);
    match (resource.is_namespaced, namespace) {
        (true, None) => return Err(ResourcePathError::NoNamespace(resource.kind.clone())),
        (false, Some(namespace)) => {
            return Err(ResourcePathError::Namespace {
                kind: resource.kind.clone(),
                namespace: namespace.to_owned(),
            });
        }
        _ => {}
    }
    if let Some(namespace) = namespace {
        check("namespace", namespace)?;
    }
    Ok(collection(&resource.kind, &resource.plural, namespace))
}

/// The path of this object, or of one of its subresources.
pub(crate) fn object(
    resource: &Resource,
    key: &ObjectKey,
    subresource: Option<&str>,
) -> Result<String, ResourcePathError> {
    let mut path = siblings(resource, key)?;
    let parts = [("name", Some(&*key.name)), ("subresource", subresource)];
    for (what, part) in parts
        .into_iter()
        .filter_map(|(what, part)| Some((what, part?)))
    {
        check(what, part)?;
        path = path + "/" + &encode(part);
    }
    Ok(path)
}

/// The query string `?a=1&b=2`, or the empty string.
pub(crate) fn query(parameters: &[(&str, String)]) -> String {
    let parameters: Vec<String> = parameters
        .iter()
        .map(|(name, value)| format!("{name}={}", encode(value)))
        .collect();
    if parameters.is_empty() {
        String::new()
    } else {
        format!("?{}", parameters.join("&"))
    }
}

/// One part of a path, or the value of a parameter, percent-encoded.
pub(crate) fn encode(text: &str) -> String {
    utf8_percent_encode(text, RESERVED).to_string()
}

/// Refuses a value that is not one path segment. Encoding it is not enough: some servers and
/// proxies resolve `..` and treat `%2F` as a slash, percent-encoded or not.
pub(crate) fn check(what: &'static str, value: &str) -> Result<(), ResourcePathError> {
    if matches!(value, "" | "." | "..")
        || value.contains(['/', '%'])
        || value.contains(char::is_control)
    {
        return Err(ResourcePathError::Segment {
            what,
            value: value.to_owned(),
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource(kind: Kind, plural: &str, is_namespaced: bool) -> Resource {
        Resource {
            kind,
            plural: plural.into(),
            is_namespaced,
            verbs: vec![],
            subresources: vec![],
        }
    }

    #[test]
    fn an_object_has_the_path_kubernetes_gives_it() {
        let pods = resource(Kind::new("", "v1", "Pod"), "pods", true);
        let roles = resource(
            Kind::new("rbac.authorization.k8s.io", "v1", "ClusterRole"),
            "clusterroles",
            false,
        );
        let cases = [
            (
                object(&pods, &ObjectKey::new("default", "a"), None),
                "/api/v1/namespaces/default/pods/a",
            ),
            (
                object(&pods, &ObjectKey::new("default", "a"), Some("eviction")),
                "/api/v1/namespaces/default/pods/a/eviction",
            ),
            (
                siblings(&pods, &ObjectKey::new("default", "a")),
                "/api/v1/namespaces/default/pods",
            ),
            (
                object(&roles, &ObjectKey::new("", "system:node"), None),
                "/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Anode",
            ),
            (
                object(&pods, &ObjectKey::new("default", "a?b#c d"), None),
                "/api/v1/namespaces/default/pods/a%3Fb%23c%20d",
            ),
        ];
        for (have, wanted) in cases {
            assert_eq!(have.as_deref(), Ok(wanted));
        }
    }

    #[test]
    fn a_namespace_is_given_for_namespaced_kinds_and_no_others() {
        let pods = resource(Kind::new("", "v1", "Pod"), "pods", true);
        let nodes = resource(Kind::new("", "v1", "Node"), "nodes", false);
        let error = object(&pods, &ObjectKey::new("", "a"), None).unwrap_err();
        assert_eq!(
            error.to_string(),
            "v1/Pod is namespaced: metadata.namespace is missing"
        );
        let error = object(&nodes, &ObjectKey::new("default", "a"), None).unwrap_err();
        assert_eq!(
            error.to_string(),
            "v1/Node is cluster-scoped, but namespace \"default\" was given"
        );
    }

    #[test]
    fn a_name_that_would_lead_elsewhere_is_refused() {
        let pods = resource(Kind::new("", "v1", "Pod"), "pods", true);
        for bad in ["", ".", "..", "a/b", "../x", "a%2Fb", "a\nb"] {
            assert!(
                matches!(
                    object(&pods, &ObjectKey::new("default", bad), None),
                    Err(ResourcePathError::Segment { what: "name", .. })
                ),
                "{bad:?}"
            );
        }
        assert!(object(&pods, &ObjectKey::new("../kube-system", "a"), None).is_err());
        assert!(object(&pods, &ObjectKey::new("default", "a"), Some("proxy/..")).is_err());
    }
}
