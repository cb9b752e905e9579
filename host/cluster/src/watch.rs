//! The list-watch of one source: first all its objects, then every change, until it is dropped.
//!
//! `state` decides which request comes next. This module sends it and hands the results to a
//! [`CacheSink`] in the order of their arrival. The cache never becomes stale unnoticed. An object
//! that cannot be read is reported as a [`Delta::Unreadable`] if its name is known. Every other
//! failure is a [`WatchState::Error`] or [`WatchState::Unreachable`] until a list or a watch has
//! worked again.
//!
//! A server that stops answering is noticed within [`WatchSettings::quiet_limit`] plus
//! [`WatchSettings::head_deadline`], even if its TCP stack still works: a watch that brings nothing
//! is opened again, and the server must answer that request.

mod alarm;
mod ask;
mod change;
mod error;
mod event;
mod failure_class;
mod follow;
mod initial;
mod jitter;
mod lines;
mod list;
mod pages;
mod position;
mod probe;
mod query;
mod reread;
mod settings;
mod state;
mod step;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use pilothouse_core::{Delta, Detail, InformerKey, Kind, Listing, ResourceVersion, Schema};
use tokio::time::Instant;

pub use error::WatchError;
pub use lines::StreamError;
pub use settings::WatchSettings;

use crate::client::{Client, OpenResponse};
use crate::discovery::Resource;
use crate::request::RequestError;
pub(crate) use alarm::Alarm;
use alarm::Listener;
use ask::{Asker, Opened, WatchRequest};
use error::WatchFailure;
use failure_class::FailureClass;
use lines::BodyError;
use pages::Pages;
use query::Query;
use reread::Unread;
use state::ListWatchState;
use step::{NextRequest, Paging};

/// A new kind that is still not served after this time is reported as an error.
const INITIALIZING: Duration = Duration::from_secs(10);

/// Receives what a list-watch learns: the one writer of the kind's cache.
pub trait CacheSink: Send {
    /// How objects are to be parsed now.
    fn schema(&self) -> Arc<Schema>;
    /// Applies a change, a list or a bookmark.
    fn apply(&mut self, delta: Delta);
    /// The state of the list-watch. Called only when it changes.
    fn state(&mut self, state: WatchState);
    /// The bytes that the objects of a first list may take
    /// ([`pilothouse_core::Object::size`]). A first list beyond that is abandoned while it
    /// is being collected. Later lists are not limited: they replace an earlier one.
    fn room(&self) -> usize {
        usize::MAX
    }
    /// An event of this version was older than the cache, and has been dropped.
    fn stale(&mut self, _version: &ResourceVersion) {}
    /// The server was rolled back, as happens when etcd is restored from a snapshot. The next
    /// [`Delta::Replace`] holds its state. `_is_news` is false if another list-watch of the same
    /// server has already reported it.
    fn rolled_back(&mut self, _from: &ResourceVersion, _to: &ResourceVersion, _is_news: bool) {}
}

/// The state of a list-watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchState {
    /// It fetches all objects.
    Listing,
    /// It follows the changes.
    Watching,
    /// It does neither, and retries; the cache may be behind. The text is one line for status and
    /// logs.
    Error(String),
    /// Like `Error`, but the cause is not the kind: the server is down, does not answer or is
    /// overloaded.
    Unreachable(String),
}

impl WatchState {
    fn is_trouble(&self) -> bool {
        matches!(self, Self::Error(_) | Self::Unreachable(_))
    }
}

/// Lists and watches one source.
pub struct ListWatch {
    asker: Asker,
    alarm: Listener,
    query: Query,
    settings: WatchSettings,
    state: ListWatchState,
    /// The state that the sink was last told.
    announced: Option<WatchState>,
    /// The pages of the current list so far.
    pages: Pages,
    unread: Unread,
    /// When the server last sent something.
    heard: Instant,
    has_missed_marker: bool,
    /// The kind's path is no longer served, or the kind's scope has changed.
    is_gone: bool,
    has_listed: bool,
    /// The cache already holds a complete list with as much of each object, so that a new list
    /// replaces it however much room there is. Otherwise a cache that has outgrown the limit could
    /// never follow its kind again.
    is_replacing: bool,
    /// Everything is listed because another list-watch has found that the server was rolled back.
    is_told: bool,
    /// Since when the server has been preparing to serve a kind that was never listed.
    initializing: Option<Instant>,
    /// The first failure since the last watch that worked. If everything is listed again, this is
    /// the reason.
    why: Option<String>,
}

impl ListWatch {
    /// Sends nothing yet. `seed` spreads the requests of many list-watches over time.
    pub fn new(
        client: Client,
        resource: Arc<Resource>,
        informer_key: InformerKey,
        detail: Detail,
        settings: WatchSettings,
        seed: u64,
    ) -> Self {
        Self {
            asker: Asker::new(client),
            alarm: Listener::new(Alarm::default()),
            query: Query {
                informer_key,
                resource,
                detail,
            },
            state: ListWatchState::new(settings.clone(), seed),
            settings,
            announced: None,
            pages: Pages::default(),
            unread: Unread::default(),
            heard: Instant::now(),
            has_missed_marker: false,
            is_gone: false,
            has_listed: false,
            is_replacing: false,
            is_told: false,
            initializing: None,
            why: None,
        }
    }

    /// The cache already holds the state up to this version, from another list-watch. Nothing older
    /// is accepted, unless the server was rolled back, and then that is reported.
    #[must_use]
    pub fn not_older_than(mut self, known: Option<&ResourceVersion>) -> Self {
        if let Some(version) = known {
            self.state.begin_at(version);
        }
        self
    }

    /// True if the cache already holds a complete list with as much of each object. Then the first
    /// list is not limited by [`CacheSink::room`] either.
    #[must_use]
    pub fn replacing(mut self, is_replacing: bool) -> Self {
        self.is_replacing = is_replacing;
        self
    }

    /// Shares rollback alarms with the other list-watches of this server.
    #[must_use]
    pub(crate) fn sharing(mut self, alarm: &Alarm) -> Self {
        self.alarm = Listener::new(alarm.clone());
        self
    }

    /// The kind that is listed and watched.
    pub fn kind(&self) -> &Kind {
        &self.query.informer_key.kind
    }

    /// Runs for ever. Dropping the future closes the watch; nothing is left running. If the kind is
    /// removed, this asks for it under the same path until it is back.
    pub async fn run(mut self, sink: &mut impl CacheSink) -> Infallible {
        loop {
            self.run_until_gone(sink).await;
        }
    }

    /// Runs until the server no longer serves the path, or until objects of the other scope come
    /// from it. The kind was then removed, or recreated with another plural or scope, and must be
    /// discovered again. By then the sink has been told an error.
    pub async fn run_until_gone(&mut self, sink: &mut impl CacheSink) {
        tokio::time::sleep(self.state.start_delay()).await;
        self.heard = Instant::now();
        loop {
            if self.alarm.was_raised() {
                self.is_told = true;
                self.why = Some("the API server has been rolled back".to_owned());
                self.state.suspect_rollback();
            }
            let next = self.state.next();
            let delay = match &next {
                NextRequest::Stream { .. } => self.stream(&next, sink).await,
                NextRequest::List { paging, .. } => self.list(&next, paging, sink).await,
                NextRequest::Watch { .. } => self.watch(&next, sink).await,
                NextRequest::Probe => self.probe(&next, sink).await,
            };
            if std::mem::take(&mut self.is_gone) {
                return tokio::time::sleep(delay).await;
            }
            if !delay.is_zero() {
                tokio::time::sleep(delay).await;
            }
        }
    }

    fn announce(&mut self, sink: &mut impl CacheSink, state: WatchState) {
        // During an outage the error stays visible until something works.
        let is_in_trouble = self.announced.as_ref().is_some_and(WatchState::is_trouble);
        let hides_error = state == WatchState::Listing && is_in_trouble;
        if self.announced.as_ref() != Some(&state) && !hides_error {
            self.announced = Some(state.clone());
            sink.state(state);
        }
    }

    /// Reports a failure to the sink. A failure that is followed by another request at once (such
    /// as an expired version) is routine and not reported.
    fn report(&mut self, sink: &mut impl CacheSink, failure: &WatchFailure, delay: Duration) {
        let WatchFailure { error, class } = failure;
        let text = error.to_string();
        self.is_gone |= failure.is_of_other_scope();
        self.why.get_or_insert_with(|| text.clone());
        if delay.is_zero() || *class == FailureClass::Behind || self.is_initializing(failure) {
            tracing::debug!(informer = %self.query.informer_key, %error, "asking for something else");
        } else if failure.is_of_server() {
            self.announce(sink, WatchState::Unreachable(text));
        } else {
            self.announce(sink, WatchState::Error(text));
        }
    }

    /// Returns whether the server is only preparing to serve a new kind. That is no error, unless
    /// it takes longer than [`INITIALIZING`] or the kind has been served before.
    fn is_initializing(&mut self, failure: &WatchFailure) -> bool {
        if self.has_listed || self.is_replacing || !failure.is_initializing() {
            return false;
        }
        let since = self.initializing.get_or_insert_with(Instant::now);
        since.elapsed() < INITIALIZING
    }

    /// Sends the request for `next` and waits until an answer begins.
    async fn ask(&mut self, next: &NextRequest) -> Result<Opened, WatchFailure> {
        let timeout = self.state.timeout(next);
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
        let (patience, life) = match next {
            // For a slow server, more time helps; repeating the largest possible request does not.
            NextRequest::List {
                paging: Paging::Whole,
                ..
            } => (head_deadline * 4, self.settings.page_deadline * 10),
            _ => (head_deadline, self.settings.page_deadline),
        };
        let asked = self.asker.ask(next, question, patience, life);
        match asked.await {
            Ok(answer) => {
                self.heard = Instant::now();
                Ok(answer)
            }
            Err(error) => Err(self.unanswered(next, error)),
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

    /// The bytes that the objects of a list may take.
    fn room(&self, sink: &impl CacheSink) -> usize {
        if self.is_replacing {
            usize::MAX
        } else {
            sink.room()
        }
    }

    /// Hands a complete list to the sink.
    fn replace_all(&mut self, listing: Listing, sink: &mut impl CacheSink) {
        self.is_replacing = true;
        self.unread.keep_hopeless(&listing);
        if std::mem::replace(&mut self.has_listed, true) {
            let reason = self.why.take().unwrap_or_default();
            let objects = listing.objects.len();
            if std::mem::take(&mut self.is_told) {
                tracing::debug!(kind = %self.query.informer_key, reason, objects, "relisted, as all others");
            } else {
                tracing::info!(kind = %self.query.informer_key, reason, objects, "relisted");
            }
        }
        sink.apply(Delta::Replace(listing));
    }

    fn unanswered(&self, next: &NextRequest, error: RequestError) -> WatchFailure {
        match error {
            RequestError::Deadline(_) => self.silent(next),
            error => WatchFailure::of_request(Query::verb(next), self.query.name(), error),
        }
    }

    fn silent(&self, next: &NextRequest) -> WatchFailure {
        let error = WatchError::Silent {
            verb: Query::verb(next),
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
            BodyError::Quiet => self.silent(next),
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

    /// Sends the request for `next` and reads the whole answer.
    async fn fetch(
        &mut self,
        next: &NextRequest,
        life: Duration,
        limit: usize,
    ) -> Result<Vec<u8>, WatchFailure> {
        let until = Instant::now() + life;
        let Opened {
            response, reading, ..
        } = self.ask(next).await?;
        let body = lines::read_all(
            response.into_body(),
            self.settings.quiet_limit,
            until,
            limit,
            &mut self.heard,
        );
        let body = body.await.map_err(|error| self.unread(next, error, life))?;
        if let Some(reading) = reading {
            reading.received(body.len());
        }
        Ok(body)
    }
}

#[cfg(test)]
mod alarm_tests;
#[cfg(test)]
mod bounds_tests;
#[cfg(test)]
mod faults_tests;
#[cfg(test)]
mod limit_tests;
#[cfg(test)]
mod liveness_tests;
#[cfg(test)]
mod model;
#[cfg(test)]
mod play;
#[cfg(test)]
mod stream_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod unreadable_tests;
