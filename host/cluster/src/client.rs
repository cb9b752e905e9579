//! The way to the API server: every request goes through here, within the limits, under a deadline, and seen by an observer.
//!
//! A request is repeated only where its sender says so, only after an answer that says that nothing was done, and only when the
//! server says when (client-go's `TestCheckRetryHandles429And5xx`). While one is being repeated, the others of the same plugin
//! wait: a server that turns requests away is asked once at a time per plugin and not by all of them.

use std::sync::Arc;
use std::time::Duration;

use http::{Method, Request, Response};
use kube::client::Body;
use tokio::time::Instant;

use crate::limit::{Lane, Limits};
use crate::request::{MAX_REFUSAL, RequestError, Status, collect, retry_after};

/// Times a request that was turned away is sent again.
const MAX_REPEATS: u32 = 3;

/// Where the server turns a request away and does not say for how long.
const DEFAULT_RETRY_AFTER: Duration = Duration::from_secs(1);

/// A server that wants to be left alone for longer gets its wish from whoever asks: a key's back-off, a list-watch's.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(10);

/// The longest that a plugin's requests stay away from a server that has asked for it.
const LONGEST_CLOSURE: Duration = Duration::from_secs(60);

/// How long the others of a plugin wait for the answer to a request that is sent again. A server that does not answer it may yet answer
/// them.
const LONGEST_HOLD: Duration = Duration::from_secs(5);

/// Waits for an answer, and keeps the others away meanwhile, but not for ever.
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

/// Sees what is sent and how it ends: what client-go's `rest_client_*` metrics are made of.
pub trait Observer: Send + Sync {
    /// A request was sent, and answered with this HTTP status or not at all. One that is repeated is seen each time.
    fn answered(&self, method: &Method, code: Option<u16>, is_repeat: bool) {
        let _ = (method, code, is_repeat);
    }
    /// The size of a request's body; of a watch never said.
    fn sent(&self, method: &Method, bytes: usize) {
        let _ = (method, bytes);
    }
    /// The size of a complete answer's body; of a watch never said.
    fn received(&self, method: &Method, bytes: usize) {
        let _ = (method, bytes);
    }
    /// A request has ended, well or not; the time includes its waits and repeats. Of a watch never said.
    fn ended(&self, method: &Method, took: Duration) {
        let _ = (method, took);
    }
    /// A request has waited for the limits, or has not had to. Never said where there are none.
    fn throttled(&self, method: &Method, waited: Duration) {
        let _ = (method, waited);
    }
}

/// Looks away.
struct Blind;

impl Observer for Blind {}

/// A kube client with limits and an observer.
#[derive(Clone)]
pub struct Client {
    inner: kube::Client,
    limits: Arc<Limits>,
    observer: Arc<dyn Observer>,
}

/// Without limits, seen by nobody.
impl From<kube::Client> for Client {
    fn from(inner: kube::Client) -> Self {
        Self {
            inner,
            limits: Arc::default(),
            observer: Arc::new(Blind),
        }
    }
}

/// What is left without limits and observer.
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

/// When a request that the server has turned away may be sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CanRepeat {
    /// Not even after 429.
    Never,
    /// When it is certain that nothing was done: after 429.
    IfRefused,
    /// Done twice it does what it does once: after 429, and after a 503 that names a time.
    Always,
    /// It does nothing: after 429, and after every 5xx that names a time.
    Read,
}

impl CanRepeat {
    /// How long to wait before the request is sent again, if it is.
    fn delay(self, status: &Status) -> Option<Duration> {
        let delay = match (status.code, self) {
            (_, Self::Never) => None,
            (429, _) => Some(status.retry_after.unwrap_or(DEFAULT_RETRY_AFTER)),
            (503, Self::Always) | (500.., Self::Read) => status.retry_after,
            _ => None,
        };
        delay.filter(|delay| *delay <= MAX_RETRY_AFTER)
    }
}

/// How a request is to be made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms<'a> {
    /// From when it is sent to the end of its answer; each repeat has as long again.
    pub(crate) deadline: Duration,
    /// Largest answer in bytes.
    pub(crate) limit: usize,
    pub(crate) can_repeat: CanRepeat,
    /// On whose behalf; none: the host's own.
    pub(crate) plugin: Option<&'a str>,
}

impl Client {
    /// This client, keeping `limits` and telling `observer`.
    #[must_use]
    pub fn with(self, limits: Limits, observer: Arc<dyn Observer>) -> Self {
        Self {
            limits: Arc::new(limits),
            observer,
            ..self
        }
    }

    /// A plugin has gone: nothing is kept for it any more.
    pub(crate) fn forget(&self, plugin: &str) {
        self.limits.forget(plugin);
    }

    /// Waits until the limits allow a request of the host whose answer its sender reads piece by piece: all but watches, for which
    /// there are neither limits nor durations (client-go's `Request.Watch`). [`Client::open`] follows.
    pub(crate) async fn begin_read(&self, request: &Request<Vec<u8>>) -> Reading {
        let started = Instant::now();
        self.throttle(request, &self.limits.lane(None), None).await;
        let method = request.method().clone();
        self.observer.sent(&method, request.body().len());
        Reading {
            observer: self.observer.clone(),
            method,
            started,
        }
    }

    /// Sends a request, once, and returns the answer when its head is here. Whoever sends something else than a watch has waited
    /// for the limits ([`Client::begin_read`]).
    pub(crate) async fn open(
        &self,
        request: Request<Vec<u8>>,
        deadline: Duration,
    ) -> Result<Response<Body>, RequestError> {
        let mut sent = Sent::new(self, request.method(), false);
        let answered = tokio::time::timeout(deadline, self.head(request, &mut sent));
        answered
            .await
            .unwrap_or(Err(RequestError::Deadline(deadline)))
    }

    /// Sends a request and returns the whole body of its answer.
    pub(crate) async fn fetch(
        &self,
        request: &Request<Vec<u8>>,
        terms: Terms<'_>,
    ) -> Result<Vec<u8>, RequestError> {
        let started = Instant::now();
        let answer = self.repeat(request, terms).await;
        self.observer.ended(request.method(), started.elapsed());
        if let Ok(body) = &answer {
            self.observer.received(request.method(), body.len());
        }
        answer
    }

    async fn repeat(
        &self,
        request: &Request<Vec<u8>>,
        terms: Terms<'_>,
    ) -> Result<Vec<u8>, RequestError> {
        let lane = self.limits.lane(terms.plugin);
        // The host's own requests have nothing in common that one of them should wait for another.
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

    /// Once, with its deadline.
    async fn attempt(
        &self,
        request: Request<Vec<u8>>,
        terms: Terms<'_>,
        is_repeat: bool,
    ) -> Result<Vec<u8>, RequestError> {
        let mut sent = Sent::new(self, request.method(), is_repeat);
        self.observer.sent(request.method(), request.body().len());
        let answered = tokio::time::timeout(terms.deadline, async {
            let response = self.head(request, &mut sent).await?;
            collect(response.into_body(), terms.limit).await
        });
        answered
            .await
            .unwrap_or(Err(RequestError::Deadline(terms.deadline)))
    }

    async fn head(
        &self,
        request: Request<Vec<u8>>,
        sent: &mut Sent<'_>,
    ) -> Result<Response<Body>, RequestError> {
        let response = self
            .inner
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

/// A request whose answer is read by its sender. When this is dropped the request has ended, well or not.
pub(crate) struct Reading {
    observer: Arc<dyn Observer>,
    method: Method,
    started: Instant,
}

impl Reading {
    /// The whole answer is here.
    pub(crate) fn received(&self, bytes: usize) {
        self.observer.received(&self.method, bytes);
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.observer.ended(&self.method, self.started.elapsed());
    }
}

/// A request on its way. Whatever ends it, an answer, an error, a deadline or nobody waiting for it any more, the observer is told.
struct Sent<'a> {
    observer: &'a dyn Observer,
    method: Method,
    code: Option<u16>,
    is_repeat: bool,
}

impl<'a> Sent<'a> {
    fn new(client: &'a Client, method: &Method, is_repeat: bool) -> Self {
        Self {
            observer: &*client.observer,
            method: method.clone(),
            code: None,
            is_repeat,
        }
    }
}

impl Drop for Sent<'_> {
    fn drop(&mut self) {
        self.observer
            .answered(&self.method, self.code, self.is_repeat);
    }
}

#[cfg(test)]
#[path = "client_tests.rs"]
mod tests;
