//! Plans a `children` action: applies its members, and deletes those that are no longer wanted.

use std::collections::HashSet;

use super::{Condition, Draft, Planner, write};
use crate::access::permission::Denied;
use crate::model::key::{Kind, ObjectKey};
use crate::model::manifest::Verb;
use crate::model::outcome::{ActionResult, EffectVerb};
use crate::model::selector::{LabelSelector, Labels, Requirement};
use crate::plan::absent::absent;
use crate::plan::body::{BodyAddress, decode};
use crate::plan::children;
use crate::plan::identity::{Shown, Use};
use crate::plan::unchanged::ApplyTarget;
use crate::plan::write::Operation;
use crate::plan::{ActionError, Member, ObjectAddress};

impl Planner<'_, '_> {
    /// Applies each wanted object with a label that identifies this key, then, if all that has
    /// succeeded, deletes the objects that have the label and are not wanted. Other controllers
    /// copy labels (the endpoints controllers copy a Service's) but not annotations, so a member
    /// has both.
    pub(super) fn children(&mut self, objects: &[String]) -> Result<Vec<Draft>, ActionError> {
        let label = children::label(&self.context.manifest.name, self.context.key);
        let mut steps = Vec::new();
        let mut wanted = HashSet::new();
        for text in objects {
            let BodyAddress { kind, key, .. } = BodyAddress::read(text)?;
            if !self.context.permissions.children.contains(&kind) {
                return Err(Denied::NotChildren(kind).into());
            }
            self.check(Verb::Apply, &kind, &key, &None)?;
            wanted.insert(ObjectAddress::of(&kind, &key));
            let child = if self.context.permissions.is_absent(&kind) {
                absent(&kind, &key, EffectVerb::Apply)
            } else {
                self.child(text, kind, key, &label)?
            };
            steps.push(child.of_member(Member::Wanted));
        }
        steps.extend(self.unwanted_children(label, wanted));
        Ok(steps)
    }

    /// Applies a wanted child: a new object, or the one that the snapshot shows, if it has the
    /// label. Any other object of that name is somebody else's. It is not touched, and the server
    /// is told so, too: the snapshot may lag behind it.
    fn child(
        &mut self,
        text: &str,
        kind: Kind,
        key: ObjectKey,
        label: &str,
    ) -> Result<Draft, ActionError> {
        let mut object = decode(text)?;
        let condition = match Shown::of(self.reader, &kind, &key) {
            Shown::Object(shown) if shown.label(children::LABEL) != Some(label) => {
                self.reader.look_at_applied(&kind, &key, None);
                let conflict = ActionResult::Conflict(children::conflict(&kind, &key, label));
                return Ok(Draft::known(&kind, &key, EffectVerb::Apply, conflict));
            }
            // An earlier action may have deleted it, or created it.
            _ if self.is_written(&kind, &key) => Condition::None,
            Shown::Object(shown) => Condition::Uid(shown.uid().to_owned()),
            Shown::Nothing => Condition::New,
            Shown::Unknown => Condition::None,
        };
        self.settle(&mut object, Use::Apply, &kind, &key)?;
        self.warn_of_status(&object, &kind);
        let (plugin, own) = (&self.context.manifest.name, &self.context.key.object);
        children::mark(&mut object, label, plugin, own).ok_or_else(|| {
            ActionError::Json("metadata.labels and .annotations must be objects".into())
        })?;
        let force = self.context.permissions.may_force(&kind, &key, None);
        let target = ApplyTarget {
            kind,
            key,
            subresource: None,
        };
        Ok(self.apply_unless_unchanged(object, &target, force, condition))
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
