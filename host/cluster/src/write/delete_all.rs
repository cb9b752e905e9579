//! Deletes all objects of a kind in a namespace, a page at a time: a request of an API server takes
//! a minute at most, and with a limit it deletes no more than that page.

use http::Request;
use pilothouse_core::{ActionResult, Author, ObjectKey, Write, WriteAnswer};
use serde::Deserialize;

use super::error::WriteError;
use super::page::{ListMetadata, PAGE};
use super::{ObjectWriter, answer, identity, request};
use crate::discovery::path;

/// The answer to one request: the objects that it has deleted, as they were before.
#[derive(Deserialize)]
struct Page {
    metadata: ListMetadata,
    items: Option<Vec<Item>>,
}

#[derive(Deserialize)]
struct Item {
    metadata: Metadata,
}

#[derive(Deserialize)]
struct Metadata {
    #[serde(default)]
    namespace: String,
    name: String,
    #[serde(default)]
    uid: String,
}

impl ObjectWriter {
    /// Sends the requests one after the other, until one fails or there are no more objects.
    /// What has been deleted until then is in the answer, whatever its result.
    pub(super) async fn delete_all(
        &self,
        author: &Author,
        write: &Write,
    ) -> Result<WriteAnswer, WriteError> {
        let (resource, first) = self.request(&author.field_manager, write).await?;
        let mut deleted = Vec::new();
        let mut next = String::new();
        loop {
            let mut request = page(&first, &next)?;
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
            let page: Option<Page> = answer
                .as_ref()
                .ok()
                .and_then(|body| serde_json::from_slice(body).ok());
            let status = answer::status(&answer);
            let Some(page) = page else {
                return Ok(WriteAnswer {
                    status,
                    deleted,
                    ..answer::result(false, answer).into()
                });
            };
            deleted.extend(page.items.into_iter().flatten().map(|item| {
                let Metadata {
                    namespace,
                    name,
                    uid,
                } = item.metadata;
                (ObjectKey::new(&namespace, &name), uid)
            }));
            next = page.metadata.next;
            if next.is_empty() {
                return Ok(WriteAnswer {
                    deleted,
                    ..ActionResult::Done(None).into()
                });
            }
        }
    }
}

/// The request for the page that begins here. Empty: the first page.
fn page(first: &Request<Vec<u8>>, next: &str) -> http::Result<Request<Vec<u8>>> {
    let (mut parts, body) = first.clone().into_parts();
    let mut uri = format!("{}&limit={PAGE}", parts.uri);
    if !next.is_empty() {
        uri.push_str("&continue=");
        uri.push_str(&path::encode(next));
    }
    parts.uri = uri.try_into()?;
    Ok(Request::from_parts(parts, body))
}
