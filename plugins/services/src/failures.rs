//! Writes that have failed, as the next reconcile of their key is told.

use pilothouse_sdk::{ActionResult, Effect, EffectVerb};

/// What the API server says about a create in a namespace that is being deleted.
const NAMESPACE_ENDS: &str = "because it is being terminated";

/// Why a write has failed. `None`: it has not, or it was not sent.
#[must_use]
pub fn reason(effect: &Effect) -> Option<&str> {
    match &effect.outcome {
        ActionResult::Conflict(reason)
        | ActionResult::AlreadyExists(reason)
        | ActionResult::NotFound(reason)
        | ActionResult::Forbidden(reason)
        | ActionResult::Invalid(reason)
        | ActionResult::Failed(reason) => Some(reason),
        ActionResult::Done(_)
        | ActionResult::Unchanged
        | ActionResult::Skipped
        | ActionResult::Answered(_) => None,
    }
}

/// True if this is a create that was refused because the namespace is on its way out: any other
/// would be, too.
#[must_use]
pub fn is_of_ending_namespace(effect: &Effect) -> bool {
    let is_create = effect.verb == EffectVerb::Create;
    is_create && reason(effect).is_some_and(|reason| reason.contains(NAMESPACE_ENDS))
}
