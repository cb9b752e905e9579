//! What a reconcile writes for pods and claims.

use pilothouse_sdk::{Action, Outcome};

/// Most bytes of what one reconcile writes. An outcome has at most 4 MiB; what is left over is
/// written at the next reconcile, which the first writes bring about.
const MAX_BYTES: usize = 3 * 1024 * 1024;
/// What a write counts besides its body, so that an outcome has fewer than 10,000.
const WRITE_BYTES: usize = 350;

/// When something is written: after all of the steps before it have succeeded.
#[derive(Clone, Copy)]
pub enum Step {
    /// What depends on nothing.
    First,
    /// Claims that are missing.
    Claims,
    /// Pods that wait for these claims.
    Pods,
    /// New owners of the claims of condemned pods; and Events about the steps before.
    Owners,
    /// Deletions of condemned pods, which may take their claims along.
    Deletions,
}

/// Writes, in the order in which they depend on each other.
pub struct Writes {
    steps: [Vec<Action>; 5],
    /// How many bytes may still be written.
    room: usize,
    /// Why not all could be decided: the key runs again.
    faults: Vec<String>,
}

impl Writes {
    pub fn new() -> Self {
        Self {
            steps: Default::default(),
            room: MAX_BYTES,
            faults: Vec::new(),
        }
    }

    pub fn add(&mut self, step: Step, action: impl Into<Action>) {
        let action = action.into();
        let body = match &action {
            Action::Create(create) => create.object.len(),
            Action::Patch(patch) => patch.body.len(),
            _ => 0,
        };
        self.room = self.room.saturating_sub(body + WRITE_BYTES);
        self.steps[step as usize].push(action);
    }

    /// True if nothing more fits into the outcome.
    pub fn are_full(&self) -> bool {
        self.room == 0
    }

    /// Notes why something could not be decided.
    pub fn fail(&mut self, fault: String) {
        self.faults.push(fault);
    }

    /// The first reason why something could not be decided.
    pub fn fault(&self) -> Option<&String> {
        self.faults.first()
    }

    /// True if nothing is to be written.
    pub fn is_empty(&self) -> bool {
        self.steps.iter().all(Vec::is_empty)
    }

    /// Adds the writes to an outcome, each step as a stage.
    pub fn add_to(self, outcome: Outcome) -> Outcome {
        let add = |outcome: Outcome, actions: Vec<Action>| {
            actions.into_iter().fold(outcome, Outcome::with).stage()
        };
        self.steps.into_iter().fold(outcome, add)
    }
}
