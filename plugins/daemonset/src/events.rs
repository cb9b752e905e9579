//! What became of the pods of the key's last outcome. The names of those that it has created are
//! known only now.

use pilothouse_sdk::{ActionResult, Effect, EffectVerb, Event, Failure, Host, Kind, ObjectRef};

use crate::objects::Pod;

/// What the API server says about a create in a namespace that is being deleted.
const NAMESPACE_ENDS: &str = "because it is being terminated";

/// True if the namespace was found to be on its way out: then no pod can be created any more.
pub fn namespace_ends(previous: &[Effect]) -> bool {
    let mut creates = previous
        .iter()
        .filter(|effect| effect.verb == EffectVerb::Create);
    creates.any(|create| failure(&create.outcome).is_err_and(|why| why.contains(NAMESPACE_ENDS)))
}

/// An Event for each pod that was created or deleted, or could not be.
pub fn of_previous(key: &ObjectRef, previous: &[Effect]) -> Vec<Event> {
    let pods = previous
        .iter()
        .filter(|effect| effect.object.kind == Pod::KIND);
    pods.filter_map(|effect| of_effect(key, effect)).collect()
}

/// Looks at the pods whose names were to be given to new ones, and are taken: by pods that the
/// DaemonSet does not have any more, because somebody has changed their labels. Of a name that has
/// been seen the host makes no other.
pub fn see_taken_names(previous: &[Effect], host: &dyn Host) -> Result<(), Failure> {
    let is_taken = |effect: &&Effect| matches!(effect.outcome, ActionResult::AlreadyExists(_));
    let taken = previous.iter().filter(is_taken);
    for effect in taken.filter(|effect| effect.object.kind == Pod::KIND) {
        host.get::<Pod>(&effect.object)?;
    }
    Ok(())
}

fn of_effect(key: &ObjectRef, effect: &Effect) -> Option<Event> {
    let name = &effect.object.name;
    let event = match (effect.verb, failure(&effect.outcome)) {
        (EffectVerb::Create, Ok(true)) => {
            let note = format!("Created pod: {name}");
            Event::normal(key, "SuccessfulCreate", "Create", &note)
        }
        (EffectVerb::Create, Err(reason)) if reason.contains(NAMESPACE_ENDS) => return None,
        (EffectVerb::Create, Err(reason)) => {
            let note = format!("Error creating: {reason}");
            Event::warning(key, "FailedCreate", "Create", &note)
        }
        (EffectVerb::Delete, Ok(true)) => {
            let note = format!("Deleted pod: {name}");
            Event::normal(key, "SuccessfulDelete", "Delete", &note)
        }
        (EffectVerb::Delete, Err(reason)) => {
            let note = format!("Error deleting: {reason}");
            Event::warning(key, "FailedDelete", "Delete", &note)
        }
        _ => return None,
    };
    Some(event)
}

/// Whether something was done, or why it failed.
fn failure(result: &ActionResult) -> Result<bool, &str> {
    match result {
        ActionResult::Done(_) => Ok(true),
        ActionResult::Conflict(reason)
        | ActionResult::Forbidden(reason)
        | ActionResult::Invalid(reason)
        | ActionResult::Failed(reason) => Err(reason),
        // What is gone already was deleted by somebody else, and a name that is taken is tried
        // again with another.
        ActionResult::NotFound(_)
        | ActionResult::AlreadyExists(_)
        | ActionResult::Unchanged
        | ActionResult::Skipped
        | ActionResult::Answered(_) => Ok(false),
    }
}
