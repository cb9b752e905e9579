//! Returning to the template of an earlier revision, asked for by an annotation that is left of a
//! field of `extensions/v1beta1`. (`kubectl rollout undo` writes the template itself.)

use pilothouse_sdk::{Event, EventType, Failure, Update};
use serde_json::Value;

use crate::annotations::{self, Annotations, ROLLBACK_TO};
use crate::objects::Deployment;
use crate::sets;
use crate::sync::Sync;
use workloads::hash::{POD_TEMPLATE_HASH, is_same_template};

/// The revision that a Deployment is to return to; 0 stands for the one before. `None`: it is not
/// to return, or the annotation is no number.
pub fn wanted_revision(deployment: &Deployment) -> Option<i64> {
    let wanted = deployment.metadata.annotations.get(ROLLBACK_TO)?;
    wanted.parse().ok()
}

/// What a rollback ends with.
struct Ending {
    event_type: EventType,
    reason: &'static str,
    note: String,
    /// The template that the Deployment gets, with its annotations.
    change: Option<(Value, Annotations)>,
}

impl Sync<'_> {
    /// Gives the Deployment the template of this revision, if there is one and it differs. In any
    /// case the annotation that asks for it is removed.
    ///
    /// # Errors
    ///
    /// ReplicaSets may not be read.
    pub fn roll_back(&mut self, wanted: i64) -> Result<(), Failure> {
        if self.sets.new_place().is_none() {
            // The template that is left gets its revision first. The change runs the key again.
            if self.find_or_create_new_set()?.is_continue() {
                self.write_status(false)?;
            }
            return Ok(());
        }
        let ending = self.ending(wanted);
        let Some(mut object) = self.request.object::<Value>()? else {
            return Ok(());
        };
        let mut annotations = self.deployment.metadata.annotations.clone();
        if let Some((template, changed)) = ending.change {
            object["spec"]["template"] = template;
            annotations = changed;
        }
        annotations.remove(ROLLBACK_TO);
        object["metadata"]["annotations"] = serde_json::to_value(annotations)?;
        let event = Event {
            object: self.key().clone(),
            event_type: ending.event_type,
            reason: ending.reason.to_owned(),
            action: "Rollback".to_owned(),
            note: ending.note,
        };
        let update = Update::new(&object)?;
        if matches!(event.event_type, EventType::Warning) {
            self.report(event);
            self.step(update);
        } else {
            self.step(update);
            self.report(event);
        }
        Ok(())
    }

    fn ending(&self, wanted: i64) -> Ending {
        let revisions = self.sets.all().filter_map(sets::revision);
        let revision = match wanted {
            0 => annotations::last_revision(revisions),
            wanted => wanted,
        };
        if revision == 0 {
            return Ending::not_found("Unable to find last revision.");
        }
        let mut all = self.sets.old().chain(self.sets.new_set());
        let Some(set) = all.find(|set| sets::revision(set) == Some(revision)) else {
            return Ending::not_found("Unable to find the revision to rollback to.");
        };
        let name = &self.deployment.metadata.always.name;
        if is_same_template(&self.deployment.spec.template, &set.spec.template) {
            let note = format!(
                "The rollback revision contains the same template as current deployment {name:?}"
            );
            return Ending::given_up("DeploymentRollbackTemplateUnchanged", &note);
        }
        let mut template = set.spec.template.clone();
        let labels = template.pointer_mut("/metadata/labels");
        if let Some(labels) = labels.and_then(Value::as_object_mut) {
            labels.remove(POD_TEMPLATE_HASH);
        }
        let own = &self.deployment.metadata.annotations;
        let annotations = annotations::rolled_back(own, &set.metadata.annotations);
        Ending {
            event_type: EventType::Normal,
            reason: "DeploymentRollback",
            note: format!("Rolled back deployment {name:?} to revision {revision}"),
            change: Some((template, annotations)),
        }
    }
}

impl Ending {
    fn not_found(note: &str) -> Self {
        Self::given_up("DeploymentRollbackRevisionNotFound", note)
    }

    fn given_up(reason: &'static str, note: &str) -> Self {
        Self {
            event_type: EventType::Warning,
            reason,
            note: note.to_owned(),
            change: None,
        }
    }
}
