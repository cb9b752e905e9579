//! Timing and sizes of a list-watch.

use std::time::Duration;

/// How a list-watch behaves towards the server.
#[derive(Clone, Debug)]
pub struct WatchSettings {
    /// Ask for the initial objects over the watch (KEP-3157). Servers that cannot do that are asked
    /// for lists in any case; false is for servers that only pretend to support it.
    pub is_streaming: bool,
    /// The first request waits for a random part of this time, so that many list-watches do not
    /// start at one instant.
    pub start_spread: Duration,
    /// Objects per page of a list.
    pub page_size: u32,
    /// Time allowed for one page. An unpaged list has ten times as long.
    pub page_deadline: Duration,
    /// Time allowed until an answer begins. After that the request counts as failed and is sent
    /// again; an answer that comes late is still accepted.
    pub head_deadline: Duration,
    /// A watch that brings no byte for this long is opened again; a list that brings none is
    /// abandoned.
    pub quiet_limit: Duration,
    /// How long the server is asked to keep the watch of a quiet kind open. Less than
    /// `quiet_limit`, so that a live server always sends something in time: the end, and two
    /// seconds before it a bookmark if it has come further than where the watch began.
    pub quiet_timeout: Duration,
    /// How long the server is asked to keep any other watch open: uniformly within this range, so
    /// that they do not all end at once (`TestWatchTimeout`).
    pub watch_timeout: (Duration, Duration),
    /// First delay after a failure. It doubles up to `max_delay`, and up to a quarter is added at
    /// random. Counted from the start of one attempt to the start of the next.
    pub base_delay: Duration,
    /// Largest delay after a failure, see `base_delay`. With the quarter on top it is 5 s, the time
    /// within which the end of an outage is noticed.
    pub max_delay: Duration,
    /// Longest line of a watch, in bytes. etcd stores at most 1.5 MB per object; the API server
    /// accepts 3 MiB.
    pub max_line: usize,
}

/// With these settings a frozen server is noticed within `quiet_limit` plus `head_deadline`: 14
/// seconds.
impl Default for WatchSettings {
    fn default() -> Self {
        Self {
            is_streaming: true,
            start_spread: Duration::ZERO,
            page_size: 500,
            page_deadline: Duration::from_secs(60),
            head_deadline: Duration::from_secs(4),
            quiet_limit: Duration::from_secs(10),
            quiet_timeout: Duration::from_secs(9),
            watch_timeout: (Duration::from_secs(300), Duration::from_secs(600)),
            base_delay: Duration::from_secs(1),
            max_delay: Duration::from_secs(4),
            max_line: 8 * 1024 * 1024,
        }
    }
}
