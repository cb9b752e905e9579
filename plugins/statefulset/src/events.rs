//! Events about what has been written. They tell what became of each write, so the key's next
//! reconcile writes them.

use pilothouse_sdk::{Action, ActionResult, Effect, EffectVerb, Event, Kind, Outcome};

use crate::identity;
use crate::objects::{Claim, Pod, StatefulSet};
use crate::storage;

/// Most Events of one outcome. The host refuses an outcome with more.
const MAX_EVENTS: usize = 100;

/// The Events about what became of the set's last outcome.
pub fn report(set: &StatefulSet, previous: &[Effect]) -> Vec<Event> {
    let events = previous.iter().flat_map(|effect| about(set, effect));
    events.take(MAX_EVENTS).collect()
}

/// The outcome with no more Events than the host takes.
pub fn limited(mut outcome: Outcome) -> Outcome {
    let mut room = MAX_EVENTS;
    for stage in &mut outcome.stages {
        stage.actions.retain(|action| {
            let is_event = matches!(action, Action::Event(_));
            let is_kept = !is_event || room > 0;
            room -= usize::from(is_event && is_kept);
            is_kept
        });
    }
    outcome
}

fn about(set: &StatefulSet, effect: &Effect) -> Vec<Event> {
    let Some(result) = result(&effect.outcome) else {
        return Vec::new();
    };
    let name = &effect.object.name;
    match (effect.object.kind.as_str(), effect.verb, result) {
        // Somebody else has created it; the next reconcile sees it.
        (Pod::KIND, EffectVerb::Create, Err(_)) if is_taken(effect) => Vec::new(),
        (Pod::KIND, EffectVerb::Create, result) => vec![pod(set, "Create", name, result)],
        (Pod::KIND, EffectVerb::Delete, result) => vec![pod(set, "Delete", name, result)],
        (Pod::KIND, EffectVerb::Patch, Err(error)) => {
            vec![pod(set, "Update", name, Err(error))]
        }
        (Claim::KIND, verb, result) => about_claim(set, effect, verb, result),
        _ => Vec::new(),
    }
}

fn about_claim(
    set: &StatefulSet,
    effect: &Effect,
    verb: EffectVerb,
    result: Result<(), &str>,
) -> Vec<Event> {
    let claim = &effect.object.name;
    let Some(ordinal) = storage::ordinal_of(set, claim) else {
        return Vec::new();
    };
    let pod_name = identity::pod_name(set, ordinal);
    match (verb, result) {
        (EffectVerb::Create, Ok(())) => vec![created_claim(set, claim, &pod_name)],
        (EffectVerb::Create, Err(error)) => {
            let of_pod = format!("failed to create PVC {claim}: {error}");
            let of_pod = pod(set, "Create", &pod_name, Err(&of_pod));
            let of_claim = failed_claim(set, claim, &pod_name, error);
            let of_claim = (!is_taken(effect)).then_some(of_claim);
            of_claim.into_iter().chain([of_pod]).collect()
        }
        (EffectVerb::Patch, Err(error)) => {
            let error =
                format!("could not update claim {claim} for delete policy ownerRefs: {error}");
            vec![pod(set, "Update", &pod_name, Err(&error))]
        }
        _ => Vec::new(),
    }
}

fn is_taken(effect: &Effect) -> bool {
    matches!(effect.outcome, ActionResult::AlreadyExists(_))
}

/// Whether a write has succeeded. `None`: it was not sent.
fn result(outcome: &ActionResult) -> Option<Result<(), &str>> {
    match outcome {
        ActionResult::Done(_) => Some(Ok(())),
        ActionResult::Conflict(error)
        | ActionResult::AlreadyExists(error)
        | ActionResult::NotFound(error)
        | ActionResult::Forbidden(error)
        | ActionResult::Invalid(error)
        | ActionResult::Failed(error) => Some(Err(error)),
        ActionResult::Unchanged | ActionResult::Skipped | ActionResult::Answered(_) => None,
    }
}

/// That a pod was created, updated or deleted, or could not be.
pub fn pod(set: &StatefulSet, verb: &str, name: &str, result: Result<(), &str>) -> Event {
    let what = format!("{verb} Pod {name} in StatefulSet {}", set.name());
    match result {
        Ok(()) => normal(set, verb, &format!("{what} successful")),
        Err(error) => failed(set, verb, &format!("{what} failed error: {error}")),
    }
}

fn created_claim(set: &StatefulSet, claim: &str, pod: &str) -> Event {
    let note = format!(
        "Create Claim {claim} Pod {pod} in StatefulSet {} success",
        set.name()
    );
    normal(set, "Create", &note)
}

fn failed_claim(set: &StatefulSet, claim: &str, pod: &str, error: &str) -> Event {
    let what = format!(
        "Create Claim {claim} for Pod {pod} in StatefulSet {}",
        set.name()
    );
    failed(set, "Create", &format!("{what} failed error: {error}"))
}

/// That a claim's retention policy cannot be followed.
pub fn conflicting_controller(set: &StatefulSet, claim: &str) -> Event {
    let note = format!(
        "PersistentVolumeClaim {claim} has a conflicting OwnerReference that acts as a manging \
         controller, the retention policy is ignored for this claim"
    );
    Event::warning(&set.object(), "ConflictingController", "Update", &note)
}

fn normal(set: &StatefulSet, verb: &str, note: &str) -> Event {
    Event::normal(&set.object(), &format!("Successful{verb}"), verb, note)
}

fn failed(set: &StatefulSet, verb: &str, note: &str) -> Event {
    Event::warning(&set.object(), &format!("Failed{verb}"), verb, note)
}
