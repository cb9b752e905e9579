//! Parses one object of a list or an event, as far as it is readable.

use std::borrow::Cow;

use pilothouse_core::{Delta, Kind, Object, ObjectKey, ResourceVersion, Schema, Unreadable};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::discovery::Resource;
use crate::discovery::path;
use crate::watch::error::WatchError;
use crate::watch::machine::is_leap;
use pilothouse_core::text::cut_line;

/// What happened to one object.
#[derive(Debug)]
pub(crate) struct WatchChange {
    pub(crate) key: ObjectKey,
    /// The event's version. The object in `what` may be newer if it was fetched by name.
    pub(crate) version: ResourceVersion,
    pub(crate) what: WatchChangeKind,
}

#[derive(Debug)]
pub(crate) enum WatchChangeKind {
    Upsert(Object),
    /// An object fetched by name; it may be newer than the event.
    Read(Object),
    Delete,
    /// The object exists but cannot be read, for this reason.
    Unreadable(String),
}

impl WatchChange {
    pub(crate) fn upsert(object: Object) -> Self {
        Self {
            key: object.key().to_key(),
            version: object.resource_version().clone(),
            what: WatchChangeKind::Upsert(object),
        }
    }

    /// The change as part of a list of this version. An object whose version is far newer than its
    /// list becomes unreadable: it would keep every later state of itself out of the cache.
    pub(crate) fn in_list_of(self, version: &ResourceVersion) -> Self {
        if !is_leap(&self.version, version) {
            return self;
        }
        let found = cut_line(&self.version.to_string(), 80);
        let reason = format!("its resourceVersion is far newer than the list's: {found}");
        Self {
            key: self.key,
            version: version.clone(),
            what: WatchChangeKind::Unreadable(reason),
        }
    }

    /// Bytes that it would take in a cache.
    pub(crate) fn size(&self) -> usize {
        match &self.what {
            WatchChangeKind::Upsert(object) | WatchChangeKind::Read(object) => object.size(),
            WatchChangeKind::Delete | WatchChangeKind::Unreadable(_) => size_of::<Self>(),
        }
    }

    pub(crate) fn into_delta(self) -> Delta {
        let Self { key, version, what } = self;
        match what {
            WatchChangeKind::Upsert(object) => Delta::Upsert(object),
            WatchChangeKind::Read(object) => Delta::Read(object),
            WatchChangeKind::Delete => Delta::Delete {
                key,
                resource_version: version,
            },
            WatchChangeKind::Unreadable(reason) => {
                Delta::Unreadable(unreadable(key, version, reason))
            }
        }
    }
}

pub(crate) fn unreadable(key: ObjectKey, version: ResourceVersion, reason: String) -> Unreadable {
    Unreadable {
        key,
        resource_version: version,
        reason,
    }
}

/// Parses an object that exists. Fails if not even its name can be read, or if its scope is not the
/// kind's.
pub(crate) fn upsert(
    resource: &Resource,
    raw: &RawValue,
    schema: &Schema,
) -> Result<WatchChange, WatchError> {
    match Object::parse(&resource.kind, raw.get(), schema) {
        Ok(object) if is_name(resource, &object) => Ok(WatchChange::upsert(object)),
        Ok(object) => Err(WatchError::OtherScope {
            resource: resource.qualified_name(),
            object: object.key().to_key().to_string(),
            expected: if resource.is_namespaced {
                "namespaced"
            } else {
                "cluster-scoped"
            },
        }),
        Err(error) => match identify(resource, raw) {
            Some(ObjectIdentity { key, version, .. }) => Ok(WatchChange {
                key,
                version,
                what: WatchChangeKind::Unreadable(error.to_string()),
            }),
            None => Err(undecodable(resource, raw, &error.to_string())),
        },
    }
}

/// Parses a deleted object. Its name is enough, unless it belongs to another kind.
pub(crate) fn delete(resource: &Resource, raw: &RawValue) -> Result<WatchChange, WatchError> {
    let Some(identity) = identify(resource, raw) else {
        return Err(undecodable(resource, raw, "its name is missing"));
    };
    let what = match identity.found {
        Some(found) => WatchChangeKind::Unreadable(format!("a {found} was said to be deleted")),
        None => WatchChangeKind::Delete,
    };
    Ok(WatchChange {
        key: identity.key,
        version: identity.version,
        what,
    })
}

fn is_name(resource: &Resource, object: &Object) -> bool {
    resource.is_namespaced != object.key().namespace.is_empty()
}

fn undecodable(resource: &Resource, raw: &RawValue, cause: &str) -> WatchError {
    WatchError::Undecodable {
        resource: resource.qualified_name(),
        object: cut_line(raw.get(), 80),
        cause: cause.to_owned(),
    }
}

/// The identity of an object, whatever else in it is unreadable.
struct ObjectIdentity {
    key: ObjectKey,
    /// Empty if it cannot be read.
    version: ResourceVersion,
    /// The kind that it claims, if that is another one.
    found: Option<Kind>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawIdentity<'a> {
    #[serde(borrow, default)]
    api_version: Option<&'a RawValue>,
    #[serde(borrow, default)]
    kind: Option<&'a RawValue>,
    #[serde(borrow)]
    metadata: RawNames<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawNames<'a> {
    #[serde(borrow, default)]
    namespace: Option<Cow<'a, str>>,
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow, default)]
    resource_version: Option<&'a RawValue>,
}

fn identify(resource: &Resource, raw: &RawValue) -> Option<ObjectIdentity> {
    let raw: RawIdentity<'_> = serde_json::from_str(raw.get()).ok()?;
    let namespace = raw.metadata.namespace.as_deref().unwrap_or_default();
    let key = ObjectKey::new(namespace, &raw.metadata.name);
    // Reject names that no object of this kind could have.
    path::object(resource, &key, None).ok()?;
    let text =
        |raw: Option<&RawValue>| raw.and_then(|raw| serde_json::from_str::<String>(raw.get()).ok());
    let wanted = &resource.kind;
    let kind = text(raw.kind).unwrap_or_else(|| wanted.kind.to_string());
    let found = if kind == "PartialObjectMetadata" {
        None
    } else {
        let api_version = text(raw.api_version).unwrap_or_else(|| wanted.api_version());
        Some(Kind::from_api_version(&api_version, &kind)).filter(|found| found != wanted)
    };
    Some(ObjectIdentity {
        key,
        version: ResourceVersion::new(&text(raw.metadata.resource_version).unwrap_or_default()),
        found,
    })
}
