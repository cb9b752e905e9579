//! Builds the requests of one list-watch, sends them, and says why one has no usable answer.
//!
//! Nothing here is repeated, and nothing decides what an answer means.

use std::time::Duration;

use http::Request;
use pilothouse_core::{Extent, InformerKey, ObjectKey, ResourceVersion};
use tokio::time::Instant;

use super::ask::{Asker, Opened, WatchRequest};
use super::stream::WatchStream;
use crate::client::{Client, OpenResponse, RequestError};
use crate::discovery::Resource;
use crate::watch::error::{WatchError, WatchFailure};
use crate::watch::machine::{FailureClass, NextRequest, Paging};
use crate::watch::settings::WatchSettings;
use crate::watch::wire::lines::{self, BodyError};
use crate::watch::wire::list;
use crate::watch::wire::query::Query;

/// Largest object, in bytes. A line of a watch is not longer either.
const MAX_OBJECT: usize = 8 * 1024 * 1024;

/// Bytes read of the answer to a probe: one object's metadata. If a server ignores the limit, the
/// front of the list is enough.
const MAX_PROBE: usize = 1024 * 1024;

/// The requests of one list-watch.
pub(crate) struct Requests {
    asker: Asker,
    query: Query,
    settings: WatchSettings,
    /// When the server last sent something.
    heard: Instant,
}

impl Requests {
    pub(crate) fn new(client: Client, query: Query, settings: WatchSettings) -> Self {
        Self {
            asker: Asker::new(client),
            query,
            settings,
            heard: Instant::now(),
        }
    }

    pub(crate) fn settings(&self) -> &WatchSettings {
        &self.settings
    }

    pub(super) fn query(&self) -> &Query {
        &self.query
    }

    pub(crate) fn informer_key(&self) -> &InformerKey {
        &self.query.informer_key
    }

    pub(crate) fn resource(&self) -> &Resource {
        &self.query.resource
    }

    /// How much is asked for.
    pub(crate) fn extent(&self) -> Extent {
        self.query.extent
    }

    /// Whether an object of this key is asked for. A server that cannot select namespaces sends the
    /// others, too.
    pub(crate) fn wants(&self, key: &ObjectKey) -> bool {
        self.query.extent.namespaces.has(&key.namespace)
    }

    /// The resource, named as in RBAC rules.
    pub(crate) fn name(&self) -> String {
        self.query.name()
    }

    /// The server has sent something.
    pub(crate) fn hear(&mut self) {
        self.heard = Instant::now();
    }

    /// Opens a stream or a watch. The server is asked to close it after `timeout`.
    pub(crate) async fn connect(
        &mut self,
        next: &NextRequest,
        timeout: Duration,
    ) -> Result<WatchStream, WatchFailure> {
        let started = Instant::now();
        let opened = self.open(next, timeout).await?;
        Ok(WatchStream::new(
            opened.response.into_body(),
            self.settings.max_line,
            opened.timeout,
            started,
            self.settings.quiet_limit,
        ))
    }

    /// Fetches a page of a list.
    pub(super) async fn fetch(
        &mut self,
        next: &NextRequest,
        timeout: Duration,
    ) -> Result<Vec<u8>, WatchFailure> {
        let life = self.settings.page_deadline;
        let life = if is_whole(next) { life * 10 } else { life };
        let until = Instant::now() + life;
        let Opened {
            response, reading, ..
        } = self.open(next, timeout).await?;
        let body = lines::read_all(
            response.into_body(),
            self.settings.quiet_limit,
            until,
            list::MAX_LIST,
            &mut self.heard,
        );
        let body = body.await.map_err(|error| self.unread(next, error, life))?;
        if let Some(reading) = reading {
            reading.received(body.len());
        }
        Ok(body)
    }

    /// Asks which version the server is at.
    pub(crate) async fn fetch_version(
        &mut self,
        timeout: Duration,
    ) -> Result<ResourceVersion, WatchFailure> {
        let next = &NextRequest::Probe;
        let life = self.settings.page_deadline;
        let until = Instant::now() + life;
        let Opened {
            response, reading, ..
        } = self.open(next, timeout).await?;
        let front = lines::read_front(
            response.into_body(),
            self.settings.quiet_limit,
            until,
            MAX_PROBE,
            &mut self.heard,
        );
        let front = front.await.map_err(|error| self.unread(next, error, life));
        let (body, is_whole) = front?;
        if let Some(reading) = reading.filter(|_| is_whole) {
            reading.received(body.len());
        }
        Ok(ResourceVersion::new(&list::version(&self.query, &body)?))
    }

    /// Fetches one object by name, within the time that a request may take at all and within
    /// `patience`. `None` if the object has no path.
    pub(super) async fn fetch_object(
        &mut self,
        key: &ObjectKey,
        patience: Duration,
    ) -> Option<Result<Vec<u8>, RequestError>> {
        let request = self.query.object(key)?;
        let deadline = self.settings.head_deadline.min(patience);
        let client = &self.asker.client;
        Some(client.fetch_once(&request, deadline, MAX_OBJECT).await)
    }

    /// The failure of a watch that the server neither closes nor uses.
    pub(crate) fn silent_watch(&self) -> WatchFailure {
        self.silent("watch")
    }

    /// Sends the request for `next` and waits until an answer begins.
    async fn open(
        &mut self,
        next: &NextRequest,
        timeout: Duration,
    ) -> Result<Opened, WatchFailure> {
        let request = self.query.request(next, timeout, &self.settings);
        let request = request.map_err(|error| self.unaskable(next, &error))?;
        let head_deadline = self.settings.head_deadline;
        let reading = self.begin_read(next, &request).await;
        let reading = reading.map_err(|error| self.unanswered(next, error))?;
        let question = WatchRequest {
            request,
            timeout,
            reading,
        };
        // For a slow server, more time helps; repeating the largest possible request does not.
        let (patience, life) = if is_whole(next) {
            (head_deadline * 4, self.settings.page_deadline * 10)
        } else {
            (head_deadline, self.settings.page_deadline)
        };
        let asked = self.asker.ask(next, question, patience, life);
        match asked.await {
            Ok(answer) => {
                self.hear();
                Ok(answer)
            }
            Err(error) => {
                self.note_refusal(&error);
                Err(self.unanswered(next, error))
            }
        }
    }

    /// A server, or a proxy before it, that does not take the selector of namespaces is not sent it
    /// again: 400 for its syntax, 414 and 431 for its length.
    fn note_refusal(&mut self, error: &RequestError) {
        let code = error.status().map(|status| status.code);
        if self.query.shards().is_some() && matches!(code, Some(400 | 414 | 431)) {
            let informer = &self.query.informer_key;
            tracing::debug!(%informer, %error, "the server refuses to select namespaces");
            self.query.is_selector_refused = true;
        }
    }

    /// Waits for the client's rate limits, which do not apply to watches. For a probe the wait is
    /// bounded, because a watch waits for the probe.
    async fn begin_read(
        &mut self,
        next: &NextRequest,
        request: &Request<Vec<u8>>,
    ) -> Result<Option<OpenResponse>, RequestError> {
        let patience = match next {
            NextRequest::Stream { .. } | NextRequest::Watch { .. } => return Ok(None),
            NextRequest::List { .. } => Duration::MAX,
            NextRequest::Probe => self.settings.head_deadline,
        };
        let begun = tokio::time::timeout(patience, self.asker.client.begin_read(request)).await;
        begun
            .map(Some)
            .map_err(|_| RequestError::Deadline(patience))
    }

    fn unaskable(&self, next: &NextRequest, error: &http::Error) -> WatchFailure {
        let class = match next {
            // The version may be the cause: the newest state can be requested without a version.
            NextRequest::Stream { .. }
            | NextRequest::List {
                paging: Paging::First | Paging::Whole,
                ..
            } => FailureClass::BadVersion,
            _ => FailureClass::Broken,
        };
        let error = WatchError::Unaskable {
            verb: Query::verb(next),
            resource: self.query.name(),
            cause: error.to_string(),
        };
        WatchFailure::new(error, class)
    }

    fn unanswered(&self, next: &NextRequest, error: RequestError) -> WatchFailure {
        match error {
            RequestError::Deadline(_) => self.silent(Query::verb(next)),
            error => WatchFailure::of_request(Query::verb(next), self.query.name(), error),
        }
    }

    fn silent(&self, verb: &'static str) -> WatchFailure {
        let error = WatchError::Silent {
            verb,
            resource: self.query.name(),
            seconds: self.heard.elapsed().as_secs(),
        };
        WatchFailure::new(error, FailureClass::Lost)
    }

    /// The failure of an answer that was to be complete after `life`.
    fn unread(&self, next: &NextRequest, error: BodyError, life: Duration) -> WatchFailure {
        let (verb, resource) = (Query::verb(next), self.query.name());
        match error {
            BodyError::Failed(error) => WatchFailure::of_request(verb, resource, error),
            BodyError::Quiet => self.silent(verb),
            BodyError::Late => {
                let seconds = life.as_secs();
                let error = WatchError::Slow {
                    verb,
                    resource,
                    seconds,
                };
                WatchFailure::new(error, FailureClass::Lost)
            }
        }
    }
}

/// True for an unpaged list.
fn is_whole(next: &NextRequest) -> bool {
    let NextRequest::List { paging, .. } = next else {
        return false;
    };
    *paging == Paging::Whole
}
