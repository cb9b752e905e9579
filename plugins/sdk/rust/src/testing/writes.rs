//! Performs an outcome on the objects in memory, as the host and an API server would.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::documents::{
    Unpatched, at, insert, is_empty_map, json_patch, leaves, merge, overlay, put_member, remove,
};
use super::names::kind_text;
use super::outcome::address;
use super::{FakeCluster, Named, Place, Seen, Shown};
use crate::{
    Action, ActionResult, Children, Create, Delete, Effect, EffectVerb, Event, Finalizer, Kind,
    Next, ObjectKey, Outcome, Patch, PatchType, Subject, Update, Verb, rfc3339,
};

/// The label and the annotation by which the host recognises the members of a `children` action.
const CHILDREN_LABEL: &str = "pilothouse.dev/children-of";
const CHILDREN_ANNOTATION: &str = "pilothouse.dev/children-of-key";

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

/// The target of an apply: kind, namespace and name, subresource.
pub(super) type Target = (String, Place, Option<String>);

impl FakeCluster {
    /// Performs the outcome of a reconcile of this key, so that the next reconcile sees the result.
    /// Returns what became of each action, which the key's next reconcile also gets as
    /// [`previous`](crate::Request::previous).
    ///
    /// Actions have the effect they would have on an API server, as far as that is possible without
    /// the kinds' schemas:
    ///
    /// - An apply merges objects member by member and removes what the plugin had applied before
    ///   and now leaves out. A list is replaced as a whole, except for `metadata.finalizers` and
    ///   `metadata.ownerReferences`. Without force, a field that has another value and that the
    ///   plugin has not applied before is a conflict.
    /// - `status` is written only through the subresource `status`. Writes to other subresources
    ///   have no effect here.
    /// - Deleting an object that has finalizers sets its `deletionTimestamp`. The object disappears
    ///   when the last finalizer is removed. There is no garbage collector, so objects survive
    ///   their owners.
    /// - `children` marks the members with a label and an annotation, and deletes objects with
    ///   these marks that are no longer members.
    /// - `resourceVersion`, `uid` and `generation` are maintained. Defaults are not filled in.
    ///   Schemas, quotas and admission are not checked.
    /// - Actions are done one after the other, also where the host sends them side by side. After
    ///   a failure the others of its stage and the later stages are skipped or not as the contract
    ///   says.
    /// - If the last reconcile has not been performed yet, the outcome is taken to be its outcome.
    ///   A generated name then differs from those of all objects which that reconcile has read. An
    ///   update, or an apply or merge patch that contains a resourceVersion, is a conflict if the
    ///   object has changed since that reconcile. So is a delete without preconditions; one with a
    ///   resourceVersion alone is a conflict if it is another object now, and a `finalizer` is one
    ///   also if the object's finalizers have changed.
    ///
    /// # Panics
    ///
    /// [`reconcile`](Self::reconcile) would refuse the outcome, or the outcome has a strategic
    /// merge patch, which cannot be applied without the kinds' schemas.
    pub fn apply(&mut self, key: &ObjectKey, outcome: &Outcome) -> Vec<ActionResult> {
        if let Err(reason) = super::outcome::check(&outcome.stages, self) {
            panic!("the host refuses the outcome: {reason}");
        }
        self.written.clear();
        let mut created = BTreeMap::new();
        let mut has_failed = false;
        let (mut results, mut effects) = (Vec::new(), Vec::new());
        for stage in &outcome.stages {
            let is_left_out = has_failed && !stage.always;
            let mut stop = Stop::default();
            for action in &stage.actions {
                let result = if is_left_out || stop.includes(action) {
                    ActionResult::Skipped
                } else {
                    self.act(key, action, &mut created)
                };
                if result == ActionResult::Skipped || is_error(&result) {
                    stop.after(action, &result);
                }
                has_failed |= is_error(&result);
                effects.extend(effects_of(action, &result));
                results.push(result);
            }
        }
        self.seen.replace(Seen::default());
        let place = (key.namespace.clone(), key.name.clone());
        let attempt = if has_failed || matches!(outcome.next, Next::Retry(_)) {
            self.attempt_of(&place) + 1
        } else {
            1
        };
        self.turns.insert(place, (attempt, effects));
        results
    }

    /// Deletes an object as another client would: it disappears, or waits until its finalizers are
    /// removed.
    pub fn delete(&mut self, kind: &Kind, key: &ObjectKey) {
        self.delete_object(&Delete::new(kind, key));
    }

    fn act(
        &mut self,
        key: &ObjectKey,
        action: &Action,
        created: &mut BTreeMap<String, usize>,
    ) -> ActionResult {
        match action {
            Action::Apply(apply) => {
                let object = document(&apply.object);
                self.apply_object(object, apply.subresource.as_deref(), apply.force)
            }
            Action::Create(create) => {
                let number = created.entry(create.object.clone()).or_default();
                let seed = format!("{key} {}", create.object);
                self.create(create, &seed, number)
            }
            Action::Update(update) => self.update(update),
            Action::Patch(patch) => self.patch(patch),
            Action::Delete(delete) => self.delete_object(&self.as_seen(delete)),
            Action::Event(_) => ActionResult::Done(None),
            Action::Finalizer(finalizer) => self.finalizer(finalizer),
            Action::Children(children) => self.children(key, children),
        }
    }

    fn apply_object(
        &mut self,
        object: Value,
        subresource: Option<&str>,
        force: bool,
    ) -> ActionResult {
        let (kind, key) = addressed(&object);
        let current = self.object(&kind, &key).cloned();
        if !matches!(subresource, None | Some("status")) {
            return ActionResult::Done(None);
        }
        if subresource.is_some() && current.is_none() {
            return not_found(&kind, &key);
        }
        if let Some(conflict) = self.version_conflict(&kind, &key, &object, Verb::Apply) {
            return conflict;
        }
        let wanted = own_part(object, subresource);
        let target = (
            kind_text(&kind),
            place_of(&key),
            subresource.map(str::to_owned),
        );
        let before = self.applied.get(&target).cloned().unwrap_or_default();
        let (owned, claimed) = (leaves(&before), leaves(&wanted));
        let mut object = current.clone().unwrap_or_else(|| nothing_of(&kind, &key));
        for path in claimed.difference(&owned).filter(|_| !force) {
            let (have, want) = (at(&object, path), at(&wanted, path));
            // An empty object claims that there is an object, but none of its members.
            let is_met = have == want || (is_empty_map(want) && have.is_some_and(Value::is_object));
            if set_key(path).is_none() && have.is_some() && !is_met {
                return ActionResult::Conflict(format!(
                    "conflict with another manager: .{}",
                    path.join(".")
                ));
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
        self.applied.insert(target, wanted);
        self.put(&kind, &key, object, current.as_ref())
    }

    /// Creates an object. `number` is the last number from which a name was derived for this text;
    /// each derived name takes the next one.
    fn create(&mut self, create: &Create, seed: &str, number: &mut usize) -> ActionResult {
        let (object, kind, key) = loop {
            *number += 1;
            let mut object = document(&create.object);
            let is_derived = derive_name(&mut object, seed, *number);
            let (kind, key) = addressed(&object);
            let is_taken = self.seen.borrow().read.contains(&named(&kind, &key));
            if !(is_derived && is_taken) {
                break (object, kind, key);
            }
        };
        if create.subresource.is_some() {
            return ActionResult::Done(None);
        }
        if self.object(&kind, &key).is_some() {
            return ActionResult::AlreadyExists(format!(
                "{} {key} already exists",
                kind_text(&kind)
            ));
        }
        let mut new = nothing_of(&kind, &key);
        overlay(&mut new, own_part(object, None));
        self.put(&kind, &key, new, None)
    }

    fn update(&mut self, update: &Update) -> ActionResult {
        let mut object = document(&update.object);
        let (kind, key) = addressed(&object);
        let Some(current) = self.object(&kind, &key).cloned() else {
            return not_found(&kind, &key);
        };
        if let Some(conflict) = self.version_conflict(&kind, &key, &object, Verb::Update) {
            return conflict;
        }
        // The finalizers in the body are those of the snapshot, which an earlier action of this
        // outcome may have changed since.
        if self.written.contains(&named(&kind, &key)) {
            put_member(&mut object["metadata"], "finalizers", None);
        }
        let new = replaced(&current, object, update.subresource.as_deref());
        self.put(&kind, &key, new, Some(&current))
    }

    fn patch(&mut self, patch: &Patch) -> ActionResult {
        let Patch { kind, key, .. } = patch;
        let Some(current) = self.object(kind, key).cloned() else {
            return not_found(kind, key);
        };
        let body = document(&patch.body);
        let mut object = current.clone();
        match patch.patch_type {
            PatchType::MergePatch => merge(&mut object, &body),
            PatchType::JsonPatch => match json_patch(&mut object, &body) {
                Ok(()) => {}
                Err(Unpatched::Misfit(reason)) => return ActionResult::Conflict(reason),
                Err(Unpatched::NoPatch(reason)) => return ActionResult::Invalid(reason),
            },
            PatchType::StrategicMergePatch => {
                panic!("FakeCluster cannot do a strategic merge patch: it knows no schemas")
            }
        }
        if let Some(conflict) = self.version_conflict(kind, key, &body, Verb::Patch) {
            return conflict;
        }
        let new = replaced(&current, object, patch.subresource.as_deref());
        let result = self.put(kind, key, new, Some(&current));
        match result {
            // The host does not know whether a patch changes anything, so it never reports a patch
            // as unchanged.
            ActionResult::Unchanged => {
                let version = current["metadata"]["resourceVersion"].as_str();
                ActionResult::Done(version.map(str::to_owned))
            }
            other => other,
        }
    }

    /// The delete with the preconditions that the host adds if it has none of its own: of the
    /// object that the reconcile saw, as it was then. What this outcome has written needs none
    /// here.
    fn as_seen(&self, delete: &Delete) -> Delete {
        let named = named(&delete.kind, &delete.key);
        let has = |text: &Option<String>| text.as_ref().is_some_and(|text| !text.is_empty());
        let mut delete = delete.clone();
        let seen = self.seen.borrow();
        let shown = seen.shown.get(&named).filter(|_| !has(&delete.uid));
        if let Some(shown) = shown.filter(|_| !self.written.contains(&named)) {
            delete.uid = Some(shown.uid.clone());
            if !has(&delete.resource_version) {
                delete.resource_version = Some(shown.version.clone());
            }
        }
        delete
    }

    fn delete_object(&mut self, delete: &Delete) -> ActionResult {
        let Delete { kind, key, .. } = delete;
        let Some(current) = self.object(kind, key).cloned() else {
            return ActionResult::Done(None);
        };
        for (field, wanted) in [
            ("uid", &delete.uid),
            ("resourceVersion", &delete.resource_version),
        ] {
            let have = current["metadata"][field].as_str().unwrap_or_default();
            let wanted = wanted.as_deref().filter(|wanted| !wanted.is_empty());
            if let Some(wanted) = wanted.filter(|wanted| *wanted != have) {
                return ActionResult::Conflict(format!(
                    "the precondition {field} {wanted:?} does not hold: it is {have:?}"
                ));
            }
        }
        let mut new = current.clone();
        if new["metadata"]["deletionTimestamp"].is_null() {
            new["metadata"]["deletionTimestamp"] = rfc3339(self.now).into();
        }
        match self.put(kind, key, new, Some(&current)) {
            ActionResult::Unchanged => ActionResult::Done(None),
            other => other,
        }
    }

    fn finalizer(&mut self, finalizer: &Finalizer) -> ActionResult {
        let Finalizer {
            kind,
            key,
            name,
            present,
        } = finalizer;
        let Some(current) = self.object(kind, key).cloned() else {
            return if *present {
                not_found(kind, key)
            } else {
                ActionResult::Unchanged
            };
        };
        let named = named(kind, key);
        let now = Shown::of(&current);
        let seen = self.seen.borrow();
        let shown = seen.shown.get(&named).unwrap_or(&now);
        let shown = if self.written.contains(&named) {
            &now
        } else {
            shown
        };
        if shown.finalizers.contains(&json!(name)) == *present {
            return ActionResult::Unchanged;
        }
        if (&shown.uid, &shown.finalizers) != (&now.uid, &now.finalizers) {
            return ActionResult::Conflict(format!(
                "{} {key} is another object by now, or has other finalizers",
                kind_text(kind)
            ));
        }
        drop(seen);
        let mut names = now.finalizers;
        if *present && !current["metadata"]["deletionTimestamp"].is_null() {
            return ActionResult::Invalid(format!(
                "{} {key} is being deleted: it takes no new finalizers",
                kind_text(kind)
            ));
        }
        names.retain(|have| have != name);
        names.extend(present.then(|| json!(name)));
        let mut new = current.clone();
        new["metadata"]["finalizers"] = names.into();
        self.put(kind, key, new, Some(&current))
    }

    fn children(&mut self, key: &ObjectKey, children: &Children) -> ActionResult {
        let label = self.children_label(key);
        let mark = format!("{} {key}", self.manifest.name);
        let mut so_far = ActionResult::Unchanged;
        let mut wanted = BTreeSet::new();
        for text in &children.objects {
            let mut object = document(text);
            let (kind, child) = addressed(&object);
            object["metadata"]["labels"][CHILDREN_LABEL] = label.as_str().into();
            object["metadata"]["annotations"][CHILDREN_ANNOTATION] = mark.as_str().into();
            wanted.insert((kind_text(&kind), place_of(&child)));
            match self.apply_object(object, None, true) {
                ActionResult::Unchanged => {}
                result if is_error(&result) => return result,
                result => so_far = result,
            }
        }
        let kinds = self.manifest.writes.iter();
        let kinds = kinds.filter(|write| write.children);
        let kinds: Vec<Kind> = kinds.map(|write| write.kind.clone()).collect();
        // One that cannot be deleted does not keep the others.
        let mut failed = None;
        for kind in kinds {
            let of_kind = self.objects.get(&kind_text(&kind)).into_iter().flatten();
            let unwanted = of_kind.filter(|(place, object)| {
                let metadata = &object["metadata"];
                metadata["labels"][CHILDREN_LABEL] == label
                    && metadata["annotations"][CHILDREN_ANNOTATION] == mark
                    && metadata["deletionTimestamp"].is_null()
                    && !wanted.contains(&(kind_text(&kind), (*place).clone()))
            });
            let unwanted: Vec<Place> = unwanted.map(|(place, _)| place.clone()).collect();
            for (namespace, name) in unwanted {
                let delete = Delete::new(&kind, &ObjectKey::new(&namespace, &name));
                match self.delete_object(&self.as_seen(&delete)) {
                    result if is_error(&result) => failed = failed.or(Some(result)),
                    result => so_far = result,
                }
            }
        }
        failed.unwrap_or(so_far)
    }

    /// A text that depends only on the plugin, the subject's kind and the key. The host's differs.
    fn children_label(&self, key: &ObjectKey) -> String {
        let kind = match &self.manifest.subject {
            Subject::Each(selection) => format!("{}/{}", selection.kind.group, selection.kind.kind),
            Subject::Singleton => String::new(),
        };
        let text = format!("{} {kind} {key}", self.manifest.name);
        format!("{:016x}", digest(&text))
    }

    /// Returns the conflict, if an object is neither at the version in the body nor at the one that
    /// the reconcile saw. An update always refers to a version; other writes do so only if the body
    /// has one. An object that this outcome has written before never conflicts, as its version
    /// could not be known.
    fn version_conflict(
        &self,
        kind: &Kind,
        key: &ObjectKey,
        body: &Value,
        how: Verb,
    ) -> Option<ActionResult> {
        let have = version_of(self.object(kind, key)?)?;
        let named = named(kind, key);
        let seen = self.seen.borrow();
        let said = version_of(body);
        let mut meant = said.iter().chain(seen.versions.get(&named));
        let is_any = match how {
            Verb::Update => meant.clone().next().is_none(),
            _ => said.is_none(),
        };
        if is_any || meant.any(|meant| *meant == have) || self.written.contains(&named) {
            return None;
        }
        Some(ActionResult::Conflict(format!(
            "the object has been modified: it is at resourceVersion {have}"
        )))
    }

    /// Stores the object that a write has produced, and sets the fields that the server maintains.
    fn put(
        &mut self,
        kind: &Kind,
        key: &ObjectKey,
        mut object: Value,
        current: Option<&Value>,
    ) -> ActionResult {
        if current == Some(&object) {
            return ActionResult::Unchanged;
        }
        self.written.insert(named(kind, key));
        self.version += 1;
        let version = self.version.to_string();
        let metadata = &mut object["metadata"];
        metadata["resourceVersion"] = version.as_str().into();
        if current.is_none() {
            metadata["uid"] = format!("uid-{version}").into();
            metadata["creationTimestamp"] = rfc3339(self.now).into();
        }
        let has_finalizers = !empty_or_absent(&metadata["finalizers"]);
        let is_gone = !metadata["deletionTimestamp"].is_null() && !has_finalizers;
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
        let objects = self.objects.entry(kind_text(kind)).or_default();
        if is_gone {
            objects.remove(&place_of(key));
            let of_it = |(of_kind, place, _): &Target| {
                *of_kind == kind_text(kind) && *place == place_of(key)
            };
            self.applied.retain(|target, _| !of_it(target));
        } else {
            objects.insert(place_of(key), object);
        }
        ActionResult::Done(Some(version))
    }
}

/// Which of the remaining actions of a stage are skipped after a failure, by the host's rule.
#[derive(Default)]
struct Stop {
    creates: bool,
    objects: BTreeSet<Named>,
}

impl Stop {
    fn after(&mut self, action: &Action, result: &ActionResult) {
        self.creates |= matches!(action, Action::Create(_)) && is_error(result);
        let objects = objects_of(action).into_iter();
        self.objects
            .extend(objects.map(|(kind, key, _)| named(&kind, &key)));
    }

    fn includes(&self, action: &Action) -> bool {
        let is_stopped = |(kind, key, _): (Kind, ObjectKey, EffectVerb)| {
            self.objects.contains(&named(&kind, &key))
        };
        (self.creates && matches!(action, Action::Create(_)))
            || objects_of(action).into_iter().any(is_stopped)
    }
}

/// The objects that an action names, and what it does with them. Not those that a `children` action
/// deletes, nor a name that is derived.
fn objects_of(action: &Action) -> Vec<(Kind, ObjectKey, EffectVerb)> {
    let of_body = |text: &str, verb| {
        let (kind, key) = addressed(&document(text));
        (kind, key, verb)
    };
    let object = match action {
        Action::Apply(apply) => of_body(&apply.object, EffectVerb::Apply),
        Action::Create(create) => of_body(&create.object, EffectVerb::Create),
        Action::Update(update) => of_body(&update.object, EffectVerb::Update),
        Action::Patch(Patch { kind, key, .. }) => (kind.clone(), key.clone(), EffectVerb::Patch),
        Action::Delete(Delete { kind, key, .. }) => (kind.clone(), key.clone(), EffectVerb::Delete),
        Action::Event(Event { kind, key, .. }) => (kind.clone(), key.clone(), EffectVerb::Event),
        Action::Finalizer(Finalizer { kind, key, .. }) => {
            (kind.clone(), key.clone(), EffectVerb::Finalizer)
        }
        Action::Children(children) => {
            let objects = children.objects.iter();
            return objects
                .map(|text| of_body(text, EffectVerb::Apply))
                .collect();
        }
    };
    vec![object]
}

fn effects_of(action: &Action, result: &ActionResult) -> Vec<Effect> {
    let effect = |(kind, key, verb)| Effect {
        kind,
        key,
        verb,
        outcome: result.clone(),
    };
    objects_of(action).into_iter().map(effect).collect()
}

pub(super) fn named(kind: &Kind, key: &ObjectKey) -> Named {
    (kind_text(kind), place_of(key))
}

/// Derives a name from `generateName`, which is the same on every retry. Returns true if it did.
pub(super) fn derive_name(object: &mut Value, seed: &str, number: usize) -> bool {
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else {
        return false;
    };
    let name = metadata.get("name").and_then(Value::as_str);
    let has_name = name.is_some_and(|name| !name.is_empty());
    let prefix = metadata.remove("generateName");
    let (false, Some(Value::String(prefix))) = (has_name, prefix) else {
        return false;
    };
    let prefix: String = prefix.chars().take(63 - 8).collect();
    let digest = digest(&format!("{number} {seed}"));
    let name = format!("{prefix}{:08x}", digest >> 32);
    metadata.insert("name".into(), name.into());
    true
}

/// FNV-1a, which is the same on every machine and in every version of the standard library.
fn digest(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

fn is_error(result: &ActionResult) -> bool {
    !matches!(
        result,
        ActionResult::Done(_) | ActionResult::Unchanged | ActionResult::Skipped
    )
}

fn not_found(kind: &Kind, key: &ObjectKey) -> ActionResult {
    ActionResult::NotFound(format!("{} {key} not found", kind_text(kind)))
}

/// Decodes a document. It is valid, because an outcome with invalid JSON has been refused before.
fn document(json: &str) -> Value {
    serde_json::from_str(json).unwrap_or_default()
}

fn addressed(object: &Value) -> (Kind, ObjectKey) {
    address(object).unwrap_or_else(|reason| panic!("{reason}"))
}

fn place_of(key: &ObjectKey) -> Place {
    (key.namespace.clone(), key.name.clone())
}

fn nothing_of(kind: &Kind, key: &ObjectKey) -> Value {
    let mut object = json!({
        "apiVersion": kind.api_version(), "kind": kind.kind, "metadata": {"name": key.name},
    });
    if !key.namespace.is_empty() {
        object["metadata"]["namespace"] = key.namespace.as_str().into();
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
pub(super) fn version_of(object: &Value) -> Option<String> {
    let version = object.pointer("/metadata/resourceVersion")?.as_str()?;
    Some(version.to_owned()).filter(|version| !matches!(version.as_str(), "" | "0"))
}

pub(super) fn finalizers_of(object: &Value) -> Vec<Value> {
    let finalizers = object["metadata"]["finalizers"].as_array();
    finalizers.cloned().unwrap_or_default()
}

fn empty_or_absent(list: &Value) -> bool {
    list.as_array().is_none_or(Vec::is_empty)
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
