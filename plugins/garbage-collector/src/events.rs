//! Tells of owners that are looked for in the wrong namespace.

use pilothouse_sdk::{Event, Failure, Filter, Host, Metadata, ObjectRef, OwnerReference};
use serde::Deserialize;

use crate::BY_UID;
use crate::owners::{Owners, is_watched};

#[derive(Deserialize)]
struct Found {
    metadata: Metadata,
}

/// An Event for each owner that is in another namespace than the object, or in one at all where the
/// object is in none.
pub fn misplaced(
    key: &ObjectRef,
    owners: &Owners<'_>,
    host: &dyn Host,
) -> Result<Vec<Event>, Failure> {
    let dangling = owners.dangling.iter().map(|dangling| dangling.reference);
    let references = dangling.chain(owners.misplaced.iter().copied());
    let mut events = Vec::new();
    for owner in references.map(|reference| &reference.owner) {
        if is_elsewhere(owner, &key.namespace, host)? {
            events.push(event(key, owner));
        }
    }
    Ok(events)
}

fn is_elsewhere(owner: &OwnerReference, namespace: &str, host: &dyn Host) -> Result<bool, Failure> {
    let kind = format!("{}/{}", owner.api_version, owner.kind);
    let Some(served) = host.kinds(&kind)?.into_iter().next() else {
        return Ok(false);
    };
    if !is_watched(&served) {
        // Without a list nobody can say where else it may be.
        return Ok(false);
    }
    let of_uid = Filter::index(BY_UID, &owner.uid);
    let found: Vec<Found> = host.list(&served.kind, None, &of_uid)?;
    let mut found = found.iter().map(|found| &found.metadata.namespace);
    Ok(found.any(|other| !other.is_empty() && *other != namespace))
}

fn event(key: &ObjectRef, owner: &OwnerReference) -> Event {
    let namespace = &key.namespace;
    let OwnerReference {
        api_version,
        kind,
        name,
        uid,
        ..
    } = owner;
    let note = format!(
        "ownerRef [{api_version}/{kind}, namespace: {namespace}, name: {name}, uid: {uid}] does not exist in namespace \"{namespace}\""
    );
    Event::warning(key, "OwnerRefInvalidNamespace", "GarbageCollect", &note)
}
