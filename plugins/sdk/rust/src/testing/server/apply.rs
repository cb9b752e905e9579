//! Server-side apply, with two owners of fields: the plugin and everybody else.
//!
//! As on the server, a value that somebody else changes is no longer the plugin's, and one that the
//! plugin applies as it is belongs to both. Its own updates and patches count as somebody else's:
//! they are another entry of `managedFields`.

use std::collections::BTreeSet;

use pilothouse_core::{ActionResult, Kind, ObjectKey};
use serde_json::Value;

use super::parts::{nothing_of, own_part};
use super::{Answer, Server, check_preconditions, not_found};
use crate::testing::documents::{Path, at, insert, is_empty_map, leaves, remove};

/// What the plugin has applied to an object or to one of its subresources, as far as it still owns
/// that.
#[derive(Default)]
pub(super) struct Owned {
    subresource: Option<String>,
    fields: Value,
    /// The paths of those values that somebody else owns as well.
    shared: BTreeSet<Path>,
}

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
        let address = (kind.clone(), key.clone());
        let of_object = self.owned.get(&address).into_iter().flatten();
        let mut of_target = of_object.filter(|owned| owned.subresource.as_deref() == subresource);
        let nothing = Owned::default();
        let before = of_target.next().unwrap_or(&nothing);
        let mut object = current.clone().unwrap_or_else(|| nothing_of(kind, key));
        let shared = before.check(&object, &wanted, force)?;
        before.replace(&mut object, &wanted);
        let stored = self.store(kind, key, object, current.as_ref())?;
        if self.get(kind, key).is_some() {
            let of_object = self.owned.entry(address).or_default();
            of_object.retain(|owned| owned.subresource.as_deref() != subresource);
            of_object.push(Owned {
                subresource: subresource.map(str::to_owned),
                fields: wanted,
                shared,
            });
        }
        Ok(stored)
    }

    /// A write has made something else of an object. What has changed no longer belongs to the
    /// plugin; of an object that is gone or another one, nothing does.
    pub(super) fn disown(
        &mut self,
        kind: &Kind,
        key: &ObjectKey,
        before: Option<&Value>,
        after: Option<&Value>,
    ) {
        let address = (kind.clone(), key.clone());
        let both = before.zip(after);
        let both =
            both.filter(|(before, after)| before["metadata"]["uid"] == after["metadata"]["uid"]);
        let Some((before, after)) = both else {
            self.owned.remove(&address);
            return;
        };
        for owned in self.owned.get_mut(&address).into_iter().flatten() {
            for path in leaves(&owned.fields) {
                let is_kept = is_as(at(after, &path), at(before, &path));
                if set_key(&path).is_none() && !is_kept {
                    remove(&mut owned.fields, &path);
                }
            }
        }
    }
}

impl Owned {
    /// Which of the applied values are somebody else's as well, or the conflict with somebody else
    /// who owns another value.
    fn check(
        &self,
        object: &Value,
        wanted: &Value,
        force: bool,
    ) -> Result<BTreeSet<Path>, ActionResult> {
        let own = leaves(&self.fields);
        let is_foreign = |path: &Path| {
            let is_own = own.contains(path) && !self.shared.contains(path);
            !is_own && set_key(path).is_none() && at(object, path).is_some()
        };
        let foreign = leaves(wanted).into_iter().filter(is_foreign);
        let (shared, others): (BTreeSet<Path>, BTreeSet<Path>) =
            foreign.partition(|path| is_as(at(object, path), at(wanted, path)));
        match others.first().filter(|_| !force) {
            Some(path) => Err(ActionResult::Conflict(format!(
                "conflict with another manager: .{}; with force an apply takes them over",
                path.join(".")
            ))),
            None => Ok(shared),
        }
    }

    /// Replaces what was applied to an object by what is wanted.
    fn replace(&self, object: &mut Value, wanted: &Value) {
        let (own, claimed) = (leaves(&self.fields), leaves(wanted));
        for path in own.difference(&claimed) {
            match set_key(path) {
                Some(_) => merge_set(object, path, &self.fields, &Value::Null),
                None if self.shared.contains(path) => {}
                // Its current members belong to others.
                None if is_empty_map(at(&self.fields, path)) && !is_empty_map(at(object, path)) => {
                }
                None => remove(object, path),
            }
        }
        for path in &claimed {
            let value = at(wanted, path).cloned().unwrap_or_default();
            match set_key(path) {
                Some(_) => merge_set(object, path, &self.fields, &value),
                None => insert(object, path, value),
            }
        }
    }
}

/// Whether a value is as it is wanted. An empty object claims that there is an object, but none of
/// its members.
fn is_as(have: Option<&Value>, want: Option<&Value>) -> bool {
    have == want || (is_empty_map(want) && have.is_some_and(Value::is_object))
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
