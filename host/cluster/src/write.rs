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

mod access_review;
mod answer;
mod delete_all;
mod error;
mod events;
mod fetch;
mod identity;
mod page;
mod request;

use std::sync::Arc;

use http::Request;
use pilothouse_core::{ActionResult, Author, Operation, PatchType, Write, WriteAnswer};

pub(crate) use access_review::AccessReviewer;
pub use access_review::ReviewError;
pub use error::WriteError;
pub(crate) use events::{EventBody, EventWriter};
pub(crate) use fetch::ObjectFetcher;
pub use identity::{Identity, IdentityError};

use crate::client::Client;
use crate::discovery::{Discovery, Resource};

/// Sends the writes of plugins, except Events.
pub(crate) struct ObjectWriter {
    client: Client,
    discovery: Arc<Discovery>,
}

impl ObjectWriter {
    pub(crate) fn new(client: Client, discovery: Arc<Discovery>) -> Self {
        Self { client, discovery }
    }

    /// Sends a write, and sends it again where the rules of this module allow that.
    pub(crate) async fn write(&self, author: &Author, write: &Write) -> WriteAnswer {
        let changed = match write.operation {
            Operation::DeleteAll { .. } => self.delete_all(author, write).await,
            _ => self.change(author, write).await,
        };
        changed.unwrap_or_else(|error| error.into_result().into())
    }

    async fn change(&self, author: &Author, write: &Write) -> Result<WriteAnswer, WriteError> {
        let (resource, mut request) = self.request(&author.field_manager, write).await?;
        if let Some(user) = &author.user {
            identity::impersonate(user, &mut request)?;
        }
        let terms = request::terms(&author.plugin, request::can_repeat(write));
        let answer = self.client.fetch(&request, terms).await;
        if let Err(error) = &answer
            && answer::is_no_such_path(error)
        {
            self.discovery.forget(&resource.kind);
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
            // A budget forbids this eviction. The server has time for other writes.
            ActionResult::Busy(text, _) if request::is_eviction(write) => {
                ActionResult::Failed(text)
            }
            result => result,
        };
        // Only `Done` with a resourceVersion means that the body is an object.
        let is_object = matches!(&result, ActionResult::Done(Some(_)));
        Ok(WriteAnswer {
            object: body.filter(|_| is_object),
            result,
            status,
            ended,
            deleted: Vec::new(),
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
        let resource = self.discovery.resolve_write(kind, subresource).await?;
        match request::request(&resource, manager, write) {
            Err(WriteError::Path(error))
                if error.is_of_scope() && self.discovery.doubt(&resource.kind).await => {}
            made => return Ok((resource, made?)),
        }
        let resource = self.discovery.resolve_write(kind, subresource).await?;
        let request = request::request(&resource, manager, write)?;
        Ok((resource, request))
    }
}

#[cfg(test)]
mod tests;
