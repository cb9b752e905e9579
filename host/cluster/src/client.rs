//! The way to the API server: every request passes here, within the limits, under a deadline, and
//! reported to an observer.
//!
//! A request is repeated only if its sender allows it, only after an answer which means that
//! nothing was done, and only after the time that the server named (client-go's
//! `TestCheckRetryHandles429And5xx`; a 429 without a time counts as one second). While a request is
//! being repeated, the other requests of the same plugin wait. A server that turns requests away
//! therefore gets one request at a time from a plugin, not all of them.

mod answer;
mod error;
mod limit;
mod observer;
mod retry;
mod right;
mod status;

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderValue, Request, Response, Uri};
use kube::client::Body;
use tokio::time::Instant;

use answer::{MAX_REFUSAL, collect, retry_after};
pub use error::RequestError;
pub(crate) use error::one_line;
use limit::Lane;
pub use limit::{DEFAULT_BURST, Limit, LimitError, RateLimits};
pub use observer::Observer;
pub(crate) use observer::OpenResponse;
use observer::{NoObserver, Sent};
pub(crate) use retry::CanRepeat;
pub use right::WriteRight;
pub use status::Status;

/// The media type of a list of objects without anything but their metadata. A server that does not
/// know it answers with the second.
pub(crate) const METADATA_LIST: &str =
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1, application/json";

/// How often a request that was turned away is sent again.
const MAX_REPEATS: u32 = 3;

/// Upper bound on the time for which a plugin sends nothing because the server asked for a pause.
const LONGEST_CLOSURE: Duration = Duration::from_secs(60);

/// How long a plugin's other requests wait for the answer to a repeated request. The server may
/// answer them even if it does not answer this one.
const LONGEST_HOLD: Duration = Duration::from_secs(5);

/// Waits for an answer. The others stay blocked meanwhile, for at most [`LONGEST_HOLD`].
async fn hold<T, Guard>(answer: impl Future<Output = T>, blocking: &mut Option<Guard>) -> T {
    let mut answer = std::pin::pin!(answer);
    if blocking.is_some()
        && let Ok(answer) = tokio::time::timeout(LONGEST_HOLD, &mut answer).await
    {
        return answer;
    }
    *blocking = None;
    answer.await
}

/// A kube client with limits and an observer.
#[derive(Clone)]
pub struct Client {
    inner: kube::Client,
    limits: Arc<RateLimits>,
    observer: Arc<dyn Observer>,
    right: Arc<WriteRight>,
    /// Sends the writes that need the right; `None` if `inner` does.
    writer: Option<kube::Client>,
}

/// Without limits and without an observer, for a host that is alone.
impl From<kube::Client> for Client {
    fn from(inner: kube::Client) -> Self {
        Self {
            inner,
            limits: Arc::default(),
            observer: Arc::new(NoObserver),
            right: Arc::default(),
            writer: None,
        }
    }
}

/// The kube client alone; limits and observer are dropped.
impl From<Client> for kube::Client {
    fn from(client: Client) -> Self {
        client.inner
    }
}

impl From<&kube::Client> for Client {
    fn from(inner: &kube::Client) -> Self {
        inner.clone().into()
    }
}

impl From<&Client> for Client {
    fn from(client: &Client) -> Self {
        client.clone()
    }
}

/// How a request is to be made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms<'a> {
    /// From sending the request to the end of its answer. Each repeat has the same time again.
    pub(crate) deadline: Duration,
    /// Largest answer, in bytes.
    pub(crate) limit: usize,
    pub(crate) can_repeat: CanRepeat,
    /// The plugin that the request is for; `None` if it is the host's own.
    pub(crate) plugin: Option<&'a str>,
    /// Whether it is sent only while this host has the right to write.
    pub(crate) needs_right: bool,
}

/// The whole body of an answer, and the entity tag that names this state of it, if it has one (RFC
/// 9110, 8.8.3).
pub(crate) struct Answer {
    pub(crate) body: Vec<u8>,
    pub(crate) tag: Option<HeaderValue>,
}

impl Client {
    /// This client, with `limits` and `observer`.
    #[must_use]
    pub fn with(self, limits: RateLimits, observer: Arc<dyn Observer>) -> Self {
        Self {
            limits: Arc::new(limits),
            observer,
            ..self
        }
    }

    /// This client, whose writes of plugins need this right, and are sent by `writer`.
    #[must_use]
    pub(crate) fn with_right(self, right: Arc<WriteRight>, writer: Option<kube::Client>) -> Self {
        Self {
            right,
            writer,
            ..self
        }
    }

    /// Drops everything kept for a plugin that was removed.
    pub(crate) fn forget(&self, plugin: &str) {
        self.limits.forget(plugin);
    }

    /// Waits until the limits allow a request of the host whose answer the sender reads piece by
    /// piece; call [`Client::open`] next. Not for watches, which have neither limits nor durations
    /// (client-go's `Request.Watch`).
    pub(crate) async fn begin_read(&self, request: &Request<Vec<u8>>) -> OpenResponse {
        let started = Instant::now();
        self.throttle(request, &self.limits.lane(None), None).await;
        OpenResponse::begin(self.observer.clone(), request, started)
    }

    /// Sends a request once and returns when the head of the answer has arrived. Except for a
    /// watch, the caller must have waited for the limits first ([`Client::begin_read`]).
    pub(crate) async fn open(
        &self,
        request: Request<Vec<u8>>,
        deadline: Duration,
    ) -> Result<Response<Body>, RequestError> {
        let mut sent = Sent::new(&*self.observer, request.method(), false);
        let answered = tokio::time::timeout(deadline, self.head(&self.inner, request, &mut sent));
        answered
            .await
            .unwrap_or(Err(RequestError::Deadline(deadline)))
    }

    /// Sends a request, repeats it as `terms` allow, and returns the whole body of the answer.
    pub(crate) async fn fetch(
        &self,
        request: &Request<Vec<u8>>,
        terms: Terms<'_>,
    ) -> Result<Vec<u8>, RequestError> {
        let answer = self.fetch_tagged(request, terms).await;
        answer.map(|answer| answer.body)
    }

    /// As [`Client::fetch`], with the answer's entity tag. If the request has one
    /// (`If-None-Match`), an answer that has not changed is an error with the code 304.
    pub(crate) async fn fetch_tagged(
        &self,
        request: &Request<Vec<u8>>,
        terms: Terms<'_>,
    ) -> Result<Answer, RequestError> {
        let started = Instant::now();
        let answer = self.repeat(request, terms).await;
        self.observer.ended(request.method(), started.elapsed());
        if let Ok(answer) = &answer {
            self.observer.received(request.method(), answer.body.len());
        }
        answer
    }

    /// Sends a request of the host once and returns the whole body of the answer, at most `limit`
    /// bytes.
    pub(crate) async fn fetch_once(
        &self,
        request: &Request<Vec<u8>>,
        deadline: Duration,
        limit: usize,
    ) -> Result<Vec<u8>, RequestError> {
        let terms = Terms {
            deadline,
            limit,
            can_repeat: CanRepeat::Never,
            plugin: None,
            needs_right: false,
        };
        self.fetch(request, terms).await
    }

    async fn repeat(
        &self,
        request: &Request<Vec<u8>>,
        terms: Terms<'_>,
    ) -> Result<Answer, RequestError> {
        let lane = self.limits.lane(terms.plugin);
        // The host's own requests are unrelated, so they do not wait for each other.
        let queues = terms.plugin.is_some();
        if queues {
            lane.pass().await;
        }
        let mut blocking = None;
        let mut repeats = 0;
        loop {
            self.throttle(request, &lane, terms.plugin).await;
            let attempt = self.attempt(request.clone(), terms, repeats > 0);
            let answer = hold(attempt, &mut blocking).await;
            let Err(RequestError::Status(status)) = &answer else {
                return answer;
            };
            let delay = terms.can_repeat.delay(status);
            let Some(delay) = delay.filter(|_| repeats < MAX_REPEATS) else {
                // The request fails, but the plugin's later requests honour the pause asked for.
                if let (true, 429, Some(time)) = (queues, status.code, status.retry_after) {
                    lane.close(time.min(LONGEST_CLOSURE));
                }
                return answer;
            };
            let until = Instant::now() + delay;
            if queues && blocking.is_none() {
                blocking = Some(lane.block().await);
            }
            tokio::time::sleep_until(until).await;
            repeats += 1;
        }
    }

    async fn throttle(&self, request: &Request<Vec<u8>>, lane: &Lane, plugin: Option<&str>) {
        if let Some(waited) = self.limits.wait(lane).await {
            let (method, path) = (request.method(), request.uri().path());
            self.observer.throttled(method, waited);
            self.limits.report(waited, plugin, method.as_str(), path);
        }
    }

    /// Sends the request once, under its deadline.
    async fn attempt(
        &self,
        request: Request<Vec<u8>>,
        terms: Terms<'_>,
        is_repeat: bool,
    ) -> Result<Answer, RequestError> {
        let mut sent = Sent::new(&*self.observer, request.method(), is_repeat);
        self.observer.sent(request.method(), request.body().len());
        let (request, deadline) = match terms.needs_right {
            true => self.rightful(request, terms.deadline)?,
            false => (request, terms.deadline),
        };
        let writer = self.writer.as_ref().filter(|_| terms.needs_right);
        let client = writer.unwrap_or(&self.inner);
        let answered = tokio::time::timeout(deadline, async {
            let response = self.head(client, request, &mut sent).await?;
            let tag = response.headers().get(http::header::ETAG).cloned();
            let body = collect(response.into_body(), terms.limit).await?;
            Ok(Answer { body, tag })
        });
        answered
            .await
            .unwrap_or(Err(RequestError::Deadline(deadline)))
    }

    /// A request that is sent only while the right to write lasts, and its deadline. The server is
    /// told the deadline as well: `timeout`, a parameter of every request.
    fn rightful(
        &self,
        mut request: Request<Vec<u8>>,
        deadline: Duration,
    ) -> Result<(Request<Vec<u8>>, Duration), RequestError> {
        let deadline = self.right.deadline(deadline).ok_or(RequestError::NoRight)?;
        if self.right.has_end() {
            *request.uri_mut() = with_timeout(request.uri(), deadline)
                .map_err(|error| RequestError::Transport(kube::Error::HttpError(error)))?;
        }
        Ok((request, deadline))
    }

    async fn head(
        &self,
        client: &kube::Client,
        request: Request<Vec<u8>>,
        sent: &mut Sent<'_>,
    ) -> Result<Response<Body>, RequestError> {
        let response = client
            .send(request.map(Body::from))
            .await
            .map_err(RequestError::Transport)?;
        let code = response.status().as_u16();
        sent.code = Some(code);
        if response.status().is_success() {
            return Ok(response);
        }
        let retry_after = retry_after(&response);
        let body = collect(response.into_body(), MAX_REFUSAL).await?;
        Err(RequestError::Status(Box::new(Status::parse(
            code,
            retry_after,
            &body,
        ))))
    }
}

/// The same address with the parameter `timeout`, by which the API server ends what takes longer.
fn with_timeout(uri: &Uri, deadline: Duration) -> http::Result<Uri> {
    let separator = if uri.query().is_some() { '&' } else { '?' };
    let milliseconds = deadline.as_millis().max(1);
    let uri = format!("{uri}{separator}timeout={milliseconds}ms");
    uri.try_into().map_err(Into::into)
}

#[cfg(test)]
mod tests;
