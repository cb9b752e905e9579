//! The one place that decides whether a write is allowed. Reads are limited by
//! [`Scope`](crate::access::scope::Scope), which holds the readable kinds and nothing else.

use std::collections::{BTreeMap, BTreeSet};

use crate::access::grants::Grants;
use crate::model::key::{Kind, ObjectKey};
use crate::model::manifest::{Manifest, Verb, is_dns_label};

/// Longest name of an object: that of an RFC 1123 subdomain, the longest that any kind allows.
const MAX_NAME: usize = 253;

/// What a plugin may write.
#[derive(Clone, Debug, Default)]
pub struct Permissions {
    verbs: BTreeMap<(Kind, Option<String>), BTreeSet<Verb>>,
    grants: Grants,
    /// Kinds that `children` may apply and prune.
    pub children: BTreeSet<Kind>,
}

/// Why an action is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    /// The manifest does not ask for this write.
    #[error("{verb} of {kind}{subresource} is not among the manifest's writes", subresource = subresource_suffix(.subresource))]
    Verb {
        /// The operation.
        verb: &'static str,
        /// The kind of the object.
        kind: Kind,
        /// The subresource, if it is about one.
        subresource: Option<String>,
    },
    /// The manifest asks for it, but the operator has not granted it. The text names the operation,
    /// the kind and the namespace.
    #[error("{0} is not granted; the operator grants it in the plugin's settings")]
    NotGranted(Box<str>),
    /// The kind may not be a member of a `children` action.
    #[error(
        "{0} is not marked children in the manifest's writes, or not granted with the verbs apply and delete"
    )]
    NotChildren(Kind),
    /// The plugin neither reads nor writes the kind.
    #[error("{0} is not among the manifest's kinds")]
    Kind(Kind),
    /// The action needs the object's state, which the plugin does not read.
    #[error("{0} is not among the manifest's reads, which a finalizer action needs")]
    NotRead(Kind),
    /// The body names an owner that the plugin does not see.
    #[error("ownerReferences names {0} {1:?}, which the plugin does not see, or not with this uid")]
    Owner(Kind, String),
    /// A name that could break out of its segment of a URL.
    #[error("{0:?} is not an object's name")]
    Name(String),
    /// Not a namespace.
    #[error("{0:?} is not a namespace's name")]
    Namespace(String),
}

fn subresource_suffix(subresource: &Option<String>) -> String {
    subresource
        .as_ref()
        .map(|name| format!("/{name}"))
        .unwrap_or_default()
}

fn not_granted(verb: &str, kind: &Kind, subresource: &Option<String>, namespace: &str) -> Denied {
    let subresource = subresource_suffix(subresource);
    let place = match namespace {
        "" => String::new(),
        namespace => format!(" in namespace {namespace}"),
    };
    Denied::NotGranted(format!("{verb} of {kind}{subresource}{place}").into())
}

impl Permissions {
    /// Combines what the manifest asks for with what is granted.
    pub fn of(manifest: &Manifest, grants: &Grants) -> Self {
        let mut permissions = Self {
            grants: grants.clone(),
            ..Self::default()
        };
        for write in &manifest.writes {
            let target = (write.kind.clone(), write.subresource.clone());
            permissions
                .verbs
                .entry(target)
                .or_default()
                .extend(&write.verbs);
        }
        // Children of absent kinds are permitted, and fail as what is not there.
        let if_served = Grants {
            absent: BTreeSet::new(),
            ..grants.clone()
        };
        let granted = if_served.limit(manifest).writes.into_iter();
        let children = granted.filter(|write| write.children);
        permissions.children = children.map(|write| write.kind).collect();
        permissions
    }

    /// True if some kinds are absent.
    pub fn has_absent(&self) -> bool {
        !self.grants.absent.is_empty()
    }

    /// True if this is an optional kind that the cluster does not serve.
    pub fn is_absent(&self, kind: &Kind) -> bool {
        self.grants.absent.contains(kind)
    }

    /// Checks that the plugin may apply this verb to this object.
    pub fn check(
        &self,
        verb: Verb,
        kind: &Kind,
        key: &ObjectKey,
        subresource: Option<&str>,
    ) -> Result<(), Denied> {
        check_key(key)?;
        self.check_valid(verb, kind, key, subresource)
    }

    /// Checks that the plugin may delete all objects of a kind in a namespace, or those of a kind
    /// without namespaces. A grant for objects of some names does not cover it.
    pub fn check_delete_all(&self, kind: &Kind, namespace: &str) -> Result<(), Denied> {
        check_namespace(namespace)?;
        let all = ObjectKey::new(namespace, "");
        self.check_valid(Verb::DeleteCollection, kind, &all, None)
    }

    fn check_valid(
        &self,
        verb: Verb,
        kind: &Kind,
        key: &ObjectKey,
        subresource: Option<&str>,
    ) -> Result<(), Denied> {
        let target = (kind.clone(), subresource.map(str::to_owned));
        let asked = self.asked_as(verb, &target);
        if asked.is_some_and(|asked| self.grants.allows_write(verb, asked, subresource, key)) {
            return Ok(());
        }
        let is_asked = asked.is_some();
        let (kind, subresource) = target;
        if is_asked {
            return Err(not_granted(
                verb.as_str(),
                &kind,
                &subresource,
                &key.namespace,
            ));
        }
        Err(Denied::Verb {
            verb: verb.as_str(),
            kind,
            subresource,
        })
    }

    /// The kind or the pattern by which the manifest asks for a write. Only a kind can be written.
    fn asked_as(&self, verb: Verb, target: &(Kind, Option<String>)) -> Option<&Kind> {
        let (kind, subresource) = target;
        if kind.is_pattern() {
            return None;
        }
        let has_verb =
            |(_, verbs): &(&(Kind, Option<String>), &BTreeSet<Verb>)| verbs.contains(&verb);
        let exact = self.verbs.get_key_value(target).filter(has_verb);
        // What the manifest names is asked for by its name or not at all.
        let mut named = self.verbs.keys();
        let is_named = named.any(|(have, part)| {
            part == subresource && !have.is_pattern() && have.is_version_of(kind)
        });
        if is_named {
            return exact.map(|((asked, _), _)| asked);
        }
        let mut of_patterns = self
            .verbs
            .iter()
            .filter(|((pattern, part), _)| pattern.includes(kind) && part == subresource);
        let found = exact.or_else(|| of_patterns.find(has_verb));
        found.map(|((asked, _), _)| asked)
    }

    /// True if an apply that the plugin may make may also take over fields that another manager
    /// owns.
    pub fn may_force(&self, kind: &Kind, key: &ObjectKey, subresource: Option<&str>) -> bool {
        self.grants.allows_force(kind, subresource, key)
    }

    /// Like [`may_force`](Self::may_force), with an error that names what is not granted.
    pub fn check_force(
        &self,
        kind: &Kind,
        key: &ObjectKey,
        subresource: &Option<String>,
    ) -> Result<(), Denied> {
        if self.may_force(kind, key, subresource.as_deref()) {
            return Ok(());
        }
        Err(not_granted(
            "apply with force",
            kind,
            subresource,
            &key.namespace,
        ))
    }

    /// Checks that the plugin may record an Event about this object. `is_readable`: whether the
    /// plugin can read the object.
    pub fn check_event(
        &self,
        kind: &Kind,
        key: &ObjectKey,
        is_readable: bool,
    ) -> Result<(), Denied> {
        let may_write = || {
            let mut targets = self.verbs.iter().filter(|((own, _), _)| own == kind);
            targets.any(|((_, subresource), verbs)| {
                let allows = |verb: &Verb| {
                    self.grants
                        .allows_write(*verb, kind, subresource.as_deref(), key)
                };
                verbs.iter().any(allows)
            })
        };
        let is_its_business = self.grants.reaches(kind, &key.namespace);
        if self.grants.allows_events() && is_its_business && (is_readable || may_write()) {
            return Ok(());
        }
        Err(not_granted("event", kind, &None, &key.namespace))
    }
}

/// Checks that the key is a valid object name that cannot break out of its segment of a URL
/// (apimachinery's `IsValidPathSegmentName`).
pub fn check_key(key: &ObjectKey) -> Result<(), Denied> {
    let name = &*key.name;
    let is_segment = !matches!(name, "" | "." | "..") && !name.contains(['/', '%']);
    let is_printable = name.bytes().all(|byte| byte.is_ascii_graphic());
    if !is_segment || !is_printable || name.len() > MAX_NAME {
        return Err(Denied::Name(name.chars().take(MAX_NAME).collect()));
    }
    check_namespace(&key.namespace)
}

fn check_namespace(namespace: &str) -> Result<(), Denied> {
    if namespace.is_empty() || is_dns_label(namespace) {
        return Ok(());
    }
    Err(Denied::Namespace(
        namespace.chars().take(MAX_NAME).collect(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stays_in_its_place_in_a_url() {
        for name in [
            "",
            ".",
            "..",
            "a/b",
            "a%2fb",
            "a b",
            "a\n",
            "ä",
            &"x".repeat(254),
        ] {
            assert!(
                check_key(&ObjectKey::new("default", name)).is_err(),
                "{name:?}"
            );
        }
        for namespace in ["..", "a/b", "a%2f", "Default", &"x".repeat(64)] {
            assert!(
                check_key(&ObjectKey::new(namespace, "a")).is_err(),
                "{namespace:?}"
            );
        }
        assert_eq!(check_key(&ObjectKey::new("", "system:node")), Ok(()));
    }
}
