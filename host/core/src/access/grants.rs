//! The part of a manifest's requests that the operator grants to a plugin.
//!
//! What is not granted is not watched for the plugin, answered with an error when it is read, and
//! refused when it is written. Grants never add to a manifest.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::model::key::{Kind, ObjectKey};
use crate::model::manifest::{Manifest, ReadDeclaration, Verb, WriteDeclaration};

/// What a plugin is granted. The default is the minimum with which it can run at all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grants {
    /// Which reads and writes are granted.
    pub what: Granted,
    /// Restricts the grants to these namespaces. Empty means all. If it is not empty, kinds without
    /// namespaces are granted only if the lists in `what` contain them.
    pub namespaces: BTreeSet<String>,
    /// The kinds of the manifest that have no namespaces.
    pub cluster_scoped: BTreeSet<Kind>,
    /// Kinds, each with a namespace, that the cluster does not let the plugin's identity read. An
    /// empty namespace means all namespaces.
    pub forbidden: BTreeSet<(Kind, String)>,
    /// The optional kinds of the manifest that the cluster does not serve.
    pub absent: BTreeSet<Kind>,
}

/// Which of the manifest's reads and writes are granted. Reads of the reconciled kinds are always
/// granted, because without them there are no keys; those of reconciled patterns are not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Granted {
    /// Nothing but those reads.
    #[default]
    OwnKind,
    /// All that the manifest asks for, but for patterns, and for verbs that are
    /// [granted by name only](Verb::is_granted_by_name_only).
    AsRequested,
    /// What is listed here.
    Listed {
        /// The granted reads.
        reads: Vec<ReadGrant>,
        /// The granted writes.
        writes: Vec<WriteGrant>,
        /// Whether the plugin may write Events.
        events: bool,
    },
}

/// Permission to read a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadGrant {
    /// The kind, in every version; or a pattern, which grants that pattern, or a narrower one, and
    /// no kind that the manifest names itself.
    pub kind: KindName,
    /// Restricts the grant to these namespaces. Empty means all. A pattern is granted for all of
    /// them or not at all.
    pub namespaces: BTreeSet<String>,
}

/// Permission to write a kind, or one of its subresources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteGrant {
    /// The kind, in every version; or a pattern, as for reads.
    pub kind: KindName,
    /// The subresource. `None` for the object itself.
    pub subresource: Option<String>,
    /// The granted verbs. Empty means all that the manifest asks for, but for those that are
    /// [granted by name only](Verb::is_granted_by_name_only).
    pub verbs: BTreeSet<Verb>,
    /// Restricts the grant to these namespaces. Empty means all.
    pub namespaces: BTreeSet<String>,
    /// Restricts the grant to objects of these names. Empty means all.
    pub names: BTreeSet<String>,
    /// Whether an apply may take over fields that another manager owns. Kubernetes' advice on
    /// server-side apply is that controllers should.
    pub force: bool,
}

/// Writes that a plugin asks for and is granted, for the same objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteGranted {
    /// The kind.
    pub kind: Kind,
    /// The subresource. `None` for the object itself.
    pub subresource: Option<String>,
    /// The granted verbs.
    pub verbs: BTreeSet<Verb>,
    /// The namespaces of the objects. Empty means all.
    pub namespaces: Vec<String>,
    /// The names of the objects. Empty means all.
    pub names: BTreeSet<String>,
}

/// A kind without its version, so that a grant still holds for the next version of an API.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct KindName {
    /// The API group. Empty for core.
    pub group: String,
    /// The kind.
    pub kind: String,
}

impl KindName {
    /// The name of a kind, whatever its version.
    pub fn of(kind: &Kind) -> Self {
        Self {
            group: kind.group.to_string(),
            kind: kind.kind.to_string(),
        }
    }

    fn is_of(&self, kind: &Kind) -> bool {
        let is_wider = kind.is_pattern() && self.kind().includes(kind);
        is_wider || (*self.group == *kind.group && *self.kind == *kind.kind)
    }

    /// The kind, in a version that says nothing.
    fn kind(&self) -> Kind {
        Kind::new(&self.group, "*", &self.kind)
    }
}

/// The form in settings: `apps/Deployment` or `Pod`, and of a pattern `*`, `apps/*` or `v1/*`.
impl fmt::Display for KindName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = self.kind();
        if kind.is_pattern() {
            return kind.fmt(f);
        }
        if !self.group.is_empty() {
            write!(f, "{}/", self.group)?;
        }
        f.write_str(&self.kind)
    }
}

impl Grants {
    /// Grants all that the manifest asks for.
    pub fn as_requested() -> Self {
        Self {
            what: Granted::AsRequested,
            ..Self::default()
        }
    }

    /// The reads of a manifest that the operator grants, including those that the cluster forbids
    /// to the plugin's identity, without absent kinds. Each is a kind and a namespace. An empty
    /// namespace means all.
    pub fn reads(&self, manifest: &Manifest) -> BTreeSet<(Kind, String)> {
        let reads = manifest.reads.iter();
        let reads = reads.filter(|read| !self.absent.contains(&read.kind));
        let granted = reads.filter_map(|read| self.granted_read(manifest, read));
        granted.flat_map(|read| places(&read)).collect()
    }

    /// The granted reads of absent kinds.
    pub fn absent_reads(&self, manifest: &Manifest) -> Vec<ReadDeclaration> {
        let reads = manifest.reads.iter();
        let absent = reads.filter(|read| self.absent.contains(&read.kind));
        absent
            .filter_map(|read| self.granted_read(manifest, read))
            .collect()
    }

    /// The manifest without reads and writes of absent kinds.
    pub fn without_absent(&self, manifest: &Manifest) -> Manifest {
        let mut served = manifest.clone();
        served
            .reads
            .retain(|read| !self.absent.contains(&read.kind));
        served
            .writes
            .retain(|write| !self.absent.contains(&write.kind));
        served
    }

    /// The manifest without what is not granted, and without absent kinds. It keeps the granted
    /// reads and whatever depends on them, and the writes that are granted for at least some
    /// objects.
    pub fn limit(&self, manifest: &Manifest) -> Manifest {
        let reads: Vec<ReadDeclaration> = manifest
            .reads
            .iter()
            .filter_map(|read| self.read(manifest, read))
            .collect();
        let is_read = |kind: &Kind| reads.iter().any(|read| read.kind == *kind);
        let mut limited = manifest.clone();
        limited.indexes.retain(|index| is_read(&index.kind));
        for selection in &mut limited.reconciles {
            selection.companions.retain(is_read);
        }
        limited.writes = manifest
            .writes
            .iter()
            .filter_map(|write| self.write(write, is_read(&write.kind)))
            .collect();
        limited.reads = reads;
        limited
    }

    /// The granted writes of a manifest, each with the objects for which it is granted.
    pub fn writes(&self, manifest: &Manifest) -> Vec<WriteGranted> {
        let granted = |write: &WriteDeclaration, verbs, namespaces: &BTreeSet<String>, names| {
            let mut own: Vec<String> = namespaces.iter().cloned().collect();
            let is_everywhere = self.cluster_scoped.contains(&write.kind);
            let is_somewhere = is_everywhere || narrow(&mut own, &self.namespaces);
            is_somewhere.then(|| WriteGranted {
                kind: write.kind.clone(),
                subresource: write.subresource.clone(),
                verbs,
                namespaces: if is_everywhere { vec![] } else { own },
                names,
            })
        };
        let writes = manifest.writes.iter();
        match &self.what {
            Granted::OwnKind => Vec::new(),
            Granted::AsRequested => writes
                .filter(|write| self.is_included(&write.kind))
                .filter_map(|write| {
                    let verbs = write.verbs.iter().copied();
                    let verbs = verbs.filter(|verb| !verb.is_granted_by_name_only());
                    granted(write, verbs.collect(), &BTreeSet::new(), BTreeSet::new())
                })
                .filter(|write| !write.verbs.is_empty())
                .collect(),
            Granted::Listed { writes: grants, .. } => writes
                .flat_map(|write| grants.iter().map(move |grant| (write, grant)))
                .filter(|(write, grant)| grant.is_for(&write.kind, write.subresource.as_deref()))
                .filter_map(|(write, grant)| {
                    let verbs = write.verbs.iter().copied();
                    let verbs: BTreeSet<Verb> = verbs.filter(|verb| grant.has(*verb)).collect();
                    granted(write, verbs, &grant.namespaces, grant.names.clone())
                })
                .filter(|write| !write.verbs.is_empty())
                .collect(),
        }
    }

    /// True if a write that the manifest asks for is granted.
    pub fn allows_write(
        &self,
        verb: Verb,
        kind: &Kind,
        subresource: Option<&str>,
        key: &ObjectKey,
    ) -> bool {
        let is_listed = matches!(self.what, Granted::Listed { .. });
        (is_listed || !verb.is_granted_by_name_only())
            && self.allows(kind, key, |grant| {
                grant.is_for(kind, subresource) && grant.has(verb)
            })
    }

    /// True if a granted apply may take over fields that another manager owns.
    pub fn allows_force(&self, kind: &Kind, subresource: Option<&str>, key: &ObjectKey) -> bool {
        self.allows(kind, key, |grant| {
            grant.is_for(kind, subresource) && grant.has(Verb::Apply) && grant.force
        })
    }

    /// True if Events may be written. They can show what the plugin has read to anyone who may read
    /// Events.
    pub fn allows_events(&self) -> bool {
        match &self.what {
            Granted::OwnKind => false,
            Granted::AsRequested => true,
            Granted::Listed { events, .. } => *events,
        }
    }

    /// True if one of the suitable write grants covers this object.
    fn allows(&self, kind: &Kind, key: &ObjectKey, suits: impl Fn(&WriteGrant) -> bool) -> bool {
        let is_for_key = |grant: &WriteGrant| {
            has(&grant.namespaces, &key.namespace) && has(&grant.names, &key.name)
        };
        let is_granted = match &self.what {
            Granted::OwnKind => false,
            Granted::AsRequested => self.is_included(kind),
            Granted::Listed { writes, .. } => {
                writes.iter().any(|grant| suits(grant) && is_for_key(grant))
            }
        };
        is_granted && self.reaches(kind, &key.namespace)
    }

    /// True if grants can cover objects of this kind in this namespace at all.
    pub fn reaches(&self, kind: &Kind, namespace: &str) -> bool {
        self.cluster_scoped.contains(kind) || has(&self.namespaces, namespace)
    }

    /// True if a grant of all that is requested includes this kind. It includes no pattern, because
    /// that is everything of the cluster; and one for listed namespaces does not include kinds
    /// without namespaces.
    fn is_included(&self, kind: &Kind) -> bool {
        !kind.is_pattern() && (self.namespaces.is_empty() || !self.cluster_scoped.contains(kind))
    }

    fn read(&self, manifest: &Manifest, read: &ReadDeclaration) -> Option<ReadDeclaration> {
        if self.absent.contains(&read.kind) {
            return None;
        }
        let mut read = self.granted_read(manifest, read)?;
        let kind = read.kind.clone();
        let is_forbidden = |namespace: &str| {
            let place = (kind.clone(), namespace.to_owned());
            self.forbidden.contains(&place)
        };
        if read.namespaces.is_empty() {
            return (!is_forbidden("")).then_some(read);
        }
        read.namespaces.retain(|namespace| !is_forbidden(namespace));
        (!read.namespaces.is_empty()).then_some(read)
    }

    fn granted_read(&self, manifest: &Manifest, read: &ReadDeclaration) -> Option<ReadDeclaration> {
        let granted = match &self.what {
            // A pattern is everything of the cluster, so it is granted by its name or not at all.
            _ if is_own_kind(manifest, &read.kind) => BTreeSet::new(),
            Granted::OwnKind => return None,
            Granted::AsRequested if !self.is_included(&read.kind) => return None,
            Granted::AsRequested => BTreeSet::new(),
            Granted::Listed { reads, .. } => {
                let of_kind = |grant: &&ReadGrant| grant.kind.is_of(&read.kind);
                let grants: Vec<&ReadGrant> = reads.iter().filter(of_kind).collect();
                if grants.is_empty() {
                    return None;
                }
                // A grant for all namespaces includes the namespaces of the other grants.
                let is_for_all = grants.iter().any(|grant| grant.namespaces.is_empty());
                let namespaces = grants.iter().flat_map(|grant| &grant.namespaces);
                namespaces.filter(|_| !is_for_all).cloned().collect()
            }
        };
        let mut read = read.clone();
        if self.cluster_scoped.contains(&read.kind) {
            return Some(read);
        }
        if read.kind.is_pattern() {
            let is_everywhere = granted.is_empty() && self.namespaces.is_empty();
            return is_everywhere.then_some(read);
        }
        for allowed in [&granted, &self.namespaces] {
            if !narrow(&mut read.namespaces, allowed) {
                return None;
            }
        }
        Some(read)
    }

    fn write(&self, write: &WriteDeclaration, is_read: bool) -> Option<WriteDeclaration> {
        if self.absent.contains(&write.kind) {
            return None;
        }
        let mut write = write.clone();
        match &self.what {
            Granted::OwnKind => return None,
            Granted::AsRequested if !self.is_included(&write.kind) => return None,
            Granted::AsRequested => write.verbs.retain(|verb| !verb.is_granted_by_name_only()),
            Granted::Listed { writes, .. } => {
                let of_kind =
                    |grant: &&WriteGrant| grant.is_for(&write.kind, write.subresource.as_deref());
                let grants: Vec<&WriteGrant> = writes.iter().filter(of_kind).collect();
                write
                    .verbs
                    .retain(|verb| grants.iter().any(|grant| grant.has(*verb)));
            }
        }
        // Children are found by a list, applied and pruned, so all three must be granted.
        let is_whole = |verb| write.verbs.contains(verb);
        write.children &= is_read && [Verb::Apply, Verb::Delete].iter().all(is_whole);
        (!write.verbs.is_empty()).then_some(write)
    }
}

impl WriteGrant {
    fn is_for(&self, kind: &Kind, subresource: Option<&str>) -> bool {
        self.kind.is_of(kind) && self.subresource.as_deref() == subresource
    }

    fn has(&self, verb: Verb) -> bool {
        let is_any = self.verbs.is_empty() && !verb.is_granted_by_name_only();
        is_any || self.verbs.contains(&verb)
    }
}

/// True if the plugin reconciles this kind by its name.
fn is_own_kind(manifest: &Manifest, kind: &Kind) -> bool {
    !kind.is_pattern() && manifest.selection_of(kind).is_some()
}

/// The kind with each namespace of the read.
fn places(read: &ReadDeclaration) -> Vec<(Kind, String)> {
    if read.namespaces.is_empty() {
        return vec![(read.kind.clone(), String::new())];
    }
    let namespaces = read.namespaces.iter();
    namespaces
        .map(|namespace| (read.kind.clone(), namespace.clone()))
        .collect()
}

/// True if a set of names, where empty means all, contains a name.
fn has(names: &BTreeSet<String>, name: &str) -> bool {
    names.is_empty() || names.contains(name)
}

/// Restricts a list of namespaces, where empty means all, to the allowed ones. Returns false if
/// none is left.
fn narrow(namespaces: &mut Vec<String>, allowed: &BTreeSet<String>) -> bool {
    if allowed.is_empty() {
        return true;
    }
    if namespaces.is_empty() {
        namespaces.extend(allowed.iter().cloned());
        return true;
    }
    namespaces.retain(|namespace| allowed.contains(namespace));
    !namespaces.is_empty()
}

#[cfg(test)]
mod tests;
