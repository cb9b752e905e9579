//! Translates what plugins do into RBAC rules.

use std::collections::{BTreeMap, BTreeSet};

use pilothouse_core::{Grants, Kind, Manifest, Verb};

/// What the API calls a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    pub plural: String,
    pub is_namespaced: bool,
    pub is_guessed: bool,
}

/// Built-in cluster-scoped kinds that controllers often use.
const CLUSTER_SCOPED: [&str; 12] = [
    "Namespace",
    "Node",
    "PersistentVolume",
    "ClusterRole",
    "ClusterRoleBinding",
    "StorageClass",
    "PriorityClass",
    "IngressClass",
    "CustomResourceDefinition",
    "APIService",
    "ValidatingWebhookConfiguration",
    "MutatingWebhookConfiguration",
];

impl Named {
    /// Guesses the plural as in English, like apimachinery's `UnsafeGuessKindToResource`.
    pub fn guess(kind: &Kind) -> Self {
        let name = kind.kind.to_lowercase();
        let plural = if name == "endpoints" {
            name
        } else if name.ends_with('s') {
            format!("{name}es")
        } else if let Some(stem) = name.strip_suffix('y') {
            format!("{stem}ies")
        } else {
            format!("{name}s")
        };
        Self {
            plural,
            is_namespaced: !CLUSTER_SCOPED.contains(&&*kind.kind),
            is_guessed: true,
        }
    }
}

/// The resource and names of one rule of a role. Verbs for the same target are merged.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RuleTarget {
    pub group: String,
    /// Includes the subresource, if there is one: `pods/status`.
    pub resource: String,
    /// Empty means all.
    pub names: BTreeSet<String>,
}

impl RuleTarget {
    /// Explains a rule that no manifest asks for by name.
    pub fn comment(&self) -> Option<&'static str> {
        self.resource.ends_with(FINALIZERS).then_some(
            "For owner references with blockOwnerDeletion, where OwnerReferencesPermissionEnforcement is on.",
        )
    }
}

pub type Verbs = BTreeMap<RuleTarget, BTreeSet<String>>;

/// What is allowed where. An empty namespace means the whole cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules(pub BTreeMap<String, Verbs>);

/// The subresource that an owner reference with `blockOwnerDeletion` needs `update` of, where the
/// admission plugin OwnerReferencesPermissionEnforcement is on.
const FINALIZERS: &str = "/finalizers";

const READ: [&str; 3] = ["get", "list", "watch"];

impl Rules {
    /// What the host needs for itself: it writes Events, its own and those of plugins that may
    /// write some.
    pub fn of_host() -> Self {
        let mut rules = Self::default();
        rules.allow(
            &[],
            "events.k8s.io",
            "events",
            &BTreeSet::new(),
            &["create", "patch"],
        );
        rules
    }

    /// The rules for what a plugin is granted of its manifest.
    pub fn of(manifest: &Manifest, grants: &Grants, names: &BTreeMap<Kind, Named>) -> Self {
        let mut rules = Self::default();
        let all = BTreeSet::new();
        let reads = grants.limit(manifest).reads;
        for read in &reads {
            let named = &names[&read.kind];
            rules.allow(
                &read.namespaces,
                &read.kind.group,
                &named.plural,
                &all,
                &READ,
            );
        }
        let writes = grants.writes(manifest);
        let owns = |kind: &Kind| writes.iter().any(|write| write.kind == *kind);
        let has_children = manifest
            .writes
            .iter()
            .any(|write| write.children && owns(&write.kind));
        if let Some(owner) = manifest.subject_kind().filter(|_| has_children) {
            let read = reads.iter().find(|read| read.kind == *owner);
            let namespaces = read.map_or(&[][..], |read| &read.namespaces);
            let resource = format!("{}{FINALIZERS}", names[owner].plural);
            rules.allow(namespaces, &owner.group, &resource, &all, &["update"]);
        }
        for write in writes {
            let named = &names[&write.kind];
            let resource = match &write.subresource {
                Some(subresource) => format!("{}/{subresource}", named.plural),
                None => named.plural.clone(),
            };
            for verb in &write.verbs {
                let (namespaces, group) = (&write.namespaces, &write.kind.group);
                for verb in verbs(*verb, write.subresource.is_some()) {
                    // RBAC cannot restrict `create` by name, because it does not see the name of a
                    // new object.
                    let names = if *verb == "create" {
                        &all
                    } else {
                        &write.names
                    };
                    rules.allow(namespaces, group, &resource, names, &[verb]);
                }
            }
        }
        rules
    }

    /// Allows the host to act as a service account, and to review what that may read. KEP-5284 has
    /// narrower verbs for the former; see docs/settings.md.
    pub fn impersonate(&mut self, name: &str, namespace: &str) {
        let names = BTreeSet::from([name.to_owned()]);
        let namespaces = [namespace.to_owned()];
        self.allow(&namespaces, "", "serviceaccounts", &names, &["impersonate"]);
        let review = ["create"];
        self.allow(
            &[],
            "authorization.k8s.io",
            "subjectaccessreviews",
            &BTreeSet::new(),
            &review,
        );
    }

    /// Only the reads.
    pub fn reads(&self) -> Self {
        let is_read = |verb: &String| READ.contains(&verb.as_str());
        let mut reads = Self::default();
        for (namespace, verbs) in &self.0 {
            for (target, verbs) in verbs.iter().filter(|(_, verbs)| verbs.iter().any(is_read)) {
                let verbs = verbs.iter().filter(|verb| is_read(verb)).cloned();
                let place = reads.0.entry(namespace.clone()).or_default();
                place.entry(target.clone()).or_default().extend(verbs);
            }
        }
        reads
    }

    /// Merges other rules into these.
    pub fn add(&mut self, other: Self) {
        for (namespace, verbs) in other.0 {
            let place = self.0.entry(namespace).or_default();
            for (target, verbs) in verbs {
                place.entry(target).or_default().extend(verbs);
            }
        }
    }

    fn allow(
        &mut self,
        namespaces: &[String],
        group: &str,
        resource: &str,
        names: &BTreeSet<String>,
        verbs: &[&str],
    ) {
        let everywhere = [String::new()];
        let namespaces = if namespaces.is_empty() {
            &everywhere
        } else {
            namespaces
        };
        for namespace in namespaces {
            let target = RuleTarget {
                group: group.to_owned(),
                resource: resource.to_owned(),
                names: names.clone(),
            };
            let have = self.0.entry(namespace.clone()).or_default();
            let have = have.entry(target).or_default();
            have.extend(verbs.iter().map(|verb| (*verb).to_owned()));
        }
    }
}

/// The RBAC verbs behind an action. Server-side apply of an object that does not exist is also a
/// create, except for a subresource.
fn verbs(verb: Verb, is_subresource: bool) -> &'static [&'static str] {
    match verb {
        Verb::Apply if is_subresource => &["patch"],
        Verb::Apply => &["patch", "create"],
        Verb::Create => &["create"],
        Verb::Update => &["update"],
        Verb::Patch => &["patch"],
        Verb::Delete => &["delete"],
    }
}

#[cfg(test)]
mod tests {
    use pilothouse_core::{
        Granted, LabelSelector, Limits, ReadDeclaration, Selection, Subject, WriteDeclaration,
    };

    use super::*;

    /// A plugin that keeps ConfigMaps for each Service.
    fn keeper(children: bool) -> Manifest {
        let service = Kind::new("", "v1", "Service");
        Manifest {
            name: "keeper".into(),
            version: "1.0.0".into(),
            subject: Subject::Each(Selection {
                kind: service.clone(),
                labels: LabelSelector::default(),
                fields: None,
                namespaces: vec![],
                companions: vec![],
            }),
            reads: vec![ReadDeclaration::new(service, vec![])],
            indexes: vec![],
            writes: vec![WriteDeclaration {
                kind: Kind::new("", "v1", "ConfigMap"),
                subresource: None,
                verbs: vec![Verb::Apply],
                children,
            }],
            limits: Limits::default(),
            config_schema: None,
        }
    }

    #[test]
    fn who_keeps_children_may_name_their_owner_in_them() {
        let finalizers = |children: bool, what: Granted, namespaces: &[&str]| {
            let manifest = keeper(children);
            let kinds = manifest.kinds().into_iter();
            let names = kinds.map(|kind| (kind.clone(), Named::guess(kind)));
            let grants = Grants {
                what,
                namespaces: namespaces.iter().map(ToString::to_string).collect(),
                ..Grants::default()
            };
            let Rules(rules) = Rules::of(&manifest, &grants, &names.collect());
            let all = rules.into_iter().flat_map(|(namespace, verbs)| {
                verbs
                    .into_iter()
                    .map(move |(target, verbs)| (namespace.clone(), target, verbs))
            });
            let own = all.filter(|(_, target, _)| target.resource == "services/finalizers");
            own.map(|(namespace, _, verbs)| format!("{namespace} {verbs:?}"))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            finalizers(true, Granted::AsRequested, &[]),
            [r#" {"update"}"#]
        );
        assert_eq!(
            finalizers(true, Granted::AsRequested, &["one"]),
            [r#"one {"update"}"#]
        );
        assert_eq!(finalizers(false, Granted::AsRequested, &[]), [""; 0]);
        assert_eq!(finalizers(true, Granted::OwnKind, &[]), [""; 0]);
    }

    #[test]
    fn kinds_are_guessed_as_upstream_guesses_them() {
        for (kind, plural) in [
            ("Pod", "pods"),
            ("Endpoints", "endpoints"),
            ("Ingress", "ingresses"),
            ("NetworkPolicy", "networkpolicies"),
        ] {
            assert_eq!(Named::guess(&Kind::new("", "v1", kind)).plural, plural);
        }
    }
}
