//! An API server in memory: what only a server does with a write. What a controller may write, and
//! whether a write is sent at all, is decided by the host's own code before.
//!
//! It knows no schemas. So it fills in no defaults, validates nothing but what `store` says, merges
//! lists by no key but the owners and conditions of a strategic merge patch, and takes every kind
//! to have a `status` subresource. It has no garbage collector, no quotas and no admission,
//! converts nothing between versions of a kind, and keeps no `managedFields`: it knows two field
//! managers, the plugin and everybody else.

mod apply;
mod parts;

use std::collections::BTreeMap;
use std::time::Duration;

use pilothouse_core::{
    ActionResult, InformerKey, Kind, Object, ObjectKey, Operation, PatchType, ResourceVersion,
    Schema, ServedKind, Write, WriteAnswer,
};
use serde_json::{Value, json};

use super::documents::{Unpatched, json_patch, merge, strategic_merge};
use crate::{Event, ObjectRef, rfc3339};
use apply::Owned;
use parts::{finalizers_of, generation, nothing_of, own_part, replaced, text_of, version_of};

type ObjectAddress = (Kind, ObjectKey);

/// The version that a write has left, if it shows the object; or why it is refused.
type Answer = Result<Option<String>, ActionResult>;

/// See the module's documentation.
pub(super) struct Server {
    objects: BTreeMap<Kind, BTreeMap<ObjectKey, Value>>,
    /// What the plugin owns of each object.
    owned: BTreeMap<ObjectAddress, Vec<Owned>>,
    /// The Events that were written.
    events: Vec<Event>,
    /// The newest resourceVersion.
    version: u64,
    /// How many objects were given a uid.
    uids: u64,
    now: Duration,
}

/// A kind that supports every verb.
pub(super) fn served_kind(kind: &Kind, is_namespaced: bool) -> ServedKind {
    let verbs = [
        "create",
        "delete",
        "deletecollection",
        "get",
        "list",
        "patch",
        "update",
        "watch",
    ];
    ServedKind {
        kind: kind.clone(),
        versions: vec![kind.version.to_string()],
        resource: format!("{}s", kind.kind.to_lowercase()),
        is_namespaced,
        verbs: verbs.map(str::to_owned).into(),
        subresources: vec!["status".to_owned()],
    }
}

impl Server {
    pub fn new() -> Self {
        Self {
            objects: BTreeMap::new(),
            owned: BTreeMap::new(),
            events: Vec::new(),
            version: 1_000,
            uids: 0,
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

    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// The kinds of the objects that are there, as discovery would describe them.
    pub fn kinds(&self) -> BTreeMap<Kind, ServedKind> {
        let kinds = self
            .objects
            .iter()
            .filter(|(_, objects)| !objects.is_empty());
        let kinds = kinds.map(|(kind, objects)| {
            let is_namespaced = objects.keys().any(|key| !key.namespace.is_empty());
            (kind.clone(), served_kind(kind, is_namespaced))
        });
        kinds.collect()
    }

    /// Removes all objects of a kind at once, as when the kind itself is removed.
    pub fn forget(&mut self, kind: &Kind) {
        self.objects.remove(kind);
    }

    /// All objects of a kind, ordered by namespace and name.
    pub fn all(&self, kind: &Kind) -> impl Iterator<Item = &Value> {
        self.objects
            .get(kind)
            .into_iter()
            .flat_map(BTreeMap::values)
    }

    /// Stores an object as another client would, as far as it says what the server sets. What it
    /// does not say is as the server would set it: see [`complete`](Self::complete). Returns its
    /// kind, and whether it may be older than what has been stored before.
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
        let have = self.get(&kind, &key).cloned();
        let given = version_of(&object);
        self.complete(&kind, &mut object, have.as_ref());
        let is_same = |have: &Value| {
            ["uid", "resourceVersion"]
                .iter()
                .all(|name| have["metadata"][name] == object["metadata"][name])
        };
        let is_changed = have
            .as_ref()
            .is_some_and(|have| is_same(have) && *have != object);
        let mut is_older = false;
        match given.filter(|_| !is_changed) {
            Some(given) => {
                let newest = ResourceVersion::new(&self.version.to_string());
                is_older = !newest.is_at_most(&ResourceVersion::new(&given));
                self.version = self.version.max(given.parse().unwrap_or_default());
            }
            None => {
                object["metadata"]["resourceVersion"] = self.next_version().into();
            }
        }
        self.disown(&kind, &key, have.as_ref(), Some(&object));
        let objects = self.objects.entry(kind.clone()).or_default();
        objects.insert(key, object);
        (kind, is_older)
    }

    /// Gives an object of another client what it does not say of uid, creationTimestamp and
    /// generation: those of the object that it changes, or those of a new object.
    fn complete(&mut self, kind: &Kind, object: &mut Value, have: Option<&Value>) {
        let uid = text_of(object, "uid");
        let is_same = |have: &&Value| uid.is_none() || text_of(have, "uid") == uid;
        let have = have.filter(is_same);
        if uid.is_none() {
            let uid = have.and_then(|have| text_of(have, "uid"));
            object["metadata"]["uid"] = uid.unwrap_or_else(|| self.next_uid()).into();
        }
        if text_of(object, "creationTimestamp").is_none() {
            let created = have.and_then(|have| text_of(have, "creationTimestamp"));
            let created = created.unwrap_or_else(|| rfc3339(self.now));
            object["metadata"]["creationTimestamp"] = created.into();
        }
        if object["metadata"].get("generation").is_none()
            && let Some(generation) = generation(kind, object, have)
        {
            object["metadata"]["generation"] = generation.into();
        }
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
            Operation::Event {
                is_warning,
                reason,
                action,
                note,
                ..
            } => {
                let object = ObjectRef::new(&kind.to_string(), &key.namespace, &key.name);
                let make = if *is_warning {
                    Event::warning
                } else {
                    Event::normal
                };
                self.events.push(make(&object, reason, action, note));
                Ok(None)
            }
            Operation::DeleteAll { .. } => Ok(None),
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
            metadata["uid"] = self.next_uid().into();
            metadata["creationTimestamp"] = rfc3339(self.now).into();
        }
        if let Some(generation) = generation(kind, &object, current) {
            object["metadata"]["generation"] = generation.into();
        }
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.retain(|_, value| !value.is_null());
        }
        let is_gone = is_ending && finalizers.is_empty();
        let stored = (!is_gone).then_some(object);
        self.disown(kind, key, current, stored.as_ref());
        let objects = self.objects.entry(kind.clone()).or_default();
        match stored {
            Some(object) => objects.insert(key.clone(), object),
            None => objects.remove(key),
        };
        Ok(Some(version))
    }

    fn next_uid(&mut self) -> String {
        self.uids += 1;
        format!("uid-{}", self.uids)
    }

    fn next_version(&mut self) -> String {
        self.version += 1;
        self.version.to_string()
    }
}

/// Whether an object is the one that a body names, and at the version that it names, if it names
/// them.
fn check_preconditions(current: Option<&Value>, body: &Value) -> Result<(), ActionResult> {
    // An apply that names a version creates an object all the same.
    let version = current.and_then(|_| version_of(body));
    for (field, wanted) in [("uid", text_of(body, "uid")), ("resourceVersion", version)] {
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
