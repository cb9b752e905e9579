//! Tells an observer which requests are sent and how they end. Sends nothing.

use std::sync::Arc;
use std::time::Duration;

use http::{Method, Request};
use tokio::time::Instant;

/// Observes which requests are sent and how they end: the data of client-go's `rest_client_*`
/// metrics.
pub trait Observer: Send + Sync {
    /// A request was sent and got this HTTP status, or no answer. Called for each repeat too.
    fn answered(&self, method: &Method, code: Option<u16>, is_repeat: bool) {
        let _ = (method, code, is_repeat);
    }
    /// Size of a request body, in bytes. Not called for watches.
    fn sent(&self, method: &Method, bytes: usize) {
        let _ = (method, bytes);
    }
    /// Size of the body of a complete answer, in bytes. Not called for watches.
    fn received(&self, method: &Method, bytes: usize) {
        let _ = (method, bytes);
    }
    /// A request has ended, with or without success. `took` includes its waits and repeats. Not
    /// called for watches.
    fn ended(&self, method: &Method, took: Duration) {
        let _ = (method, took);
    }
    /// A request has passed the limits, after `waited` (may be zero). Not called if there are no
    /// limits.
    fn throttled(&self, method: &Method, waited: Duration) {
        let _ = (method, waited);
    }
}

/// An observer that records nothing.
pub(super) struct NoObserver;

impl Observer for NoObserver {}

/// A request whose answer the sender reads itself. Dropping this value means that the request has
/// ended, with or without success.
pub(crate) struct OpenResponse {
    observer: Arc<dyn Observer>,
    method: Method,
    started: Instant,
}

impl OpenResponse {
    /// The request is about to be sent, after it has waited since `started`.
    pub(super) fn begin(
        observer: Arc<dyn Observer>,
        request: &Request<Vec<u8>>,
        started: Instant,
    ) -> Self {
        let method = request.method().clone();
        observer.sent(&method, request.body().len());
        Self {
            observer,
            method,
            started,
        }
    }

    /// The whole answer has arrived, with a body of `bytes` bytes.
    pub(crate) fn received(&self, bytes: usize) {
        self.observer.received(&self.method, bytes);
    }
}

impl Drop for OpenResponse {
    fn drop(&mut self) {
        self.observer.ended(&self.method, self.started.elapsed());
    }
}

/// A request that was sent. However it ends (an answer, an error, a deadline, or because its future
/// is dropped), the observer is told.
pub(super) struct Sent<'a> {
    observer: &'a dyn Observer,
    method: Method,
    /// The HTTP status, once there is an answer.
    pub(super) code: Option<u16>,
    is_repeat: bool,
}

impl<'a> Sent<'a> {
    pub(super) fn new(observer: &'a dyn Observer, method: &Method, is_repeat: bool) -> Self {
        Self {
            observer,
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
