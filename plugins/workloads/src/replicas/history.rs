//! What became of the pods that the last outcome wanted created and deleted.

use pilothouse_sdk::{ActionResult, Effect, EffectVerb, Event, Kind, ObjectRef, Request};

use super::objects::Pod;

/// An outcome has at most this many Events.
const MAX_EVENTS: usize = 100;

/// What the API server says about a create in a namespace that is being deleted.
const NAMESPACE_ENDS: &str = "because it is being terminated";

/// The creations and deletions of pods by the key's last outcome.
pub(super) struct History {
    creations: Vec<Attempt>,
    deletions: Vec<Attempt>,
    is_name_taken: bool,
}

/// One of them: the pod's name, and why it failed, if it did.
struct Attempt {
    name: String,
    fault: Option<String>,
}

/// How the last creations, or deletions, have ended.
pub(super) enum Verdict<'a> {
    /// There were none.
    Unknown,
    /// One has failed, for this reason.
    Failed(&'a str),
    Succeeded,
}

impl History {
    pub fn of(request: &Request) -> Self {
        let of = |verb: EffectVerb| {
            let effects = request
                .previous
                .iter()
                .filter(move |effect| effect.object.kind == Pod::KIND && effect.verb == verb);
            effects.filter_map(Attempt::of).collect()
        };
        Self {
            creations: of(EffectVerb::Create),
            deletions: of(EffectVerb::Delete),
            is_name_taken: request.previous.iter().any(|effect| {
                let is_taken = matches!(effect.outcome, ActionResult::AlreadyExists(_));
                effect.object.kind == Pod::KIND && is_taken
            }),
        }
    }

    pub fn creations(&self) -> Verdict<'_> {
        // A creation in a namespace that is being deleted is no failure: there is nothing to do.
        verdict(&self.creations, |fault| !fault.contains(NAMESPACE_ENDS))
    }

    pub fn deletions(&self) -> Verdict<'_> {
        verdict(&self.deletions, |_| true)
    }

    /// True if the namespace was found to be on its way out.
    pub fn namespace_ends(&self) -> bool {
        let mut faults = self
            .creations
            .iter()
            .filter_map(|made| made.fault.as_deref());
        faults.any(|fault| fault.contains(NAMESPACE_ENDS))
    }

    /// True if a pod was not created because there is one of its name.
    pub fn is_name_taken(&self) -> bool {
        self.is_name_taken
    }

    /// Events that tell about it.
    pub fn events(&self, key: &ObjectRef) -> Vec<Event> {
        let created = self.creations.iter().filter_map(|made| match &made.fault {
            None => {
                let note = format!("Created pod: {}", made.name);
                Some(Event::normal(key, "SuccessfulCreate", "Create", &note))
            }
            Some(fault) if fault.contains(NAMESPACE_ENDS) => None,
            Some(fault) => {
                let note = format!("Error creating: {fault}");
                Some(Event::warning(key, "FailedCreate", "Create", &note))
            }
        });
        let deleted = self.deletions.iter().map(|gone| match &gone.fault {
            None => {
                let note = format!("Deleted pod: {}", gone.name);
                Event::normal(key, "SuccessfulDelete", "Delete", &note)
            }
            Some(fault) => {
                let note = format!("Error deleting: {fault}");
                Event::warning(key, "FailedDelete", "Delete", &note)
            }
        });
        created.chain(deleted).take(MAX_EVENTS).collect()
    }
}

fn verdict(attempts: &[Attempt], counts: impl Fn(&str) -> bool) -> Verdict<'_> {
    let mut faults = attempts
        .iter()
        .filter_map(|attempt| attempt.fault.as_deref());
    match faults.find(|fault| counts(fault)) {
        Some(fault) => Verdict::Failed(fault),
        None if attempts.is_empty() => Verdict::Unknown,
        None => Verdict::Succeeded,
    }
}

impl Attempt {
    /// `None`: nothing was attempted, or the pod's name was taken: another one is tried.
    fn of(effect: &Effect) -> Option<Self> {
        let fault = match &effect.outcome {
            ActionResult::Done(_) => None,
            ActionResult::Unchanged
            | ActionResult::Skipped
            | ActionResult::AlreadyExists(_)
            | ActionResult::Answered(_) => return None,
            ActionResult::Conflict(text)
            | ActionResult::NotFound(text)
            | ActionResult::Forbidden(text)
            | ActionResult::Invalid(text)
            | ActionResult::Failed(text) => Some(text.clone()),
        };
        Some(Self {
            name: effect.object.name.clone(),
            fault,
        })
    }
}
