//! What a body says of who an object is and who keeps it: `uid`, `resourceVersion`, `ownerReferences`, `finalizers`.
//!
//! Grants say which objects a plugin may write. These fields reach further: an owner that is not there has the garbage collector delete
//! the object, a finalizer that nobody removes keeps it for ever, and a resourceVersion that the plugin has not seen overwrites what
//! others wrote meanwhile. So they are held against the snapshot that the plugin has decided on.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::ActionError;
use crate::key::{Kind, ObjectKey};
use crate::object::Object;
use crate::permission::Denied;
use crate::reader::Reader;

/// What is done with a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    Apply,
    Create,
    Update,
    Patch,
}

/// What the snapshot shows of the object that a body is of.
pub(super) enum Shown {
    /// This.
    Object(Arc<Object>),
    /// There is none.
    Nothing,
    /// The plugin does not read it, so nobody can say.
    Unknown,
}

impl Shown {
    pub(super) fn of(reader: &Reader, kind: &Kind, key: &ObjectKey) -> Self {
        match reader.find(kind, key) {
            Some(object) => Self::Object(object.clone()),
            None if reader.knows(kind, key) => Self::Nothing,
            None => Self::Unknown,
        }
    }

    fn object(&self) -> Option<&Object> {
        match self {
            Self::Object(object) => Some(object),
            _ => None,
        }
    }
}

/// Checks these fields of a body, and makes uid and resourceVersion those of the object that the snapshot shows. `is_written`: this very
/// outcome has written the object before, so that it is at a version nobody knows yet.
pub(super) fn settle(
    body: &mut Value,
    how: Use,
    shown: &Shown,
    is_written: bool,
    reader: &Reader,
) -> Result<(), ActionError> {
    if how == Use::Patch && body.get("$patch").is_some() {
        return Err(metadata("a patch may not replace a whole object"));
    }
    let Some(fields) = body.get_mut("metadata") else {
        return Ok(());
    };
    let Value::Object(fields) = fields else {
        return Err(metadata("must be an object"));
    };
    if how == Use::Patch && fields.keys().any(|name| name.starts_with('$')) {
        return Err(metadata(
            "directives of a strategic merge patch are not for it",
        ));
    }
    check_owners(fields, shown, reader)?;
    check_finalizers(fields, how, shown)?;
    settle_uid(fields, how, shown, is_written)?;
    settle_version(fields, how, shown, is_written);
    Ok(())
}

/// A JSON Patch says where, not what: it may not come near what [`settle`] checks.
pub(super) fn check_json_patch(body: &Value) -> Result<(), ActionError> {
    const GUARDED: [&str; 2] = ["/metadata/finalizers", "/metadata/ownerReferences"];
    let is_within = |path: &str, parent: &str| {
        let rest = path.strip_prefix(parent);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let steps = body.as_array().into_iter().flatten();
    for step in steps.filter(|step| step["op"] != "test") {
        let paths = [&step["path"], &step["from"]];
        for path in paths.into_iter().filter_map(Value::as_str) {
            let meets = |guarded: &&&str| is_within(path, guarded) || is_within(guarded, path);
            if let Some(guarded) = GUARDED.iter().find(meets) {
                return Err(metadata(&format!(
                    "a JSON Patch may not change {guarded}; a finalizer action, or another patch, may"
                )));
            }
        }
    }
    Ok(())
}

fn metadata(reason: &str) -> ActionError {
    ActionError::Metadata(reason.to_owned())
}

/// Only an owner that the plugin sees, with its uid, or one that the object has already.
fn check_owners(
    fields: &Map<String, Value>,
    shown: &Shown,
    reader: &Reader,
) -> Result<(), ActionError> {
    let owners = match fields.get("ownerReferences") {
        None | Some(Value::Null) => return Ok(()),
        Some(Value::Array(owners)) => owners,
        Some(_) => return Err(metadata("ownerReferences must be a list")),
    };
    let namespace = fields.get("namespace").and_then(Value::as_str);
    let have = shown.object().map(Object::owners).unwrap_or_default();
    for owner in owners {
        let text = |name: &str| owner[name].as_str().unwrap_or_default();
        let (uid, name) = (text("uid"), text("name"));
        let kind = Kind::from_api_version(text("apiVersion"), text("kind"));
        let is_had = have.iter().any(|had| had.uid == uid && had.name == name);
        let is_seen = |namespace: &str| {
            let object = reader.find(&kind, &ObjectKey::new(namespace, name));
            object.is_some_and(|object| object.uid() == uid && !uid.is_empty())
        };
        // An owner has the object's namespace, or none.
        if !is_had && !is_seen(namespace.unwrap_or_default()) && !is_seen("") {
            return Err(Denied::Owner(kind, name.chars().take(253).collect()).into());
        }
    }
    Ok(())
}

/// An object may be born with finalizers. From then on only a finalizer action changes them: it is done to the version that was seen, so
/// that no other writer's is lost.
fn check_finalizers(
    fields: &Map<String, Value>,
    how: Use,
    shown: &Shown,
) -> Result<(), ActionError> {
    let wanted = match fields.get("finalizers") {
        None | Some(Value::Null) => None,
        Some(Value::Array(names)) => Some(names),
        Some(_) => return Err(metadata("finalizers must be a list")),
    };
    let is_new = how == Use::Create || (how == Use::Apply && matches!(shown, Shown::Nothing));
    if is_new {
        return Ok(());
    }
    let have: BTreeSet<String> = shown
        .object()
        .map(Object::finalizers)
        .unwrap_or_default()
        .into_iter()
        .collect();
    let names = wanted.into_iter().flatten();
    let wanted_names: BTreeSet<&str> = names.filter_map(Value::as_str).collect();
    let is_fine = match how {
        Use::Patch => !fields.contains_key("finalizers"),
        // What an apply leaves out it leaves alone, unless it was its own.
        Use::Apply => wanted_names.iter().all(|name| have.contains(*name)),
        _ => wanted_names.into_iter().eq(have.iter().map(String::as_str)),
    };
    if is_fine {
        return Ok(());
    }
    Err(metadata(
        "finalizers of an object that exists are changed by a finalizer action alone",
    ))
}

fn settle_uid(
    fields: &mut Map<String, Value>,
    how: Use,
    shown: &Shown,
    is_written: bool,
) -> Result<(), ActionError> {
    if how == Use::Create {
        fields.remove("uid");
        return Ok(());
    }
    let Some(object) = shown.object().filter(|_| !is_written) else {
        return Ok(());
    };
    match fields.get("uid") {
        Some(uid) if !uid.is_null() && *uid != object.uid() => {
            return Err(ActionError::OtherObject {
                body: format!("uid {uid}"),
                address: format!("uid {}", object.uid()),
            });
        }
        _ if how == Use::Update && !object.uid().is_empty() => {
            fields.insert("uid".into(), object.uid().into());
        }
        _ => {}
    }
    Ok(())
}

/// An update always is of the version that was seen; an apply or a patch if it says so.
fn settle_version(fields: &mut Map<String, Value>, how: Use, shown: &Shown, is_written: bool) {
    const NAME: &str = "resourceVersion";
    if how == Use::Create || is_written {
        fields.remove(NAME);
        return;
    }
    let Some(object) = shown.object() else {
        return;
    };
    let version = object.resource_version();
    if (how == Use::Update || fields.contains_key(NAME)) && !version.is_empty() {
        fields.insert(NAME.into(), version.to_string().into());
    }
}

#[cfg(test)]
#[path = "identity_tests.rs"]
mod tests;
