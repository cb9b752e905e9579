//! Which owners of an object exist: `classifyReferences` of the upstream controller.

use pilothouse_sdk::{Failure, Host, ObjectRef, ReadError, ServedKind};

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

/// The owners of an object.
pub struct Owners<'a> {
    pub solid: usize,
    /// References to what is not there, each with where it would be.
    pub dangling: Vec<(&'a Reference, ObjectRef)>,
    /// References to what waits for its dependents.
    pub waiting: Vec<(&'a Reference, ObjectRef)>,
    /// A reference to an owner that no cluster-scoped object can have.
    pub misplaced: Vec<&'a Reference>,
    /// Of some owners it cannot be told whether they are there.
    pub is_unknown: bool,
}

impl<'a> Owners<'a> {
    pub fn of(metadata: &'a ItemMetadata, host: &dyn Host) -> Result<Self, Failure> {
        let mut owners = Self {
            solid: 0,
            dangling: Vec::new(),
            waiting: Vec::new(),
            misplaced: Vec::new(),
            is_unknown: false,
        };
        for reference in &metadata.owner_references {
            match standing(reference, &metadata.always.namespace, host)? {
                Standing::Solid => owners.solid += 1,
                Standing::Dangling(object) => owners.dangling.push((reference, object)),
                Standing::Waiting(object) => owners.waiting.push((reference, object)),
                Standing::Unknown => owners.is_unknown = true,
                Standing::OfNamespace => owners.misplaced.push(reference),
            }
        }
        Ok(owners)
    }

    /// Whether this reference is to be given up.
    pub fn gives_up(&self, reference: &Reference) -> bool {
        let mut gone = self.dangling.iter().chain(&self.waiting);
        gone.any(|(gone, _)| std::ptr::eq(*gone, reference))
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
