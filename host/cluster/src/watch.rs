//! The list-watch of one source: everything there is of it, then every change, for as long as somebody wants to know.
//!
//! What to ask is decided in `state`; here it is asked, and what comes is handed to a [`CacheSink`] in the order it comes. The
//! cache is never left stale in silence: what cannot be read is an [`Delta::Unreadable`] if its name can be, and like every other
//! failure a [`WatchState::Error`] if not, until a list or a watch has worked again.
//!
//! A server that does not answer any more is noticed within [`Settings::quiet_limit`] and [`Settings::head_deadline`], also if its
//! TCP stack still does: a watch that brings nothing is opened again, and that must be answered.

mod alarm;
mod ask;
mod change;
mod error;
mod event;
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
mod verdict;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use pilothouse_core::cache::{Delta, Listing};
use pilothouse_core::key::{Kind, ResourceVersion};
use pilothouse_core::object::Schema;
use pilothouse_core::source::{Payload, Source};
use tokio::time::Instant;

pub use error::WatchError;
pub use lines::StreamError;
pub use settings::Settings;

use crate::client::{Client, Reading};
use crate::discovery::Resource;
use crate::request::RequestError;
pub(crate) use alarm::Alarm;
use alarm::Listener;
use ask::{Asker, Opened, Question};
use error::Failure;
use pages::Pages;
use query::Query;
use reread::Unread;
use state::State;
use step::{Next, Paging};
use verdict::Verdict;

/// How long a server may take to serve a new kind.
const INITIALIZING: Duration = Duration::from_secs(10);

/// Where what a list-watch learns goes: the one writer of the kind's cache.
pub trait CacheSink: Send {
    /// How objects are to be parsed now.
    fn schema(&self) -> Arc<Schema>;
    /// What has happened.
    fn apply(&mut self, delta: Delta);
    /// How the list-watch is doing. Called only when that changes.
    fn state(&mut self, state: WatchState);
    /// Bytes that the objects of a first list may take ([`pilothouse_core::object::Object::size`]). More are not even collected.
    /// A later list replaces its like, and is not asked for its size.
    fn room(&self) -> usize {
        usize::MAX
    }
    /// An event of this version was older than the cache, and has been dropped.
    fn stale(&mut self, _version: &ResourceVersion) {}
    /// The server has gone back in time, as happens when etcd is restored from a snapshot. The next replacement says what there is.
    /// News, unless another list-watch of the same server has said so.
    fn rolled_back(&mut self, _from: &ResourceVersion, _to: &ResourceVersion, _is_news: bool) {}
}

/// How a list-watch is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchState {
    /// It fetches everything there is.
    Listing,
    /// It follows the changes.
    Watching,
    /// It does neither, and tries again; the cache may be behind. One line, for status and logs.
    Error(String),
    /// As an error, and what is wrong is not the kind's: the server is not there, does not answer or has too much to do.
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
    settings: Settings,
    state: State,
    /// What the sink was last told.
    announced: Option<WatchState>,
    /// The pages of a list so far.
    pages: Pages,
    unread: Unread,
    /// When the server last said something.
    heard: Instant,
    has_missed_marker: bool,
    /// The kind's path is not served, or the kind is not what it was.
    is_gone: bool,
    has_listed: bool,
    /// What it lists is cached already, as much of each object: the new list takes the old one's place, whatever room there is.
    /// Otherwise a cache that has outgrown the limit would never follow its kind again.
    is_replacing: bool,
    /// Everything is to be listed because another list-watch has found that the server has gone back in time.
    is_told: bool,
    /// Since when the server has been about to serve a kind that has not been listed yet.
    initializing: Option<Instant>,
    /// What was wrong first, since the last watch that worked: why everything is listed anew, if it is.
    why: Option<String>,
}

impl ListWatch {
    /// Nothing is asked yet. `seed` spreads the requests of many list-watches.
    pub fn new(
        client: Client,
        resource: Arc<Resource>,
        source: Source,
        payload: Payload,
        settings: Settings,
        seed: u64,
    ) -> Self {
        Self {
            asker: Asker::new(client),
            alarm: Listener::new(Alarm::default()),
            query: Query {
                source,
                resource,
                payload,
            },
            state: State::new(settings.clone(), seed),
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

    /// The cache holds what another list-watch has brought up to this version. Nothing older is taken, unless the server has gone
    /// back in time, and then that is said.
    #[must_use]
    pub fn not_older_than(mut self, known: Option<&ResourceVersion>) -> Self {
        if let Some(version) = known {
            self.state.begin_at(version);
        }
        self
    }

    /// Whether the cache holds a complete list with as much of each object: then the first list needs no room either.
    #[must_use]
    pub fn replacing(mut self, is_replacing: bool) -> Self {
        self.is_replacing = is_replacing;
        self
    }

    /// Hears of what others find out about the server, and tells them.
    #[must_use]
    pub(crate) fn sharing(mut self, alarm: &Alarm) -> Self {
        self.alarm = Listener::new(alarm.clone());
        self
    }

    /// The kind.
    pub fn kind(&self) -> &Kind {
        &self.query.source.kind
    }

    /// Never ends by itself. Dropping the future closes the watch; nothing is left running.
    /// A kind that is gone is asked for until it is back, under the same path.
    pub async fn run(mut self, sink: &mut impl CacheSink) -> Infallible {
        loop {
            self.run_until_gone(sink).await;
        }
    }

    /// Until the server does not serve the path any more, or objects of another scope come from it: the kind is gone, or is back with
    /// another plural or scope, so that it must be discovered anew. The sink has been told an error.
    pub async fn run_until_gone(&mut self, sink: &mut impl CacheSink) {
        tokio::time::sleep(self.state.start_delay()).await;
        self.heard = Instant::now();
        loop {
            if self.alarm.was_raised() {
                self.is_told = true;
                self.why = Some("the API server has been rolled back".to_owned());
                self.state.doubt();
            }
            let next = self.state.next();
            let delay = match &next {
                Next::Stream { .. } => self.stream(&next, sink).await,
                Next::List { paging, .. } => self.list(&next, paging, sink).await,
                Next::Watch { .. } => self.watch(&next, sink).await,
                Next::Probe => self.probe(&next, sink).await,
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
        // During an outage the error stays until something works.
        let is_in_trouble = self.announced.as_ref().is_some_and(WatchState::is_trouble);
        let hides_error = state == WatchState::Listing && is_in_trouble;
        if self.announced.as_ref() != Some(&state) && !hides_error {
            self.announced = Some(state.clone());
            sink.state(state);
        }
    }

    /// A failure that the next request answers at once is routine (an expired version), and no error.
    fn report(&mut self, sink: &mut impl CacheSink, failure: &Failure, delay: Duration) {
        let Failure { error, verdict } = failure;
        let text = error.to_string();
        self.is_gone |= failure.is_of_other_scope();
        self.why.get_or_insert_with(|| text.clone());
        if delay.is_zero() || *verdict == Verdict::Behind || self.is_initializing(failure) {
            tracing::debug!(source = %self.query.source, %error, "asking for something else");
        } else if failure.is_of_server() {
            self.announce(sink, WatchState::Unreachable(text));
        } else {
            self.announce(sink, WatchState::Error(text));
        }
    }

    /// A server takes a moment to serve a new kind. That is no trouble, unless the moment does not end, or the kind was served.
    fn is_initializing(&mut self, failure: &Failure) -> bool {
        if self.has_listed || self.is_replacing || !failure.is_initializing() {
            return false;
        }
        let since = self.initializing.get_or_insert_with(Instant::now);
        since.elapsed() < INITIALIZING
    }

    /// Asks, and waits until an answer begins.
    async fn ask(&mut self, next: &Next) -> Result<Opened, Failure> {
        let timeout = self.state.timeout(next);
        let request = self.query.request(next, timeout, &self.settings);
        let request = request.map_err(|error| self.unaskable(next, &error))?;
        let head_deadline = self.settings.head_deadline;
        let reading = self.begin_read(next, &request).await;
        let reading = reading.map_err(|error| self.unanswered(next, error))?;
        let question = Question {
            request,
            timeout,
            reading,
        };
        let (patience, life) = match next {
            // Repeating the largest request there is does not help a server that is slow.
            Next::List {
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

    /// Waits for the client's limits, for what is no watch. For a probe not long: a watch waits for it.
    async fn begin_read(
        &mut self,
        next: &Next,
        request: &Request<Vec<u8>>,
    ) -> Result<Option<Reading>, RequestError> {
        let patience = match next {
            Next::Stream { .. } | Next::Watch { .. } => return Ok(None),
            Next::List { .. } => Duration::MAX,
            Next::Probe => self.settings.head_deadline,
        };
        let begun = tokio::time::timeout(patience, self.asker.client.begin_read(request)).await;
        begun
            .map(Some)
            .map_err(|_| RequestError::Deadline(patience))
    }

    fn unaskable(&self, next: &Next, error: &http::Error) -> Failure {
        let verdict = match next {
            // It may be the version: the newest state can be asked for without.
            Next::Stream { .. }
            | Next::List {
                paging: Paging::First | Paging::Whole,
                ..
            } => Verdict::BadVersion,
            _ => Verdict::Broken,
        };
        let error = WatchError::Unaskable {
            verb: Query::verb(next),
            resource: self.query.name(),
            cause: error.to_string(),
        };
        Failure::new(error, verdict)
    }

    /// Bytes that the objects of a list may take.
    fn room(&self, sink: &impl CacheSink) -> usize {
        if self.is_replacing {
            usize::MAX
        } else {
            sink.room()
        }
    }

    /// Everything there is.
    fn replace_all(&mut self, listing: Listing, sink: &mut impl CacheSink) {
        self.is_replacing = true;
        self.unread.keep_hopeless(&listing);
        if std::mem::replace(&mut self.has_listed, true) {
            let reason = self.why.take().unwrap_or_default();
            let objects = listing.objects.len();
            if std::mem::take(&mut self.is_told) {
                tracing::debug!(kind = %self.query.source, reason, objects, "listed anew, as all others");
            } else {
                tracing::info!(kind = %self.query.source, reason, objects, "listed anew");
            }
        }
        sink.apply(Delta::Replace(listing));
    }

    fn unanswered(&self, next: &Next, error: RequestError) -> Failure {
        let (verb, resource) = (Query::verb(next), self.query.name());
        if !matches!(error, RequestError::Deadline(_)) {
            return Failure::of_request(verb, resource, error);
        }
        let seconds = self.heard.elapsed().as_secs();
        let error = WatchError::Silent {
            verb,
            resource,
            seconds,
        };
        Failure::new(error, Verdict::Lost)
    }

    /// Asks, and reads the whole answer.
    async fn fetch(
        &mut self,
        next: &Next,
        life: Duration,
        limit: usize,
    ) -> Result<Vec<u8>, Failure> {
        let until = Instant::now() + life;
        let Opened {
            response, reading, ..
        } = self.ask(next).await?;
        let body = lines::read_all(
            response.into_body(),
            self.settings.quiet_limit,
            until,
            limit,
        );
        let body = body.await.map_err(|error| self.unanswered(next, error))?;
        self.heard = Instant::now();
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
#[path = "watch_tests.rs"]
mod tests;
#[cfg(test)]
mod unreadable_tests;
