//! One action at a time: is it permitted, is it sound, and which writes does it come to?

use std::collections::{BTreeSet, HashMap, HashSet};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::identity::{self, Shown, Use};
use super::{ActionError, Context, MAX_BODY, What};
use crate::children;
use crate::cluster::{Operation, Write};
use crate::key::{Kind, ObjectKey};
use crate::manifest::Verb;
use crate::outcome::{Action, ActionResult, Delete, Event, PatchType};
use crate::permission::Denied;
use crate::reader::Reader;
use crate::selector::{LabelSelector, Requirement};
use crate::unchanged::{Target, hash, is_same_object};

/// Plans the actions of one outcome, in order. What one takes does not depend on how many came before it: there may be thousands.
pub(super) struct Planner<'a, 'r> {
    context: Context<'a>,
    reader: &'r mut Reader,
    /// How often each text was created so far.
    created: HashMap<String, usize>,
    /// The objects that are written so far.
    written: HashSet<(Kind, ObjectKey)>,
    has_children: bool,
}

impl<'a, 'r> Planner<'a, 'r> {
    pub fn new(context: Context<'a>, reader: &'r mut Reader) -> Self {
        Self {
            context,
            reader,
            created: HashMap::new(),
            written: HashSet::new(),
            has_children: false,
        }
    }
}

impl Planner<'_, '_> {
    /// What the next action comes to.
    pub fn steps(&mut self, action: &Action) -> Result<Vec<What>, ActionError> {
        let steps = self.plan(action)?;
        let writes = steps.iter().filter_map(What::write);
        self.written
            .extend(writes.map(|write| (write.kind.clone(), write.key.clone())));
        Ok(steps)
    }

    fn plan(&mut self, action: &Action) -> Result<Vec<What>, ActionError> {
        match action {
            Action::Apply {
                object,
                subresource,
                force,
            } => Ok(vec![self.apply(object, subresource, *force)?]),
            Action::Create {
                object,
                subresource,
            } => Ok(vec![self.create(object, subresource)?]),
            Action::Update {
                object,
                subresource,
            } => Ok(vec![self.update(object, subresource)?]),
            Action::Patch {
                kind,
                key,
                subresource,
                patch_type,
                body,
            } => {
                self.check(Verb::Patch, kind, key, subresource)?;
                let mut body = parse(body)?;
                check_address(&body, kind, key)?;
                match patch_type {
                    PatchType::Json => identity::check_json_patch(&body)?,
                    _ => self.settle(&mut body, Use::Patch, kind, key)?,
                }
                let operation = Operation::Patch {
                    patch_type: *patch_type,
                    // As it was checked: of two members of one name the last.
                    body: body.to_string(),
                };
                Ok(vec![send(kind, key, subresource, operation)])
            }
            Action::Delete(delete) => Ok(vec![self.delete(delete)?]),
            Action::Event(event) => Ok(vec![self.event(event)?]),
            Action::Finalizer {
                kind,
                key,
                name,
                present,
            } => Ok(vec![self.finalizer(kind, key, name, *present)?]),
            Action::Children { .. } if std::mem::replace(&mut self.has_children, true) => {
                Err(ActionError::SecondChildren)
            }
            Action::Children { objects } => self.children(objects),
        }
    }

    fn check(
        &self,
        verb: Verb,
        kind: &Kind,
        key: &ObjectKey,
        subresource: &Option<String>,
    ) -> Result<(), Denied> {
        self.context
            .permissions
            .check(verb, kind, key, subresource.as_deref())
    }

    fn settle(
        &self,
        body: &mut Value,
        how: Use,
        kind: &Kind,
        key: &ObjectKey,
    ) -> Result<(), ActionError> {
        let shown = Shown::of(self.reader, kind, key);
        let is_written = self.written.contains(&(kind.clone(), key.clone()));
        identity::settle(body, how, key, &shown, is_written, self.reader)
    }

    /// The object as cached, if the plugin reads its kind.
    fn cached(&mut self, kind: &Kind, key: &ObjectKey) -> Option<Value> {
        let object = self.reader.look_at(kind, key)?;
        serde_json::from_str(object.json()).ok()
    }

    fn apply(
        &mut self,
        text: &str,
        subresource: &Option<String>,
        force: bool,
    ) -> Result<What, ActionError> {
        let mut object = parse(text)?;
        let (kind, key) = address(&object)?;
        self.check(Verb::Apply, &kind, &key, subresource)?;
        if force {
            let permissions = self.context.permissions;
            permissions.check_force(&kind, &key, subresource)?;
        }
        self.settle(&mut object, Use::Apply, &kind, &key)?;
        Ok(self.apply_unless_unchanged(&object, kind, key, subresource, force))
    }

    fn apply_unless_unchanged(
        &mut self,
        object: &Value,
        kind: Kind,
        key: ObjectKey,
        subresource: &Option<String>,
        force: bool,
    ) -> What {
        let target = Target {
            kind,
            key,
            subresource: subresource.clone(),
        };
        let current = self.cached(&target.kind, &target.key);
        if self
            .context
            .applied
            .is_unchanged(&target, object, current.as_ref())
        {
            return What::Known(ActionResult::Unchanged);
        }
        let is_read = self.reader.may_read(&target.kind);
        let Target {
            kind,
            key,
            subresource,
        } = target;
        What::Send {
            write: Write {
                kind,
                key,
                subresource,
                operation: Operation::Apply {
                    object: object.to_string(),
                    force,
                },
            },
            intent: is_read.then(|| hash(object)),
        }
    }

    fn create(&mut self, text: &str, subresource: &Option<String>) -> Result<What, ActionError> {
        let mut object = parse(text)?;
        let number = self.created.entry(text.to_owned()).or_default();
        *number += 1;
        let number = *number - 1;
        self.derive_name(number, &mut object);
        let (kind, key) = address(&object)?;
        self.check(Verb::Create, &kind, &key, subresource)?;
        // A subresource's body is about an object that is there: which one is for the plugin to say.
        if subresource.is_none() {
            self.settle(&mut object, Use::Create, &kind, &key)?;
        }
        Ok(send(
            &kind,
            &key,
            subresource,
            Operation::Create {
                object: object.to_string(),
            },
        ))
    }

    /// A name for `generateName` that is the same on every retry, so that a create whose answer was lost is not done twice. It
    /// depends on the object and on how many of the very same were asked for before it, not on its place among the actions.
    fn derive_name(&self, number: usize, object: &mut Value) {
        let digest = self.digest(&[&number.to_string(), &object.to_string()]);
        let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else {
            return;
        };
        let has_name = metadata
            .get("name")
            .and_then(Value::as_str)
            .is_some_and(|name| !name.is_empty());
        let prefix = metadata.remove("generateName");
        if let (false, Some(Value::String(prefix))) = (has_name, prefix) {
            // As the server does: at most 63 characters, so that the name fits into a label.
            let prefix: String = prefix.chars().take(63 - 8).collect();
            metadata.insert("name".into(), format!("{prefix}{}", &digest[..8]).into());
        }
    }

    /// 64 hex digits that depend on the plugin, the key and `parts` alone.
    fn digest(&self, parts: &[&str]) -> String {
        let mut hasher = Sha256::new();
        let Context { manifest, key, .. } = self.context;
        let kind = manifest
            .subject_kind()
            .map(Kind::to_string)
            .unwrap_or_default();
        for part in [&*manifest.name, &kind, &key.namespace, &key.name]
            .iter()
            .chain(parts)
        {
            hasher.update((part.len() as u64).to_be_bytes());
            hasher.update(part);
        }
        hasher
            .finalize()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect()
    }

    fn update(&mut self, text: &str, subresource: &Option<String>) -> Result<What, ActionError> {
        let mut object = parse(text)?;
        let (kind, key) = address(&object)?;
        self.check(Verb::Update, &kind, &key, subresource)?;
        let is_written = self.written.contains(&(kind.clone(), key.clone()));
        let shown = Shown::of(self.reader, &kind, &key);
        match shown {
            Shown::Nothing if !is_written => {
                self.reader.look_at(&kind, &key);
                let gone = format!("{kind} {key} is not in the cache");
                return Ok(What::Known(ActionResult::NotFound(gone)));
            }
            // Who replaces what it has not seen takes away what others have put there.
            Shown::Unknown if subresource.is_none() && !identity::names_a_version(&object) => {
                return Err(identity::metadata(
                    "an update of an object that is not read says of which resourceVersion it is",
                ));
            }
            _ => {}
        }
        identity::settle(
            &mut object,
            Use::Update,
            &key,
            &shown,
            is_written,
            self.reader,
        )?;
        let current = self.cached(&kind, &key);
        if current.is_some_and(|current| is_same_object(&current, &object, subresource.as_deref()))
        {
            return Ok(What::Known(ActionResult::Unchanged));
        }
        Ok(send(
            &kind,
            &key,
            subresource,
            Operation::Update {
                object: object.to_string(),
            },
        ))
    }

    /// Without preconditions of the guest's own, only the object that the snapshot shows is deleted, as it was when the guest decided
    /// so: not a successor of the same name, and not one that has changed (the garbage collector's rule). An object that this
    /// outcome itself has written is at a version nobody knows yet. What the snapshot does not show is deleted by name.
    fn delete(&mut self, delete: &Delete) -> Result<What, ActionError> {
        let Delete { kind, key, .. } = delete;
        // Empty is no precondition.
        let own_uid = delete.uid.clone().filter(|uid| !uid.is_empty());
        let own_version = delete.resource_version.clone();
        let own_version = own_version.filter(|version| !version.is_empty());
        self.check(Verb::Delete, kind, key, &None)?;
        let seen = self.reader.look_at(kind, key);
        let uid = || seen.as_ref().map(|object| object.uid().to_owned());
        let is_as_seen = own_uid.is_none() && !self.written.contains(&(kind.clone(), key.clone()));
        let version = || {
            seen.as_ref()
                .map(|object| object.resource_version().to_string())
        };
        let version = || version().filter(|_| is_as_seen);
        let operation = Operation::Delete {
            uid: own_uid.or_else(uid).filter(|uid| !uid.is_empty()),
            resource_version: own_version.or_else(version),
            propagation: delete.propagation,
            grace_period_seconds: delete.grace_period_seconds,
        };
        Ok(send(kind, key, &None, operation))
    }

    fn event(&mut self, event: &Event) -> Result<What, ActionError> {
        let Event {
            kind,
            key,
            is_warning,
            reason,
            action,
            note,
        } = event;
        if !self.context.manifest.kinds().contains(kind) {
            return Err(Denied::Kind(kind.clone()).into());
        }
        self.context.permissions.check_event(kind, key)?;
        let operation = Operation::Event {
            uid: self
                .reader
                .look_at(kind, key)
                .map(|object| object.uid().to_owned()),
            is_warning: *is_warning,
            reason: reason.clone(),
            action: action.clone(),
            note: note.clone(),
        };
        Ok(send(kind, key, &None, operation))
    }

    /// A JSON Patch that holds only for the version the snapshot shows, so that no other writer's finalizer is lost.
    fn finalizer(
        &mut self,
        kind: &Kind,
        key: &ObjectKey,
        name: &str,
        present: bool,
    ) -> Result<What, ActionError> {
        self.check(Verb::Patch, kind, key, &None)?;
        if !self.reader.may_read(kind) {
            return Err(Denied::NotRead(kind.clone()).into());
        }
        let Some(object) = self.reader.look_at(kind, key) else {
            let is_done = !present && self.reader.knows(kind, key);
            let gone = || ActionResult::NotFound(format!("{kind} {key} is not in the cache"));
            return Ok(What::Known(if is_done {
                ActionResult::Unchanged
            } else {
                gone()
            }));
        };
        let have = object.finalizers();
        if have.iter().any(|have| have == name) == present {
            return Ok(What::Known(ActionResult::Unchanged));
        }
        let others = have.iter().map(String::as_str).filter(|have| *have != name);
        let wanted: Vec<&str> = others.chain(present.then_some(name)).collect();
        let body = json!([
            {"op": "test", "path": "/metadata/resourceVersion", "value": object.resource_version().to_string()},
            {"op": "add", "path": "/metadata/finalizers", "value": wanted},
        ]);
        let operation = Operation::Patch {
            patch_type: PatchType::Json,
            body: body.to_string(),
        };
        Ok(send(kind, key, &None, operation))
    }

    /// Applies each wanted object with a label that names this key, then deletes what has the label and is not wanted.
    fn children(&mut self, objects: &[String]) -> Result<Vec<What>, ActionError> {
        let label = self.digest(&["children"])[..32].to_owned();
        let mut steps = Vec::new();
        let mut wanted = BTreeSet::new();
        for text in objects {
            let mut object = parse(text)?;
            let (kind, key) = address(&object)?;
            if !self.context.permissions.children.contains(&kind) {
                return Err(Denied::NotChildren(kind).into());
            }
            self.check(Verb::Apply, &kind, &key, &None)?;
            self.settle(&mut object, Use::Apply, &kind, &key)?;
            children::mark(
                &mut object,
                &label,
                &self.context.manifest.name,
                self.context.key,
            )
            .ok_or_else(|| {
                ActionError::Json("metadata.labels and .annotations must be objects".into())
            })?;
            wanted.insert((kind.clone(), key.clone()));
            let force = self.context.permissions.may_force(&kind, &key, None);
            steps.push(self.apply_unless_unchanged(&object, kind, key, &None, force));
        }
        let selector = LabelSelector {
            requirements: vec![Requirement::Equals(children::LABEL.into(), label)],
        };
        for kind in &self.context.permissions.children {
            for member in self.reader.members(kind, &selector) {
                let key = member.key().to_key();
                if wanted.contains(&(kind.clone(), key.clone())) || member.is_being_deleted() {
                    continue;
                }
                self.check(Verb::Delete, kind, &key, &None)?;
                let operation = Operation::Delete {
                    uid: Some(member.uid().to_owned()),
                    resource_version: Some(member.resource_version().to_string()),
                    propagation: None,
                    grace_period_seconds: None,
                };
                steps.push(send(kind, &key, &None, operation));
            }
        }
        Ok(steps)
    }
}

fn send(kind: &Kind, key: &ObjectKey, subresource: &Option<String>, operation: Operation) -> What {
    let write = Write {
        kind: kind.clone(),
        key: key.clone(),
        subresource: subresource.clone(),
        operation,
    };
    What::Send {
        write,
        intent: None,
    }
}

fn parse(text: &str) -> Result<Value, ActionError> {
    if text.len() > MAX_BODY {
        return Err(ActionError::TooLarge(text.len()));
    }
    serde_json::from_str(text).map_err(|error| ActionError::Json(error.to_string()))
}

/// The object that a body is of.
fn address(object: &Value) -> Result<(Kind, ObjectKey), ActionError> {
    let text = |path: &str| match object.pointer(path) {
        None | Some(Value::Null) => Ok(""),
        Some(Value::String(text)) => Ok(text.as_str()),
        Some(_) => Err(ActionError::Json(format!("{path} is not a string"))),
    };
    let (api_version, kind) = (text("/apiVersion")?, text("/kind")?);
    for (path, value) in [("apiVersion", api_version), ("kind", kind)] {
        if value.is_empty() {
            return Err(ActionError::Json(format!("{path} is missing")));
        }
    }
    let key = ObjectKey::new(text("/metadata/namespace")?, text("/metadata/name")?);
    Ok((Kind::from_api_version(api_version, kind), key))
}

/// A merge patch may not carry another object's identity.
fn check_address(body: &Value, kind: &Kind, key: &ObjectKey) -> Result<(), ActionError> {
    let (api_version, kind_name) = (kind.api_version(), &*kind.kind);
    for (path, wanted) in [
        ("/apiVersion", &*api_version),
        ("/kind", kind_name),
        ("/metadata/name", &*key.name),
        ("/metadata/namespace", &*key.namespace),
    ] {
        if let Some(have) = body
            .pointer(path)
            .filter(|have| have.as_str() != Some(wanted))
        {
            return Err(ActionError::OtherObject {
                body: format!("{} {have}", &path[1..]),
                address: format!("{kind} {key}"),
            });
        }
    }
    Ok(())
}
