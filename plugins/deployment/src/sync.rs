//! One look at a Deployment: what is known of it, and what is to be done, step by step.
//!
//! Each step is a stage of its own, so that what comes later is only done if all before has
//! succeeded. What is done to the objects is done to the copies here, too, so that later steps
//! decide on it.

use std::collections::BTreeMap;
use std::time::Duration;

use pilothouse_sdk::{Action, Event, Failure, Host, ObjectRef, Outcome, Patch, Request, Stage};
use serde_json::{Value, json};

use crate::annotations::{self, Annotations, REVISION};
use crate::conditions::{PAUSED, PROGRESSING, RESUMED, SET_FOUND, TIMED_OUT};
use crate::limits::Limits;
use crate::objects::{Condition, Deployment, DeploymentStatus, REPLICA_SET, ReplicaSet};
use crate::progress;
use crate::sets::Sets;

/// Most stages of an outcome, far below what the host takes. What is left out is done by the next
/// look at the Deployment, which the writes before bring about.
const MAX_STAGES: usize = 50;

pub struct Sync<'a> {
    pub request: &'a Request,
    pub host: &'a dyn Host,
    pub now: Duration,
    pub deployment: Deployment,
    pub limits: Limits,
    pub sets: Sets,
    outcome: Outcome,
    /// Events about what the last step has done, which come with the next one.
    events: Vec<Event>,
    /// What the server has of the status and the revision, when all steps so far are done.
    written: (DeploymentStatus, Option<String>),
}

impl<'a> Sync<'a> {
    /// # Errors
    ///
    /// The Deployment's limits cannot be understood.
    pub fn new(
        request: &'a Request,
        host: &'a dyn Host,
        deployment: Deployment,
        sets: Vec<ReplicaSet>,
    ) -> Result<Self, Failure> {
        let revision = deployment.metadata.annotations.get(REVISION).cloned();
        Ok(Self {
            request,
            host,
            now: host.now(),
            limits: Limits::of(&deployment.spec)?,
            sets: Sets::of(&deployment, sets),
            outcome: Outcome::done(),
            events: Vec::new(),
            written: (deployment.status.clone(), revision),
            deployment,
        })
    }

    pub fn key(&self) -> &ObjectRef {
        self.request.key()
    }

    /// Adds an action that is done when all before have succeeded.
    pub fn step(&mut self, action: impl Into<Action>) {
        self.steps(vec![action.into()]);
    }

    /// Adds actions that are done side by side when all before have succeeded.
    pub fn steps(&mut self, actions: Vec<Action>) {
        self.add_stage(actions, false);
    }

    fn add_stage(&mut self, actions: Vec<Action>, always: bool) {
        if self.outcome.stages.len() >= MAX_STAGES {
            return;
        }
        let events = self.events.drain(..).map(Action::Event);
        let events: Vec<Action> = events.collect();
        let mut stage = |actions: Vec<Action>, always| {
            if !actions.is_empty() {
                self.outcome.stages.push(Stage { actions, always });
            }
        };
        if always {
            // What has failed has no Event.
            stage(events, false);
            stage(actions, true);
        } else {
            stage(events.into_iter().chain(actions).collect(), false);
        }
    }

    /// Adds an Event about what the last step has done.
    pub fn report(&mut self, event: Event) {
        self.events.push(event);
    }

    /// True if nothing is to be written yet.
    pub fn is_idle(&self) -> bool {
        self.outcome.stages.is_empty()
    }

    pub fn confirm(&mut self, object: &ObjectRef) {
        let outcome = std::mem::replace(&mut self.outcome, Outcome::done());
        self.outcome = outcome.confirm(object);
    }

    pub fn finish(mut self) -> Outcome {
        self.add_stage(Vec::new(), false);
        self.outcome
    }

    /// Writes the status and the revision, if they are not what the server has. True if so. With
    /// `always` it is done though a step before has failed.
    ///
    /// # Errors
    ///
    /// None: a status has a JSON form.
    pub fn write_status(&mut self, always: bool) -> Result<bool, Failure> {
        let status = &self.deployment.status;
        let revision = self.deployment.metadata.annotations.get(REVISION);
        if (status, revision) == (&self.written.0, self.written.1.as_ref()) {
            return Ok(false);
        }
        let mut metadata = json!({"resourceVersion": "seen"});
        if revision != self.written.1.as_ref() {
            // The status of a Deployment comes with its annotations.
            metadata["annotations"] = json!({REVISION: revision});
        }
        let body = json!({"metadata": metadata, "status": status});
        self.written = (status.clone(), revision.cloned());
        let patch = Patch::merge(self.key(), &body)?.subresource("status");
        self.add_stage(vec![patch.into()], always);
        Ok(true)
    }

    /// Writes the status that the ReplicaSets add up to.
    ///
    /// # Errors
    ///
    /// None: a status has a JSON form.
    pub fn sync_status(&mut self) -> Result<(), Failure> {
        let limits = self.limits;
        self.deployment.status = progress::status_of(
            &self.deployment,
            &self.sets,
            limits.max_unavailable,
            self.now,
        );
        self.write_status(false)?;
        Ok(())
    }

    /// The same during a rollout, whose progress is noted. If nothing changes, the key runs again
    /// when the rollout may have timed out.
    ///
    /// # Errors
    ///
    /// None: a status has a JSON form.
    pub fn sync_rollout_status(&mut self, always: bool) -> Result<(), Failure> {
        let Self {
            deployment, sets, ..
        } = &*self;
        let unavailable = self.limits.max_unavailable;
        let status = progress::rollout_status_of(deployment, sets, unavailable, self.now);
        let next = progress::next_check(deployment, &status, self.now);
        self.deployment.status = status;
        if !self.write_status(always)?
            && let Some(delay) = next
        {
            let outcome = std::mem::replace(&mut self.outcome, Outcome::done());
            self.outcome = outcome.requeue_after(delay);
        }
        Ok(())
    }

    /// Notes in the status that the Deployment has been paused or resumed. What is paused is not
    /// expected to progress, and time begins anew when it is resumed. A rollout that has timed out
    /// stays so.
    ///
    /// # Errors
    ///
    /// None: a status has a JSON form.
    pub fn note_pause(&mut self) -> Result<(), Failure> {
        let spec = &self.deployment.spec;
        let condition = self.deployment.status.condition(PROGRESSING);
        let reason = condition.map(|condition| condition.reason.as_str());
        if spec.progress_deadline().is_none() || reason == Some(TIMED_OUT) {
            return Ok(());
        }
        match (spec.paused, reason == Some(PAUSED)) {
            (true, false) => self.note_progress("Unknown", PAUSED, "Deployment is paused"),
            (false, true) => self.note_progress("Unknown", RESUMED, "Deployment is resumed"),
            _ => return Ok(()),
        }
        self.write_status(false)?;
        Ok(())
    }

    /// Sets the condition `Progressing`.
    pub fn note_progress(&mut self, status: &str, reason: &str, message: &str) {
        let condition = Condition::new(PROGRESSING, status, reason, message, self.now);
        self.deployment.status.set_condition(condition);
    }

    /// Brings the new ReplicaSet, if there is one, up to date with what the Deployment says besides
    /// its template, and gives the Deployment its revision.
    ///
    /// # Errors
    ///
    /// None: a patch has a JSON form.
    pub fn sync_new_set(&mut self) -> Result<(), Failure> {
        let Some(place) = self.sets.new_place() else {
            return Ok(());
        };
        let revision = self.sets.highest_old_revision() + 1;
        let Deployment { metadata, spec, .. } = &self.deployment;
        let set = self.sets.at(place);
        let annotations =
            annotations::of_new_set(&metadata.annotations, &set.metadata.annotations, revision);
        let seconds = spec.min_ready_seconds;
        if annotations.is_some() || set.spec.min_ready_seconds != seconds {
            let annotations = annotations.unwrap_or_else(|| set.metadata.annotations.clone());
            self.patch_set(place, annotations, &json!({"minReadySeconds": seconds}))?;
            self.sets.at_mut(place).spec.min_ready_seconds = seconds;
        }

        let set = self.sets.at(place);
        let revision = set.metadata.annotations.get(REVISION).cloned();
        let message = format!("Found new replica set {:?}", set.name());
        if let Some(revision) = revision {
            self.set_revision(revision);
        }
        let is_new = self.deployment.status.condition(PROGRESSING).is_none();
        if is_new && self.deployment.spec.progress_deadline().is_some() {
            self.note_progress("True", SET_FOUND, &message);
        }
        self.write_status(false)?;
        Ok(())
    }

    pub fn set_revision(&mut self, revision: String) {
        let annotations = &mut self.deployment.metadata.annotations;
        annotations.insert(REVISION.to_owned(), revision);
    }

    /// Gives a ReplicaSet these annotations, and its spec these members.
    ///
    /// # Errors
    ///
    /// None: a patch has a JSON form.
    pub fn patch_set(
        &mut self,
        place: usize,
        annotations: Annotations,
        spec: &Value,
    ) -> Result<(), Failure> {
        let metadata = &mut self.sets.at_mut(place).metadata;
        let key = metadata.always.of_kind(REPLICA_SET);
        let is_new =
            |(name, value): &(&String, &String)| metadata.annotations.get(*name) != Some(value);
        let changed: BTreeMap<&String, &String> = annotations.iter().filter(is_new).collect();
        let mut body = json!({"metadata": {"resourceVersion": "seen"}, "spec": spec});
        if !changed.is_empty() {
            body["metadata"]["annotations"] = json!(changed);
        }
        metadata.annotations = annotations;
        let patch = Patch::merge(&key, &body)?;
        self.step(patch);
        Ok(())
    }
}
