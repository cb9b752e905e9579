//! Writes: sends one HTTP request per [`Write`] and turns its answer into an [`ActionResult`].
//!
//! A write whose outcome is unknown is not repeated, so no create happens twice. A write that the
//! server turned away before doing anything is sent again a few times, if the server named a time
//! (client-go's `TestCheckRetryHandles429And5xx`):
//! - 429 is always such a refusal, except for an eviction. There it is the answer itself: a
//!   PodDisruptionBudget forbids the eviction.
//! - 503 with `Retry-After` usually is one. It is trusted only for idempotent writes.
//!
//! A write without an answer is [`ActionResult::Unavailable`]: before its key runs again, the
//! object is fetched from the API server.

pub(crate) mod answer;

use std::sync::Arc;
use std::time::Duration;

use http::{Method, Request};
use pilothouse_core::{
    ActionResult, Author, Operation, PatchType, Propagation, Write, WriteAnswer,
};
use serde_json::json;

use crate::ApiCluster;
use crate::client::{CanRepeat, Terms};
use crate::discovery::{DiscoveryError, Resource};
use crate::event::EventBody;
use crate::identity;
use crate::path::{self, ResourcePathError};
use crate::request::RequestError;

/// Deadline of one request. The API server itself gives up after 60 s, its webhooks after at most
/// 30 s.
const DEADLINE: Duration = Duration::from_secs(30);

/// Largest answer, in bytes. An object is at most 3 MiB.
const MAX_ANSWER: usize = 16 * 1024 * 1024;

/// Why a write was not sent.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The object has no path.
    #[error(transparent)]
    Path(#[from] ResourcePathError),
    /// Discovery does not know the kind.
    #[error(transparent)]
    Discovery(#[from] DiscoveryError),
    /// The parts do not make a valid HTTP request.
    #[error("not a request: {0}")]
    Request(#[from] http::Error),
}

impl WriteError {
    fn into_result(self) -> ActionResult {
        let text = self.to_string();
        match self {
            Self::Path(_)
            | Self::Request(_)
            | Self::Discovery(DiscoveryError::Ambiguous { .. }) => ActionResult::Invalid(text),
            Self::Discovery(DiscoveryError::UnknownKind { .. }) => ActionResult::NotFound(text),
            // Discovery has no answer. The write itself may be right.
            Self::Discovery(error) if error.is_unanswered() => ActionResult::Unavailable(text),
            Self::Discovery(_) => ActionResult::Failed(text),
        }
    }
}

impl ApiCluster {
    /// Makes one write and returns its result. There is always an answer: an error is a kind of
    /// [`ActionResult`]. A write whose outcome is unknown is not repeated.
    pub async fn write(&self, author: &Author, write: &Write) -> WriteAnswer {
        if let Operation::Event {
            uid,
            is_warning,
            reason,
            action,
            note,
        } = &write.operation
        {
            let (kind, key) = (&write.kind, &write.key);
            let event = EventBody {
                manager: &author.plugin,
                kind,
                key,
                uid: uid.as_deref(),
                is_warning: *is_warning,
                reason,
                action,
                note,
            };
            return self.event(event).await.into();
        }
        self.change(author, write)
            .await
            .unwrap_or_else(|error| error.into_result().into())
    }

    async fn change(&self, author: &Author, write: &Write) -> Result<WriteAnswer, WriteError> {
        let (resource, mut request) = self.request(&author.field_manager, write).await?;
        if let Some(user) = &author.user {
            identity::impersonate(user, &mut request)?;
        }
        let answer = self.send(&author.plugin, &request, can_repeat(write)).await;
        if let Err(error) = &answer
            && answer::is_no_such_path(error)
        {
            self.discovery().forget(&resource.kind);
        }
        let is_delete = matches!(write.operation, Operation::Delete { .. });
        let body = match (&write.operation, &answer) {
            (Operation::Apply { .. }, Ok(body)) => String::from_utf8(body.clone()).ok(),
            _ => None,
        };
        let is_json_patch = matches!(
            &write.operation,
            Operation::Patch {
                patch_type: PatchType::Json,
                ..
            }
        );
        // A deletion is awaited as a deletion, so only these three can end an object unexpectedly.
        let can_end = matches!(
            write.operation,
            Operation::Apply { .. } | Operation::Update { .. } | Operation::Patch { .. }
        );
        let changed = answer.as_ref().ok().filter(|_| can_end);
        let ended = changed.and_then(|body| answer::ended(body));
        let is_misfit = is_json_patch && answer.as_ref().is_err_and(answer::is_misfit);
        let status = answer::status(&answer);
        let result = match answer::result(is_delete, answer) {
            ActionResult::Invalid(text) if is_misfit => ActionResult::Conflict(text),
            result => result,
        };
        // Only `Done` with a resourceVersion means that the body is an object.
        let is_object = matches!(&result, ActionResult::Done(Some(_)));
        Ok(WriteAnswer {
            object: body.filter(|_| is_object),
            result,
            status,
            ended,
            owner: Some(&resource.kind)
                .filter(|kind| **kind != write.kind)
                .cloned(),
        })
    }

    /// The request of a write, and the resource it goes to. If the known scope gives it no path,
    /// the kind may have been recreated with another scope. If no plugin watches the kind, only a
    /// write can notice that, so discovery is asked again.
    async fn request(
        &self,
        manager: &str,
        write: &Write,
    ) -> Result<(Arc<Resource>, Request<Vec<u8>>), WriteError> {
        let (kind, subresource) = (&write.kind, write.subresource.as_deref());
        let resource = self.discovery().resolve_write(kind, subresource).await?;
        match request(&resource, manager, write) {
            Err(WriteError::Path(error))
                if error.is_of_scope() && self.discovery().doubt(&resource.kind).await => {}
            made => return Ok((resource, made?)),
        }
        let resource = self.discovery().resolve_write(kind, subresource).await?;
        let request = request(&resource, manager, write)?;
        Ok((resource, request))
    }

    /// Sends a write of a plugin, and sends it again where the module's rules allow that.
    pub(crate) async fn send(
        &self,
        plugin: &str,
        request: &Request<Vec<u8>>,
        can_repeat: CanRepeat,
    ) -> Result<Vec<u8>, RequestError> {
        let terms = Terms {
            deadline: DEADLINE,
            limit: MAX_ANSWER,
            can_repeat,
            plugin: Some(plugin),
        };
        self.client.fetch(request, terms).await
    }
}

fn can_repeat(write: &Write) -> CanRepeat {
    match &write.operation {
        _ if write.subresource.as_deref() == Some("eviction") => CanRepeat::Never,
        Operation::Apply { .. }
        | Operation::Update { .. }
        | Operation::Patch {
            patch_type: PatchType::Merge,
            ..
        } => CanRepeat::Always,
        // Without the uid, a repeat could delete a new object of the same name.
        Operation::Delete { uid: Some(_), .. } => CanRepeat::Always,
        _ => CanRepeat::IfRefused,
    }
}

fn request(
    resource: &Resource,
    manager: &str,
    write: &Write,
) -> Result<Request<Vec<u8>>, WriteError> {
    let object = || path::object(resource, &write.key, write.subresource.as_deref());
    let by_manager = ("fieldManager", manager.to_owned());
    let (method, path, query, content_type, body) = match &write.operation {
        Operation::Apply {
            object: body,
            force,
        } => {
            let query = vec![by_manager, ("force", force.to_string())];
            // JSON is YAML. A JSON media type for apply exists only since 1.33.
            (
                Method::PATCH,
                object()?,
                query,
                "application/apply-patch+yaml",
                body.clone(),
            )
        }
        Operation::Create { object: body } => {
            let path = if write.subresource.is_some() {
                object()?
            } else {
                path::siblings(resource, &write.key)?
            };
            (
                Method::POST,
                path,
                vec![by_manager],
                "application/json",
                body.clone(),
            )
        }
        Operation::Update { object: body } => (
            Method::PUT,
            object()?,
            vec![by_manager],
            "application/json",
            body.clone(),
        ),
        Operation::Patch { patch_type, body } => (
            Method::PATCH,
            object()?,
            vec![by_manager],
            content_type(*patch_type),
            body.clone(),
        ),
        Operation::Delete {
            uid,
            resource_version,
            propagation,
            grace_period_seconds,
        } => {
            let options = delete_options(
                uid.as_deref(),
                resource_version.as_deref(),
                *propagation,
                *grace_period_seconds,
            );
            (
                Method::DELETE,
                object()?,
                vec![],
                "application/json",
                options,
            )
        }
        Operation::Event { .. } => {
            unreachable!("an Event is not written to the object it is about")
        }
    };
    let uri = format!("{path}{}", path::query(&query));
    Ok(build(method, uri, content_type, body.into_bytes())?)
}

pub(crate) fn build(
    method: Method,
    uri: String,
    content_type: &str,
    body: Vec<u8>,
) -> http::Result<Request<Vec<u8>>> {
    Request::builder()
        .method(method)
        .uri(uri)
        .header(http::header::ACCEPT, "application/json")
        .header(http::header::CONTENT_TYPE, content_type)
        .body(body)
}

fn content_type(patch_type: PatchType) -> &'static str {
    match patch_type {
        PatchType::Json => "application/json-patch+json",
        PatchType::Merge => "application/merge-patch+json",
        PatchType::Strategic => "application/strategic-merge-patch+json",
    }
}

fn delete_options(
    uid: Option<&str>,
    resource_version: Option<&str>,
    propagation: Option<Propagation>,
    grace_period_seconds: Option<u32>,
) -> String {
    let mut options = json!({"apiVersion": "v1", "kind": "DeleteOptions"});
    if let Some(uid) = uid {
        options["preconditions"]["uid"] = uid.into();
    }
    if let Some(resource_version) = resource_version {
        options["preconditions"]["resourceVersion"] = resource_version.into();
    }
    if let Some(propagation) = propagation {
        options["propagationPolicy"] = match propagation {
            Propagation::Background => "Background",
            Propagation::Foreground => "Foreground",
            Propagation::Orphan => "Orphan",
        }
        .into();
    }
    if let Some(seconds) = grace_period_seconds {
        options["gracePeriodSeconds"] = seconds.into();
    }
    options.to_string()
}

#[cfg(test)]
mod tests;
