//! Plans one action at a time: is it permitted, is it valid, and which writes does it need?

mod creating;
mod draft;
mod finalizing;
mod members;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use serde_json::{Value, json};

use super::body::{BodyAddress, check_address, decode};
use super::identity::{self, Before, Shown, Use};
use super::words::Audience;
use super::{ActionError, ObjectAddress, PlanContext, Step, What};
use crate::access::permission::{Denied, check_key};
use crate::model::key::{Kind, ObjectKey};
use crate::model::manifest::Verb;
use crate::model::object::Object;
use crate::model::outcome::{
    Action, ActionResult, Delete, DeleteAll, EffectVerb, Event, PatchType,
};
use crate::model::selector::LabelSelector;
use crate::model::text::prefix;
use crate::plan::unchanged::{ApplyTarget, hash, is_same_object};
use crate::plan::write::{MAX_EVENT_NOTE, MAX_EVENT_WORD, Operation, Write};
use crate::reads::reader::Reader;
pub(super) use draft::Draft;

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
        if let Some(kind) = kind_of(action) {
            self.reader.see_kind(kind);
        }
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
        let target = ApplyTarget {
            kind,
            key,
            subresource: subresource.clone(),
        };
        Ok(self.apply_unless_unchanged(object, &target, force, Condition::None))
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
        mut object: Value,
        target: &ApplyTarget,
        force: bool,
        condition: Condition,
    ) -> Draft {
        let PlanContext {
            manager, applied, ..
        } = self.context;
        let ApplyTarget {
            kind,
            key,
            subresource,
        } = target;
        let current = self
            .reader
            .look_at_applied(kind, key, subresource.as_deref());
        let is_unchanged =
            |current: &Arc<Object>| applied.is_unchanged(manager, target, &object, current);
        let is_written = self.is_written(kind, key);
        if !is_written && current.as_ref().is_some_and(is_unchanged) {
            let (verb, unchanged) = (EffectVerb::Apply, ActionResult::Unchanged);
            return Draft::known(kind, key, verb, unchanged);
        }
        // An apply is remembered only for objects that reach the cache. Others would never be
        // forgotten.
        let is_cached = current.is_some() || self.reader.knows(kind, key);
        let intent = is_cached.then(|| hash(&object));
        let is_creation = matches!(condition, Condition::New);
        condition.add_to(&mut object);
        let operation = Operation::Apply {
            object: object.to_string(),
            force,
        };
        let write = write(kind, key, subresource, operation);
        let draft = Draft::send(EffectVerb::Apply, write).remembered_as(intent);
        draft.of_creation(is_creation)
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
            // Cut here and not only when it is written: until then it is kept in memory.
            reason: prefix(reason, MAX_EVENT_WORD).to_owned(),
            action: prefix(action, MAX_EVENT_WORD).to_owned(),
            note: prefix(note, MAX_EVENT_NOTE).to_owned(),
        };
        let write = write(kind, key, &None, operation);
        Ok(Draft::send(EffectVerb::Event, write))
    }
}

/// What must hold on the server for an apply to be carried out.
enum Condition {
    None,
    /// There is no object of this name.
    New,
    /// The object has this uid. Empty: any.
    Uid(String),
}

impl Condition {
    /// Says it in the body. An apply with a resourceVersion creates an object, but changes only an
    /// object of that version. No object has version 1: in etcd that is the empty store.
    fn add_to(self, object: &mut Value) {
        match self {
            Self::New => object["metadata"]["resourceVersion"] = "1".into(),
            Self::Uid(uid) if !uid.is_empty() => object["metadata"]["uid"] = uid.into(),
            Self::Uid(_) | Self::None => {}
        }
    }
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

/// The kind that an action names besides a body.
fn kind_of(action: &Action) -> Option<&Kind> {
    match action {
        Action::Patch { kind, .. } | Action::Finalizer { kind, .. } => Some(kind),
        Action::Delete(delete) => Some(&delete.kind),
        Action::Event(event) => Some(&event.kind),
        _ => None,
    }
}
