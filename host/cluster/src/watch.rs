//! The list-watch of one informer: first all its objects, then every change, until it is dropped.
//!
//! `machine` decides which request comes next. `session` sends it and reads what comes (`wire`),
//! and this module hands the results to a [`CacheSink`] in the order of their arrival. The cache
//! never becomes stale unnoticed. An object that cannot be read is reported as a
//! [`Delta::Unreadable`] if its name is known. Every other failure is a [`WatchState::Error`] or
//! [`WatchState::Unreachable`] until a list or a watch has worked again.
//!
//! A server that stops answering is noticed within [`WatchSettings::quiet_limit`] plus
//! [`WatchSettings::head_deadline`], even if its TCP stack still works: a watch that brings nothing
//! is opened again, and the server must answer that request.

mod error;
mod machine;
mod session;
mod settings;
mod sink;
mod wire;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use pilothouse_core::{Delta, Extent, InformerKey, Kind, Listing, ResourceVersion};
use tokio::time::Instant;

pub use error::{StreamError, WatchError};
pub use settings::WatchSettings;
pub use sink::{CacheSink, WatchState};

use crate::client::Client;
use crate::discovery::{KindSigns, Resource};
use error::WatchFailure;
use machine::{
    CompleteList, FailureClass, NextRequest, Order, Paging, Probed, Unfinished, WatchEnd,
    WatchMachine,
};
use pilothouse_core::text::cut_line;
pub(crate) use session::{Alarm, ProbeAnswers};
use session::{Initial, Listener, Pages, Requests, StateReport, UnreadableObjects, WatchStream};
use wire::change::{WatchChange, WatchChangeKind};
use wire::event::{self, WatchEvent};
pub(crate) use wire::lines::{LineRead, Lines};
use wire::query::Query;

/// Lists and watches the objects of one informer.
pub struct ListWatch {
    machine: WatchMachine,
    requests: Requests,
    /// The pages of the current list so far.
    pages: Pages,
    unreadable: UnreadableObjects,
    report: StateReport,
    alarm: Listener,
    answers: ProbeAnswers,
    /// Is told when a watch was cut off: the server may be another, which serves other kinds.
    signs: Arc<KindSigns>,
    /// When it was last known that the server has not gone back: a list, a probe, or a watch that
    /// has brought what only a server at the position has.
    checked: Instant,
    /// When the present watch was requested.
    began: Instant,
}

/// What follows a request.
struct Pause {
    /// The delay before the next request.
    delay: Duration,
    /// The kind's path is no longer served, or the kind's scope has changed.
    is_gone: bool,
}

impl From<Duration> for Pause {
    fn from(delay: Duration) -> Self {
        Self {
            delay,
            is_gone: false,
        }
    }
}

impl ListWatch {
    /// Sends nothing yet. `seed` spreads the requests of many list-watches over time.
    pub fn new(
        client: Client,
        resource: Arc<Resource>,
        informer_key: InformerKey,
        extent: impl Into<Extent>,
        settings: WatchSettings,
        seed: u64,
    ) -> Self {
        let query = Query {
            informer_key: informer_key.clone(),
            resource,
            extent: extent.into(),
            is_selector_refused: false,
        };
        Self {
            machine: WatchMachine::new(settings.clone(), seed),
            requests: Requests::new(client, query, settings),
            pages: Pages::default(),
            unreadable: UnreadableObjects::default(),
            report: StateReport::new(informer_key),
            alarm: Listener::new(Alarm::default()),
            answers: ProbeAnswers::default(),
            signs: Arc::default(),
            checked: Instant::now(),
            began: Instant::now(),
        }
    }

    /// The cache already holds the state up to this version, from another list-watch. Nothing older
    /// is accepted, unless the server was rolled back, and then that is reported.
    #[must_use]
    pub fn not_older_than(mut self, known: Option<&ResourceVersion>) -> Self {
        if let Some(version) = known {
            self.machine.begin_at(version);
        }
        self
    }

    /// True if the cache already holds a complete list with as much of each object. Then the first
    /// list is not limited by [`CacheSink::room`] either.
    #[must_use]
    pub fn replacing(mut self, is_replacing: bool) -> Self {
        self.report.set_replacing(is_replacing);
        self
    }

    /// Shares rollback alarms, and the answers to probes, with the other list-watches of this
    /// server.
    #[must_use]
    pub(crate) fn sharing(mut self, alarm: &Alarm, answers: &ProbeAnswers) -> Self {
        self.alarm = Listener::new(alarm.clone());
        self.answers = answers.clone();
        self
    }

    /// The kind that is listed and watched.
    pub fn kind(&self) -> &Kind {
        &self.requests.informer_key().kind
    }

    /// Runs for ever. Dropping the future closes the watch; nothing is left running. If the kind is
    /// removed, this asks for it under the same path until it is back.
    pub async fn run(mut self, sink: &mut impl CacheSink) -> Infallible {
        loop {
            self.run_until_gone(sink).await;
        }
    }

    /// Tells these signs when a watch is cut off.
    #[must_use]
    pub(crate) fn telling(mut self, signs: Arc<KindSigns>) -> Self {
        self.signs = signs;
        self
    }

    /// Runs until the server no longer serves the path, or until objects of the other scope come
    /// from it. The kind was then removed, or recreated with another plural or scope, and must be
    /// discovered again. By then the sink has been told an error.
    pub async fn run_until_gone(&mut self, sink: &mut impl CacheSink) {
        tokio::time::sleep(self.machine.start_delay()).await;
        self.requests.hear();
        loop {
            if self.alarm.was_raised() {
                self.report.alarmed();
                self.machine.suspect_rollback();
            }
            let next = self.machine.next();
            let Pause { delay, is_gone } = match &next {
                NextRequest::Stream { .. } => self.stream(&next, sink).await,
                NextRequest::List { paging, .. } => self.list(&next, paging, sink).await,
                NextRequest::Watch { .. } => self.watch(&next, sink).await,
                NextRequest::Probe => self.probe(sink).await.into(),
            };
            if is_gone {
                return tokio::time::sleep(delay).await;
            }
            if !delay.is_zero() {
                tokio::time::sleep(delay).await;
            }
        }
    }

    /// Asks for all objects over the connection that then brings every change.
    async fn stream(&mut self, next: &NextRequest, sink: &mut impl CacheSink) -> Pause {
        let started = Instant::now();
        self.report.announce(sink, WatchState::Listing);
        self.unreadable.begin_anew();
        let timeout = self.machine.timeout(next);
        let mut connection = match self.requests.connect(next, timeout).await {
            Ok(connection) => connection,
            Err(failure) => {
                let how = Unfinished::Unopened(failure.class);
                return self.unfinished(how, &failure, started, sink);
            }
        };
        match self.collect(&mut connection, sink).await {
            Ok(()) => self.follow(connection, started, sink).await,
            Err((how, failure)) => self.unfinished(how, &failure, started, sink),
        }
    }

    fn unfinished(
        &mut self,
        how: Unfinished,
        failure: &WatchFailure,
        started: Instant,
        sink: &mut impl CacheSink,
    ) -> Pause {
        if failure.class == FailureClass::Lost {
            self.signs.cut();
        }
        let delay = self.machine.stream_ended(how, started.elapsed());
        if how == Unfinished::Overdue {
            self.report.missed_marker(failure);
        }
        self.failed(failure, delay, sink)
    }

    /// Collects the initial objects until the marker, and hands them to the sink.
    async fn collect(
        &mut self,
        connection: &mut WatchStream,
        sink: &mut impl CacheSink,
    ) -> Result<(), (Unfinished, WatchFailure)> {
        let room = self.report.room(sink);
        let mut initial = Initial::default();
        let (requests, unreadable) = (&mut self.requests, &mut self.unreadable);
        let collected = initial.collect(connection, requests, unreadable, sink, room);
        let version = collected.await?;
        let listed = self.machine.streamed(&version).map_err(|bad| {
            let failure = WatchFailure::of_list(self.requests.name(), &bad);
            (Unfinished::Failed(failure.class), failure)
        })?;
        let listing = initial.into_listing(listed, self.requests.extent());
        self.replace_all(listing, sink);
        Ok(())
    }

    /// Asks for a page of a list.
    async fn list(
        &mut self,
        next: &NextRequest,
        paging: &Paging,
        sink: &mut impl CacheSink,
    ) -> Pause {
        let started = Instant::now();
        self.report.announce(sink, WatchState::Listing);
        if !matches!(paging, Paging::After { .. }) {
            self.pages = Pages::default();
            self.unreadable.begin_anew();
        }
        match self.fetch_page(next, sink).await {
            Ok(None) => Duration::ZERO.into(),
            Ok(Some(listed)) => {
                let pages = std::mem::take(&mut self.pages);
                let listing = pages.into_listing(listed, self.requests.extent());
                self.replace_all(listing, sink);
                Duration::ZERO.into()
            }
            Err(failure) => {
                match failure.class {
                    FailureClass::Full => self.pages = Pages::default(),
                    FailureClass::Lost => self.signs.cut(),
                    _ => {}
                }
                let delay = self.machine.list_failed(failure.class, started.elapsed());
                let pause = self.failed(&failure, delay, sink);
                Pause {
                    is_gone: pause.is_gone || failure.is_path_gone(),
                    ..pause
                }
            }
        }
    }

    async fn fetch_page(
        &mut self,
        next: &NextRequest,
        sink: &mut impl CacheSink,
    ) -> Result<Option<CompleteList>, WatchFailure> {
        let room = self.report.room(sink);
        let timeout = self.machine.timeout(next);
        let (requests, unreadable) = (&mut self.requests, &mut self.unreadable);
        let fetched = self
            .pages
            .fetch(next, timeout, requests, unreadable, sink, room);
        let page = fetched.await?;
        let listed = self.machine.page(&page.version, page.token);
        listed.map_err(|bad| WatchFailure::of_list(self.requests.name(), &bad))
    }

    /// Asks for every change after the position.
    async fn watch(&mut self, next: &NextRequest, sink: &mut impl CacheSink) -> Pause {
        if self.unreadable.reread_open(&mut self.requests, sink).await {
            self.note_reread();
        }
        let started = Instant::now();
        let timeout = self.machine.timeout(next);
        match self.requests.connect(next, timeout).await {
            Ok(connection) => self.follow(connection, started, sink).await,
            Err(failure) => self.ended(&Err(failure), started, 0, sink),
        }
    }

    /// Follows the changes until the connection ends, normally or with a failure.
    async fn follow(
        &mut self,
        mut connection: WatchStream,
        started: Instant,
        sink: &mut impl CacheSink,
    ) -> Pause {
        self.began = started;
        self.report.announce(sink, WatchState::Watching);
        self.report.works();
        self.unreadable.begin();
        self.note_reread();
        let mut lines = 0;
        let ended = self.deliver(&mut connection, &mut lines, sink).await;
        if matches!(ended, Ok(WatchEnd::Closed)) && connection.is_early() {
            self.signs.cut();
        }
        // Close the connection before the delay starts.
        drop(connection);
        let pause = self.ended(&ended, started, lines, sink);
        if let Some(watches) = self.machine.take_fruitless() {
            let resource = self.requests.name();
            let error = WatchError::Fruitless { resource, watches };
            self.report.fruitless(sink, &error);
        }
        pause
    }

    /// A watch has ended that was requested at `started` and has brought so many lines.
    fn ended(
        &mut self,
        ended: &Result<WatchEnd, WatchFailure>,
        started: Instant,
        lines: u64,
        sink: &mut impl CacheSink,
    ) -> Pause {
        let end = match ended {
            Ok(end) => *end,
            Err(failure) => self.machine.end_of(failure.class),
        };
        if end == WatchEnd::Failed(FailureClass::Lost) {
            self.signs.cut();
        }
        let delay = self.machine.watch_ended(end, started.elapsed(), lines);
        match ended {
            Err(failure) if end != WatchEnd::Unproven => self.failed(failure, delay, sink),
            _ => delay.into(),
        }
    }

    async fn deliver(
        &mut self,
        connection: &mut WatchStream,
        lines: &mut u64,
        sink: &mut impl CacheSink,
    ) -> Result<WatchEnd, WatchFailure> {
        loop {
            let read = tokio::select! {
                biased;
                () = self.alarm.is_raised() => return Ok(WatchEnd::Doubted),
                read = connection.next() => read,
            };
            let line = match read {
                Ok(LineRead::Line(line)) => line,
                Ok(LineRead::WatchEnd) => return Ok(WatchEnd::Closed),
                Ok(LineRead::Quiet) if connection.is_overdue() => {
                    return Err(self.requests.silent_watch());
                }
                Ok(LineRead::Quiet) => return Ok(WatchEnd::Quiet),
                Err(source) => return Err(WatchFailure::of_stream(self.requests.name(), source)),
            };
            self.requests.hear();
            *lines += 1;
            match event::parse(self.requests.resource(), &line, &sink.schema())? {
                WatchEvent::Change(change) => self.change(change, sink).await?,
                WatchEvent::Bookmark { version, .. } => self.bookmark(version, sink)?,
                WatchEvent::Error(status) => {
                    return Err(WatchFailure::of_event(self.requests.name(), &status));
                }
            }
            // Many lines may be buffered: let other tasks run.
            tokio::task::coop::consume_budget().await;
        }
    }

    async fn change(
        &mut self,
        change: WatchChange,
        sink: &mut impl CacheSink,
    ) -> Result<(), WatchFailure> {
        let is_deletion = matches!(change.what, WatchChangeKind::Delete);
        match self.advance(&change.version, true) {
            Order::New if !self.requests.wants(&change.key) => {
                sink.apply(Delta::Bookmark(change.version));
                Ok(())
            }
            Order::New => {
                self.take(change, sink).await;
                Ok(())
            }
            Order::Same if is_deletion && self.requests.wants(&change.key) => {
                self.take(change, sink).await;
                Ok(())
            }
            Order::Same if self.machine.is_proving() => Ok(()),
            Order::Known | Order::Same => {
                sink.stale(&change.version);
                Ok(())
            }
            Order::Leap => Err(self.leap(&change.version)),
            Order::Missed => {
                // The cache never had this event: only a list shows what it misses.
                sink.stale(&change.version);
                let error = WatchError::OutOfOrder {
                    resource: self.requests.name(),
                    version: change.version.to_string(),
                };
                Err(error.into())
            }
        }
    }

    fn advance(&mut self, version: &ResourceVersion, is_change: bool) -> Order {
        let order = self.machine.advance(version, is_change);
        if self.machine.has_proof() {
            self.checked = self.checked.max(self.began);
        }
        order
    }

    /// Hands a change to the sink.
    async fn take(&mut self, change: WatchChange, sink: &mut impl CacheSink) {
        let schema = sink.schema();
        let reread = self.unreadable.reread(change, &schema, &mut self.requests);
        sink.apply(reread.await.into_delta());
        self.note_reread();
    }

    fn bookmark(
        &mut self,
        version: ResourceVersion,
        sink: &mut impl CacheSink,
    ) -> Result<(), WatchFailure> {
        match self.advance(&version, false) {
            Order::New | Order::Same => {
                sink.apply(Delta::Bookmark(version));
                return Ok(());
            }
            Order::Leap => return Err(self.leap(&version)),
            Order::Known | Order::Missed => {}
        }
        sink.stale(&version);
        let error = WatchError::Behind {
            resource: self.requests.name(),
            version: version.to_string(),
        };
        Err(WatchFailure::new(error, FailureClass::Behind))
    }

    /// The failure for a version that cannot be right. A list brings the server's real version and
    /// the object of this event.
    fn leap(&self, version: &ResourceVersion) -> WatchFailure {
        let error = WatchError::Leap {
            resource: self.requests.name(),
            version: cut_line(&version.to_string(), 80),
        };
        error.into()
    }

    /// Asks for the server's version with a quorum read, and compares it with the cache's. A
    /// failure is not reported as an error: the next request will fail too, and tell what is wrong.
    async fn probe(&mut self, sink: &mut impl CacheSink) -> Duration {
        let started = Instant::now();
        if let Some(delay) = self.is_answered(started) {
            return delay;
        }
        let timeout = self.machine.timeout(&NextRequest::Probe);
        let version = match self.requests.fetch_version(timeout).await {
            Ok(version) => {
                self.checked = started;
                self.answers.add(version.clone(), started);
                version
            }
            Err(WatchFailure { error, class }) => {
                let informer = self.requests.informer_key();
                tracing::debug!(%informer, %error, "cannot probe the server");
                return self.machine.probe_failed(class, started.elapsed());
            }
        };
        let (probed, delay) = self.machine.probed(&version);
        let informer = self.requests.informer_key();
        match probed {
            Probed::Current => {}
            Probed::Suspicious => {
                tracing::debug!(%informer, resource_version = %version, "the server is behind the cache; asking once more");
            }
            Probed::Incomparable => {
                tracing::warn!(%informer, resource_version = %version, "the versions of the server's lists cannot be compared; not asking any more whether it has gone back in time");
            }
            Probed::RolledBack { from, is_news } => {
                sink.rolled_back(&from, &version, is_news);
                if is_news {
                    self.alarm.raise();
                    let error = WatchError::RolledBack {
                        resource: self.requests.name(),
                        from: from.to_string(),
                        to: version.to_string(),
                    };
                    self.report
                        .announce(sink, WatchState::Error(error.to_string()));
                }
            }
        }
        delay
    }

    /// The delay before the next request, if the probe of another list-watch does for this one.
    fn is_answered(&mut self, now: Instant) -> Option<Duration> {
        let version = self.machine.expected()?.clone();
        if !self.answers.has(&version, self.checked) {
            return None;
        }
        self.checked = now;
        let (_, delay) = self.machine.probed(&version);
        Some(delay)
    }

    /// Reports a failure after which the next request is sent in `delay`.
    fn failed(
        &mut self,
        failure: &WatchFailure,
        delay: Duration,
        sink: &mut impl CacheSink,
    ) -> Pause {
        self.report.failed(sink, failure, delay);
        Pause {
            delay,
            is_gone: failure.is_of_other_scope(),
        }
    }

    /// Hands a complete list to the sink.
    fn replace_all(&mut self, listing: Listing, sink: &mut impl CacheSink) {
        self.checked = Instant::now();
        self.unreadable.keep_hopeless(&listing);
        self.report.listed(&listing);
        sink.apply(Delta::Replace(listing));
    }

    /// The fetched objects are in the cache now, so no later list may be older than they are.
    fn note_reread(&mut self) {
        if let Some(newest) = self.unreadable.take_newest() {
            self.machine.see(newest);
        }
    }
}

#[cfg(test)]
mod tests;
