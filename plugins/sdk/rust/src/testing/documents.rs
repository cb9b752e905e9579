//! Edits JSON documents: the fields of an apply, merge patches (RFC 7386) and JSON Patches (RFC
//! 6902).

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

/// The path of a value in a document: the names of the members that lead to it.
pub(super) type Path = Vec<String>;

/// The paths of all values that an apply sets: everything except objects that have members.
pub(super) fn leaves(object: &Value) -> BTreeSet<Path> {
    fn collect(value: &Value, path: &mut Path, found: &mut BTreeSet<Path>) {
        match value.as_object() {
            Some(members) if !members.is_empty() => {
                for (name, value) in members {
                    path.push(name.clone());
                    collect(value, path, found);
                    path.pop();
                }
            }
            // A null in an apply sets nothing.
            _ if value.is_null() || path.is_empty() => {}
            _ => {
                found.insert(path.clone());
            }
        }
    }
    let mut found = BTreeSet::new();
    collect(object, &mut Path::new(), &mut found);
    found
}

pub(super) fn at<'a>(object: &'a Value, path: &[String]) -> Option<&'a Value> {
    path.iter().try_fold(object, |value, name| value.get(name))
}

pub(super) fn insert(object: &mut Value, path: &[String], value: Value) {
    let mut place = object;
    for name in path {
        if !place.is_object() {
            *place = json!({});
        }
        place = &mut place[name];
    }
    if !(is_empty_map(Some(&value)) && place.is_object()) {
        *place = value;
    }
}

pub(super) fn is_empty_map(value: Option<&Value>) -> bool {
    let members = value.and_then(Value::as_object);
    members.is_some_and(Map::is_empty)
}

/// Removes a value, and the objects that become empty thereby.
pub(super) fn remove(object: &mut Value, path: &[String]) {
    let Some((name, rest)) = path.split_first() else {
        return;
    };
    let Some(members) = object.as_object_mut() else {
        return;
    };
    if rest.is_empty() {
        members.remove(name);
        return;
    }
    if let Some(below) = members.get_mut(name) {
        remove(below, rest);
        if below.as_object().is_some_and(Map::is_empty) {
            members.remove(name);
        }
    }
}

/// Sets a member, or removes it if there is no value.
pub(super) fn put_member(object: &mut Value, name: &str, value: Option<&Value>) {
    let Some(members) = object.as_object_mut() else {
        return;
    };
    match value {
        Some(value) => members.insert(name.to_owned(), value.clone()),
        None => members.remove(name),
    };
}

/// Applies a merge patch (RFC 7386).
pub(super) fn merge(object: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *object = patch.clone();
        return;
    };
    if !object.is_object() {
        *object = json!({});
    }
    for (name, value) in patch {
        if value.is_null() {
            put_member(object, name, None);
        } else {
            merge(&mut object[name], value);
        }
    }
}

/// The lists that a strategic merge patch merges, and by which member: these are the same in the
/// schemas of all kinds of Kubernetes.
const MERGED: [(&str, &str, &str); 2] = [
    ("metadata", "ownerReferences", "uid"),
    ("status", "conditions", "type"),
];

/// Applies a strategic merge patch: as a merge patch, but owners are merged by their uids, and
/// conditions by their types.
///
/// # Panics
///
/// The patch has another list: how that is merged is in the kind's schema.
pub(super) fn strategic_merge(object: &mut Value, patch: &Value) {
    let mut rest = patch.clone();
    let lists = MERGED.map(|(part, list, _)| {
        let part = rest.get_mut(part).and_then(Value::as_object_mut);
        part.and_then(|part| part.remove(list))
    });
    if let Some(place) = list_in(&rest, String::new()) {
        panic!("FakeCluster cannot merge the list {place}: it knows no schemas");
    }
    merge(object, &rest);
    for ((part, list, by), entries) in MERGED.iter().zip(&lists) {
        for entry in entries.iter().filter_map(Value::as_array).flatten() {
            merge_entry(&mut object[*part][*list], entry, by);
        }
    }
}

/// Merges an entry into a list: into the one with the same member, or as a new one.
fn merge_entry(list: &mut Value, entry: &Value, by: &str) {
    if !list.is_array() {
        *list = json!([]);
    }
    let list = list.as_array_mut().expect("it is a list");
    match list.iter_mut().find(|have| have[by] == entry[by]) {
        Some(have) => merge(have, entry),
        None => {
            let mut new = json!({});
            merge(&mut new, entry);
            list.push(new);
        }
    }
}

/// The path of the first list in a document.
fn list_in(value: &Value, path: String) -> Option<String> {
    if value.is_array() {
        return Some(path);
    }
    let mut members = value.as_object()?.iter();
    members.find_map(|(name, value)| list_in(value, format!("{path}.{name}")))
}

/// Why a JSON Patch cannot be applied.
pub(super) enum Unpatched {
    /// The patch does not fit the object's current state.
    Misfit(String),
    /// The body is not a JSON Patch.
    NoPatch(String),
}

/// Applies a JSON Patch (RFC 6902). As on the server, a test treats an absent value as null.
pub(super) fn json_patch(object: &mut Value, body: &Value) -> Result<(), Unpatched> {
    use Unpatched::{Misfit, NoPatch};
    for step in body.as_array().into_iter().flatten() {
        let text = |name: &str| step[name].as_str().unwrap_or_default();
        let path = pointer(text("path")).map_err(NoPatch)?;
        let from = || pointer(text("from")).map_err(NoPatch);
        let have = object.pointer(text("path")).unwrap_or(&Value::Null);
        match text("op") {
            "test" if *have == step["value"] => Ok(()),
            "test" => Err(format!("the test of {} failed", text("path"))),
            "add" => add(object, &path, step["value"].clone()),
            "replace" => {
                take(object, &path).and_then(|_| add(object, &path, step["value"].clone()))
            }
            "remove" => take(object, &path).map(drop),
            "move" => take(object, &from()?).and_then(|value| add(object, &path, value)),
            "copy" => {
                let value = object.pointer(text("from")).cloned();
                let value = value.ok_or_else(|| no_value(text("from")));
                value.and_then(|value| add(object, &path, value))
            }
            other => {
                let none = format!("{other:?} is not an operation of a JSON Patch");
                return Err(NoPatch(none));
            }
        }
        .map_err(Misfit)?;
    }
    Ok(())
}

fn no_value(path: &str) -> String {
    format!("there is no value at {path:?}")
}

fn parent<'a>(object: &'a mut Value, path: &[String]) -> Result<(&'a mut Value, String), String> {
    let missing = || no_value(&path.join("/"));
    let (name, above) = path.split_last().ok_or_else(missing)?;
    let mut place = object;
    for name in above {
        place = match place {
            Value::Object(members) => members.get_mut(name),
            Value::Array(elements) => {
                let index = name.parse::<usize>().ok();
                index.and_then(|index| elements.get_mut(index))
            }
            _ => None,
        }
        .ok_or_else(missing)?;
    }
    Ok((place, name.clone()))
}

fn add(object: &mut Value, path: &[String], value: Value) -> Result<(), String> {
    if path.is_empty() {
        *object = value;
        return Ok(());
    }
    let (place, name) = parent(object, path)?;
    match place {
        Value::Object(members) => {
            members.insert(name, value);
        }
        Value::Array(elements) => {
            let end = elements.len();
            let index = if name == "-" {
                Some(end)
            } else {
                name.parse().ok()
            };
            let index = index.filter(|index| *index <= end);
            let index = index.ok_or_else(|| no_value(&path.join("/")))?;
            elements.insert(index, value);
        }
        _ => return Err(no_value(&path.join("/"))),
    }
    Ok(())
}

fn take(object: &mut Value, path: &[String]) -> Result<Value, String> {
    let missing = || no_value(&path.join("/"));
    let (place, name) = parent(object, path)?;
    match place {
        Value::Object(members) => members.remove(&name).ok_or_else(missing),
        Value::Array(elements) => {
            let index = name.parse::<usize>().ok();
            let index = index.filter(|index| *index < elements.len());
            index
                .map(|index| elements.remove(index))
                .ok_or_else(missing)
        }
        _ => Err(missing()),
    }
}

/// The parts of a JSON Pointer (RFC 6901).
fn pointer(pointer: &str) -> Result<Vec<String>, String> {
    match pointer.split_once('/') {
        None if pointer.is_empty() => Ok(Vec::new()),
        Some(("", names)) => Ok(names
            .split('/')
            .map(|name| name.replace("~1", "/").replace("~0", "~"))
            .collect()),
        _ => Err(format!(
            "{pointer:?} is not a JSON Pointer; it is empty or begins with /"
        )),
    }
}
