//! Reads objects from the API server itself, past every cache. Used when a watch does not show what
//! was written, when its state is under suspicion, and when an outcome wants to have something
//! confirmed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use pilothouse_core::{InformerKey, Kind, ObjectKey, ReadFailure, ResourceVersion};
use serde::Deserialize;
use serde::de::Error;
use serde_json::value::RawValue;

use super::page::{ListMetadata, PAGE};
use super::request::MAX_ANSWER;
use crate::client::{CanRepeat, Client, METADATA_LIST, RequestError, Terms};
use crate::discovery::{Discovery, Resource, path};

/// Deadline of one request. Short: a key waits for the answer, and the read is repeated.
const DEADLINE: Duration = Duration::from_secs(5);

const JSON: &str = "application/json";

/// A list, or a page of one.
#[derive(Deserialize)]
struct List {
    #[serde(default)]
    kind: String,
    #[serde(default)]
    metadata: ListMetadata,
    /// Null where there are none and metadata alone was asked for.
    items: Option<Vec<Box<RawValue>>>,
}

impl List {
    /// Reads a list. Any other text, such as a Status or an empty object, says nothing about what
    /// there is.
    fn parse(text: &str) -> Result<Self, ReadFailure> {
        let list: Self = serde_json::from_str(text).map_err(|error| no_answer(&error))?;
        if list.items.is_none() && !list.kind.ends_with("List") {
            let kind = list.kind;
            return Err(no_answer(&format!("the answer is no list, but \"{kind}\"")));
        }
        Ok(list)
    }
}

#[derive(Deserialize)]
struct Item {
    metadata: Names,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Names {
    namespace: String,
    name: String,
    #[serde(rename = "resourceVersion")]
    version: String,
}

/// Fetches objects, one at a time.
pub(crate) struct ObjectFetcher {
    client: Client,
    discovery: Arc<Discovery>,
}

impl ObjectFetcher {
    pub(crate) fn new(client: Client, discovery: Arc<Discovery>) -> Self {
        Self { client, discovery }
    }

    /// The object as the server has it now (a quorum read), or `None` if it does not exist. An
    /// account that may list a kind need not have the right to get its objects one by one; then the
    /// object is listed by its name, as it is if a 404 does not say that the object is absent.
    pub(crate) async fn get(
        &self,
        kind: &Kind,
        key: &ObjectKey,
    ) -> Result<Option<String>, ReadFailure> {
        let resource = self.resolve(kind).await?;
        let path = path::object(&resource, key, None).map_err(|error| refused(&error))?;
        let error = match self.fetch_text(&path).await {
            Ok(text) => return Ok(Some(text)),
            Err(error) => error,
        };
        match error.status() {
            Some(status) if status.is_absence_of(&key.name) => Ok(None),
            // Another 404 means that the path does not exist, or comes from a server that does not
            // say so; it proves nothing about the object. Where there is a list, that does.
            Some(status) if matches!(status.code, 403..=405) => self.list_one(&resource, key).await,
            _ => Err(failure(&error)),
        }
    }

    /// Lists objects page by page (quorum reads), and hands each to `examine` as JSON.
    pub(crate) async fn list(
        &self,
        objects: &InformerKey,
        is_whole: bool,
        examine: impl FnMut(&str) -> Result<(), String>,
    ) -> Result<(), ReadFailure> {
        let is_enough = |_: &ResourceVersion| false;
        self.pages(objects, is_whole, examine, is_enough).await?;
        Ok(())
    }

    /// The version of a list of these objects as the server has them now (a quorum read), and the
    /// version of each object; without those if `is_enough` is content with the list's version
    /// before all pages are read.
    pub(crate) async fn versions(
        &self,
        objects: &InformerKey,
        is_enough: impl Fn(&ResourceVersion) -> bool,
    ) -> Result<
        (
            ResourceVersion,
            Option<BTreeMap<ObjectKey, ResourceVersion>>,
        ),
        ReadFailure,
    > {
        let mut found = BTreeMap::new();
        let examine = |json: &str| {
            let item: Item = serde_json::from_str(json).map_err(|error| error.to_string())?;
            let Names {
                namespace,
                name,
                version,
            } = item.metadata;
            let key = ObjectKey::new(&namespace, &name);
            found.insert(key, ResourceVersion::new(&version));
            Ok(())
        };
        let (version, is_complete) = self.pages(objects, false, examine, is_enough).await?;
        Ok((version, is_complete.then_some(found)))
    }

    /// Reads pages until there are no more, or until `is_enough` of the list's version. Returns
    /// that version, and whether all pages were read.
    async fn pages(
        &self,
        objects: &InformerKey,
        is_whole: bool,
        mut examine: impl FnMut(&str) -> Result<(), String>,
        is_enough: impl Fn(&ResourceVersion) -> bool,
    ) -> Result<(ResourceVersion, bool), ReadFailure> {
        let resource = self.resolve(&objects.kind).await?;
        let namespace = objects.namespace.as_deref();
        let path = path::collection(&resource.kind, &resource.plural, namespace);
        let mut selected = vec![("limit", PAGE.to_string())];
        let labels = objects.labels.to_string();
        selected.extend((!labels.is_empty()).then_some(("labelSelector", labels)));
        let fields = objects.fields.as_deref().map(str::to_owned);
        selected.extend(fields.map(|fields| ("fieldSelector", fields)));
        let accept = if is_whole { JSON } else { METADATA_LIST };
        let mut next = String::new();
        loop {
            let mut query = selected.clone();
            query.extend((!next.is_empty()).then(|| ("continue", next.clone())));
            let path = format!("{path}{}", path::query(&query));
            let text = self.fetch_as(&path, accept).await;
            let text = text.map_err(|error| match error.status() {
                // It has taken so long that the server has forgotten where the page begins.
                Some(status) if status.code == 410 => no_answer(&error),
                _ => failure(&error),
            })?;
            let list = List::parse(&text)?;
            for item in list.items.iter().flatten() {
                examine(item.get()).map_err(ReadFailure::Refused)?;
            }
            next = list.metadata.next;
            let version = ResourceVersion::new(&list.metadata.version);
            if next.is_empty() || is_enough(&version) {
                return Ok((version, next.is_empty()));
            }
        }
    }

    async fn resolve(&self, kind: &Kind) -> Result<Arc<Resource>, ReadFailure> {
        let resource = self.discovery.resolve(kind).await;
        resource.map_err(|error| match error.is_unanswered() {
            true => no_answer(&error),
            false => refused(&error),
        })
    }

    async fn list_one(
        &self,
        resource: &Resource,
        key: &ObjectKey,
    ) -> Result<Option<String>, ReadFailure> {
        let path = path::siblings(resource, key).map_err(|error| refused(&error))?;
        let selector = format!("metadata.name={}", key.name);
        let path = path + &path::query(&[("fieldSelector", selector)]);
        let text = self.fetch_text(&path).await;
        let text = text.map_err(|error| failure(&error))?;
        let list = List::parse(&text)?;
        // A server that ignores the field selector lists other objects too.
        let found = list.items.iter().flatten().find(|item| is_of(item, key));
        if found.is_none() && !list.metadata.next.is_empty() {
            let problem = "the list goes on, and its first page does not have the object";
            return Err(no_answer(&problem));
        }
        Ok(found.map(|item| item.get().to_owned()))
    }

    async fn fetch_text(&self, path: &str) -> Result<String, RequestError> {
        self.fetch_as(path, JSON).await
    }

    async fn fetch_as(&self, path: &str, media_type: &str) -> Result<String, RequestError> {
        let request = Request::get(path)
            .header(http::header::ACCEPT, media_type)
            .body(Vec::new())
            .expect("the path is percent-encoded");
        let terms = Terms {
            deadline: DEADLINE,
            limit: MAX_ANSWER,
            can_repeat: CanRepeat::Never,
            plugin: None,
            needs_right: false,
        };
        let body = self.client.fetch(&request, terms).await?;
        // Never with other bytes in their place: that would be another object.
        String::from_utf8(body).map_err(|error| RequestError::Answer(Error::custom(error)))
    }
}

fn is_of(item: &RawValue, key: &ObjectKey) -> bool {
    let item = serde_json::from_str::<Item>(item.get());
    item.is_ok_and(|Item { metadata }| {
        metadata.namespace == *key.namespace && metadata.name == *key.name
    })
}

/// Sorts an error: `Refused` if the server will never answer this request, `NoAnswer` if it may do
/// so later.
fn failure(error: &RequestError) -> ReadFailure {
    match error.status().map(|status| status.code) {
        // Credentials may be renewed (401); a timeout (408) and throttling (429) pass.
        Some(401 | 408 | 429) => no_answer(error),
        Some(400..500) => refused(error),
        _ => no_answer(error),
    }
}

fn refused(error: &dyn std::fmt::Display) -> ReadFailure {
    ReadFailure::Refused(error.to_string())
}

fn no_answer(error: &dyn std::fmt::Display) -> ReadFailure {
    ReadFailure::NoAnswer(error.to_string())
}

#[cfg(test)]
mod tests;
