//! What a write's answer means to the controller that asked for it.

use pilothouse_core::outcome::ActionResult;
use serde::Deserialize;
use serde_json::Value;

use crate::request::{RequestError, Status, flatten};

/// What a server that has done a write answers with: the object, or a Status.
#[derive(Deserialize)]
struct Answer {
    kind: String,
    #[serde(default)]
    metadata: Option<Metadata>,
    /// Of a Status a word; of an object whatever its kind has there.
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
    /// None: it is not an API server's word that the write is done. A proxy on the way may answer with a page of its own.
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

    /// None of a Status: a deletion that is complete, an eviction, a binding.
    fn resource_version(self) -> Option<String> {
        let version = self.metadata?.resource_version?;
        Some(version).filter(|version| !version.is_empty())
    }
}

/// Sorts an answer as `wit/changes.wit` does.
pub(crate) fn result(is_delete: bool, answer: Result<Vec<u8>, RequestError>) -> ActionResult {
    let error = match answer {
        Ok(body) => return success(&body),
        Err(error) => error,
    };
    let text = error.to_string();
    let status = match &error {
        RequestError::Status(status) => status,
        RequestError::Transport(_) | RequestError::Deadline(_) => {
            return ActionResult::Unavailable(text);
        }
        // Whatever else it says, it may have been done.
        RequestError::TooLarge(_) | RequestError::Answer(_) => return ActionResult::Unknown(text),
    };
    if let (429, Some(time)) = (status.code, status.retry_after) {
        return ActionResult::Busy(format!("HTTP 429: {text}"), time);
    }
    match (status.code, &*status.reason) {
        // A token that has expired, most likely: no fault of the write's, and all others meet it too.
        (401, _) => ActionResult::Unavailable(format!("HTTP 401: {text}")),
        // A balancer whose servers are all gone, or a server that has not heard from etcd.
        (502..=504, _) => ActionResult::Unavailable(text),
        // It may be a webhook's, and about this write alone.
        (code @ 500.., _) => ActionResult::Unknown(format!("HTTP {code}: {text}")),
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

/// Of an answer whose text is the server's own, or a webhook's: what can be said without quoting anything.
pub(super) fn status(answer: &Result<Vec<u8>, RequestError>) -> Option<String> {
    match answer {
        Ok(body) if Answer::read(body).is_some() => None,
        Ok(_) | Err(RequestError::Answer(_)) => {
            Some("the answer is neither an object nor a Status".to_owned())
        }
        Err(RequestError::Status(status)) => {
            let Status { code, reason, .. } = &**status;
            // Who makes up a Status may write anything for a reason.
            let is_word = !reason.is_empty()
                && reason.len() <= 64
                && reason.bytes().all(|byte| byte.is_ascii_alphabetic());
            let reason = if is_word { reason } else { "without a reason" };
            Some(format!("HTTP {code} {reason}"))
        }
        // The host's words.
        Err(RequestError::Transport(_) | RequestError::Deadline(_) | RequestError::TooLarge(_)) => {
            None
        }
    }
}

/// An answer of 2xx.
fn success(body: &[u8]) -> ActionResult {
    match Answer::read(body) {
        Some(answer) => ActionResult::Done(answer.resource_version()),
        None => ActionResult::Unknown(format!(
            "the answer says success, but is neither an object nor a Status: {:?}",
            flatten(&String::from_utf8_lossy(body), 80)
        )),
    }
}

/// The uid of an object that is being deleted and has no finalizers left: the server answers the write that takes the last one with
/// the object as it was removed (`deleteWithoutFinalizers` of apiserver's store), at the version that it had before.
pub(super) fn ended(body: &[u8]) -> Option<String> {
    let answer: Answer = serde_json::from_slice(body).ok()?;
    let metadata = answer.metadata?;
    // A pod that is ending has no finalizers either, and goes when its kubelet says so.
    let is_final = metadata.deletion_grace_period_seconds == Some(0);
    let is_ended = metadata.deletion_timestamp.is_some() && metadata.finalizers.is_empty();
    (is_ended && is_final && !metadata.uid.is_empty()).then_some(metadata.uid)
}

/// A JSON Patch that does not fit the object as it is: one of its tests has failed, or what it
/// changes is not there. The server has no reason of its own for that. What it says of an object
/// that is not valid names the object.
pub(super) fn is_misfit(error: &RequestError) -> bool {
    const MESSAGE: &str = "the server rejected our request due to an error in our request";
    error
        .status()
        .is_some_and(|status| status.code == 422 && status.message == MESSAGE)
}

/// A 404 of the path, not of the object: it comes without a Status, as "404 page not found". The kind is served no more.
pub(super) fn is_no_such_path(error: &RequestError) -> bool {
    error
        .status()
        .is_some_and(|status| status.code == 404 && status.reason.is_empty())
}
