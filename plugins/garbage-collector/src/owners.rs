//! Which owners of an object exist: `classifyReferences` of the upstream controller.

use pilothouse_sdk::{Failure, Host, ObjectRef, ReadError, ServedKind};
use serde::{Deserialize, Serialize};

use crate::IGNORED;
use crate::item::{Item, ItemMetadata, Reference};

/// The owner of a reference, as the snapshot shows it.
enum Standing {
    /// It is there.
    Solid,
    /// There is no such object, or another one of this name.
    Dangling(ObjectRef),
    /// It is being deleted, and waits until its dependents are.
    Waiting(ObjectRef),
    /// That is not known: its kind is not served, or cannot be listed.
    Unknown,
    /// A cluster-scoped object cannot be owned by one of a namespace.
    OfNamespace,
}

/// What is remembered of an object between its runs: the uids of owners that have been seen. One of
/// them that is not there any more has been deleted, and never comes back; the server need not be
/// asked, which could not tell when the kind has gone meanwhile.
#[derive(Default, Deserialize, Serialize)]
pub struct Seen(pub Vec<String>);

/// A reference to what is not there.
#[derive(Clone)]
pub struct Dangling<'a> {
    pub reference: &'a Reference,
    /// Where the owner would be.
    pub object: ObjectRef,
    /// The owner has been seen, so that it is known to be deleted.
    pub was_seen: bool,
}

/// The owners of an object.
#[derive(Clone, Default)]
pub struct Owners<'a> {
    pub solid: usize,
    pub dangling: Vec<Dangling<'a>>,
    /// References to what waits for its dependents.
    pub waiting: Vec<(&'a Reference, ObjectRef)>,
    /// A reference to an owner that no cluster-scoped object can have.
    pub misplaced: Vec<&'a Reference>,
    /// Of some owners it cannot be told whether they are there.
    pub is_unknown: bool,
    /// The uids of those that are there, or have been.
    pub seen: Vec<String>,
}

impl<'a> Owners<'a> {
    pub fn of(metadata: &'a ItemMetadata, before: &Seen, host: &dyn Host) -> Result<Self, Failure> {
        let mut owners = Self::default();
        for reference in &metadata.owner_references {
            let standing = standing(reference, &metadata.always.namespace, host)?;
            owners.add(reference, standing, before);
        }
        Ok(owners)
    }

    fn add(&mut self, reference: &'a Reference, standing: Standing, before: &Seen) {
        let uid = &reference.owner.uid;
        let was_seen = before.0.contains(uid);
        let is_seen = match standing {
            Standing::Solid => {
                self.solid += 1;
                true
            }
            Standing::Waiting(object) => {
                self.waiting.push((reference, object));
                true
            }
            Standing::Dangling(object) => {
                self.dangling.push(Dangling {
                    reference,
                    object,
                    was_seen,
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
        let waiting = self.waiting.iter().map(|(reference, _)| *reference);
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

fn standing(reference: &Reference, namespace: &str, host: &dyn Host) -> Result<Standing, Failure> {
    let owner = &reference.owner;
    let kind = format!("{}/{}", owner.api_version, owner.kind);
    let is_kind = is_kind(&owner.api_version, &owner.kind);
    let served = is_kind.then(|| host.served_kinds(&kind));
    let served = match served {
        Some(Ok(served)) => served.into_iter().next(),
        Some(Err(ReadError::Denied(_) | ReadError::Unavailable(_))) | None => None,
    };
    let is_known = |served: &ServedKind| is_served_in(served, &owner.api_version);
    let Some(served) = served.filter(is_known) else {
        return Ok(Standing::Unknown);
    };
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
        other if other.always.uid != owner.uid => Standing::Dangling(object),
        dying if dying.is_deleting_dependents() => Standing::Waiting(object),
        _ => Standing::Solid,
    })
}
