//! What a write's answer means to the controller that asked for it.

use pilothouse_core::outcome::ActionResult;
use serde::Deserialize;

use crate::request::RequestError;

#[derive(Default, Deserialize)]
struct Answer {
    #[serde(default)]
    metadata: Option<Metadata>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Metadata {
    resource_version: Option<String>,
}

/// Whether the server may have done what it did not confirm. One that says when to come again has done nothing, and wants to be
/// left alone.
pub(super) fn is_unknown(error: &RequestError) -> bool {
    error
        .status()
        .is_none_or(|status| status.code >= 500 && status.retry_after.is_none())
}

/// Sorts an answer as `wit/changes.wit` does.
pub(crate) fn result(is_delete: bool, answer: Result<Vec<u8>, RequestError>) -> ActionResult {
    let error = match answer {
        Ok(body) => return ActionResult::Done(resource_version(&body)),
        Err(error) => error,
    };
    let text = error.to_string();
    let Some(status) = error.status() else {
        return ActionResult::Failed(text);
    };
    match (status.code, &*status.reason) {
        // Gone already is what was wanted.
        (404, _) if is_delete && !is_no_such_path(&error) => ActionResult::Done(None),
        (409, "AlreadyExists") => ActionResult::AlreadyExists(text),
        (409, _) => ActionResult::Conflict(text),
        (404, _) => ActionResult::NotFound(text),
        (403, _) => ActionResult::Forbidden(text),
        (400 | 422, _) => ActionResult::Invalid(text),
        _ if text.starts_with("HTTP ") => ActionResult::Failed(text),
        (code, _) => ActionResult::Failed(format!("HTTP {code}: {text}")),
    }
}

/// None of an answer that is a Status: a deletion that is complete, an eviction, a binding.
pub(super) fn resource_version(body: &[u8]) -> Option<String> {
    let answer: Answer = serde_json::from_slice(body).unwrap_or_default();
    answer
        .metadata?
        .resource_version
        .filter(|version| !version.is_empty())
}

/// A 404 of the path, not of the object: it comes without a Status, as "404 page not found". The kind is served no more.
pub(super) fn is_no_such_path(error: &RequestError) -> bool {
    error
        .status()
        .is_some_and(|status| status.code == 404 && status.reason.is_empty())
}
