//! From what a guest asks for to what is sent to the API server.
//!
//! An outcome is checked as a whole before anything is sent. So a bad outcome is refused completely
//! instead of being carried out in part.

pub mod api_server;
mod body;
pub mod children;
mod halt;
mod identity;
pub mod owned;
mod planner;
pub mod unchanged;
mod words;

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::access::permission::{Denied, Permissions};
use crate::model::key::{Kind, ObjectKey, ResourceVersion};
use crate::model::manifest::Manifest;
use crate::model::outcome::{Action, ActionResult};
use crate::plan::api_server::{ApiServer, Author, Operation, Write, WriteAnswer};
use crate::plan::unchanged::{Applied, AppliedState, ApplyTarget};
use crate::reads::reader::Reader;
pub use halt::Halt;
use planner::Planner;
use words::{Audience, Heard};

/// Maximum number of actions in one outcome. A guest that returns more has a bug.
pub const MAX_ACTIONS: usize = 10_000;

/// Maximum number of Events in one outcome: people have to read them.
pub const MAX_EVENTS: usize = 100;

/// Maximum size of an action's body in bytes: the API server accepts 3 MiB.
pub const MAX_BODY: usize = 3 * 1024 * 1024;

/// The steps of one outcome, in order.
#[derive(Debug, Default)]
pub struct Plan {
    steps: Vec<Step>,
    actions: usize,
    /// The objects that this outcome writes and then replaces, each with the version at which the
    /// plugin saw it; `None` if this outcome creates it. The replacement was made from what the
    /// plugin saw. An unconditional earlier write could yield a version that contains changes by
    /// others, which the replacement would then undo. So every write to such an object is made
    /// conditional on its version.
    chains: HashMap<ObjectAddress, Option<String>>,
    warnings: BTreeSet<String>,
}

/// An object that is written, in any version of its kind.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct ObjectAddress {
    group: Arc<str>,
    kind: Arc<str>,
    key: ObjectKey,
}

impl ObjectAddress {
    fn of(kind: &Kind, key: &ObjectKey) -> Self {
        Self {
            group: kind.group.clone(),
            kind: kind.kind.clone(),
            key: key.clone(),
        }
    }
}

/// One write, or its result if no write is needed.
#[derive(Debug)]
struct Step {
    /// The index of the action that this step belongs to.
    action: usize,
    what: What,
    /// Who may see the server's own words about it.
    audience: Audience,
}

#[derive(Debug)]
enum What {
    Known(ActionResult),
    /// An Event that is not granted, and why. Like an Event that fails, it stops nothing.
    NoEvent(String),
    Send {
        write: Write,
        /// For an apply: what to remember once it is accepted.
        intent: Option<u64>,
        /// For a finalizer action: whether the finalizer must be present.
        finalizer: Option<bool>,
    },
}

impl What {
    /// The write to an object, if there is one. An Event does not count: it is about an object.
    fn write(&self) -> Option<&Write> {
        match self {
            Self::Send { write, .. } if !matches!(write.operation, Operation::Event { .. }) => {
                Some(write)
            }
            _ => None,
        }
    }
}

impl Step {
    fn is_event(&self) -> bool {
        match &self.what {
            What::NoEvent(_) => true,
            What::Known(_) => false,
            What::Send { write, .. } => matches!(write.operation, Operation::Event { .. }),
        }
    }
}

/// The result of a plan. The default is the result of an empty plan.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Executed {
    /// The result of each action, in order.
    pub results: Vec<ActionResult>,
    /// Why the plan was not carried out to its end.
    pub failure: Option<WriteFailure>,
    /// The writes that the server accepted, or may have accepted.
    pub accepted: Vec<AcceptedWrite>,
    /// The results of Events that were not written. They stop nothing.
    pub unwritten: Vec<ActionResult>,
    /// Whether something was left out because the plugin was halted.
    pub is_halted: bool,
}

/// Why a plan was not carried out to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteFailure {
    /// Which action failed, and what the server answered.
    pub message: String,
    /// The cluster could not be reached, which is not the key's fault.
    pub is_unavailable: bool,
    /// How long the server wants to be left alone.
    pub retry_after: Option<Duration>,
}

/// A write that the server accepted, or may have accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcceptedWrite {
    /// The object's kind.
    pub kind: Kind,
    /// The object.
    pub key: ObjectKey,
    /// How it becomes visible.
    pub effect: Effect,
}

/// What an accepted write left behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The object at this resourceVersion.
    Version(ResourceVersion),
    /// Sooner or later no object has this uid.
    Deletion(String),
    /// No object has this uid now: nothing keeps it any more.
    End(String),
    /// There was no answer, so it is not known.
    Unknown,
    /// The write is done, but the answer does not show the object: an eviction answers with a
    /// Status.
    Unshown,
}

impl AcceptedWrite {
    /// `ended` and `owner` come from the [`WriteAnswer`].
    fn of(
        write: &Write,
        result: &ActionResult,
        ended: Option<String>,
        owner: Option<Kind>,
    ) -> Option<Self> {
        let effect = match (&write.operation, result) {
            (Operation::Event { .. }, _) => return None,
            (_, ActionResult::Unknown(_) | ActionResult::Unavailable(_)) => Effect::Unknown,
            (Operation::Create { .. }, ActionResult::Done(_)) if write.subresource.is_some() => {
                Effect::Unshown
            }
            (Operation::Delete { uid: Some(uid), .. }, ActionResult::Done(_)) => {
                Effect::Deletion(uid.clone())
            }
            (Operation::Delete { .. }, _) => return None,
            (_, ActionResult::Done(_)) if ended.is_some() => Effect::End(ended?),
            (_, ActionResult::Done(Some(version))) => {
                Effect::Version(ResourceVersion::new(version))
            }
            _ => return None,
        };
        Some(Self {
            kind: owner.unwrap_or_else(|| write.kind.clone()),
            key: write.key.clone(),
            effect,
        })
    }
}

/// Why an outcome is refused as a whole.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// Too many actions.
    #[error("{0} actions; an outcome has at most {MAX_ACTIONS}")]
    TooMany(usize),
    /// Too many of the actions are Events.
    #[error("{0} Events; an outcome has at most {MAX_EVENTS}")]
    TooManyEvents(usize),
    /// One action is refused.
    #[error("action {number} ({verb}): {reason}")]
    Action {
        /// The action's number, from 1.
        number: usize,
        /// The action's name.
        verb: &'static str,
        /// What is wrong with it.
        reason: ActionError,
    },
}

/// What is wrong with an action.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ActionError {
    /// Not permitted, or not a valid name.
    #[error("denied: {0}")]
    Denied(#[from] Denied),
    /// Not JSON, or not of the shape of an object.
    #[error("invalid JSON: {0}")]
    Json(String),
    /// An outcome may have only one `children` action.
    #[error("an outcome has one children action; list all of them in it")]
    SecondChildren,
    /// Too large for the API server.
    #[error("{0} bytes; an API server takes at most {MAX_BODY}")]
    TooLarge(usize),
    /// Decoded it would take more memory than a body may.
    #[error("too many small values: decoded it would take more than 32 MiB of memory")]
    TooManyParts,
    /// The body sets metadata that a plugin may not set this way: uid, owners, finalizers or
    /// resourceVersion.
    #[error("metadata: {0}")]
    Metadata(String),
    /// A JSON Patch reads what the plugin may not read.
    #[error("a JSON Patch may {op} only what the plugin reads, and it does not read {path} whole")]
    Unread {
        /// `copy`, `move` or `test`.
        op: String,
        /// The path that it reads.
        path: String,
    },
    /// The body is of another object than the action names.
    #[error("body is of {body}, but the action is for {address}")]
    OtherObject {
        /// What the body names.
        body: String,
        /// What the action names.
        address: String,
    },
}

/// What planning has to know about the plugin and the key.
#[derive(Clone, Copy, Debug)]
pub struct PlanContext<'a> {
    /// The granted part of the plugin's manifest.
    pub manifest: &'a Manifest,
    /// What it may write.
    pub permissions: &'a Permissions,
    /// The field manager of its writes.
    pub manager: &'a str,
    /// What it last applied.
    pub applied: &'a Applied,
    /// The key it reconciled.
    pub key: &'a ObjectKey,
}

/// Turns an outcome's actions into writes. `reader` is the reconcile's own, so what planning reads
/// of the objects is recorded too.
pub fn plan(
    context: PlanContext<'_>,
    actions: &[Action],
    reader: &mut Reader,
) -> Result<Plan, PlanError> {
    if actions.len() > MAX_ACTIONS {
        return Err(PlanError::TooMany(actions.len()));
    }
    let events = actions
        .iter()
        .filter(|action| matches!(action, Action::Event(_)));
    let events = events.count();
    if events > MAX_EVENTS {
        return Err(PlanError::TooManyEvents(events));
    }
    let mut plan = Plan {
        steps: Vec::new(),
        actions: actions.len(),
        ..Plan::default()
    };
    let mut planner = Planner::new(context, reader);
    for (number, action) in actions.iter().enumerate() {
        let steps = planner.steps(action).map_err(|reason| PlanError::Action {
            number: number + 1,
            verb: verb_of(action),
            reason,
        })?;
        plan.steps.extend(steps.into_iter().map(|what| Step {
            action: number,
            audience: planner.audience(&what),
            what,
        }));
    }
    (plan.chains, plan.warnings) = planner.finish();
    Ok(plan)
}

fn verb_of(action: &Action) -> &'static str {
    match action {
        Action::Apply { .. } => "apply",
        Action::Create { .. } => "create",
        Action::Update { .. } => "update",
        Action::Patch { .. } => "patch",
        Action::Delete(_) => "delete",
        Action::Event(_) => "event",
        Action::Finalizer { .. } => "finalizer",
        Action::Children { .. } => "children",
    }
}

impl Plan {
    /// The writes to be sent, in order.
    pub fn writes(&self) -> impl Iterator<Item = &Write> {
        self.steps.iter().filter_map(|step| match &step.what {
            What::Send { write, .. } => Some(write),
            What::Known(_) | What::NoEvent(_) => None,
        })
    }

    /// Warnings for the operator or the plugin's author about an outcome that is carried out
    /// nevertheless.
    pub fn warnings(&self) -> &BTreeSet<String> {
        &self.warnings
    }

    /// Sends the writes, one after the other. After a failed one nothing more is sent, except as
    /// described at `Stop`. Once the plugin is halted, nothing more is sent at all. An Event that
    /// fails stops nothing. But after a write or an Event that cannot reach the cluster no further
    /// Event is sent, because there may be many.
    pub async fn execute(
        &self,
        cluster: &dyn ApiServer,
        author: &Author,
        applied: &Applied,
        halt: &Halt,
    ) -> Executed {
        let mut is_halted = false;
        let mut results: Vec<Option<ActionResult>> = vec![None; self.actions];
        let mut failure = None;
        let mut accepted: Vec<AcceptedWrite> = Vec::new();
        let mut unwritten = Vec::new();
        let mut own = Own::default();
        let mut stop = Stop::default();
        let mut is_silent = false;
        for step in &self.steps {
            is_halted |= halt.is_halted() && matches!(step.what, What::Send { .. });
            let mut status = None;
            let result = match &step.what {
                What::Send { .. } if is_halted => ActionResult::Skipped,
                what if stop.includes(what) || (is_silent && step.is_event()) => {
                    ActionResult::Skipped
                }
                What::Known(result) => result.clone(),
                What::NoEvent(reason) => ActionResult::Forbidden(reason.clone()),
                What::Send {
                    write,
                    intent,
                    finalizer,
                } => {
                    let target = ObjectAddress::of(&write.kind, &write.key);
                    let write = own.after(write, &target, &self.chains);
                    let answer = cluster.write(author, &write).await;
                    let WriteAnswer {
                        result,
                        object,
                        status: said,
                        ended,
                        owner,
                    } = answer;
                    status = said;
                    remember(
                        applied,
                        &author.field_manager,
                        &write,
                        *intent,
                        &result,
                        object.as_deref(),
                    );
                    let result = match result {
                        // An object that is gone has no finalizers.
                        ActionResult::NotFound(_) if *finalizer == Some(false) => {
                            ActionResult::Done(None)
                        }
                        result => result,
                    };
                    accepted.extend(AcceptedWrite::of(&write, &result, ended, owner));
                    own.note(&write, target, &result);
                    result
                }
            };
            let Heard { plugin, operator } = step.audience.hear(result, status);
            let result = operator;
            is_silent |= matches!(result, ActionResult::Unavailable(_));
            if step.is_event() && result.error().is_some() {
                unwritten.push(result.clone());
            }
            if let (Some(error), false) = (result.error(), step.is_event()) {
                stop.after(&step.what, &result);
                let failed = WriteFailure {
                    message: format!("action {}: {error}", step.action + 1),
                    is_unavailable: matches!(result, ActionResult::Unavailable(_)),
                    retry_after: match result {
                        ActionResult::Busy(_, time) => Some(time),
                        _ => None,
                    },
                };
                // The first failure is reported. But an unreachable cluster, or one that wants to
                // be left alone, determines when to retry, so such a failure replaces it.
                let says_when = failed.is_unavailable || failed.retry_after.is_some();
                if failure.is_none() || says_when {
                    failure = Some(failed);
                }
            }
            join(&mut results[step.action], plugin);
        }
        // An action without steps is a `children` action with an empty list and no existing
        // members.
        let results = results
            .into_iter()
            .map(|result| result.unwrap_or(ActionResult::Unchanged))
            .collect();
        Executed {
            results,
            failure,
            accepted,
            unwritten,
            is_halted,
        }
    }
}

/// What is no longer done because something has failed.
///
/// The order of the actions is the guest's choice and the same on each retry: an action that always
/// fails first would prevent everything behind it for ever. So an object that cannot be deleted, or
/// whose finalizer cannot be removed, only stops the actions that may depend on it.
#[derive(Default)]
struct Stop {
    /// Nothing is done at all.
    all: bool,
    /// No finalizer is removed: the objects that it waits for may not be deleted yet.
    finalizers: bool,
    /// Nothing more is done to these objects.
    objects: HashSet<ObjectAddress>,
}

impl Stop {
    fn after(&mut self, what: &What, result: &ActionResult) {
        let What::Send {
            write, finalizer, ..
        } = what
        else {
            self.all = true;
            return;
        };
        let is_about_cluster = matches!(
            result,
            ActionResult::Busy(..) | ActionResult::Unavailable(_)
        );
        let is_delete = matches!(write.operation, Operation::Delete { .. });
        self.all |= is_about_cluster || !(is_delete || *finalizer == Some(false));
        self.finalizers |= is_delete;
        self.objects
            .insert(ObjectAddress::of(&write.kind, &write.key));
    }

    fn includes(&self, what: &What) -> bool {
        match what {
            _ if self.all => true,
            What::Known(_) | What::NoEvent(_) => false,
            What::Send {
                write, finalizer, ..
            } => {
                let target = ObjectAddress::of(&write.kind, &write.key);
                (self.finalizers && *finalizer == Some(false)) || self.objects.contains(&target)
            }
        }
    }
}

/// What an outcome has done so far.
#[derive(Default)]
struct Own {
    /// The versions that the server has answered with.
    versions: HashMap<ObjectAddress, String>,
    /// Deleted objects, which an apply may create again.
    deleted: HashSet<ObjectAddress>,
}

impl Own {
    fn note(&mut self, write: &Write, target: ObjectAddress, result: &ActionResult) {
        let ActionResult::Done(version) = result else {
            return;
        };
        if matches!(write.operation, Operation::Delete { .. }) {
            self.deleted.insert(target.clone());
        }
        if let Some(version) = version {
            self.versions.insert(target, version.clone());
        }
    }

    /// Makes a write conditional where that is needed. An update of an object that the same outcome
    /// has written is made conditional on the version the server answered with, and so is a patch
    /// that names a version. An object that is replaced later in this outcome is written on
    /// condition that it still is at the version at which it was seen.
    fn after<'a>(
        &self,
        write: &'a Write,
        target: &ObjectAddress,
        chains: &HashMap<ObjectAddress, Option<String>>,
    ) -> Cow<'a, Write> {
        let version = self.versions.get(target);
        let seen = chains.get(target);
        // An apply that creates a deleted object again cannot require a version of it.
        let is_made_anew =
            matches!(write.operation, Operation::Apply { .. }) && self.deleted.contains(target);
        let operation = match (version, seen) {
            (Some(version), Some(_)) if !is_made_anew => conditional(&write.operation, version),
            (None, Some(Some(seen))) if !is_made_anew => conditional(&write.operation, seen),
            (Some(version), None) if names_a_version(&write.operation) => {
                conditional(&write.operation, version)
            }
            _ => None,
        };
        match operation {
            Some(operation) => Cow::Owned(Write {
                operation,
                ..write.clone()
            }),
            None => Cow::Borrowed(write),
        }
    }
}

/// Whether a write is valid for a single version of its object only.
fn names_a_version(operation: &Operation) -> bool {
    let (Operation::Update { object: body } | Operation::Patch { body, .. }) = operation else {
        return false;
    };
    let body: Value = serde_json::from_str(body).unwrap_or_default();
    matches!(operation, Operation::Update { .. })
        || body.pointer("/metadata/resourceVersion").is_some()
}

/// The same operation, conditional on this version of the object.
fn conditional(operation: &Operation, version: &str) -> Option<Operation> {
    let of_version = |text: &str| {
        let mut body: Value = serde_json::from_str(text).ok()?;
        match &mut body {
            Value::Object(_) => body["metadata"]["resourceVersion"] = version.into(),
            Value::Array(steps) => steps.insert(
                0,
                json!({"op": "test", "path": "/metadata/resourceVersion", "value": version}),
            ),
            _ => return None,
        }
        Some(body.to_string())
    };
    Some(match operation {
        Operation::Apply { object, force } => Operation::Apply {
            object: of_version(object)?,
            force: *force,
        },
        Operation::Update { object } => Operation::Update {
            object: of_version(object)?,
        },
        Operation::Patch { patch_type, body } => Operation::Patch {
            patch_type: *patch_type,
            body: of_version(body)?,
        },
        Operation::Delete {
            uid,
            resource_version,
            propagation,
            grace_period_seconds,
        } => Operation::Delete {
            uid: uid.clone(),
            resource_version: resource_version.clone().or_else(|| Some(version.into())),
            propagation: *propagation,
            grace_period_seconds: *grace_period_seconds,
        },
        Operation::Create { .. } | Operation::Event { .. } => return None,
    })
}

/// The result of an action with several writes: that of its first failed write, if one failed.
fn join(so_far: &mut Option<ActionResult>, next: ActionResult) {
    let keeps = match (&*so_far, &next) {
        (None, _) => false,
        (Some(have), _) if have.error().is_some() => true,
        (Some(_), next) if next.error().is_some() => false,
        (Some(_), ActionResult::Skipped) => false,
        (Some(have), _) => *have != ActionResult::Unchanged,
    };
    if !keeps {
        *so_far = Some(next);
    }
}

fn remember(
    applied: &Applied,
    manager: &str,
    write: &Write,
    intent: Option<u64>,
    result: &ActionResult,
    shown: Option<&str>,
) {
    match (intent, result) {
        (Some(intent), ActionResult::Done(version)) => {
            let target = ApplyTarget {
                kind: write.kind.clone(),
                key: write.key.clone(),
                subresource: write.subresource.clone(),
            };
            let subresource = write.subresource.as_deref();
            let left = AppliedState::new(manager, subresource, version.clone(), shown);
            applied.remember(target, intent, left);
        }
        // An Event is about the object and does not change it.
        _ if matches!(write.operation, Operation::Event { .. }) => {}
        _ => applied.forget(&write.kind, &write.key),
    }
}

#[cfg(test)]
mod tests;
