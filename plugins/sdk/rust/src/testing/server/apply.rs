//! Server-side apply, with two owners of fields: the plugin and everybody else.

use pilothouse_core::{ActionResult, Kind, ObjectKey};
use serde_json::Value;

use super::parts::{nothing_of, own_part};
use super::{Answer, Server, check_preconditions, not_found};
use crate::testing::documents::{at, insert, is_empty_map, leaves, remove};

impl Server {
    pub(super) fn apply(
        &mut self,
        kind: &Kind,
        key: &ObjectKey,
        subresource: Option<&str>,
        object: Value,
        force: bool,
    ) -> Answer {
        let current = self.get(kind, key).cloned();
        if subresource.is_some() && current.is_none() {
            return Err(not_found(kind, key));
        }
        check_preconditions(current.as_ref(), &object)?;
        let wanted = own_part(object, subresource);
        let target = (kind.clone(), key.clone(), subresource.map(str::to_owned));
        let before = self.applied.get(&target).cloned().unwrap_or_default();
        let (owned, claimed) = (leaves(&before), leaves(&wanted));
        let mut object = current.clone().unwrap_or_else(|| nothing_of(kind, key));
        for path in claimed.difference(&owned).filter(|_| !force) {
            let (have, want) = (at(&object, path), at(&wanted, path));
            // An empty object claims that there is an object, but none of its members.
            let is_met = have == want || (is_empty_map(want) && have.is_some_and(Value::is_object));
            if set_key(path).is_none() && have.is_some() && !is_met {
                return Err(ActionResult::Conflict(format!(
                    "conflict with another manager: .{}",
                    path.join(".")
                )));
            }
        }
        for path in owned.difference(&claimed) {
            match set_key(path) {
                Some(_) => merge_set(&mut object, path, &before, &Value::Null),
                // Its current members belong to others.
                None if is_empty_map(at(&before, path)) && !is_empty_map(at(&object, path)) => {}
                None => remove(&mut object, path),
            }
        }
        for path in &claimed {
            let value = at(&wanted, path).cloned().unwrap_or_default();
            match set_key(path) {
                Some(_) => merge_set(&mut object, path, &before, &value),
                None => insert(&mut object, path, value),
            }
        }
        let stored = self.store(kind, key, object, current.as_ref())?;
        self.applied.insert(target, wanted);
        Ok(stored)
    }
}

/// Lists that are treated as sets: those in `metadata` whose elements have separate owners. Returns
/// the member that identifies an element, or `Some(None)` if the whole element does.
fn set_key(path: &[String]) -> Option<Option<&'static str>> {
    match path.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["metadata", "finalizers"] => Some(None),
        ["metadata", "ownerReferences"] => Some(Some("uid")),
        _ => None,
    }
}

/// Replaces the elements of a set that the plugin had applied before by `wanted`. Elements of
/// others stay.
fn merge_set(object: &mut Value, path: &[String], before: &Value, wanted: &Value) {
    let key = set_key(path).flatten();
    let identity = |element: &Value| key.map_or(element.clone(), |key| element[key].clone());
    let elements = |value: Option<&Value>| -> Vec<Value> {
        let elements = value.and_then(Value::as_array);
        elements.cloned().unwrap_or_default()
    };
    let wanted = elements(Some(wanted));
    let replaced: Vec<Value> = elements(at(before, path))
        .iter()
        .chain(&wanted)
        .map(identity)
        .collect();
    let mut new = elements(at(object, path));
    new.retain(|element| !replaced.contains(&identity(element)));
    new.extend(wanted);
    if new.is_empty() {
        remove(object, path);
    } else {
        insert(object, path, new.into());
    }
}
