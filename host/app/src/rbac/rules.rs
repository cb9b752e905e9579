//! Translates what plugins do into RBAC rules.

use std::collections::{BTreeMap, BTreeSet};

use pilothouse_cluster::discovery::Resource;
use pilothouse_core::{Grants, Kind, Manifest, Verb};

/// What a plugin reads or writes: a kind, and the subresource if it writes only that.
pub type Target = (Kind, Option<String>);

/// Everything that a manifest reads and writes.
pub fn targets(manifest: &Manifest) -> impl Iterator<Item = Target> {
    let reads = manifest.reads.iter().map(|read| (read.kind.clone(), None));
    let writes = manifest.writes.iter();
    reads.chain(writes.map(|write| (write.kind.clone(), write.subresource.clone())))
}

/// What RBAC calls each target.
pub type Names = BTreeMap<Target, Named>;

/// The resource that RBAC rules name for a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    pub group: String,
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

/// Built-in subresources whose bodies have a kind of their own: the body's group and kind, the
/// subresource, and the resource of the core group that it belongs to.
const BODIES: [(&str, &str, &str, &str); 3] = [
    ("policy", "Eviction", "eviction", "pods"),
    ("", "Binding", "binding", "pods"),
    (
        "authentication.k8s.io",
        "TokenRequest",
        "token",
        "serviceaccounts",
    ),
];

impl Named {
    /// The name of a resource that a cluster serves.
    pub fn of(resource: &Resource) -> Self {
        Self {
            group: resource.kind.group.to_string(),
            plural: resource.plural.clone(),
            is_namespaced: resource.is_namespaced,
            is_guessed: false,
        }
    }

    /// What RBAC writes for a pattern: every resource of a group, or of all groups.
    fn pattern(pattern: &Kind) -> Self {
        Self {
            group: pattern.group.to_string(),
            plural: "*".to_owned(),
            is_namespaced: true,
            is_guessed: false,
        }
    }

    /// Guesses the plural as in English, like apimachinery's `UnsafeGuessKindToResource`.
    pub fn guess((kind, subresource): &Target) -> Self {
        if kind.is_pattern() {
            return Self::pattern(kind);
        }
        let is_body = |(group, body, part, _): &&(&str, &str, &str, &str)| {
            *kind.group == **group && *kind.kind == **body && subresource.as_deref() == Some(*part)
        };
        if let Some((_, _, _, owner)) = BODIES.iter().find(is_body) {
            return Self {
                group: String::new(),
                plural: (*owner).to_owned(),
                is_namespaced: true,
                is_guessed: true,
            };
        }
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
            group: kind.group.to_string(),
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
    /// Explains a rule that no manifest asks for by name, without a full stop.
    pub fn comment(&self) -> Option<&'static str> {
        self.resource.ends_with(FINALIZERS).then_some(
            "For owner references with blockOwnerDeletion, where OwnerReferencesPermissionEnforcement is on",
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

const EVENTS: &str = "events.k8s.io";

/// An Event that is repeated is patched.
const WRITE_EVENTS: [&str; 2] = ["create", "patch"];

/// The Leases that a host uses.
pub enum Leases {
    /// The one of this name, that the leader holds.
    One(String),
    /// All of its namespace: each host that shares has one, and no rule can name them beforehand.
    All,
}

/// What a host does with the leader's Lease, besides creating it.
const ELECTION: [&str; 3] = ["get", "update", "watch"];

/// What hosts that share do with each other's Leases, besides creating them. They delete those of
/// hosts that are gone.
const SHARING: [&str; 4] = ["delete", "list", "update", "watch"];

impl Rules {
    /// What the host needs for itself, in its own namespace: it writes Events about its pod, and
    /// takes part in the election of a leader.
    pub fn of_host(namespace: &str, leases: &Leases) -> Self {
        let mut rules = Self::default();
        let namespaces = [namespace.to_owned()];
        let all = BTreeSet::new();
        rules.allow(&namespaces, EVENTS, "events", &all, &WRITE_EVENTS);
        let mut leases_of = |names, verbs: &[&str]| {
            rules.allow(&namespaces, "coordination.k8s.io", "leases", names, verbs);
        };
        // As in `allow_write`: no rule can restrict `create` by name.
        leases_of(&all, &["create"]);
        match leases {
            Leases::One(name) => leases_of(&BTreeSet::from([name.clone()]), &ELECTION),
            Leases::All => leases_of(&all, &SHARING),
        }
        rules
    }

    /// The rules for what a plugin is granted of its manifest.
    pub fn of(manifest: &Manifest, grants: &Grants, names: &Names) -> Self {
        let mut rules = Self::default();
        let all = BTreeSet::new();
        let named = |kind: &Kind| &names[&(kind.clone(), None)];
        let reads = grants.limit(manifest).reads;
        for read in &reads {
            let named = named(&read.kind);
            rules.allow(&read.namespaces, &named.group, &named.plural, &all, &READ);
        }
        let writes = grants.writes(manifest);
        let owns = |kind: &Kind| writes.iter().any(|write| write.kind == *kind);
        let has_children = manifest
            .writes
            .iter()
            .any(|write| write.children && owns(&write.kind));
        let owners = manifest.reconciles.iter().filter(|_| has_children);
        for owner in owners.map(|selection| &selection.kind) {
            let read = reads.iter().find(|read| read.kind == *owner);
            let namespaces = read.map_or(&[][..], |read| &read.namespaces);
            let resource = format!("{}{FINALIZERS}", named(owner).plural);
            rules.allow(namespaces, &owner.group, &resource, &all, &["update"]);
        }
        for write in writes {
            let named = &names[&(write.kind, write.subresource.clone())];
            let place = (&*write.namespaces, &write.names);
            for verb in write.verbs {
                rules.allow_write(named, write.subresource.as_deref(), verb, place);
            }
        }
        rules
    }

    /// The rules for a plugin's Events, which the host writes for each plugin that may have some.
    /// Those about objects without a namespace are in `default`.
    pub fn of_events(grants: &Grants) -> Self {
        let mut rules = Self::default();
        if grants.allows_events() {
            let mut places: Vec<String> = grants.namespaces.iter().cloned().collect();
            if !places.is_empty() && !grants.cluster_scoped.is_empty() {
                places.push("default".to_owned());
            }
            rules.allow(&places, EVENTS, "events", &BTreeSet::new(), &WRITE_EVENTS);
        }
        rules
    }

    /// Allows a verb on objects in these namespaces and of these names; none means all.
    fn allow_write(
        &mut self,
        named: &Named,
        subresource: Option<&str>,
        verb: Verb,
        (namespaces, names): (&[String], &BTreeSet<String>),
    ) {
        let resource = match subresource {
            Some(subresource) => format!("{}/{subresource}", named.plural),
            None => named.plural.clone(),
        };
        for verb in verbs(verb, subresource.is_some()) {
            // RBAC cannot restrict `create` by name, because it does not see the name of a new
            // object. It does see whose subresource is created.
            let names = match *verb {
                "create" if subresource.is_none() => &BTreeSet::new(),
                _ => names,
            };
            self.allow(namespaces, &named.group, &resource, names, &[verb]);
        }
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

    /// The same for a plugin's own account, with `get` for patterns alone. The account is asked
    /// whether it may list and watch what the plugin reads, and of a pattern also whether it may
    /// get it: the host gets what cannot be watched for the plugin.
    pub fn of_account(mut self) -> Self {
        let targets = self.0.values_mut().flatten();
        for (_, verbs) in targets.filter(|(target, _)| target.resource != "*") {
            verbs.remove("get");
        }
        self
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
        Verb::DeleteCollection => &["deletecollection"],
    }
}

#[cfg(test)]
mod tests;
