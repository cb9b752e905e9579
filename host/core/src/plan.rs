//! From what a guest asks for to what is sent to the API server.
//!
//! An outcome is checked as a whole before anything is sent. So a bad outcome is refused completely
//! instead of being carried out in part.

mod absent;
pub mod accepted;
mod body;
pub mod children;
pub mod confirm;
mod digest;
pub mod execution;
mod halt;
mod identity;
pub mod owned;
mod planner;
pub mod unchanged;
mod words;
pub mod write;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use crate::access::permission::{Denied, Permissions};
use crate::model::key::{Kind, ObjectKey};
use crate::model::manifest::Manifest;
use crate::model::outcome::{Action, ActionResult, EffectVerb, Outcome};
use crate::model::selector::LabelSelectorError;
use crate::model::subject_key::SubjectKey;
use crate::plan::confirm::Confirmed;
use crate::plan::unchanged::Applied;
use crate::plan::write::{Operation, Write};
use crate::reads::error::ReadError;
use crate::reads::reader::Reader;
pub use halt::Halt;
use planner::Planner;
use words::Audience;

/// Maximum number of actions in one outcome. A guest that returns more has a bug.
pub const MAX_ACTIONS: usize = 10_000;

/// Maximum number of Events in one outcome: people have to read them.
pub const MAX_EVENTS: usize = 100;

/// Maximum size of an action's body in bytes: the API server accepts 3 MiB.
pub const MAX_BODY: usize = 3 * 1024 * 1024;

/// Maximum number of stages in one outcome. Each costs a round trip and begins slowly: what needs
/// more of them is a program that should look at the cluster in between.
pub const MAX_STAGES: usize = 1_000;

/// Maximum size of a memo in bytes. It is kept in memory, and crosses to the guest each time.
pub const MAX_MEMO: usize = 64 << 10;

/// Maximum number of questions that one outcome has confirmed. Each is a request.
pub const MAX_CONFIRMATIONS: usize = 100;

/// Maximum number of objects in the answers that one outcome has confirmed: all of them are listed
/// from the server.
pub const MAX_CONFIRMED: usize = 5_000;

/// The steps of one outcome, in order.
#[derive(Debug, Default)]
pub struct Plan {
    stages: Vec<PlannedStage>,
    /// The objects that this outcome writes and then replaces, each with the version at which the
    /// plugin saw it; `None` if this outcome creates it. The replacement was made from what the
    /// plugin saw. An unconditional earlier write could yield a version that contains changes by
    /// others, which the replacement would then undo. So every write to such an object is made
    /// conditional on its version.
    chains: HashMap<ObjectAddress, Option<String>>,
    warnings: BTreeSet<String>,
    /// What the server must confirm first. Empty if nothing is written.
    confirmed: Confirmed,
    /// See [`is_settled`](Self::is_settled).
    is_settled: bool,
}

/// Steps that do not depend on each other, but for those on one object.
#[derive(Debug, Default)]
struct PlannedStage {
    steps: Vec<Step>,
    /// Whether it is begun even if an earlier stage has failed.
    is_always: bool,
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
    /// The object, or for an Event the object that it is about.
    kind: Kind,
    key: ObjectKey,
    verb: EffectVerb,
    what: What,
    /// Its part in a `children` action.
    member: Option<Member>,
    /// Who may see the server's own words about it.
    audience: Audience,
}

/// What a `children` action does with an object. It deletes nothing before it has applied all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Member {
    Wanted,
    Unwanted,
}

#[derive(Debug)]
enum What {
    Known(ActionResult),
    Send {
        write: Write,
        /// For an apply: what to remember once it is accepted.
        intent: Option<u64>,
        /// For a finalizer action: whether the finalizer must be present.
        finalizer: Option<bool>,
        /// Whether it is an apply that may only create its object.
        is_creation: bool,
    },
}

impl Step {
    /// Whether it is an Event, granted or not.
    fn is_event(&self) -> bool {
        self.verb == EffectVerb::Event
    }

    /// Whether it makes a new object. An eviction or a binding is a create, too, but of a
    /// subresource.
    fn is_new_object(&self) -> bool {
        let is_subresource =
            matches!(&self.what, What::Send { write, .. } if write.subresource.is_some());
        self.verb == EffectVerb::Create && !is_subresource
    }

    /// The object on which, or about which, it is.
    fn target(&self) -> ObjectAddress {
        ObjectAddress::of(&self.kind, &self.key)
    }
}

/// Why an outcome is refused as a whole.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// Too many actions.
    #[error("{0} actions; an outcome has at most {MAX_ACTIONS}")]
    TooMany(usize),
    /// Too many stages.
    #[error("{0} stages; an outcome has at most {MAX_STAGES}")]
    TooManyStages(usize),
    /// Too many of the actions are Events.
    #[error("{0} Events; an outcome has at most {MAX_EVENTS}")]
    TooManyEvents(usize),
    /// The memo is too long. Holds its bytes.
    #[error("a memo of {0} bytes; it has at most {MAX_MEMO}")]
    Memo(usize),
    /// Too many questions to confirm.
    #[error("{0} questions to confirm; an outcome has at most {MAX_CONFIRMATIONS}")]
    TooManyConfirmations(usize),
    /// The answers to confirm have too many objects.
    #[error("{0} objects to confirm; an outcome has at most {MAX_CONFIRMED}")]
    TooManyConfirmed(usize),
    /// The plugin may not read what is to be confirmed.
    #[error("confirmation {number}: {reason}")]
    Confirmation {
        /// Its number, from 1.
        number: usize,
        /// Why it cannot be read.
        reason: ReadError,
    },
    /// One action is refused.
    #[error("action {number} ({verb}): {reason}")]
    Action {
        /// The action's number, from 1, through all stages.
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
    /// Not a label selector.
    #[error("labels: {0}")]
    Labels(#[from] LabelSelectorError),
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
    pub key: &'a SubjectKey,
}

/// Turns an outcome into writes. `reader` is the reconcile's own, so what planning reads
/// of the objects is recorded too.
pub fn plan(
    context: PlanContext<'_>,
    outcome: &Outcome,
    reader: &mut Reader,
) -> Result<Plan, PlanError> {
    check_size(outcome)?;
    let mut planner = Planner::new(context, reader);
    let mut actions = 0;
    let stages = outcome.stages.iter().map(|stage| {
        let mut planned = PlannedStage {
            steps: Vec::new(),
            is_always: stage.always,
        };
        for action in &stage.actions {
            let steps = planner.steps(actions, action);
            actions += 1;
            planned
                .steps
                .extend(steps.map_err(|reason| PlanError::Action {
                    number: actions,
                    verb: verb_of(action),
                    reason,
                })?);
        }
        Ok(planned)
    });
    let stages = stages.collect::<Result<Vec<_>, PlanError>>()?;
    let (chains, warnings) = planner.finish();
    let confirmed = Confirmed::plan(&outcome.confirm, reader)?;
    let mut plan = Plan {
        stages,
        chains,
        warnings,
        confirmed,
        is_settled: outcome.follow_up.is_settled,
    };
    plan.doubt_settled();
    let is_change = |write: &Write| !matches!(write.operation, Operation::Event { .. });
    if !plan.writes().any(is_change) {
        plan.confirmed = Confirmed::default();
    }
    Ok(plan)
}

fn check_size(outcome: &Outcome) -> Result<(), PlanError> {
    let questions = outcome.confirm.len();
    if questions > MAX_CONFIRMATIONS {
        return Err(PlanError::TooManyConfirmations(questions));
    }
    let stages = &outcome.stages;
    let memo = outcome.follow_up.memo.as_ref().map_or(0, |memo| memo.len());
    if memo > MAX_MEMO {
        return Err(PlanError::Memo(memo));
    }
    if stages.len() > MAX_STAGES {
        return Err(PlanError::TooManyStages(stages.len()));
    }
    let actions = || stages.iter().flat_map(|stage| &stage.actions);
    let count = actions().count();
    if count > MAX_ACTIONS {
        return Err(PlanError::TooMany(count));
    }
    let events = actions().filter(|action| matches!(action, Action::Event(_)));
    let events = events.count();
    if events > MAX_EVENTS {
        return Err(PlanError::TooManyEvents(events));
    }
    Ok(())
}

fn verb_of(action: &Action) -> &'static str {
    match action {
        Action::Apply { .. } => "apply",
        Action::Create { .. } => "create",
        Action::Update { .. } => "update",
        Action::Patch { .. } => "patch",
        Action::Delete(_) => "delete",
        Action::DeleteAll(_) => "delete-all",
        Action::Event(_) => "event",
        Action::Finalizer { .. } => "finalizer",
        Action::Children { .. } => "children",
    }
}

impl Plan {
    /// Takes what the server must confirm before the first write is sent.
    pub(crate) fn take_confirmed(&mut self) -> Confirmed {
        std::mem::take(&mut self.confirmed)
    }

    /// The writes to be sent, stage by stage and in the order of the actions.
    pub fn writes(&self) -> impl Iterator<Item = &Write> {
        let steps = self.stages.iter().flat_map(|stage| &stage.steps);
        steps.filter_map(|step| match &step.what {
            What::Send { write, .. } => Some(write),
            What::Known(_) => None,
        })
    }

    /// Whether the key need not run for what is written: the outcome says so, and each write is
    /// [of one state](Write::is_of_one_state) of its object. Otherwise the server's answer can be
    /// the version of somebody else's change, which the key would never look at.
    pub fn is_settled(&self) -> bool {
        self.is_settled
    }

    /// Does not believe an outcome that says that it is settled if it cannot be told what it
    /// changes.
    fn doubt_settled(&mut self) {
        if !self.is_settled {
            return;
        }
        let mut writes = self.writes();
        if let Some(write) = writes.find(|write| !write.is_of_one_state()) {
            let warning = format!(
                "the outcome says that it is settled, but a write of {} names no \
                 resourceVersion, so what it changes cannot be told from what others change, and \
                 the key runs again: update the object, or name the version that was read",
                write.kind
            );
            drop(writes);
            self.warnings.insert(warning);
            self.is_settled = false;
        }
    }

    /// Warnings for the operator or the plugin's author about an outcome that is carried out
    /// nevertheless.
    pub fn warnings(&self) -> &BTreeSet<String> {
        &self.warnings
    }
}

#[cfg(test)]
mod tests;
