//! The list-watch of one source: everything there is of it, then every change, for as long as somebody wants to know.
//!
//! What to ask is decided in `state`; here it is asked, and what comes is handed to a [`CacheSink`] in the order it comes. The
//! cache is never left stale in silence: what cannot be read is an [`Delta::Unreadable`] if its name can be, and like every other
//! failure a [`WatchState::Error`] if not, until a list or a watch has worked again.
//!
//! A server that does not answer any more is noticed within [`Settings::quiet_limit`] and [`Settings::head_deadline`], also if its
//! TCP stack still does: a watch that brings nothing is opened again, and that must be answered.

mod ask;
mod change;
mod error;
mod event;
mod follow;
mod initial;
mod jitter;
mod lines;
mod list;
mod position;
mod query;
mod reread;
mod settings;
mod state;
mod step;
mod verdict;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http::Response;
use kube::client::Body;
use pilothouse_core::cache::{Delta, Listing};
use pilothouse_core::key::{Kind, ResourceVersion};
use pilothouse_core::object::Schema;
use pilothouse_core::source::{Payload, Source};
use tokio::time::Instant;

pub use error::WatchError;
pub use lines::StreamError;
pub use settings::Settings;

use crate::client::Client;
use crate::discovery::Resource;
use crate::request::RequestError;
use ask::Asker;
use change::Change;
use error::Failure;
use query::Query;
use reread::Unread;
use state::State;
use step::{Listed, Next, Paging, Probed};
use verdict::Verdict;

/// As much as is read of the answer to a probe: one object's metadata. Where a server ignores the limit, the list's own is enough.
const MAX_PROBE: usize = 1024 * 1024;

/// Where what a list-watch learns goes: the one writer of the kind's cache.
pub trait CacheSink: Send {
    /// How objects are to be parsed now.
    fn schema(&self) -> Arc<Schema>;
    /// What has happened.
    fn apply(&mut self, delta: Delta);
    /// How the list-watch is doing. Called only when that changes.
    fn state(&mut self, state: WatchState);
    /// Bytes that the objects of a list may take ([`pilothouse_core::object::Object::size`]). More are not even collected.
    fn room(&self) -> usize {
        usize::MAX
    }
    /// An event of this version was older than the cache, and has been dropped.
    fn stale(&mut self, _version: &ResourceVersion) {}
    /// The server has gone back in time, as happens when etcd is restored from a snapshot. The next replacement says what there is.
    fn rolled_back(&mut self, _from: &ResourceVersion, _to: &ResourceVersion) {}
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

/// Lists and watches one source.
pub struct ListWatch {
    asker: Asker,
    query: Query,
    settings: Settings,
    state: State,
    /// What the sink was last told.
    announced: Option<WatchState>,
    /// The pages of a list so far.
    pages: Vec<Change>,
    /// What they take.
    bytes: usize,
    unread: Unread,
    /// When the server last said something.
    heard: Instant,
    has_missed_marker: bool,
    /// The kind's path is not served.
    is_gone: bool,
    has_listed: bool,
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
            query: Query {
                source,
                resource,
                payload,
            },
            state: State::new(settings.clone(), seed),
            settings,
            announced: None,
            pages: Vec::new(),
            bytes: 0,
            unread: Unread::default(),
            heard: Instant::now(),
            has_missed_marker: false,
            is_gone: false,
            has_listed: false,
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

    /// Until the server does not serve the path any more: the kind is gone, or is back with another plural or scope, so that it
    /// must be discovered anew. The sink has been told an error.
    pub async fn run_until_gone(&mut self, sink: &mut impl CacheSink) {
        tokio::time::sleep(self.state.start_delay()).await;
        self.heard = Instant::now();
        loop {
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
        let hides_error =
            state == WatchState::Listing && matches!(self.announced, Some(WatchState::Error(_)));
        if self.announced.as_ref() != Some(&state) && !hides_error {
            self.announced = Some(state.clone());
            sink.state(state);
        }
    }

    /// A failure that the next request answers at once is routine (an expired version), and no error.
    fn report(&mut self, sink: &mut impl CacheSink, failure: &Failure, delay: Duration) {
        let Failure { error, verdict } = failure;
        self.why.get_or_insert_with(|| error.to_string());
        if delay.is_zero() || *verdict == Verdict::Behind {
            tracing::debug!(source = %self.query.source, %error, "asking for something else");
        } else {
            self.announce(sink, WatchState::Error(error.to_string()));
        }
    }

    /// Asks, and waits until an answer begins. Also returns how long the server was told to keep it open.
    async fn ask(&mut self, next: &Next) -> Result<(Response<Body>, Duration), Failure> {
        let timeout = self.state.timeout(next);
        let request = self.query.request(next, timeout, &self.settings);
        let request = request.map_err(|error| self.unaskable(next, &error))?;
        let head_deadline = self.settings.head_deadline;
        let (patience, life) = match next {
            // Repeating the largest request there is does not help a server that is slow.
            Next::List {
                paging: Paging::Whole,
                ..
            } => (head_deadline * 4, self.settings.page_deadline * 10),
            _ => (head_deadline, self.settings.page_deadline),
        };
        let asked = self.asker.ask(next, (request, timeout), patience, life);
        match asked.await {
            Ok(answer) => {
                self.heard = Instant::now();
                Ok(answer)
            }
            Err(error) => Err(self.unanswered(next, error)),
        }
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

    /// Everything there is.
    fn replace_all(&mut self, listing: Listing, sink: &mut impl CacheSink) {
        if std::mem::replace(&mut self.has_listed, true) {
            let reason = self.why.take().unwrap_or_default();
            let objects = listing.objects.len();
            tracing::info!(kind = %self.query.source, reason, objects, "listed anew");
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
        let (response, _) = self.ask(next).await?;
        let body = lines::read_all(
            response.into_body(),
            self.settings.quiet_limit,
            until,
            limit,
        );
        let body = body.await.map_err(|error| self.unanswered(next, error))?;
        self.heard = Instant::now();
        Ok(body)
    }

    async fn list(&mut self, next: &Next, paging: &Paging, sink: &mut impl CacheSink) -> Duration {
        let started = Instant::now();
        self.announce(sink, WatchState::Listing);
        if !matches!(paging, Paging::After { .. }) {
            self.pages.clear();
            self.bytes = 0;
            self.unread.begin_anew();
        }
        match self.fetch_page(next, paging, sink).await {
            Ok(None) => Duration::ZERO,
            Ok(Some(listed)) => {
                let pages = std::mem::take(&mut self.pages);
                let listing = initial::listing(pages, listed, self.query.payload);
                self.replace_all(listing, sink);
                Duration::ZERO
            }
            Err(failure) => {
                if failure.verdict == Verdict::Full {
                    self.pages = Vec::new();
                }
                self.is_gone = failure.is_path_gone();
                let delay = self.state.list_failed(failure.verdict, started.elapsed());
                self.report(sink, &failure, delay);
                delay
            }
        }
    }

    async fn fetch_page(
        &mut self,
        next: &Next,
        paging: &Paging,
        sink: &impl CacheSink,
    ) -> Result<Option<Listed>, Failure> {
        let (schema, room) = (sink.schema(), sink.room());
        let deadline = self.settings.page_deadline;
        let deadline = if *paging == Paging::Whole {
            deadline * 10
        } else {
            deadline
        };
        let body = self.fetch(next, deadline, list::MAX_LIST).await?;
        let mut changes = Vec::new();
        let page = list::read(&self.query, &body, &schema, &mut changes).await?;
        for change in changes {
            let change = self.reread(change, &schema).await;
            self.bytes = self.bytes.saturating_add(change.size());
            if self.bytes > room {
                return Err(Failure::of_room(self.query.name(), room));
            }
            self.pages.push(change);
        }
        let listed = self.state.page(&page.version, page.token);
        listed.map_err(|bad| Failure::of_list(self.query.name(), &bad))
    }

    /// Where the server is. What it cannot be asked is no error: whoever is asked next will say what is wrong.
    async fn probe(&mut self, next: &Next, sink: &mut impl CacheSink) -> Duration {
        let started = Instant::now();
        let version = match self.fetch_version(next).await {
            Ok(version) => version,
            Err(Failure { error, verdict }) => {
                tracing::debug!(source = %self.query.source, %error, "cannot ask where the server is");
                return self.state.probe_failed(verdict, started.elapsed());
            }
        };
        let (probed, delay) = self.state.probed(&version);
        match probed {
            Probed::Current => {}
            Probed::Suspicious => {
                tracing::debug!(source = %self.query.source, resource_version = %version, "the server is behind the cache; asking once more");
            }
            Probed::Incomparable => {
                tracing::warn!(source = %self.query.source, resource_version = %version, "the versions of the server's lists cannot be compared; not asking any more whether it has gone back in time");
            }
            Probed::RolledBack { from } => {
                sink.rolled_back(&from, &version);
                let error = WatchError::RolledBack {
                    resource: self.query.name(),
                    from: from.to_string(),
                    to: version.to_string(),
                };
                self.announce(sink, WatchState::Error(error.to_string()));
            }
        }
        delay
    }

    async fn fetch_version(&mut self, next: &Next) -> Result<ResourceVersion, Failure> {
        let until = Instant::now() + self.settings.page_deadline;
        let (response, _) = self.ask(next).await?;
        let front = lines::read_front(
            response.into_body(),
            self.settings.quiet_limit,
            until,
            MAX_PROBE,
        );
        let (body, _) = front.await.map_err(|error| self.unanswered(next, error))?;
        self.heard = Instant::now();
        Ok(ResourceVersion::new(&list::version(&self.query, &body)?))
    }
}

#[cfg(test)]
mod faults_tests;
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
