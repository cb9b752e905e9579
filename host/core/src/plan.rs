//! From what a guest asks for to what is sent to the API server.
//!
//! An outcome is checked as a whole before anything is sent. So a bad outcome is refused completely
//! instead of being carried out in part.

pub mod accepted;
mod body;
pub mod children;
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
use crate::model::outcome::{Action, ActionResult};
use crate::plan::unchanged::Applied;
use crate::plan::write::Write;
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
    /// Whether it is an Event, granted or not.
    fn is_event(&self) -> bool {
        match self {
            Self::NoEvent(_) => true,
            Self::Known(_) => false,
            Self::Send { write, .. } => write.is_event(),
        }
    }

    /// The write to an object, if there is one. An Event does not count: it is about an object.
    fn write(&self) -> Option<&Write> {
        match self {
            Self::Send { write, .. } if !write.is_event() => Some(write),
            _ => None,
        }
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
}

#[cfg(test)]
mod tests;
