//! Carrying out a plan: which writes come next, and what an answer means for the others.
//!
//! Nothing is sent here. Whoever carries the plan out takes the writes that [`Execution::advance`]
//! hands out, sends them side by side, and gives back each answer, in any order. A
//! [`PendingWrite`] is consumed by its answer, and while one is under way there is only
//! [`UnderWay`], which has no end. So no write is sent twice or answered twice, and there is no
//! result before the last answer.
//!
//! Events are not handed out. They are collected, and written once the plan has ended: nothing in
//! the plan depends on them.

mod failure;
mod order;
mod own;
mod window;

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::vec;

use crate::model::outcome::{ActionResult, Effect};
use crate::plan::accepted::AcceptedWrite;
use crate::plan::unchanged::{Applied, AppliedState, ApplyTarget};
use crate::plan::words::{Audience, Heard};
use crate::plan::write::{Author, TakenEvent, Write, WriteAnswer};
use crate::plan::{Halt, ObjectAddress, Plan, PlannedStage, Step, What};
use failure::FailedStep;
pub use failure::WriteFailure;
use order::{Place, StageOrder, StepEnd, TakenStep};
use own::Own;
use window::Window;

/// A plan that is being carried out.
///
/// A stage begins when the one before has ended. Its writes are begun as `StageOrder` orders them
/// and as far as `Window` allows. After a stage with a failure only the stages are begun that are
/// marked so. When a write cannot reach the cluster, or the server wants to be left alone, or the
/// plugin is halted, nothing more is begun at all, and no Event is taken. An Event ends at once
/// when it is taken, and stops nothing.
#[must_use = "its writes are sent only if it advances"]
pub struct Execution {
    /// The stages that have not begun.
    stages: vec::IntoIter<PlannedStage>,
    /// The number of steps in the stages that have begun or were left out.
    passed: usize,
    /// The rest of the present stage.
    order: StageOrder,
    window: Window,
    /// See [`Plan::chains`].
    chains: HashMap<ObjectAddress, Option<String>>,
    author: Arc<Author>,
    /// What the plugin last applied. Accepted applies are added to it.
    applied: Arc<Applied>,
    /// Tells if the writes must stop.
    halt: Halt,
    /// What has become of each step. A step that has not ended is `Skipped`.
    effects: Vec<Effect>,
    failure: Option<FailedStep>,
    accepted: Vec<AcceptedWrite>,
    events: Vec<TakenEvent>,
    denied_events: Vec<ActionResult>,
    own: Own,
    /// Whether nothing more is begun.
    is_over: bool,
    is_halted: bool,
}

/// A plan of which at least one write is under way.
#[must_use = "a write that is not answered holds its key for ever"]
pub struct UnderWay(Execution);

/// A write that is to be sent.
#[must_use = "a write that is not answered holds its key for ever"]
pub struct PendingWrite {
    author: Arc<Author>,
    sent: SentWrite,
}

/// A write as it is sent, and what the plan knows about it.
struct SentWrite {
    write: Write,
    target: ObjectAddress,
    step: StepNumber,
    place: Place,
    audience: Audience,
    /// See [`What::Send`].
    intent: Option<u64>,
    finalizer: Option<bool>,
    is_creation: bool,
}

/// Which step of the plan it is.
#[derive(Clone, Copy)]
struct StepNumber {
    /// Its number in the plan.
    number: usize,
    /// See [`Step`].
    action: usize,
    is_event: bool,
}

/// The result of a plan. The default is the result of an empty plan.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Executed {
    /// What became of each write, in the order of the actions. A `children` action has several.
    pub effects: Vec<Effect>,
    /// Why the plan was not carried out to its end.
    pub failure: Option<WriteFailure>,
    /// The writes that the server accepted, or may have accepted.
    pub accepted: Vec<AcceptedWrite>,
    /// The Events that are to be written, in order. No answer to them changes anything, so the key
    /// need not wait for them. After one that cannot reach the cluster the others are not to be
    /// sent, because there may be many.
    pub events: Vec<TakenEvent>,
    /// The results of Events that are not granted. They stop nothing.
    pub denied_events: Vec<ActionResult>,
    /// Whether something was left out because the plugin was halted.
    pub is_halted: bool,
}

impl Execution {
    /// The most writes of one outcome that are under way at the same time. Each of them takes a
    /// connection, and one of the API server's mutating requests, of which it serves 200 at once by
    /// default (`--max-mutating-requests-inflight`): several plugins with several keys each can be
    /// writing. More writes at a time would gain little: 500 creates take 35 round trips.
    pub const MAX_WINDOW: usize = 16;

    /// Begins to carry out a plan on behalf of an author.
    pub fn new(plan: Plan, author: Arc<Author>, applied: Arc<Applied>, halt: Halt) -> Self {
        let steps = plan.stages.iter().flat_map(|stage| &stage.steps);
        let skipped = |step: &Step| Effect {
            kind: step.kind.clone(),
            key: step.key.clone(),
            verb: step.verb,
            result: ActionResult::Skipped,
        };
        Self {
            effects: steps.map(skipped).collect(),
            stages: plan.stages.into_iter(),
            passed: 0,
            order: StageOrder::default(),
            window: Window::new(),
            chains: plan.chains,
            author,
            applied,
            halt,
            failure: None,
            accepted: Vec::new(),
            events: Vec::new(),
            denied_events: Vec::new(),
            own: Own::default(),
            is_over: false,
            is_halted: false,
        }
    }

    /// Goes on to the writes that are to be sent now, or to the end. There may be none to send
    /// while others are under way.
    pub fn advance(mut self) -> ControlFlow<Executed, (Vec<PendingWrite>, UnderWay)> {
        loop {
            let begun = self.begin_writes();
            if self.window.is_in_use() {
                return ControlFlow::Continue((begun, UnderWay(self)));
            }
            // With no write under way the window is open, so all steps of the stage have ended.
            let Some(order) = self.next_stage() else {
                return ControlFlow::Break(self.end());
            };
            self.order = order;
            self.window = Window::new();
        }
    }

    fn next_stage(&mut self) -> Option<StageOrder> {
        for stage in self.stages.by_ref() {
            let first = self.passed;
            self.passed += stage.steps.len();
            if self.failure.is_none() || stage.is_always {
                return Some(StageOrder::new(stage.steps, first));
            }
        }
        None
    }

    fn begin_writes(&mut self) -> Vec<PendingWrite> {
        let mut begun = Vec::new();
        while self.window.is_open()
            && let Some(taken) = self.order.take()
        {
            begun.extend(self.begin(taken));
        }
        begun
    }

    /// Begins a step. `None` if it has ended at once.
    fn begin(&mut self, taken: TakenStep) -> Option<PendingWrite> {
        let (place, step) = (taken.place, taken.step);
        let is_sent = matches!(step.what, What::Send { .. });
        self.is_halted |= is_sent && self.halt.is_halted();
        if taken.is_left_out || self.is_over || (is_sent && self.is_halted) {
            self.order.ended(place, StepEnd::LeftOut);
            return None;
        }
        let target = step.target();
        let number = StepNumber {
            number: taken.number,
            action: step.action,
            is_event: step.is_event(),
        };
        match step.what {
            What::Known(result) => {
                let end = self.note(number, result.clone(), result);
                self.order.ended(place, end);
                None
            }
            What::Send { write, .. } if number.is_event => {
                self.take_event(number, write);
                self.order.ended(place, StepEnd::Done);
                None
            }
            What::Send {
                write,
                intent,
                finalizer,
                is_creation,
            } => {
                self.window.begin();
                let sent = SentWrite {
                    write: self.own.after(write, &target, &self.chains),
                    target,
                    step: number,
                    place,
                    audience: step.audience,
                    intent,
                    finalizer,
                    is_creation,
                };
                let author = self.author.clone();
                Some(PendingWrite { author, sent })
            }
        }
    }

    /// Keeps an Event for later. The plugin is told that it is done.
    fn take_event(&mut self, step: StepNumber, write: Write) {
        self.effects[step.number].result = ActionResult::Done(None);
        let author = self.author.clone();
        self.events.push(TakenEvent { author, write });
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
            _ => self.applied.forget(kind, key),
        }
    }

    /// Notes the result of a step, in the words for the operator and in those for the plugin.
    fn note(&mut self, step: StepNumber, operator: ActionResult, plugin: ActionResult) -> StepEnd {
        self.effects[step.number].result = plugin;
        let Some(error) = operator.error() else {
            return StepEnd::Done;
        };
        if step.is_event {
            self.denied_events.push(operator);
            return StepEnd::Done;
        }
        let failure = WriteFailure {
            message: format!("action {}: {error}", step.action + 1),
            is_unavailable: matches!(operator, ActionResult::Unavailable(_)),
            retry_after: match operator {
                ActionResult::Busy(_, time) => Some(time),
                _ => None,
            },
        };
        self.is_over |= failure.says_when();
        let failed = FailedStep {
            number: step.number,
            failure,
        };
        match &mut self.failure {
            Some(first) => first.join(failed),
            none => *none = Some(failed),
        }
        StepEnd::Failed
    }

    fn end(self) -> Executed {
        Executed {
            effects: self.effects,
            failure: self.failure.map(|failed| failed.failure),
            accepted: self.accepted,
            events: self.events,
            denied_events: self.denied_events,
            is_halted: self.is_halted,
        }
    }
}

impl PendingWrite {
    /// The write to be sent.
    pub fn write(&self) -> &Write {
        &self.sent.write
    }

    /// The number of its step, from 0 through all stages, and so of its effect.
    #[cfg(test)]
    pub(in crate::plan) fn number(&self) -> usize {
        self.sent.step.number
    }

    /// The author of the write, as it was when the reconcile began.
    pub fn author(&self) -> &Author {
        &self.author
    }
}

impl UnderWay {
    /// The cluster has answered a write of this plan.
    pub fn answered(self, pending: PendingWrite, answer: WriteAnswer) -> Execution {
        let Self(mut execution) = self;
        let sent = pending.sent;
        let WriteAnswer {
            result,
            object,
            status,
            ended,
            deleted,
            owner,
        } = answer;
        execution.remember(&sent, &result, object.as_deref());
        let result = match result {
            // An object that is gone has no finalizers.
            ActionResult::NotFound(_) if sent.finalizer == Some(false) => ActionResult::Done(None),
            result => result,
        };
        let (result, status) = match result {
            // The server's words are about a version that nobody has named.
            ActionResult::Conflict(_) if sent.is_creation => (unseen(&sent.write), None),
            result => (result, status),
        };
        let accepted = AcceptedWrite::of(&sent.write, &result, ended, owner);
        execution.accepted.extend(accepted);
        let deleted = AcceptedWrite::of_deleted(&sent.write, deleted);
        execution.accepted.extend(deleted);
        execution.own.note(&sent, &result);
        let Heard { plugin, operator } = sent.audience.hear(result, status);
        let end = execution.note(sent.step, operator, plugin);
        execution.window.end(end == StepEnd::Done);
        execution.order.ended(sent.place, end);
        execution
    }
}

/// The result of an apply that may only create its object, and was refused.
fn unseen(Write { kind, key, .. }: &Write) -> ActionResult {
    ActionResult::Conflict(format!(
        "{kind} {key} is not created: there is one that the snapshot does not show yet, or the child names a uid"
    ))
}
