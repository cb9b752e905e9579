//! Checks of what a body claims about its object's identity and lifetime: `uid`, `resourceVersion`,
//! `ownerReferences` and `finalizers`.
//!
//! Grants define which objects a plugin may write. These fields have effects beyond that: an owner
//! that does not exist makes the garbage collector delete the object, a finalizer that nothing
//! removes keeps it for ever, and a resourceVersion that the plugin has not seen overwrites what
//! others have written meanwhile. So they are checked against the snapshot that the plugin decided
//! on.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::ActionError;
use crate::access::permission::Denied;
use crate::model::key::{Kind, ObjectKey};
use crate::model::object::Object;
use crate::model::text::cut;
use crate::reads::reader::Reader;

/// How a body is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    Apply,
    Create,
    Update,
    Patch,
}

/// What the snapshot shows of a body's object.
pub(super) enum Shown {
    /// This object.
    Object(Arc<Object>),
    /// No object.
    Nothing,
    /// The plugin does not read it, so it is not known.
    Unknown,
}

impl Shown {
    /// Uses any version in which the plugin reads the kind: these fields are the same in all of
    /// them.
    pub(super) fn of(reader: &Reader, kind: &Kind, key: &ObjectKey) -> Self {
        let Some(kind) = reader.readable_as(kind) else {
            return Self::Unknown;
        };
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

/// What the same outcome has already done to the object.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Before<'a> {
    /// The object has been written, so its version is not known yet.
    pub is_written: bool,
    /// The finalizers that the outcome has left there, if it has created the object or changed
    /// them.
    pub finalizers: Option<&'a [String]>,
}

/// Checks these fields of a body and completes them. `key` is the key of the body's object. `uid`,
/// `resourceVersion`, and the `finalizers` that an update leaves out are set as in the object that
/// the snapshot shows, or as this outcome has left them.
pub(super) fn settle(
    body: &mut Value,
    how: Use,
    key: &ObjectKey,
    shown: &Shown,
    before: Before<'_>,
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
    // The server keeps track of field ownership. With this field, a plugin could take over others'
    // fields.
    fields.remove("managedFields");
    check_owners(fields, &key.namespace, shown, reader)?;
    settle_finalizers(fields, how, shown, before.finalizers)?;
    settle_uid(fields, how, shown, before.is_written)?;
    settle_version(fields, how, shown, before.is_written);
    Ok(())
}

/// Whether a body requires a certain version of the object. As on the server, "" and "0" mean any
/// version.
pub(super) fn names_a_version(body: &Value) -> bool {
    let version = body.pointer("/metadata/resourceVersion");
    let version = version.and_then(Value::as_str).unwrap_or_default();
    !matches!(version, "" | "0")
}

/// The version that a body was made from: the snapshot's, or the body's own if the plugin does not
/// read the object.
pub(super) fn seen_version(body: &Value, shown: &Shown) -> Option<String> {
    let version = match shown {
        Shown::Object(object) => object.resource_version().to_string(),
        Shown::Nothing => return None,
        Shown::Unknown => body.pointer("/metadata/resourceVersion")?.as_str()?.into(),
    };
    (!matches!(&*version, "" | "0")).then_some(version)
}

/// A JSON Patch addresses paths instead of carrying an object, so it may not touch what [`settle`]
/// checks.
pub(super) fn check_json_patch(body: &Value) -> Result<(), ActionError> {
    const GUARDED: [[&str; 2]; 3] = [
        ["metadata", "finalizers"],
        ["metadata", "ownerReferences"],
        ["metadata", "managedFields"],
    ];
    let steps = body.as_array().into_iter().flatten();
    for step in steps.filter(|step| step["op"] != "test") {
        let paths = [&step["path"], &step["from"]];
        for path in paths.into_iter().filter_map(Value::as_str) {
            let names = tokens(path)?;
            let meets = |guarded: &&[&str; 2]| names.iter().zip(*guarded).all(|(a, b)| a == b);
            if let Some([_, field]) = GUARDED.iter().find(meets) {
                return Err(metadata(&format!(
                    "a JSON Patch may not change {field}; see what a finalizer action and a merge patch may"
                )));
            }
        }
    }
    Ok(())
}

/// What a precondition may test even if the plugin does not read the kind.
const IDENTITY: [&str; 5] = ["name", "namespace", "uid", "resourceVersion", "generation"];

/// What no view of an object contains, even a view of the whole object. The second one contains the
/// values of a Secret.
const BOOKKEPT: [&[&str]; 2] = [
    &["metadata", "managedFields"],
    &[
        "metadata",
        "annotations",
        "kubectl.kubernetes.io/last-applied-configuration",
    ],
];

/// A JSON Patch can also read: a copy puts a value where the plugin or others can see it, and a
/// test tells whether a field has a certain value. So both are allowed only for what the plugin
/// reads anyway.
pub(super) fn check_json_patch_reads(
    body: &Value,
    is_shown: impl Fn(&[&str]) -> bool,
) -> Result<(), ActionError> {
    for step in body.as_array().into_iter().flatten() {
        let op = step["op"].as_str().unwrap_or_default();
        let from = match op {
            "copy" | "move" => &step["from"],
            "test" => &step["path"],
            _ => continue,
        };
        let names = tokens(from.as_str().unwrap_or_default())?;
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let is_identity =
            op == "test" && matches!(names[..], ["metadata", name] if IDENTITY.contains(&name));
        let is_bookkept = BOOKKEPT
            .iter()
            .any(|path| path.starts_with(&names) || names.starts_with(path));
        if !is_identity && (is_bookkept || !is_shown(&names)) {
            return Err(ActionError::Unread {
                op: op.to_owned(),
                path: cut(from.as_str().unwrap_or_default(), 200),
            });
        }
    }
    Ok(())
}

/// The tokens of a JSON Pointer (RFC 6901). The API server ignores anything before the first slash,
/// so such a pointer is refused here.
fn tokens(pointer: &str) -> Result<Vec<String>, ActionError> {
    match pointer.split_once('/') {
        None if pointer.is_empty() => Ok(Vec::new()),
        Some(("", names)) => Ok(names
            .split('/')
            .map(|name| name.replace("~1", "/").replace("~0", "~"))
            .collect()),
        _ => Err(ActionError::Json(format!(
            "{pointer:?} is not a JSON Pointer; it is empty or begins with /"
        ))),
    }
}

pub(super) fn metadata(reason: &str) -> ActionError {
    ActionError::Metadata(reason.to_owned())
}

/// Allows only owners that the plugin sees, with the right uid, and owners that the object already
/// has.
fn check_owners(
    fields: &Map<String, Value>,
    namespace: &str,
    shown: &Shown,
    reader: &Reader,
) -> Result<(), ActionError> {
    let owners = match fields.get("ownerReferences") {
        None | Some(Value::Null) => return Ok(()),
        Some(Value::Array(owners)) => owners,
        Some(_) => return Err(metadata("ownerReferences must be a list")),
    };
    let have = shown.object().map(Object::owners).unwrap_or_default();
    for owner in owners {
        let text = |name: &str| owner[name].as_str().unwrap_or_default();
        let (uid, name) = (text("uid"), text("name"));
        let (api_version, kind_name) = (text("apiVersion"), text("kind"));
        let kind = Kind::from_api_version(api_version, kind_name);
        let is_had = have.iter().any(|had| {
            let have = (&*had.api_version, &*had.kind, &*had.name, &*had.uid);
            have == (api_version, kind_name, name, uid)
        });
        let is_seen = |namespace: &str| {
            let key = ObjectKey::new(namespace, name);
            let kind = reader.readable_as(&kind);
            let object = kind.and_then(|kind| reader.find(kind, &key));
            object.is_some_and(|object| object.uid() == uid && !uid.is_empty())
        };
        // An owner is in the object's namespace or cluster-scoped.
        if !is_had && !is_seen(namespace) && !is_seen("") {
            return Err(Denied::Owner(kind, name.chars().take(253).collect()).into());
        }
    }
    Ok(())
}

/// An object may be created with finalizers. After that, only a finalizer action changes them: it
/// is conditional on the finalizers that were seen, so that no other writer's finalizer is lost.
fn settle_finalizers(
    fields: &mut Map<String, Value>,
    how: Use,
    shown: &Shown,
    left: Option<&[String]>,
) -> Result<(), ActionError> {
    const NAME: &str = "finalizers";
    let is_new = how == Use::Create || (how == Use::Apply && matches!(shown, Shown::Nothing));
    let is_said = fields.contains_key(NAME);
    let wanted: BTreeSet<&str> = match fields.get(NAME) {
        None | Some(Value::Null) => BTreeSet::new(),
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
        Some(_) => return Err(metadata("finalizers must be a list")),
    };
    let seen = shown.object().map(Object::finalizers).unwrap_or_default();
    let has = |name: &&str| seen.iter().any(|have| have == name);
    let is_fine = match how {
        _ if is_new => true,
        Use::Patch => !is_said,
        // An apply leaves alone the finalizers that it does not list, unless it has set them
        // itself.
        Use::Apply => wanted.iter().all(has),
        _ => !is_said || (wanted.len() == seen.len() && wanted.iter().all(has)),
    };
    if !is_fine {
        return Err(metadata(
            "finalizers of an object that exists are changed by a finalizer action alone",
        ));
    }
    if how == Use::Update && (!is_said || left.is_some()) {
        let kept = left.map_or(seen, <[String]>::to_vec);
        fields.remove(NAME);
        if !kept.is_empty() {
            fields.insert(NAME.into(), kept.into());
        }
    }
    Ok(())
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
    // The server takes an empty uid for none, and creates the object that was to be there already.
    let is_so = shown.object().is_some_and(|object| object.uid().is_empty());
    if fields.get("uid").is_some_and(|uid| uid == "") && !is_so {
        return Err(metadata(
            "uid is empty: name that of the object that is meant, or leave it out",
        ));
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

/// An update always requires the version that was seen. An apply or a patch requires it if its body
/// names a version. For an object that this outcome has already written, the version is set once
/// the server has answered (see [`execution`](super::execution)), except for an apply, which may
/// create the object again.
fn settle_version(fields: &mut Map<String, Value>, how: Use, shown: &Shown, is_written: bool) {
    const NAME: &str = "resourceVersion";
    if how == Use::Create || (is_written && how != Use::Patch) {
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
mod tests;
