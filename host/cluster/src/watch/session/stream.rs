//! An open connection that brings events, and when it is to end.

use std::time::Duration;

use kube::client::Body;
use tokio::time::Instant;

use crate::watch::error::StreamError;
use crate::watch::wire::lines::{LineRead, Lines};

/// How much longer than requested the server may take to close a watch.
const OVERTIME: Duration = Duration::from_secs(30);

/// A watch that ends at most this much before its time ends as agreed: clocks differ.
const EARLY: Duration = Duration::from_millis(500);

/// An open connection.
pub(crate) struct WatchStream {
    lines: Lines,
    /// The time after which the server is to close it, counted from the head of the answer.
    timeout: Duration,
    /// When it is closed at the latest, whatever the server does.
    until: Instant,
    /// How long it may bring nothing.
    quiet_limit: Duration,
}

impl WatchStream {
    /// The answer to a request that was sent at `started`.
    pub(super) fn new(
        body: Body,
        max_line: usize,
        timeout: Duration,
        started: Instant,
        quiet_limit: Duration,
    ) -> Self {
        Self {
            lines: Lines::new(body, max_line),
            timeout,
            until: started + timeout + OVERTIME,
            quiet_limit,
        }
    }

    /// When it is closed at the latest.
    pub(super) fn until(&self) -> Instant {
        self.until
    }

    /// True if it has ended, and its time was not over.
    pub(crate) fn is_early(&self) -> bool {
        Instant::now() + EARLY + OVERTIME < self.until
    }

    /// The next line, as long as the connection may last.
    pub(crate) async fn next(&mut self) -> Result<LineRead, StreamError> {
        self.next_before(self.until).await
    }

    /// The next line, if it comes before `until`.
    pub(super) async fn next_before(&mut self, until: Instant) -> Result<LineRead, StreamError> {
        self.lines.next(self.quiet_limit, until).await
    }

    /// True if the server was to close it before it may count as quiet: a live server would have
    /// done so.
    pub(crate) fn is_overdue(&self) -> bool {
        self.timeout < self.quiet_limit
    }
}
