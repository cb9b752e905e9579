//! Writes to optional kinds that the cluster does not serve. They fail as a write to an object that
//! is not there: the rest of the outcome is carried out, and the key is retried. So a plugin need
//! not know what the cluster serves, and what it may not write is refused all the same.

use super::ActionError;
use super::body::BodyAddress;
use super::planner::{Draft, Planner};
use crate::model::key::{Kind, ObjectKey};
use crate::model::manifest::Verb;
use crate::model::outcome::{Action, ActionResult, Delete, EffectVerb};

/// The object that an action is about, and what it would do.
struct Target<'a> {
    kind: Kind,
    key: ObjectKey,
    subresource: Option<&'a str>,
    verb: Verb,
    effect: EffectVerb,
}

impl Planner<'_, '_> {
    /// The step of an action on an absent kind. `None` if its kind is served, and for `children`,
    /// whose objects are each looked at by themselves.
    pub(super) fn absent(&self, action: &Action) -> Result<Option<Draft>, ActionError> {
        let permissions = self.context.permissions;
        if !permissions.has_absent() {
            return Ok(None);
        }
        match action {
            Action::Children { .. } => return Ok(None),
            Action::Event(event) => {
                let is_absent = permissions.is_absent(&event.kind);
                let draft = || absent(&event.kind, &event.key, EffectVerb::Event);
                return Ok(is_absent.then(draft));
            }
            Action::DeleteAll(all) => {
                if !permissions.is_absent(&all.kind) {
                    return Ok(None);
                }
                permissions.check_delete_all(&all.kind, &all.namespace)?;
                let key = ObjectKey::new(&all.namespace, "");
                return Ok(Some(absent(&all.kind, &key, EffectVerb::DeleteAll)));
            }
            _ => {}
        }
        let target = target(action)?.filter(|target| permissions.is_absent(&target.kind));
        let Some(Target {
            kind,
            key,
            subresource,
            verb,
            effect,
        }) = target
        else {
            return Ok(None);
        };
        permissions.check(verb, &kind, &key, subresource)?;
        Ok(Some(absent(&kind, &key, effect)))
    }
}

/// A write that is not sent because its kind is not served.
pub(super) fn absent(kind: &Kind, key: &ObjectKey, effect: EffectVerb) -> Draft {
    let reason = format!("{kind} is optional, and the cluster does not serve it");
    Draft::known(kind, key, effect, ActionResult::NotFound(reason))
}

/// What an action on one object is about.
fn target(action: &Action) -> Result<Option<Target<'_>>, ActionError> {
    let (text, subresource, verb, effect) = match action {
        Action::Apply {
            object,
            subresource,
            ..
        } => (object, subresource, Verb::Apply, EffectVerb::Apply),
        Action::Create {
            object,
            subresource,
        } => (object, subresource, Verb::Create, EffectVerb::Create),
        Action::Update {
            object,
            subresource,
        } => (object, subresource, Verb::Update, EffectVerb::Update),
        _ => return Ok(named_target(action)),
    };
    let BodyAddress { kind, key, prefix } = BodyAddress::read(text)?;
    // The name that would be derived from the prefix is not known here.
    let key = match key.name.is_empty() {
        true => ObjectKey::new(&key.namespace, &prefix),
        false => key,
    };
    Ok(Some(Target {
        kind,
        key,
        subresource: subresource.as_deref(),
        verb,
        effect,
    }))
}

/// The target of an action that names its object.
fn named_target(action: &Action) -> Option<Target<'_>> {
    let (kind, key, subresource, verb, effect) = match action {
        Action::Patch {
            kind,
            key,
            subresource,
            ..
        } => (kind, key, subresource, Verb::Patch, EffectVerb::Patch),
        Action::Delete(Delete { kind, key, .. }) => {
            (kind, key, &None, Verb::Delete, EffectVerb::Delete)
        }
        Action::Finalizer { kind, key, .. } => {
            (kind, key, &None, Verb::Patch, EffectVerb::Finalizer)
        }
        _ => return None,
    };
    Some(Target {
        kind: kind.clone(),
        key: key.clone(),
        subresource: subresource.as_deref(),
        verb,
        effect,
    })
}
