//! Turns the answer to a write into the result that the plugin sees.

use pilothouse_core::ActionResult;
use serde::Deserialize;
use serde_json::Value;

use crate::client::{RequestError, Status};
use pilothouse_core::text::cut_line;

/// The answer of a server that has carried out a write: the object, or a Status.
#[derive(Deserialize)]
struct Answer {
    kind: String,
    #[serde(default)]
    metadata: Option<Metadata>,
    /// In a Status this is a word; in an object it is the kind's own status.
    #[serde(default)]
    status: Option<Value>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Metadata {
    resource_version: Option<String>,
    uid: String,
    deletion_timestamp: Option<String>,
    deletion_grace_period_seconds: Option<i64>,
    finalizers: Vec<String>,
}

impl Answer {
    /// `None` if the body is not an API server's confirmation. A proxy on the way may answer 2xx
    /// with a page of its own.
    fn read(body: &[u8]) -> Option<Self> {
        let answer: Self = serde_json::from_slice(body).ok()?;
        let is_done = match &*answer.kind {
            "" => false,
            "Status" => answer
                .status
                .as_ref()
                .is_some_and(|status| status == "Success"),
            _ => true,
        };
        is_done.then_some(answer)
    }

    /// `None` for a Status, which answers a completed deletion, an eviction or a binding.
    fn resource_version(self) -> Option<String> {
        let version = self.metadata?.resource_version?;
        Some(version).filter(|version| !version.is_empty())
    }
}

/// What can be done about fields that other managers own.
const FORCE: &str = "with force an apply takes them over";

/// True if other managers own fields of an apply. The server names both in its message.
fn is_owned_by_others(status: &Status) -> bool {
    let mut causes = status.causes.iter();
    status.code == 409 && causes.any(|cause| cause.reason == "FieldManagerConflict")
}

/// True if the object is another one than that of the uid in a body. For an update the server says
/// so with a 409. For an apply and a patch it does not look at the uid as a precondition, and finds
/// that an immutable field would change.
fn is_other_object(status: &Status) -> bool {
    let mut causes = status.causes.iter();
    status.code == 422 && causes.any(|cause| cause.field == "metadata.uid")
}

/// Classifies an answer as `wit/changes.wit` describes.
pub(crate) fn result(is_delete: bool, answer: Result<Vec<u8>, RequestError>) -> ActionResult {
    let error = match answer {
        Ok(body) => return success(&body),
        Err(error) => error,
    };
    let text = error.to_string();
    let status = match &error {
        RequestError::Status(status) => status,
        RequestError::Transport(_) | RequestError::Deadline(_) | RequestError::NoRight => {
            return ActionResult::Unavailable(text);
        }
        // The write may have been carried out, whatever this answer contains.
        RequestError::TooLarge(_) | RequestError::Answer(_) => return ActionResult::Unknown(text),
    };
    if let (429, Some(time)) = (status.code, status.retry_after) {
        return ActionResult::Busy(format!("HTTP 429: {text}"), time);
    }
    match (status.code, &*status.reason) {
        // Most likely an expired token: not this write's fault, and all other writes fail too.
        (401, _) => ActionResult::Unavailable(format!("HTTP 401: {text}")),
        // A load balancer without live servers, or an API server that has lost etcd.
        (502..=504, _) => ActionResult::Unavailable(text),
        // The error may come from a webhook and concern this write alone.
        (code @ 500.., _) => ActionResult::Unknown(format!("HTTP {code}: {text}")),
        // For a deletion, an object that is already gone is a success.
        (404, _) if is_delete && !is_no_such_path(&error) => ActionResult::Done(None),
        (409, "AlreadyExists") => ActionResult::AlreadyExists(text),
        (409, _) if is_owned_by_others(status) => {
            ActionResult::Conflict(format!("{text}; {FORCE}"))
        }
        (409, _) => ActionResult::Conflict(text),
        (422, _) if is_other_object(status) => ActionResult::Conflict(text),
        (404, _) => ActionResult::NotFound(text),
        (403, _) => ActionResult::Forbidden(text),
        (400 | 422, _) => ActionResult::Invalid(text),
        _ if text.starts_with("HTTP ") => ActionResult::Failed(text),
        (code, _) => ActionResult::Failed(format!("HTTP {code}: {text}")),
    }
}

/// For an answer whose text is the server's or a webhook's own: a description that quotes none of
/// it.
pub(super) fn status(answer: &Result<Vec<u8>, RequestError>) -> Option<String> {
    match answer {
        Ok(body) if Answer::read(body).is_some() => None,
        Ok(_) | Err(RequestError::Answer(_)) => {
            Some("the answer is neither an object nor a Status".to_owned())
        }
        Err(RequestError::Status(status)) => {
            let Status { code, reason, .. } = &**status;
            // The sender of a Status (such as a webhook) may put any text into the reason.
            let is_word = !reason.is_empty()
                && reason.len() <= 64
                && reason.bytes().all(|byte| byte.is_ascii_alphabetic());
            let reason = if is_word { reason } else { "without a reason" };
            Some(match is_owned_by_others(status) {
                true => format!("HTTP {code} {reason}: others own fields of the apply; {FORCE}"),
                false => format!("HTTP {code} {reason}"),
            })
        }
        // These texts are the host's own.
        Err(
            RequestError::Transport(_)
            | RequestError::Deadline(_)
            | RequestError::TooLarge(_)
            | RequestError::NoRight,
        ) => None,
    }
}

/// The result of an answer with status 2xx.
fn success(body: &[u8]) -> ActionResult {
    match Answer::read(body) {
        Some(answer) => ActionResult::Done(answer.resource_version()),
        None => ActionResult::Unknown(format!(
            "the answer says success, but is neither an object nor a Status: {:?}",
            cut_line(&String::from_utf8_lossy(body), 80)
        )),
    }
}

/// The uid of an object that this write has ended: it is being deleted and has no finalizers left.
/// The server answers the write that removes the last finalizer with the object as it was removed
/// (`deleteWithoutFinalizers` of apiserver's store), at the resourceVersion it had before.
pub(super) fn ended(body: &[u8]) -> Option<String> {
    let answer: Answer = serde_json::from_slice(body).ok()?;
    let metadata = answer.metadata?;
    // A terminating pod has no finalizers either; it goes when its kubelet confirms. Only a grace
    // period of 0 is final.
    let is_final = metadata.deletion_grace_period_seconds == Some(0);
    let is_ended = metadata.deletion_timestamp.is_some() && metadata.finalizers.is_empty();
    (is_ended && is_final && !metadata.uid.is_empty()).then_some(metadata.uid)
}

/// True if a JSON Patch does not fit the object's current state: one of its tests failed, or a
/// field that it changes is missing. The server has no reason of its own for that, only this
/// message. For an object that fails validation, the message names the object.
pub(super) fn is_misfit(error: &RequestError) -> bool {
    const MESSAGE: &str = "the server rejected our request due to an error in our request";
    error
        .status()
        .is_some_and(|status| status.code == 422 && status.message == MESSAGE)
}

/// True if a 404 is about the path and not about the object: it comes without a Status, as "404
/// page not found". The kind is no longer served.
pub(super) fn is_no_such_path(error: &RequestError) -> bool {
    error
        .status()
        .is_some_and(|status| status.code == 404 && status.reason.is_empty())
}
