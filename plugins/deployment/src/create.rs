//! Creating the ReplicaSet of a new template.

use std::ops::ControlFlow;

use pilothouse_sdk::{ActionResult, Create, EffectVerb, Event, Failure, Metadata};
use serde_json::{Value, json};

use crate::annotations::{self, Annotations};
use crate::claim::controller_reference;
use crate::conditions::{SET_CREATE_ERROR, SET_CREATED};
use crate::objects::{
    REPLICA_SET, ReplicaSet, ReplicaSetMetadata, ReplicaSetSpec, ReplicaSetStatus,
};
use crate::sync::Sync;
use workloads::hash::{POD_TEMPLATE_HASH, template_hash};

/// Most characters of the name of an object.
const MAX_NAME: usize = 253;

/// What the API server says of a create in a namespace that is being deleted.
const NAMESPACE_TERMINATING: &str = "because it is being terminated";

impl Sync<'_> {
    /// The place of the new ReplicaSet, which is created if there is none. `Break`: nothing more
    /// can be done now.
    ///
    /// # Errors
    ///
    /// ReplicaSets may not be read.
    pub fn find_or_create_new_set(&mut self) -> Result<ControlFlow<(), usize>, Failure> {
        if let Some(place) = self.sets.new_place() {
            return Ok(ControlFlow::Continue(place));
        }
        let hash = template_hash(
            &self.deployment.spec.template,
            self.deployment.status.collision_count,
        )?;
        let name = set_name(&self.deployment.metadata.always.name, &hash);
        let key = self.key().of_kind(REPLICA_SET).named(&name);
        if self.host.get_json(&key)?.is_some() {
            // It has another template or another owner. The next try is under another name.
            let count = &mut self.deployment.status.collision_count;
            *count = Some(count.unwrap_or_default().wrapping_add(1));
            self.write_status(false)?;
            self.confirm(&key);
            return Ok(ControlFlow::Break(()));
        }
        if self.report_failed_create(&name)?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
        self.create(&name, &hash).map(ControlFlow::Continue)
    }

    fn create(&mut self, name: &str, hash: &str) -> Result<usize, Failure> {
        let revision = self.sets.highest_old_revision() + 1;
        let replicas = self.new_size(0);
        let own = &self.deployment.metadata.annotations;
        let annotations = annotations::of_new_set(own, &Annotations::new(), revision);
        let mut annotations = annotations.unwrap_or_default();
        let sizes = annotations::sizes(self.deployment.spec.replicas, self.limits.max_surge);
        annotations.extend(sizes.map(|(name, value)| (name.to_owned(), value)));

        let body = self.body(name, hash, &annotations, replicas);
        self.step(Create::new(&body)?);
        if replicas > 0 {
            self.report_scaling(name, 0, replicas);
        }
        self.set_revision(revision.to_string());
        if self.deployment.spec.progress_deadline().is_some() {
            let message = format!("Created new replica set {name:?}");
            self.note_progress("True", SET_CREATED, &message);
        }
        Ok(self.add_created(name, annotations, replicas))
    }

    fn body(&self, name: &str, hash: &str, annotations: &Annotations, replicas: i64) -> Value {
        let spec = &self.deployment.spec;
        let mut template = spec.template.clone();
        template["metadata"]["labels"][POD_TEMPLATE_HASH] = hash.into();
        let mut selector = spec.selector.clone();
        selector["matchLabels"][POD_TEMPLATE_HASH] = hash.into();
        json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet",
            "metadata": {
                "namespace": self.key().namespace, "name": name,
                "labels": template["metadata"]["labels"],
                "annotations": annotations,
                "ownerReferences": [controller_reference(&self.deployment)],
            },
            "spec": {
                "replicas": replicas, "minReadySeconds": spec.min_ready_seconds,
                "selector": selector, "template": template,
            },
        })
    }

    /// The new ReplicaSet as it will be when it has been created, among the others.
    fn add_created(&mut self, name: &str, annotations: Annotations, replicas: i64) -> usize {
        let spec = &self.deployment.spec;
        let set = ReplicaSet {
            metadata: ReplicaSetMetadata {
                always: Metadata {
                    namespace: self.key().namespace.clone(),
                    name: name.to_owned(),
                    ..Metadata::default()
                },
                annotations,
                ..ReplicaSetMetadata::default()
            },
            spec: ReplicaSetSpec {
                replicas,
                min_ready_seconds: spec.min_ready_seconds,
                template: Value::Null,
            },
            status: ReplicaSetStatus::default(),
        };
        self.sets.add_new(set)
    }

    /// Notes that the last try to create the new ReplicaSet has failed, if it has. `Break`: no
    /// other can succeed.
    fn report_failed_create(&mut self, name: &str) -> Result<ControlFlow<()>, Failure> {
        let mut effects = self.request.previous.iter();
        let create = effects.find(|effect| {
            effect.verb == EffectVerb::Create
                && effect.object.kind == REPLICA_SET
                && effect.object.name == name
        });
        let failure = create.and_then(|effect| match &effect.outcome {
            ActionResult::Conflict(text)
            | ActionResult::NotFound(text)
            | ActionResult::Forbidden(text)
            | ActionResult::Invalid(text)
            | ActionResult::Failed(text) => Some(text),
            _ => None,
        });
        let Some(failure) = failure else {
            return Ok(ControlFlow::Continue(()));
        };
        if failure.contains(NAMESPACE_TERMINATING) {
            return Ok(ControlFlow::Break(()));
        }
        let message = format!("Failed to create new replica set {name:?}: {failure}");
        if self.deployment.spec.progress_deadline().is_some() {
            self.note_progress("False", SET_CREATE_ERROR, &message);
            self.write_status(false)?;
        }
        let event = Event::warning(self.key(), SET_CREATE_ERROR, "Create", &message);
        self.step(event);
        Ok(ControlFlow::Continue(()))
    }
}

/// The name of a Deployment's ReplicaSet: both names, of which the Deployment's is cut off if they
/// were too long.
fn set_name(deployment: &str, hash: &str) -> String {
    let most = MAX_NAME.saturating_sub(1 + hash.len());
    let kept = if most == 0 {
        deployment.len()
    } else {
        most.min(deployment.len())
    };
    format!("{}-{hash}", &deployment[..kept])
}
