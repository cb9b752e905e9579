//! Carrying out a plan: which write comes next, and what its answer means for the others.
//!
//! Nothing is sent here. Whoever carries the plan out takes the next write from [`Execution`],
//! sends it, and gives its answer to the [`PendingWrite`]. Each of them is consumed by the next
//! step, so no write is taken twice, none is left without an answer, and there is no result
//! before the end.

mod own;
mod stop;

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;
use std::vec;

use crate::model::outcome::ActionResult;
use crate::plan::accepted::AcceptedWrite;
use crate::plan::unchanged::{Applied, AppliedState, ApplyTarget};
use crate::plan::words::{Audience, Heard};
use crate::plan::write::{Author, Write, WriteAnswer};
use crate::plan::{Halt, ObjectAddress, Plan, Step, What};
use own::Own;
use stop::Stop;

/// A plan that is being carried out, while no write is under way.
///
/// The writes are sent one after the other. After a failed one nothing more is sent, except as
/// described in `execution::stop`. Once the plugin is halted, nothing more is sent at all. An Event
/// that fails stops nothing. But after a write or an Event that cannot reach the cluster no further
/// Event is sent, because there may be many.
#[must_use = "its writes are sent only if it advances"]
pub struct Execution {
    /// The steps that are still to be done.
    steps: vec::IntoIter<Step>,
    /// See [`Plan::chains`].
    chains: HashMap<ObjectAddress, Option<String>>,
    author: Arc<Author>,
    /// What the plugin last applied. Accepted applies are added to it.
    applied: Arc<Applied>,
    /// Tells if the writes must stop.
    halt: Halt,
    /// The results of the actions; `None` while no step of the action has been done.
    results: Vec<Option<ActionResult>>,
    failure: Option<WriteFailure>,
    accepted: Vec<AcceptedWrite>,
    unwritten: Vec<ActionResult>,
    own: Own,
    stop: Stop,
    /// Whether a write or an Event could not reach the cluster.
    is_silent: bool,
    is_halted: bool,
}

/// A plan that is being carried out, while this write is under way.
#[must_use = "a write that is not answered holds its key for ever"]
pub struct PendingWrite {
    execution: Execution,
    sent: SentWrite,
}

/// A write as it is sent, and what the plan knows about it.
struct SentWrite {
    write: Write,
    target: ObjectAddress,
    /// See [`Step`].
    action: usize,
    audience: Audience,
    /// See [`What::Send`].
    intent: Option<u64>,
    finalizer: Option<bool>,
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

impl Execution {
    /// Begins to carry out a plan on behalf of an author.
    pub fn new(plan: Plan, author: Arc<Author>, applied: Arc<Applied>, halt: Halt) -> Self {
        Self {
            steps: plan.steps.into_iter(),
            chains: plan.chains,
            author,
            applied,
            halt,
            results: vec![None; plan.actions],
            failure: None,
            accepted: Vec::new(),
            unwritten: Vec::new(),
            own: Own::default(),
            stop: Stop::default(),
            is_silent: false,
            is_halted: false,
        }
    }

    /// Goes on to the next write that is to be sent, or to the end.
    pub fn advance(mut self) -> ControlFlow<Executed, PendingWrite> {
        while let Some(step) = self.steps.next() {
            let is_event = step.what.is_event();
            self.is_halted |= self.halt.is_halted() && matches!(step.what, What::Send { .. });
            let result = match step.what {
                What::Send { .. } if self.is_halted => ActionResult::Skipped,
                what if self.stop.includes(&what) || (self.is_silent && is_event) => {
                    ActionResult::Skipped
                }
                What::Known(result) => result,
                What::NoEvent(reason) => ActionResult::Forbidden(reason),
                What::Send {
                    write,
                    intent,
                    finalizer,
                } => {
                    let target = ObjectAddress::of(&write.kind, &write.key);
                    let sent = SentWrite {
                        write: self.own.after(write, &target, &self.chains),
                        target,
                        action: step.action,
                        audience: step.audience,
                        intent,
                        finalizer,
                    };
                    return ControlFlow::Continue(PendingWrite {
                        execution: self,
                        sent,
                    });
                }
            };
            if result.error().is_some() && !is_event {
                self.stop.everything();
            }
            self.note(step.action, is_event, result.clone(), result);
        }
        ControlFlow::Break(self.end())
    }

    /// Remembers an accepted apply. Any other write may have changed the object, so what was
    /// remembered of it is forgotten.
    fn remember(&self, sent: &SentWrite, result: &ActionResult, shown: Option<&str>) {
        let Write {
            kind,
            key,
            subresource,
            ..
        } = &sent.write;
        match (sent.intent, result) {
            (Some(intent), ActionResult::Done(version)) => {
                let target = ApplyTarget {
                    kind: kind.clone(),
                    key: key.clone(),
                    subresource: subresource.clone(),
                };
                let manager = &self.author.field_manager;
                let left =
                    AppliedState::new(manager, subresource.as_deref(), version.clone(), shown);
                self.applied.remember(target, intent, left);
            }
            // An Event is about the object and does not change it.
            _ if sent.write.is_event() => {}
            _ => self.applied.forget(kind, key),
        }
    }

    /// Notes the result of a step, in the words for the operator and in those for the plugin.
    fn note(
        &mut self,
        action: usize,
        is_event: bool,
        operator: ActionResult,
        plugin: ActionResult,
    ) {
        self.is_silent |= matches!(operator, ActionResult::Unavailable(_));
        match operator.error() {
            Some(_) if is_event => self.unwritten.push(operator),
            Some(error) => {
                let failed = WriteFailure {
                    message: format!("action {}: {error}", action + 1),
                    is_unavailable: matches!(operator, ActionResult::Unavailable(_)),
                    retry_after: match operator {
                        ActionResult::Busy(_, time) => Some(time),
                        _ => None,
                    },
                };
                // The first failure is reported. But an unreachable cluster, or one that wants to
                // be left alone, determines when to retry, so such a failure replaces it.
                let says_when = failed.is_unavailable || failed.retry_after.is_some();
                if self.failure.is_none() || says_when {
                    self.failure = Some(failed);
                }
            }
            None => {}
        }
        join(&mut self.results[action], plugin);
    }

    fn end(self) -> Executed {
        // An action without steps is a `children` action with an empty list and no existing
        // members.
        let results = self.results.into_iter();
        let results = results.map(|result| result.unwrap_or(ActionResult::Unchanged));
        Executed {
            results: results.collect(),
            failure: self.failure,
            accepted: self.accepted,
            unwritten: self.unwritten,
            is_halted: self.is_halted,
        }
    }
}

impl PendingWrite {
    /// The write to be sent.
    pub fn write(&self) -> &Write {
        &self.sent.write
    }

    /// The author of the write.
    pub fn author(&self) -> &Author {
        &self.execution.author
    }

    /// The cluster has answered.
    pub fn answered(self, answer: WriteAnswer) -> Execution {
        let Self {
            mut execution,
            sent,
        } = self;
        let WriteAnswer {
            result,
            object,
            status,
            ended,
            owner,
        } = answer;
        execution.remember(&sent, &result, object.as_deref());
        let result = match result {
            // An object that is gone has no finalizers.
            ActionResult::NotFound(_) if sent.finalizer == Some(false) => ActionResult::Done(None),
            result => result,
        };
        let accepted = AcceptedWrite::of(&sent.write, &result, ended, owner);
        execution.accepted.extend(accepted);
        execution.own.note(&sent, &result);
        let Heard { plugin, operator } = sent.audience.hear(result, status);
        let is_event = sent.write.is_event();
        if operator.error().is_some() && !is_event {
            execution.stop.after(&sent, &operator);
        }
        execution.note(sent.action, is_event, operator, plugin);
        execution
    }
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
