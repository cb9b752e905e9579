//! The list-watch of one kind: everything there is of it, then every change, for as long as somebody wants to know.
//!
//! What to ask is decided in `state`; here it is asked, and what comes is handed to a [`CacheSink`] in the order it comes. The
//! cache is never left stale in silence: an object that cannot be read, like every other failure, is a [`WatchState::Error`]
//! until a list or a watch has worked again.

mod error;
mod jitter;
mod list;
mod settings;
mod state;
mod stream;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use pilothouse_core::cache::{Delta, Listing};
use pilothouse_core::key::{Kind, ResourceVersion};
use pilothouse_core::object::{Object, Schema};
use tokio::time::Instant;

pub use error::WatchError;
pub use settings::Settings;
pub use stream::StreamError;

use crate::discovery::Resource;
use crate::request;
use error::Failure;
use state::{End, Next, Paging, State, Verdict};
use stream::{Event, Lines, Read};

/// After the time the server was to close the watch at, it has this much to do so.
const OVERTIME: Duration = Duration::from_secs(30);

/// Where what a list-watch learns goes: the one writer of the kind's cache.
pub trait CacheSink: Send {
    /// How objects are to be parsed now.
    fn schema(&self) -> Arc<Schema>;
    /// What has happened.
    fn apply(&mut self, delta: Delta);
    /// How the list-watch is doing. Called only when that changes.
    fn state(&mut self, state: WatchState);
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
}

/// Lists and watches one kind in all namespaces.
pub struct ListWatch {
    client: Client,
    resource: Arc<Resource>,
    settings: Settings,
    state: State,
    /// What the sink was last told.
    announced: Option<WatchState>,
    /// The pages of a list so far.
    pages: Vec<Object>,
}

impl ListWatch {
    /// Nothing is asked yet. `seed` spreads the requests of many list-watches.
    pub fn new(client: Client, resource: Arc<Resource>, settings: Settings, seed: u64) -> Self {
        let state = State::new(settings.clone(), seed);
        Self {
            client,
            resource,
            settings,
            state,
            announced: None,
            pages: Vec::new(),
        }
    }

    /// The kind.
    pub fn kind(&self) -> &Kind {
        &self.resource.kind
    }

    /// Never ends by itself. Dropping the future closes the watch; nothing is left running.
    pub async fn run(mut self, sink: &mut impl CacheSink) -> Infallible {
        loop {
            let next = self.state.next();
            let delay = match &next {
                Next::List { paging, .. } => self.list(&next, paging, sink).await,
                Next::Watch { timeout, .. } => self.watch(&next, *timeout, sink).await,
            };
            if !delay.is_zero() {
                tokio::time::sleep(delay).await;
            }
        }
    }

    fn announce(&mut self, sink: &mut impl CacheSink, state: WatchState) {
        if self.announced.as_ref() != Some(&state) {
            self.announced = Some(state.clone());
            sink.state(state);
        }
    }

    /// A failure that the next request answers at once is routine (an expired version), and no error.
    fn report(&mut self, sink: &mut impl CacheSink, error: &WatchError, delay: Duration) {
        if delay.is_zero() {
            tracing::debug!(kind = %self.resource.kind, %error, "starting over");
        } else {
            self.announce(sink, WatchState::Error(error.to_string()));
        }
    }

    async fn list(&mut self, next: &Next, paging: &Paging, sink: &mut impl CacheSink) -> Duration {
        // During an outage the error stays until something works.
        if !matches!(self.announced, Some(WatchState::Error(_))) {
            self.announce(sink, WatchState::Listing);
        }
        if !matches!(paging, Paging::After { .. }) {
            self.pages.clear();
        }
        match self.fetch_page(next, paging, sink.schema()).await {
            Ok(None) => Duration::ZERO,
            Ok(Some(resource_version)) => {
                sink.apply(Delta::Replace(Listing {
                    objects: std::mem::take(&mut self.pages),
                    resource_version,
                    ..Listing::default()
                }));
                Duration::ZERO
            }
            Err(Failure { error, verdict }) => {
                let delay = self.state.list_failed(verdict);
                self.report(sink, &error, delay);
                delay
            }
        }
    }

    async fn fetch_page(
        &mut self,
        next: &Next,
        paging: &Paging,
        schema: Arc<Schema>,
    ) -> Result<Option<ResourceVersion>, Failure> {
        let request = list::request(&self.resource, next, &self.settings);
        let deadline = if *paging == Paging::Whole {
            self.settings.page_deadline * 10
        } else {
            self.settings.page_deadline
        };
        let body = request::fetch(&self.client, request, deadline, list::MAX_LIST).await;
        let body = body
            .map_err(|error| Failure::of_request("list", self.resource.qualified_name(), error))?;
        let page = list::read(&self.resource, &body, &schema, &mut self.pages).await?;
        let bad = |cause: state::BadPage| WatchError::NotAList {
            resource: self.resource.qualified_name(),
            cause: cause.to_string(),
        };
        Ok(self.state.page(&page.version, page.token).map_err(bad)?)
    }

    async fn watch(
        &mut self,
        next: &Next,
        timeout: Duration,
        sink: &mut impl CacheSink,
    ) -> Duration {
        let started = Instant::now();
        let mut events = 0;
        let ended = self
            .follow(next, started + timeout + OVERTIME, &mut events, sink)
            .await;
        let end = ended
            .as_ref()
            .err()
            .map_or(End::Closed, |failure| End::Failed(failure.verdict));
        let delay = self.state.watch_ended(end, started.elapsed(), events);
        if let Err(Failure { error, .. }) = ended {
            self.report(sink, &error, delay);
        }
        delay
    }

    /// Until the watch ends: in order, or with a failure.
    async fn follow(
        &mut self,
        next: &Next,
        until: Instant,
        events: &mut u64,
        sink: &mut impl CacheSink,
    ) -> Result<(), Failure> {
        let request = list::request(&self.resource, next, &self.settings);
        let response = request::send(&self.client, request, self.settings.watch_deadline).await;
        let response = response
            .map_err(|error| Failure::of_request("watch", self.resource.qualified_name(), error))?;
        self.announce(sink, WatchState::Watching);
        let mut lines = Lines::new(response.into_body(), self.settings.max_line);
        loop {
            let line = match lines.next(self.settings.quiet_limit, until).await {
                Ok(Read::Line(line)) => line,
                Ok(Read::End | Read::Quiet) => return Ok(()),
                Err(source) => {
                    return Err(Failure::of_stream(self.resource.qualified_name(), source));
                }
            };
            let event = stream::parse(&self.resource, &line, &sink.schema())?;
            *events += 1;
            self.deliver(event, sink)?;
            // Many lines may be buffered; other tasks get their turn.
            tokio::task::coop::consume_budget().await;
        }
    }

    fn deliver(&mut self, event: Event, sink: &mut impl CacheSink) -> Result<(), Failure> {
        let (version, delta) = match event {
            Event::Upsert(object) => (object.resource_version().clone(), Delta::Upsert(object)),
            Event::Delete(object) => (object.resource_version().clone(), Delta::delete(&object)),
            Event::Bookmark(version) => (version.clone(), Delta::Bookmark(version)),
            Event::Error(status) => {
                let error = WatchError::Ended {
                    resource: self.resource.qualified_name(),
                    message: status.to_string(),
                };
                return Err(Failure {
                    error,
                    verdict: Verdict::of_event(&status),
                });
            }
        };
        if self.state.advance(&version) {
            sink.apply(delta);
        } else {
            tracing::warn!(kind = %self.resource.kind, resource_version = version.to_string(), "dropped an event that is older than the cache");
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "watch_tests.rs"]
mod tests;
