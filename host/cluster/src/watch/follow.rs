//! Reads a connection that brings events: the initial objects of a stream, then the changes.

use std::time::Duration;

use pilothouse_core::{Delta, ResourceVersion};
use tokio::time::Instant;

use super::ask::Opened;
use super::change::WatchChange;
use super::error::WatchFailure;
use super::event::{self, WatchEvent};
use super::failure_class::FailureClass;
use super::initial::Initial;
use super::lines::{LineRead, Lines};
use super::position::Order;
use super::step::{End, NextRequest, Unfinished};
use super::{CacheSink, ListWatch, WatchError, WatchState};
use crate::request::{self, Status};

/// How much longer than requested the server may take to close a watch.
const OVERTIME: Duration = Duration::from_secs(30);

/// An open connection.
struct Connection {
    lines: Lines,
    /// The time after which the server is to close it, counted from the head of the answer.
    timeout: Duration,
    /// When it is closed at the latest, whatever the server does.
    until: Instant,
}

impl ListWatch {
    async fn open(&mut self, next: &NextRequest) -> Result<Connection, WatchFailure> {
        let started = Instant::now();
        let Opened {
            response, timeout, ..
        } = self.ask(next).await?;
        Ok(Connection {
            lines: Lines::new(response.into_body(), self.settings.max_line),
            timeout,
            until: started + timeout + OVERTIME,
        })
    }

    pub(super) async fn watch(
        &mut self,
        next: &NextRequest,
        sink: &mut impl CacheSink,
    ) -> Duration {
        self.reread_open(sink).await;
        let started = Instant::now();
        match self.open(next).await {
            Ok(connection) => self.follow(connection, started, sink).await,
            Err(failure) => {
                let end = End::Failed(failure.class);
                let delay = self.state.watch_ended(end, started.elapsed(), 0);
                self.report(sink, &failure, delay);
                delay
            }
        }
    }

    pub(super) async fn stream(
        &mut self,
        next: &NextRequest,
        sink: &mut impl CacheSink,
    ) -> Duration {
        let started = Instant::now();
        self.announce(sink, WatchState::Listing);
        self.unread.begin_anew();
        let mut connection = match self.open(next).await {
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
    ) -> Duration {
        let delay = self.state.stream_ended(how, started.elapsed());
        if how == Unfinished::Overdue && !std::mem::replace(&mut self.has_missed_marker, true) {
            tracing::warn!(informer = %self.query.informer_key, error = %failure.error, "listing instead");
        }
        self.report(sink, failure, delay);
        delay
    }

    /// Collects the initial objects until the marker. They may come as slowly as they like; after
    /// the last of them, the marker must come within one `quiet_limit`.
    async fn collect(
        &mut self,
        connection: &mut Connection,
        sink: &mut impl CacheSink,
    ) -> Result<(), (Unfinished, WatchFailure)> {
        let failed = |failure: WatchFailure| (Unfinished::Failed(failure.class), failure);
        let resource = self.query.name();
        let quiet_limit = self.settings.quiet_limit;
        let room = self.room(sink);
        let mut initial = Initial::default();
        let mut until = connection.until;
        loop {
            let (how, error) = match connection.lines.next(quiet_limit, until).await {
                Ok(LineRead::Line(line)) => {
                    self.heard = Instant::now();
                    let schema = sink.schema();
                    let event = event::parse(&self.query.resource, &line, &schema);
                    let is_live = match event.map_err(|error| failed(error.into()))? {
                        WatchEvent::Change(change) => {
                            let change = self.reread(change, &schema).await;
                            let is_live = !initial.add(change);
                            if initial.bytes > room {
                                return Err(failed(WatchFailure::of_room(resource, room)));
                            }
                            is_live
                        }
                        WatchEvent::Bookmark {
                            version,
                            ends_initial: true,
                        } => {
                            for change in initial.take_leaps(&version) {
                                initial.put(self.reread(change, &schema).await);
                            }
                            return self.replace(initial, &version, sink).map_err(failed);
                        }
                        WatchEvent::Bookmark { .. } => {
                            initial.set_live();
                            true
                        }
                        WatchEvent::Error(status) => return Err(failed(self.ended(&status))),
                    };
                    // Live events never end, so they must not postpone the deadline of the marker.
                    if is_live {
                        until = until.min(Instant::now() + quiet_limit);
                    }
                    tokio::task::coop::consume_budget().await;
                    if Instant::now() < until {
                        continue;
                    }
                    (Unfinished::Overdue, WatchError::NoMarker { resource })
                }
                Ok(LineRead::Quiet) => (Unfinished::Overdue, WatchError::NoMarker { resource }),
                Ok(LineRead::End) => (Unfinished::Closed, WatchError::Incomplete { resource }),
                Err(source) => return Err(failed(WatchFailure::of_stream(resource, source))),
            };
            return Err((how, error.into()));
        }
    }

    /// The marker has arrived: hands the collected objects to the sink.
    fn replace(
        &mut self,
        initial: Initial,
        version: &ResourceVersion,
        sink: &mut impl CacheSink,
    ) -> Result<(), WatchFailure> {
        let listed = self.state.streamed(version);
        let listed = listed.map_err(|bad| WatchFailure::of_list(self.query.name(), &bad))?;
        let listing = initial.into_listing(listed, self.query.detail);
        self.replace_all(listing, sink);
        Ok(())
    }

    /// Follows the changes until the connection ends, normally or with a failure. Returns the delay
    /// before the next request.
    async fn follow(
        &mut self,
        mut connection: Connection,
        started: Instant,
        sink: &mut impl CacheSink,
    ) -> Duration {
        self.announce(sink, WatchState::Watching);
        self.why = None;
        self.unread.begin();
        self.note_reread();
        let mut lines = 0;
        let ended = self.deliver(&mut connection, &mut lines, sink).await;
        // Close the connection before the delay starts.
        drop(connection);
        let end = match &ended {
            Ok(end) => *end,
            Err(failure) => End::Failed(failure.class),
        };
        let delay = self.state.watch_ended(end, started.elapsed(), lines);
        if let Err(failure) = ended {
            self.report(sink, &failure, delay);
        }
        if let Some(watches) = self.state.take_fruitless() {
            let resource = self.query.name();
            let error = WatchError::Fruitless { resource, watches };
            self.why.get_or_insert_with(|| error.to_string());
            self.announce(sink, WatchState::Error(error.to_string()));
        }
        delay
    }

    /// Nothing came for `quiet_limit`. That is a failure if the server was to close the watch
    /// before: a live server would have done so.
    fn quiet(&self, connection: &Connection) -> Result<End, WatchFailure> {
        if connection.timeout >= self.settings.quiet_limit {
            return Ok(End::Quiet);
        }
        let error = WatchError::Silent {
            verb: "watch",
            resource: self.query.name(),
            seconds: self.heard.elapsed().as_secs(),
        };
        Err(WatchFailure::new(error, FailureClass::Lost))
    }

    async fn deliver(
        &mut self,
        connection: &mut Connection,
        lines: &mut u64,
        sink: &mut impl CacheSink,
    ) -> Result<End, WatchFailure> {
        loop {
            let until = connection.until;
            let read = tokio::select! {
                biased;
                () = self.alarm.is_raised() => return Ok(End::Doubted),
                read = connection.lines.next(self.settings.quiet_limit, until) => read,
            };
            let line = match read {
                Ok(LineRead::Line(line)) => line,
                Ok(LineRead::End) => return Ok(End::Closed),
                Ok(LineRead::Quiet) => return self.quiet(connection),
                Err(source) => return Err(WatchFailure::of_stream(self.query.name(), source)),
            };
            self.heard = Instant::now();
            *lines += 1;
            match event::parse(&self.query.resource, &line, &sink.schema())? {
                WatchEvent::Change(change) => self.change(change, sink).await?,
                WatchEvent::Bookmark { version, .. } => self.bookmark(version, sink)?,
                WatchEvent::Error(status) => return Err(self.ended(&status)),
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
        match self.state.advance(&change.version, true) {
            Order::New => {
                let change = self.reread(change, &sink.schema()).await;
                sink.apply(change.into_delta());
                self.note_reread();
                Ok(())
            }
            Order::Known => {
                sink.stale(&change.version);
                Ok(())
            }
            Order::Leap => Err(self.leap(&change.version)),
            Order::Missed => {
                // The cache never had this event: only a list shows what it misses.
                sink.stale(&change.version);
                let error = WatchError::OutOfOrder {
                    resource: self.query.name(),
                    version: change.version.to_string(),
                };
                Err(error.into())
            }
        }
    }

    fn bookmark(
        &mut self,
        version: ResourceVersion,
        sink: &mut impl CacheSink,
    ) -> Result<(), WatchFailure> {
        match self.state.advance(&version, false) {
            Order::New => {
                sink.apply(Delta::Bookmark(version));
                return Ok(());
            }
            Order::Leap => return Err(self.leap(&version)),
            Order::Known | Order::Missed => {}
        }
        sink.stale(&version);
        let error = WatchError::Behind {
            resource: self.query.name(),
            version: version.to_string(),
        };
        Err(WatchFailure::new(error, FailureClass::Behind))
    }

    /// The failure for a version that cannot be right. A list brings the server's real version and
    /// the object of this event.
    fn leap(&self, version: &ResourceVersion) -> WatchFailure {
        let error = WatchError::Leap {
            resource: self.query.name(),
            version: request::flatten(&version.to_string(), 80),
        };
        error.into()
    }

    fn ended(&self, status: &Status) -> WatchFailure {
        let error = WatchError::Ended {
            resource: self.query.name(),
            message: status.to_string(),
        };
        WatchFailure::new(error, FailureClass::of_event(status))
    }
}
