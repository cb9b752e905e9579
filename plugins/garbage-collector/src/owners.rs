//! Which owners of an object exist: `classifyReferences` of the upstream controller.

use pilothouse_sdk::{Failure, Host, ObjectRef, ReadError, ServedKind};
use serde::{Deserialize, Serialize};

use crate::IGNORED;
use crate::item::{Item, ItemMetadata, Reference};

/// The owner of a reference, as the snapshot shows it, or the server itself.
enum Standing {
    /// It is there.
    Solid,
    /// There is no such object, or another one of this name.
    Dangling(ObjectRef),
    /// It is being deleted, and waits until its dependents are.
    Waiting(ObjectRef),
    /// That is not known: its kind is not served, or cannot be read, or its server does not say
    /// which object of the name it is.
    Unknown,
    /// A cluster-scoped object cannot be owned by one of a namespace.
    OfNamespace,
}

/// What is remembered of an object between its runs.
#[derive(Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub struct Memo {
    /// The uids of owners that have been seen. One of them that is not there any more has been
    /// deleted, and never comes back; the server need not be asked, which could not tell when the
    /// kind has gone meanwhile.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub seen: Vec<String>,
    /// Since when the server is asked for an owner that cannot be watched, in milliseconds since
    /// the Unix epoch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asked_since: Option<u64>,
}

/// A reference to what is not there.
#[derive(Clone)]
pub struct Dangling<'a> {
    pub reference: &'a Reference,
    /// Where the owner would be.
    pub object: ObjectRef,
    /// The owner is known to be deleted: it has been seen, or the server itself has said that it is
    /// not there.
    pub is_known: bool,
}

/// A reference to what waits until its dependents are deleted.
#[derive(Clone)]
pub struct Waiting<'a> {
    pub reference: &'a Reference,
    pub object: ObjectRef,
    /// The server itself has said so.
    pub is_known: bool,
}

/// The owners of an object.
#[derive(Clone, Default)]
pub struct Owners<'a> {
    pub solid: usize,
    pub dangling: Vec<Dangling<'a>>,
    /// References to what waits for its dependents.
    pub waiting: Vec<Waiting<'a>>,
    /// A reference to an owner that no cluster-scoped object can have.
    pub misplaced: Vec<&'a Reference>,
    /// Of some owners it cannot be told whether they are there.
    pub is_unknown: bool,
    /// Some are of kinds that cannot be watched: of what becomes of these nobody tells.
    pub has_unwatched: bool,
    /// The uids of those that are there, or have been.
    pub seen: Vec<String>,
}

impl<'a> Owners<'a> {
    pub fn of(metadata: &'a ItemMetadata, before: &Memo, host: &dyn Host) -> Result<Self, Failure> {
        let mut owners = Self::default();
        for reference in &metadata.owner_references {
            let served = served_kind(reference, host);
            let standing = match &served {
                Some(served) => standing(reference, served, &metadata.always.namespace, host)?,
                None => Standing::Unknown,
            };
            let is_fetched = served.as_ref().is_some_and(is_fetched);
            owners.has_unwatched |= is_fetched;
            owners.add(reference, standing, is_fetched, before);
        }
        Ok(owners)
    }

    /// `is_fetched`: the server itself has said how the owner stands.
    fn add(
        &mut self,
        reference: &'a Reference,
        standing: Standing,
        is_fetched: bool,
        before: &Memo,
    ) {
        let uid = &reference.owner.uid;
        let was_seen = before.seen.contains(uid);
        let is_seen = match standing {
            Standing::Solid => {
                self.solid += 1;
                true
            }
            Standing::Waiting(object) => {
                self.waiting.push(Waiting {
                    reference,
                    object,
                    is_known: is_fetched,
                });
                true
            }
            Standing::Dangling(object) => {
                self.dangling.push(Dangling {
                    reference,
                    object,
                    is_known: was_seen || is_fetched,
                });
                was_seen
            }
            Standing::Unknown => {
                self.is_unknown = true;
                false
            }
            Standing::OfNamespace => {
                self.misplaced.push(reference);
                false
            }
        };
        if is_seen {
            self.seen.push(uid.clone());
        }
    }

    /// Whether this reference is to be given up.
    pub fn gives_up(&self, reference: &Reference) -> bool {
        let dangling = self.dangling.iter().map(|dangling| dangling.reference);
        let waiting = self.waiting.iter().map(|waiting| waiting.reference);
        let mut gone = dangling.chain(waiting);
        gone.any(|gone| std::ptr::eq(gone, reference))
    }
}

/// Whether these texts name a kind. A reference may have any, and a pattern is no kind.
fn is_kind(api_version: &str, kind: &str) -> bool {
    let mut parts: Vec<&str> = api_version.split('/').collect();
    parts.push(kind);
    let is_part = |part: &&str| !part.is_empty() && !part.contains(['/', '*']);
    parts.len() <= 3 && parts.iter().all(is_part)
}

/// Whether the server serves the version of the reference: of one that it does not serve, nobody
/// can say what it means. Nothing is known here of kinds that are left out.
fn is_served_in(served: &ServedKind, api_version: &str) -> bool {
    let version = api_version.rsplit('/').next();
    let mut versions = served.versions.iter();
    versions.any(|served| Some(served.as_str()) == version)
        && !IGNORED.contains(&served.kind.as_str())
}

/// The kind of an owner, if the server serves it in the version of the reference.
fn served_kind(reference: &Reference, host: &dyn Host) -> Option<ServedKind> {
    let owner = &reference.owner;
    if !is_kind(&owner.api_version, &owner.kind) {
        return None;
    }
    let kind = format!("{}/{}", owner.api_version, owner.kind);
    let served = match host.served_kinds(&kind) {
        Ok(served) => served.into_iter().next(),
        Err(ReadError::Denied(_) | ReadError::Unavailable(_)) => None,
    };
    served.filter(|served| is_served_in(served, &owner.api_version))
}

/// Whether the objects of a kind can be cached.
pub fn is_watched(served: &ServedKind) -> bool {
    let has = |verb| served.verbs.iter().any(|have| have == verb);
    has("list") && has("watch")
}

/// Whether the server itself is asked for each object of a kind: it can be got and not watched.
fn is_fetched(served: &ServedKind) -> bool {
    !is_watched(served) && served.verbs.iter().any(|verb| verb == "get")
}

/// How the owner of a reference stands, whose kind is served so.
fn standing(
    reference: &Reference,
    served: &ServedKind,
    namespace: &str,
    host: &dyn Host,
) -> Result<Standing, Failure> {
    let owner = &reference.owner;
    if served.namespaced && namespace.is_empty() {
        return Ok(Standing::OfNamespace);
    }
    let namespace = if served.namespaced { namespace } else { "" };
    let object = ObjectRef::new(&served.kind, namespace, &owner.name);
    let found = match host.get_json(&object) {
        Ok(found) => found,
        Err(ReadError::Denied(_) | ReadError::Unavailable(_)) => return Ok(Standing::Unknown),
    };
    let Some(found) = found else {
        return Ok(Standing::Dangling(object));
    };
    let found: Item = serde_json::from_str(&found)?;
    Ok(match found.metadata {
        bare if bare.always.uid.is_empty() => Standing::Unknown,
        other if other.always.uid != owner.uid => Standing::Dangling(object),
        dying if dying.is_deleting_dependents() => Standing::Waiting(object),
        _ => Standing::Solid,
    })
}
