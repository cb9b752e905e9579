//! How a list-watch behaves towards the server, in numbers.

use std::time::Duration;

/// How a list-watch behaves towards the server.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Ask for the initial objects over the watch (KEP-3157). Servers that cannot are asked for lists, whatever this says; false is
    /// for those that pretend to.
    pub is_streaming: bool,
    /// The first request waits for a random part of this, so that many list-watches do not start at one instant.
    pub start_spread: Duration,
    /// Objects per page of a list.
    pub page_size: u32,
    /// For one page; an unpaged list has ten times as long.
    pub page_deadline: Duration,
    /// A request whose answer has not begun after so long counts as failed and is asked again, while the late answer stays welcome.
    pub head_deadline: Duration,
    /// A watch that brings no byte for so long is opened again, and a list of which none comes is given up.
    pub quiet_limit: Duration,
    /// How long the server should keep the watch of a quiet kind open: less than `quiet_limit`, so that a server that lives always
    /// says something in time. Its last word is a bookmark, two seconds before.
    pub quiet_timeout: Duration,
    /// How long the server should keep any other watch open: uniformly in this range, so that not all end at once
    /// (`TestWatchTimeout`).
    pub watch_timeout: (Duration, Duration),
    /// First delay after a failure; doubles up to `max_delay`, plus up to a quarter at random. Counted from attempt to attempt.
    pub base_delay: Duration,
    /// See `base_delay`. With the quarter on top it is the five seconds within which an outage's end is noticed.
    pub max_delay: Duration,
    /// Longest line of a watch. etcd stores at most 1.5 MB an object, the API server takes 3 MiB.
    pub max_line: usize,
}

/// A frozen server is noticed within `quiet_limit` and `head_deadline`: 14 seconds.
impl Default for Settings {
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
