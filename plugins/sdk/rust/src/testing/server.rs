//! An API server in memory: what only a server does with a write. What a controller may write, and
//! whether a write is sent at all, is decided by the host's own code before.
//!
//! It knows no schemas. So it fills in no defaults, validates nothing but what `store` says, merges
//! lists by no key but the owners of a strategic merge patch, and takes every kind to have a `status`
//! subresource. It has no garbage collector, no quotas and no admission, converts nothing between
//! versions of a kind, and keeps no `managedFields`: it knows two field managers, the plugin and
//! everybody else.

use std::collections::BTreeMap;
use std::time::Duration;

use pilothouse_core::{
    ActionResult, InformerKey, Kind, Object, ObjectKey, Operation, PatchType, ResourceVersion,
    Schema, Write, WriteAnswer,
};
use serde_json::{Value, json};

use super::documents::{
    Unpatched, at, insert, is_empty_map, json_patch, leaves, merge, put_member, remove,
    strategic_merge,
};
use crate::rfc3339;

/// Fields of `metadata` that only the server sets.
const SERVERS: [&str; 9] = [
    "name",
    "namespace",
    "generateName",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "managedFields",
];

/// The target of an apply: an object, or one of its subresources.
type Target = (Kind, ObjectKey, Option<String>);

/// The version that a write has left, if it shows the object; or why it is refused.
type Answer = Result<Option<String>, ActionResult>;

/// See the module's documentation.
pub(super) struct Server {
    objects: BTreeMap<Kind, BTreeMap<ObjectKey, Value>>,
    /// What the plugin last applied.
    applied: BTreeMap<Target, Value>,
    /// The newest resourceVersion.
    version: u64,
    now: Duration,
}

impl Server {
    pub fn new() -> Self {
        Self {
            objects: BTreeMap::new(),
            applied: BTreeMap::new(),
            version: 1_000,
            now: Duration::ZERO,
        }
    }

    pub fn set_time(&mut self, now: Duration) {
        self.now = now;
    }

    pub fn version(&self) -> u64 {
        self.version
    }

    pub fn get(&self, kind: &Kind, key: &ObjectKey) -> Option<&Value> {
        self.objects.get(kind)?.get(key)
    }

    /// All objects of a kind, ordered by namespace and name.
    pub fn all(&self, kind: &Kind) -> impl Iterator<Item = &Value> {
        self.objects
            .get(kind)
            .into_iter()
            .flat_map(BTreeMap::values)
    }

    /// Stores an object as it is. One without a resourceVersion, or with that of an object that it
    /// changes, gets the next one. Returns its kind, and whether it may be older than what has been
    /// stored before.
    ///
    /// # Panics
    ///
    /// The object has no `apiVersion`, `kind` or `metadata.name`.
    pub fn place(&mut self, mut object: Value) -> (Kind, bool) {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
        let kind = text("/apiVersion").zip(text("/kind"));
        let (api_version, kind) = kind.expect("a test's object has apiVersion and kind");
        let kind = Kind::from_api_version(api_version, kind);
        let name = text("/metadata/name").expect("a test's object has a name");
        let key = ObjectKey::new(text("/metadata/namespace").unwrap_or_default(), name);
        let have = self.get(&kind, &key);
        let is_same = |have: &Value| {
            ["uid", "resourceVersion"]
                .iter()
                .all(|name| have["metadata"][name] == object["metadata"][name])
        };
        let is_changed = have.is_some_and(|have| is_same(have) && *have != object);
        let given = version_of(&object).filter(|_| !is_changed);
        let mut is_older = false;
        match given {
            Some(given) => {
                let newest = ResourceVersion::new(&self.version.to_string());
                is_older = !newest.is_at_most(&ResourceVersion::new(&given));
                self.version = self.version.max(given.parse().unwrap_or_default());
            }
            None => {
                object["metadata"]["resourceVersion"] = self.next_version().into();
            }
        }
        self.objects
            .entry(kind.clone())
            .or_default()
            .insert(key, object);
        (kind, is_older)
    }

    /// Carries out a write of one object.
    pub fn write(&mut self, write: &Write) -> WriteAnswer {
        let Write {
            kind,
            key,
            subresource,
            operation,
        } = write;
        let subresource = subresource.as_deref();
        let before = self.get(kind, key).cloned();
        let answer = match operation {
            Operation::Event { .. } | Operation::DeleteAll { .. } => Ok(None),
            _ if !matches!(subresource, None | Some("status")) => Ok(None),
            Operation::Apply { object, force } => {
                self.apply(kind, key, subresource, document(object), *force)
            }
            Operation::Create { object } => self.create(kind, key, document(object)),
            Operation::Update { object } => self.update(kind, key, subresource, document(object)),
            Operation::Patch { patch_type, body } => {
                self.patch(kind, key, subresource, *patch_type, &document(body))
            }
            Operation::Delete {
                uid,
                resource_version,
                ..
            } => self.delete(kind, key, uid.as_deref(), resource_version.as_deref()),
        };
        let is_shown =
            matches!(operation, Operation::Apply { .. }) && matches!(answer, Ok(Some(_)));
        let now = self.get(kind, key);
        let can_end = !matches!(operation, Operation::Delete { .. }) && now.is_none();
        let ended = before.filter(|_| can_end && answer.is_ok());
        let ended = ended.and_then(|ended| ended["metadata"]["uid"].as_str().map(str::to_owned));
        WriteAnswer {
            object: now.filter(|_| is_shown).map(Value::to_string),
            ended,
            status: answer
                .as_ref()
                .err()
                .map(|refused| status(refused).to_owned()),
            result: answer.map_or_else(|refused| refused, ActionResult::Done),
            deleted: Vec::new(),
            owner: None,
        }
    }

    fn apply(
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

    fn create(&mut self, kind: &Kind, key: &ObjectKey, object: Value) -> Answer {
        if self.get(kind, key).is_some() {
            return Err(ActionResult::AlreadyExists(format!(
                "{kind} {key} already exists"
            )));
        }
        let mut new = nothing_of(kind, key);
        merge(&mut new, &own_part(object, None));
        self.store(kind, key, new, None)
    }

    fn update(
        &mut self,
        kind: &Kind,
        key: &ObjectKey,
        subresource: Option<&str>,
        object: Value,
    ) -> Answer {
        let current = self.existing(kind, key)?;
        check_preconditions(Some(&current), &object)?;
        let new = replaced(&current, object, subresource);
        self.store(kind, key, new, Some(&current))
    }

    fn patch(
        &mut self,
        kind: &Kind,
        key: &ObjectKey,
        subresource: Option<&str>,
        patch_type: PatchType,
        body: &Value,
    ) -> Answer {
        let current = self.existing(kind, key)?;
        let mut object = current.clone();
        match patch_type {
            PatchType::Merge => merge(&mut object, body),
            PatchType::Json => match json_patch(&mut object, body) {
                Ok(()) => {}
                Err(Unpatched::Misfit(reason)) => return Err(ActionResult::Conflict(reason)),
                Err(Unpatched::NoPatch(reason)) => return Err(ActionResult::Invalid(reason)),
            },
            PatchType::Strategic => strategic_merge(&mut object, body),
        }
        check_preconditions(Some(&current), body)?;
        let new = replaced(&current, object, subresource);
        self.store(kind, key, new, Some(&current))
    }

    /// Deletes an object, or marks it as being deleted while it has finalizers.
    pub fn delete(
        &mut self,
        kind: &Kind,
        key: &ObjectKey,
        uid: Option<&str>,
        resource_version: Option<&str>,
    ) -> Answer {
        // What is gone already is as the delete wants it.
        let Some(current) = self.get(kind, key).cloned() else {
            return Ok(None);
        };
        check_preconditions(
            Some(&current),
            &json!({"metadata": {"uid": uid, "resourceVersion": resource_version}}),
        )?;
        let mut new = current.clone();
        if new["metadata"]["deletionTimestamp"].is_null() {
            new["metadata"]["deletionTimestamp"] = rfc3339(self.now).into();
        }
        self.store(kind, key, new, Some(&current))
    }

    /// The objects that an informer brings.
    pub fn matching(&self, wanted: &InformerKey) -> Vec<&Value> {
        let parse = |object: &Value| {
            Object::parse(&wanted.kind, &object.to_string(), &Schema::default()).ok()
        };
        let is_wanted = |object: &&Value| {
            parse(object).is_some_and(|parsed| {
                let namespace = wanted.namespace.as_deref();
                namespace.is_none_or(|namespace| parsed.key().namespace == namespace)
                    && wanted.selects(&parsed, &object.to_string())
            })
        };
        self.all(&wanted.kind).filter(is_wanted).collect()
    }

    fn existing(&self, kind: &Kind, key: &ObjectKey) -> Result<Value, ActionResult> {
        let current = self.get(kind, key).cloned();
        current.ok_or_else(|| not_found(kind, key))
    }

    /// Stores what a write has made of an object, with the fields that the server maintains. An
    /// object that is being deleted takes no new finalizers, and goes with the last one.
    fn store(
        &mut self,
        kind: &Kind,
        key: &ObjectKey,
        mut object: Value,
        current: Option<&Value>,
    ) -> Answer {
        if current == Some(&object) {
            return Ok(version_of(&object));
        }
        let finalizers = finalizers_of(&object);
        let is_ending = !object["metadata"]["deletionTimestamp"].is_null();
        let had = current.map(finalizers_of).unwrap_or_default();
        if is_ending && finalizers.iter().any(|name| !had.contains(name)) {
            return Err(ActionResult::Invalid(format!(
                "{kind} {key} is being deleted: it takes no new finalizers"
            )));
        }
        let version = self.next_version();
        let metadata = &mut object["metadata"];
        metadata["resourceVersion"] = version.as_str().into();
        if current.is_none() {
            metadata["uid"] = format!("uid-{version}").into();
            metadata["creationTimestamp"] = rfc3339(self.now).into();
        }
        let generation = match current {
            None if object.get("spec").is_some() => Some(1),
            Some(current) if main_part(current) != main_part(&object) => {
                let before = current["metadata"]["generation"].as_u64();
                before.map(|before| before + 1)
            }
            _ => None,
        };
        if let Some(generation) = generation {
            object["metadata"]["generation"] = generation.into();
        }
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.retain(|_, value| !value.is_null());
        }
        let objects = self.objects.entry(kind.clone()).or_default();
        if is_ending && finalizers.is_empty() {
            objects.remove(key);
            self.applied
                .retain(|(of, at, _), _| (of, at) != (kind, key));
        } else {
            objects.insert(key.clone(), object);
        }
        Ok(Some(version))
    }

    fn next_version(&mut self) -> String {
        self.version += 1;
        self.version.to_string()
    }
}

/// Whether an object is the one that a body names, and at the version that it names, if it names
/// them.
fn check_preconditions(current: Option<&Value>, body: &Value) -> Result<(), ActionResult> {
    for (field, wanted) in [
        ("uid", text_of(body, "uid")),
        ("resourceVersion", version_of(body)),
    ] {
        let have = current.and_then(|current| text_of(current, field));
        if let Some(wanted) = wanted.filter(|wanted| have.as_ref() != Some(wanted)) {
            let have = have.unwrap_or_default();
            return Err(ActionResult::Conflict(format!(
                "the precondition {field} {wanted:?} does not hold: it is {have:?}"
            )));
        }
    }
    Ok(())
}

/// A refusal in the words that quote nothing of the object.
fn status(refused: &ActionResult) -> &'static str {
    match refused {
        ActionResult::Conflict(_) => "HTTP 409 Conflict",
        ActionResult::AlreadyExists(_) => "HTTP 409 AlreadyExists",
        ActionResult::NotFound(_) => "HTTP 404 NotFound",
        _ => "HTTP 422 Invalid",
    }
}

fn not_found(kind: &Kind, key: &ObjectKey) -> ActionResult {
    ActionResult::NotFound(format!("{kind} {key} not found"))
}

/// Decodes a body, which the host has checked.
fn document(json: &str) -> Value {
    serde_json::from_str(json).unwrap_or_default()
}

fn nothing_of(kind: &Kind, key: &ObjectKey) -> Value {
    let mut object = json!({
        "apiVersion": kind.api_version(), "kind": &*kind.kind, "metadata": {"name": &*key.name},
    });
    if !key.namespace.is_empty() {
        object["metadata"]["namespace"] = (*key.namespace).into();
    }
    object
}

/// The members of an object, without `metadata` and `status`.
fn main_part(object: &Value) -> BTreeMap<&String, &Value> {
    let members = object.as_object().into_iter().flatten();
    members
        .filter(|(name, _)| !["metadata", "status"].contains(&name.as_str()))
        .collect()
}

/// The part of a body that a write to the object, or to its subresource `status`, can set.
fn own_part(mut object: Value, subresource: Option<&str>) -> Value {
    if subresource.is_some() {
        return json!({"status": object["status"].take()});
    }
    if let Some(members) = object.as_object_mut() {
        members.retain(|name, _| !["apiVersion", "kind", "status"].contains(&name.as_str()));
    }
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|name, _| !SERVERS.contains(&name.as_str()));
        if metadata.is_empty() {
            put_member(&mut object, "metadata", None);
        }
    }
    object
}

/// The result of replacing an object, or its subresource, by another one, limited to what such a
/// write can change.
fn replaced(current: &Value, object: Value, subresource: Option<&str>) -> Value {
    if let Some(subresource) = subresource {
        let mut new = current.clone();
        if subresource == "status" {
            put_member(&mut new, "status", object.get("status"));
        }
        return new;
    }
    let mut new = object;
    put_member(&mut new, "status", current.get("status"));
    let Some(have) = current.get("metadata").and_then(Value::as_object) else {
        return new;
    };
    if !new["metadata"].is_object() {
        new["metadata"] = json!({});
    }
    for name in SERVERS {
        put_member(&mut new["metadata"], name, have.get(name));
    }
    if new["metadata"].get("finalizers").is_none() {
        put_member(&mut new["metadata"], "finalizers", have.get("finalizers"));
    }
    new
}

/// The resourceVersion of an object. Empty and "0" mean any version and give `None`.
fn version_of(object: &Value) -> Option<String> {
    text_of(object, "resourceVersion").filter(|version| version != "0")
}

/// A text in the metadata of an object. `None` if there is none, or if it is empty.
fn text_of(object: &Value, field: &str) -> Option<String> {
    let text = object.get("metadata")?.get(field)?.as_str()?;
    Some(text.to_owned()).filter(|text| !text.is_empty())
}

fn finalizers_of(object: &Value) -> Vec<Value> {
    let finalizers = object["metadata"]["finalizers"].as_array();
    finalizers.cloned().unwrap_or_default()
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
