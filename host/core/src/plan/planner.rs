//! Plans one action at a time: is it permitted, is it valid, and which writes does it need?

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use serde_json::{Value, json};

use super::absent::absent;
use super::body::{BodyAddress, check_address, decode};
use super::digest::digest;
use super::identity::{self, Before, Shown, Use};
use super::words::Audience;
use super::{ActionError, Member, ObjectAddress, PlanContext, Step, What};
use crate::access::permission::{Denied, check_key};
use crate::model::key::{Kind, ObjectKey};
use crate::model::manifest::Verb;
use crate::model::object::Object;
use crate::model::outcome::{
    Action, ActionResult, Delete, DeleteAll, EffectVerb, Event, PatchType,
};
use crate::model::selector::{LabelSelector, Requirement};
use crate::plan::children;
use crate::plan::unchanged::{ApplyTarget, hash, is_same_object};
use crate::plan::write::{Operation, Write};
use crate::reads::reader::Reader;

/// Plans the actions of one outcome, in order. They are planned as if each were done: what an
/// action finds that was left out is told by the server. The time for one action does not depend on
/// how many came before it, because there may be thousands.
pub(super) struct Planner<'a, 'r> {
    pub(super) context: PlanContext<'a>,
    reader: &'r mut Reader,
    /// For each text that was created with a derived name: the first number whose name has not been
    /// tried.
    created: HashMap<String, usize>,
    /// The objects written so far. The snapshot is outdated for them, so no write to them is
    /// dropped as a no-op.
    written: HashSet<ObjectAddress>,
    /// Those among them that this outcome creates, so that their uids are not known.
    born: HashSet<ObjectAddress>,
    /// The finalizers of objects as this outcome leaves them.
    finalizers: HashMap<ObjectAddress, Vec<String>>,
    /// See [`Plan::chains`](super::Plan).
    chains: HashMap<ObjectAddress, Option<String>>,
    warnings: BTreeSet<String>,
    has_children: bool,
}

impl<'a, 'r> Planner<'a, 'r> {
    pub fn new(context: PlanContext<'a>, reader: &'r mut Reader) -> Self {
        Self {
            context,
            reader,
            created: HashMap::new(),
            written: HashSet::new(),
            born: HashSet::new(),
            finalizers: HashMap::new(),
            chains: HashMap::new(),
            warnings: BTreeSet::new(),
            has_children: false,
        }
    }

    /// The objects that are written and then replaced, and the warnings for the operator or the
    /// author.
    pub fn finish(self) -> (HashMap<ObjectAddress, Option<String>>, BTreeSet<String>) {
        (self.chains, self.warnings)
    }
}

/// A step that does not know its action yet.
pub(super) struct Draft {
    kind: Kind,
    key: ObjectKey,
    verb: EffectVerb,
    what: What,
    member: Option<Member>,
}

impl Draft {
    pub(super) fn known(
        kind: &Kind,
        key: &ObjectKey,
        verb: EffectVerb,
        result: ActionResult,
    ) -> Self {
        Self {
            kind: kind.clone(),
            key: key.clone(),
            verb,
            what: What::Known(result),
            member: None,
        }
    }

    fn send(verb: EffectVerb, write: Write) -> Self {
        let (kind, key) = (write.kind.clone(), write.key.clone());
        Self {
            kind,
            key,
            verb,
            what: What::Send {
                write,
                intent: None,
                finalizer: None,
            },
            member: None,
        }
    }

    /// Remembers an apply by this hash once it is accepted.
    fn remembered_as(mut self, hash: Option<u64>) -> Self {
        if let What::Send { intent, .. } = &mut self.what {
            *intent = hash;
        }
        self
    }

    fn of_finalizer(mut self, present: bool) -> Self {
        if let What::Send { finalizer, .. } = &mut self.what {
            *finalizer = Some(present);
        }
        self
    }

    fn of_member(self, member: Member) -> Self {
        Self {
            member: Some(member),
            ..self
        }
    }
}

impl Planner<'_, '_> {
    /// The steps of the next action, which has this index.
    pub fn steps(&mut self, index: usize, action: &Action) -> Result<Vec<Step>, ActionError> {
        let drafts = self.plan(action)?.into_iter();
        let steps: Vec<Step> = drafts.map(|draft| self.step(index, draft)).collect();
        let sent = steps.iter().filter(|step| !step.is_event());
        let sent = sent.filter(|step| matches!(step.what, What::Send { .. }));
        self.written.extend(sent.map(Step::target));
        Ok(steps)
    }

    fn step(&self, action: usize, draft: Draft) -> Step {
        let Draft {
            kind,
            key,
            verb,
            what,
            member,
        } = draft;
        let audience = match &what {
            What::Send { write, .. } => Audience::of(write, self.reader),
            // These are the host's own words.
            What::Known(_) => Audience::Plugin,
        };
        // Effects are kept for each key, so they share the manifest's copy of the kind.
        let mut writes = self.context.manifest.writes.iter();
        let declared = writes.find(|write| write.kind == kind);
        Step {
            action,
            kind: declared.map_or(kind, |write| write.kind.clone()),
            key,
            verb,
            what,
            member,
            audience,
        }
    }

    fn plan(&mut self, action: &Action) -> Result<Vec<Draft>, ActionError> {
        if let Some(absent) = self.absent(action)? {
            return Ok(vec![absent]);
        }
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
                let mut body = decode(body)?;
                check_address(&body, kind, key)?;
                match patch_type {
                    PatchType::Json => {
                        identity::check_json_patch(&body)?;
                        let is_shown = |names: &[&str]| self.reader.shows(kind, key, names);
                        identity::check_json_patch_reads(&body, is_shown)?;
                    }
                    _ => self.settle(&mut body, Use::Patch, kind, key)?,
                }
                let operation = Operation::Patch {
                    patch_type: *patch_type,
                    // Serialized again, so that what is sent is what was checked: of duplicate
                    // members only the last.
                    body: body.to_string(),
                };
                let write = write(kind, key, subresource, operation);
                Ok(vec![Draft::send(EffectVerb::Patch, write)])
            }
            Action::Delete(delete) => Ok(vec![self.delete(delete)?]),
            Action::DeleteAll(all) => Ok(vec![self.delete_all(all)?]),
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
        &mut self,
        body: &mut Value,
        how: Use,
        kind: &Kind,
        key: &ObjectKey,
    ) -> Result<(), ActionError> {
        let shown = Shown::of(self.reader, kind, key);
        let is_written = self.is_written(kind, key);
        identity::settle(body, how, key, &shown, self.before(kind, key), self.reader)?;
        let is_missing = matches!(shown, Shown::Nothing) && !is_written;
        if how == Use::Create || (how == Use::Apply && is_missing) {
            self.note_birth(body, kind, key);
        }
        Ok(())
    }

    fn is_written(&self, kind: &Kind, key: &ObjectKey) -> bool {
        self.written.contains(&ObjectAddress::of(kind, key))
    }

    fn before(&self, kind: &Kind, key: &ObjectKey) -> Before<'_> {
        let finalizers = self.finalizers.get(&ObjectAddress::of(kind, key));
        Before {
            is_written: self.is_written(kind, key),
            finalizers: finalizers.map(Vec::as_slice),
        }
    }

    /// An object that this outcome creates has the finalizers of its body.
    fn note_birth(&mut self, body: &Value, kind: &Kind, key: &ObjectKey) {
        let finalizers = body["metadata"]["finalizers"].as_array();
        let finalizers = finalizers.into_iter().flatten().filter_map(Value::as_str);
        let target = ObjectAddress::of(kind, key);
        self.finalizers
            .insert(target.clone(), finalizers.map(str::to_owned).collect());
        self.born.insert(target);
    }

    fn apply(
        &mut self,
        text: &str,
        subresource: &Option<String>,
        force: bool,
    ) -> Result<Draft, ActionError> {
        let BodyAddress { kind, key, .. } = BodyAddress::read(text)?;
        self.check(Verb::Apply, &kind, &key, subresource)?;
        if force {
            let permissions = self.context.permissions;
            permissions.check_force(&kind, &key, subresource)?;
        }
        let mut object = decode(text)?;
        self.settle(&mut object, Use::Apply, &kind, &key)?;
        if subresource.is_none() {
            self.warn_of_status(&object, &kind);
        }
        Ok(self.apply_unless_unchanged(&object, kind, key, subresource, force))
    }

    /// Only the server knows which kinds have a status subresource; nearly all kinds with a status
    /// have one. Go serializes an empty status for every object, so an empty one gives no warning.
    fn warn_of_status(&mut self, object: &Value, kind: &Kind) {
        let status = object.get("status");
        if status.is_some_and(|status| !status.is_null() && *status != json!({})) {
            self.warnings.insert(format!(
                "an apply of {kind} has a status, which the server drops if the kind has a status subresource: apply it with subresource \"status\""
            ));
        }
    }

    fn apply_unless_unchanged(
        &mut self,
        object: &Value,
        kind: Kind,
        key: ObjectKey,
        subresource: &Option<String>,
        force: bool,
    ) -> Draft {
        let target = ApplyTarget {
            kind,
            key,
            subresource: subresource.clone(),
        };
        let PlanContext {
            manager, applied, ..
        } = self.context;
        let ApplyTarget { kind, key, .. } = &target;
        let current = self
            .reader
            .look_at_applied(kind, key, subresource.as_deref());
        let is_unchanged =
            |current: &Arc<Object>| applied.is_unchanged(manager, &target, object, current);
        let is_written = self.is_written(&target.kind, &target.key);
        if !is_written && current.as_ref().is_some_and(is_unchanged) {
            let (verb, unchanged) = (EffectVerb::Apply, ActionResult::Unchanged);
            return Draft::known(&target.kind, &target.key, verb, unchanged);
        }
        // An apply is remembered only for objects that reach the cache. Others would never be
        // forgotten.
        let is_cached = current.is_some() || self.reader.knows(&target.kind, &target.key);
        let ApplyTarget {
            kind,
            key,
            subresource,
        } = target;
        let write = Write {
            kind,
            key,
            subresource,
            operation: Operation::Apply {
                object: object.to_string(),
                force,
            },
        };
        let intent = is_cached.then(|| hash(object));
        Draft::send(EffectVerb::Apply, write).remembered_as(intent)
    }

    fn create(&mut self, text: &str, subresource: &Option<String>) -> Result<Draft, ActionError> {
        let BodyAddress { kind, key, prefix } = BodyAddress::read(text)?;
        let is_named = !key.name.is_empty() || prefix.is_empty();
        // As on the server: at most 63 characters, so that the name fits into a label.
        let prefix: String = prefix.chars().take(63 - 8).collect();
        let name = if is_named { &*key.name } else { &*prefix };
        let mut key = ObjectKey::new(&key.namespace, name);
        self.check(Verb::Create, &kind, &key, subresource)?;
        let mut object = decode(text)?;
        if !is_named {
            key = self.derive_name(text, &object, &kind, &key);
            self.check(Verb::Create, &kind, &key, subresource)?;
            if let Some(metadata) = object["metadata"].as_object_mut() {
                metadata.remove("generateName");
                metadata.insert("name".into(), (*key.name).into());
            }
        }
        // The body of a subresource is about an existing object, and the plugin decides which one.
        if subresource.is_none() {
            self.settle(&mut object, Use::Create, &kind, &key)?;
        }
        let operation = Operation::Create {
            object: object.to_string(),
        };
        let write = write(&kind, &key, subresource, operation);
        Ok(Draft::send(EffectVerb::Create, write))
    }

    /// Derives a name from `generateName`, which is the name of `prefix`. It is the same on every
    /// retry for the same state, so that a create whose answer was lost is not done twice. It
    /// depends on the object and on how many identical ones were requested before it, not on its
    /// position among the actions.
    /// Identical objects that the guest has seen in the snapshot count too: the guest knows about
    /// them and wants another one. So a guest that creates without reading first creates only once.
    fn derive_name(
        &mut self,
        text: &str,
        object: &Value,
        kind: &Kind,
        prefix: &ObjectKey,
    ) -> ObjectKey {
        let body = self.digest(&[&object.to_string()]);
        let mut number = self.created.remove(text).unwrap_or_default();
        let key = loop {
            let digest = self.digest(&[&number.to_string(), &body]);
            let name = format!("{}{}", prefix.name, &digest[..8]);
            let key = ObjectKey::new(&prefix.namespace, &name);
            number += 1;
            if !self.reader.has_seen(kind, &key) {
                break key;
            }
        };
        self.created.insert(text.to_owned(), number);
        key
    }

    /// See [`digest`].
    fn digest(&self, parts: &[&str]) -> String {
        let PlanContext { manifest, key, .. } = self.context;
        digest(&manifest.name, key, parts)
    }

    fn update(&mut self, text: &str, subresource: &Option<String>) -> Result<Draft, ActionError> {
        let BodyAddress { kind, key, .. } = BodyAddress::read(text)?;
        self.check(Verb::Update, &kind, &key, subresource)?;
        let mut object = decode(text)?;
        let is_written = self.is_written(&kind, &key);
        let shown = Shown::of(self.reader, &kind, &key);
        match shown {
            Shown::Nothing if !is_written => {
                self.reader.look_at(&kind, &key);
                let gone = format!("{kind} {key} is not in the cache");
                let gone = ActionResult::NotFound(gone);
                return Ok(Draft::known(&kind, &key, EffectVerb::Update, gone));
            }
            // Replacing an object that was not read removes what others have written to it.
            Shown::Unknown if subresource.is_none() && !identity::names_a_version(&object) => {
                return Err(identity::metadata(
                    "an update of an object that is not read says of which resourceVersion it is",
                ));
            }
            _ => {}
        }
        let seen = identity::seen_version(&object, &shown);
        let before = self.before(&kind, &key);
        identity::settle(&mut object, Use::Update, &key, &shown, before, self.reader)?;
        let current = self.reader.look_at(&kind, &key).filter(|_| !is_written);
        let current =
            current.and_then(|current| serde_json::from_str::<Value>(current.json()).ok());
        if current.is_some_and(|current| is_same_object(&current, &object, subresource.as_deref()))
        {
            let (verb, unchanged) = (EffectVerb::Update, ActionResult::Unchanged);
            return Ok(Draft::known(&kind, &key, verb, unchanged));
        }
        if is_written {
            let target = ObjectAddress::of(&kind, &key);
            let seen = seen.filter(|_| !self.born.contains(&target));
            self.chains.entry(target).or_insert(seen);
        }
        let operation = Operation::Update {
            object: object.to_string(),
        };
        let write = write(&kind, &key, subresource, operation);
        Ok(Draft::send(EffectVerb::Update, write))
    }

    /// Without preconditions from the guest, a delete applies only to the object that the snapshot
    /// shows, as it was when the guest decided: not to a successor with the same name, and not if
    /// it has changed since (the garbage collector's rule). If this outcome itself has written the
    /// object, its version is not known yet. An object that the snapshot does not show is deleted
    /// by name.
    fn delete(&mut self, delete: &Delete) -> Result<Draft, ActionError> {
        let Delete { kind, key, .. } = delete;
        // An empty string is no precondition.
        let own_uid = delete.uid.clone().filter(|uid| !uid.is_empty());
        let own_version = delete.resource_version.clone();
        let own_version = own_version.filter(|version| !version.is_empty());
        self.check(Verb::Delete, kind, key, &None)?;
        let is_born = self.born.contains(&ObjectAddress::of(kind, key));
        let seen = self.reader.look_at(kind, key).filter(|_| !is_born);
        let uid = || seen.as_ref().map(|object| object.uid().to_owned());
        let is_as_seen = own_uid.is_none() && !self.is_written(kind, key);
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
        let write = write(kind, key, &None, operation);
        Ok(Draft::send(EffectVerb::Delete, write))
    }

    fn delete_all(&mut self, all: &DeleteAll) -> Result<Draft, ActionError> {
        let DeleteAll {
            kind, namespace, ..
        } = all;
        let permissions = self.context.permissions;
        permissions.check_delete_all(kind, namespace)?;
        let labels = all.labels.as_deref().map(LabelSelector::parse);
        let labels = labels.transpose()?.unwrap_or_default();
        let key = ObjectKey::new(namespace, "");
        let operation = Operation::DeleteAll {
            labels: labels.to_string(),
            propagation: all.propagation,
        };
        let write = write(kind, &key, &None, operation);
        Ok(Draft::send(EffectVerb::DeleteAll, write))
    }

    fn event(&mut self, event: &Event) -> Result<Draft, ActionError> {
        let Event {
            kind,
            key,
            is_warning,
            reason,
            action,
            note,
        } = event;
        let mut kinds = self.context.manifest.kinds().into_iter();
        if !kinds.any(|known| known == kind || known.includes(kind)) {
            return Err(Denied::Kind(kind.clone()).into());
        }
        let is_readable = self.reader.is_in_scope(kind, key);
        let permissions = self.context.permissions;
        check_key(key)?;
        if let Err(denied) = permissions.check_event(kind, key, is_readable) {
            let denied = ActionResult::Forbidden(denied.to_string());
            return Ok(Draft::known(kind, key, EffectVerb::Event, denied));
        }
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
        let write = write(kind, key, &None, operation);
        Ok(Draft::send(EffectVerb::Event, write))
    }

    /// A JSON Patch that requires the uid of the object that the snapshot shows, and the finalizers
    /// that the object has there or that this outcome has given it. So no other writer's finalizer
    /// is lost. Other changes of the object do not matter.
    fn finalizer(
        &mut self,
        kind: &Kind,
        key: &ObjectKey,
        name: &str,
        present: bool,
    ) -> Result<Draft, ActionError> {
        self.check(Verb::Patch, kind, key, &None)?;
        let known = |result| Draft::known(kind, key, EffectVerb::Finalizer, result);
        if !self.reader.may_read(kind) {
            return Err(Denied::NotRead(kind.clone()).into());
        }
        let target = ObjectAddress::of(kind, key);
        let seen = self.reader.look_at(kind, key);
        let seen = seen.filter(|_| !self.born.contains(&target));
        let own = self.finalizers.get(&target).cloned();
        let have = own.or_else(|| seen.as_ref().map(|object| object.finalizers()));
        let Some(have) = have else {
            let is_done = !present && self.reader.knows(kind, key);
            let gone = || ActionResult::NotFound(format!("{kind} {key} is not in the cache"));
            return Ok(known(if is_done {
                ActionResult::Unchanged
            } else {
                gone()
            }));
        };
        let is_so = have.iter().any(|have| have == name) == present;
        if is_so && !self.is_written(kind, key) {
            return Ok(known(ActionResult::Unchanged));
        }
        let others = have.iter().map(String::as_str).filter(|have| *have != name);
        let wanted: Vec<&str> = others.chain(present.then_some(name)).collect();
        let uid = seen.as_ref().map(|object| object.uid());
        let uid = uid.filter(|uid| !uid.is_empty());
        let body = finalizer_patch(uid, &have, &wanted);
        let wanted = wanted.into_iter().map(str::to_owned).collect();
        self.finalizers.insert(target, wanted);
        let operation = Operation::Patch {
            patch_type: PatchType::Json,
            body: body.to_string(),
        };
        let write = write(kind, key, &None, operation);
        Ok(Draft::send(EffectVerb::Finalizer, write).of_finalizer(present))
    }

    /// Applies each wanted object with a label that identifies this key, then, if all that has
    /// succeeded, deletes the objects that have the label and are not wanted. Other controllers
    /// copy labels (the endpoints controllers copy a Service's) but not annotations, so a member
    /// has both.
    fn children(&mut self, objects: &[String]) -> Result<Vec<Draft>, ActionError> {
        let label = children::label(&self.context.manifest.name, self.context.key);
        let mut steps = Vec::new();
        let mut wanted = HashSet::new();
        for text in objects {
            let BodyAddress { kind, key, .. } = BodyAddress::read(text)?;
            if !self.context.permissions.children.contains(&kind) {
                return Err(Denied::NotChildren(kind).into());
            }
            self.check(Verb::Apply, &kind, &key, &None)?;
            if self.context.permissions.is_absent(&kind) {
                let absent = absent(&kind, &key, EffectVerb::Apply);
                steps.push(absent.of_member(Member::Wanted));
                continue;
            }
            let mut object = decode(text)?;
            self.settle(&mut object, Use::Apply, &kind, &key)?;
            self.warn_of_status(&object, &kind);
            children::mark(
                &mut object,
                &label,
                &self.context.manifest.name,
                &self.context.key.object,
            )
            .ok_or_else(|| {
                ActionError::Json("metadata.labels and .annotations must be objects".into())
            })?;
            wanted.insert(ObjectAddress::of(&kind, &key));
            let force = self.context.permissions.may_force(&kind, &key, None);
            let apply = self.apply_unless_unchanged(&object, kind, key, &None, force);
            steps.push(apply.of_member(Member::Wanted));
        }
        steps.extend(self.unwanted_children(label, wanted));
        Ok(steps)
    }

    /// Deletes the objects with this label that are not `settled`, which are those that already
    /// have a step, or need none.
    fn unwanted_children(
        &mut self,
        label: String,
        mut settled: HashSet<ObjectAddress>,
    ) -> Vec<Draft> {
        let mut steps = Vec::new();
        let selector = LabelSelector {
            requirements: vec![Requirement::Equals(children::LABEL.into(), label)],
        };
        for kind in &self.context.permissions.children {
            for member in self.reader.members(kind, &selector) {
                let key = member.key().to_key();
                let owner = children::annotated_key(&self.context.manifest.name, &member);
                if member.is_being_deleted()
                    || owner.as_ref() != Some(&self.context.key.object)
                    || !settled.insert(ObjectAddress::of(kind, &key))
                {
                    continue;
                }
                // The guest has not asked for this object by name; the operator has withdrawn a
                // grant. So it is a warning and not an error.
                if let Err(denied) = self.check(Verb::Delete, kind, &key, &None) {
                    self.warnings.insert(format!(
                        "children: {kind} {key} is not wanted any more and stays: {denied}"
                    ));
                    continue;
                }
                let operation = Operation::Delete {
                    uid: Some(member.uid().to_owned()),
                    resource_version: Some(member.resource_version().to_string()),
                    propagation: None,
                    grace_period_seconds: None,
                };
                let write = write(kind, &key, &None, operation);
                let delete = Draft::send(EffectVerb::Delete, write);
                steps.push(delete.of_member(Member::Unwanted));
            }
        }
        steps
    }
}

/// A JSON Patch from these finalizers to those, for the object of this uid alone.
fn finalizer_patch(uid: Option<&str>, have: &[String], wanted: &[&str]) -> Value {
    let is_it = uid.map(|uid| json!({"op": "test", "path": "/metadata/uid", "value": uid}));
    // An object without finalizers has no such field, which a test sees as null.
    let now = if have.is_empty() {
        Value::Null
    } else {
        json!(have)
    };
    let is_now = json!({"op": "test", "path": "/metadata/finalizers", "value": now});
    let set = json!({"op": "add", "path": "/metadata/finalizers", "value": wanted});
    is_it.into_iter().chain([is_now, set]).collect()
}

fn write(
    kind: &Kind,
    key: &ObjectKey,
    subresource: &Option<String>,
    operation: Operation,
) -> Write {
    Write {
        kind: kind.clone(),
        key: key.clone(),
        subresource: subresource.clone(),
        operation,
    }
}
