//! The scale of a controller whose kind the manifest does not name.
//!
//! Upstream asks the API server for the subresource `scale`. For a custom object the server takes
//! it from where the CustomResourceDefinition says that the replicas are, and so does this.

use pilothouse_sdk::{Failure, ObjectRef, ReadError, ServedKind};
use serde::Deserialize;
use serde_json::Value;

use crate::objects::{DEFINITION, Owner};
use crate::scale::{Fault, Scale, Scales};

/// What is read of a CustomResourceDefinition.
#[derive(Deserialize)]
struct Definition {
    spec: DefinitionSpec,
}

#[derive(Deserialize)]
struct DefinitionSpec {
    versions: Vec<Version>,
}

#[derive(Deserialize)]
struct Version {
    name: String,
    #[serde(default)]
    subresources: Option<Subresources>,
}

#[derive(Deserialize)]
struct Subresources {
    #[serde(default)]
    scale: Option<ScalePaths>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ScalePaths {
    spec_replicas_path: String,
}

/// The scale of the object that is a pod's owner. `None`: it is gone, or is another one of its name
/// by now.
pub fn scale(scales: &Scales, owner: &Owner) -> Result<Option<Scale>, Fault> {
    let kind = served_kind(scales, owner)?;
    let resource = resource_of(&kind);
    if !kind.subresources.iter().any(|part| part == "scale") {
        return Err(without_scale(&resource));
    }
    if !kind.namespaced {
        // What owns a pod is in its namespace.
        return Ok(None);
    }
    let path = replicas_path(scales, &kind, &resource)?;
    let object = ObjectRef::new(&kind.kind, scales.namespace, &owner.name);
    let Some(found) = read(scales, &object, &resource)? else {
        return Ok(None);
    };
    if found["metadata"]["uid"] != *owner.uid {
        return Ok(None);
    }
    Ok(Some((owner.uid.clone(), replicas(&found, &path)?)))
}

/// The owner's kind, in the version that the server prefers, whatever version the owner is said to
/// be of.
fn served_kind(scales: &Scales, owner: &Owner) -> Result<ServedKind, Fault> {
    let Owner {
        api_version, kind, ..
    } = owner;
    let unknown = || {
        Fault::Told(format!(
            "no matches for kind {kind:?} in version {api_version:?}"
        ))
    };
    let is_name = |name: &str| !name.is_empty() && !name.contains(['*', '/']);
    if !api_version.split('/').all(is_name) || !is_name(kind) {
        return Err(unknown());
    }
    match scales.host.served_kinds(&format!("{api_version}/{kind}")) {
        Ok(kinds) => kinds.into_iter().next().ok_or_else(unknown),
        Err(ReadError::Denied(why) | ReadError::Unavailable(why)) => Err(unread(
            &format!("kind {kind:?} in version {api_version:?}"),
            &why,
        )),
    }
}

/// As upstream calls a resource: `widgets.example.com`.
fn resource_of(kind: &ServedKind) -> String {
    match kind.kind.split('/').collect::<Vec<_>>()[..] {
        [group, _, _] => format!("{}.{group}", kind.resource),
        _ => kind.resource.clone(),
    }
}

/// Where the definition of a kind says that the replicas are.
fn replicas_path(scales: &Scales, kind: &ServedKind, resource: &str) -> Result<String, Fault> {
    // A definition is called as its resource.
    let definition = ObjectRef::new(DEFINITION, "", resource);
    let definition = read(scales, &definition, resource)?;
    let definition: Option<Definition> = definition
        .map(serde_json::from_value)
        .transpose()
        .map_err(|error| unread(resource, &format!("its definition: {error}")))?;
    let versions = definition.map(|definition| definition.spec.versions);
    let mut versions = versions.into_iter().flatten();
    let version = kind.kind.rsplit('/').nth(1).unwrap_or_default();
    let found = versions.find(|found| found.name == version);
    let paths = found.and_then(|found| found.subresources?.scale);
    let path = paths.map(|paths| paths.spec_replicas_path);
    path.ok_or_else(|| {
        let why = format!("no CustomResourceDefinition says where {version} has its replicas");
        unread(resource, &why)
    })
}

/// An object, as it is seen by the pattern.
fn read(scales: &Scales, object: &ObjectRef, resource: &str) -> Result<Option<Value>, Fault> {
    match scales.host.get_json(object) {
        Ok(None) => Ok(None),
        Ok(Some(json)) => {
            let value = serde_json::from_str(&json);
            let value = value.map_err(|error| Failure::retry(error.to_string()))?;
            Ok(Some(value))
        }
        Err(ReadError::Denied(why) | ReadError::Unavailable(why)) => Err(unread(resource, &why)),
    }
}

/// The number at a path, which has names alone (`.spec.replicas`).
fn replicas(object: &Value, path: &str) -> Result<i32, Fault> {
    let names = path.split('.').filter(|name| !name.is_empty());
    let found = { names }.try_fold(object, |value, name| value.get(name));
    let number = found.and_then(Value::as_i64);
    let number = number.and_then(|number| i32::try_from(number).ok());
    number.ok_or_else(|| {
        // The API server's words.
        Fault::Told(format!(
            "Internal error occurred: the spec replicas field {path:?} does not exist"
        ))
    })
}

/// A kind without the subresource.
pub fn without_scale(resource: &str) -> Fault {
    Fault::Told(format!(
        "{resource} does not implement the scale subresource"
    ))
}

fn unread(what: &str, why: &str) -> Fault {
    Fault::Told(format!(
        "the scale of {what} cannot be read ({why}); give the budget an integer minAvailable, for \
         which it is not needed"
    ))
}
