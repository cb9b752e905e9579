//! How a list-watch behaves towards the server, in numbers.

use std::time::Duration;

/// How a list-watch behaves towards the server.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Objects per page of a list.
    pub page_size: u32,
    /// For one page; an unpaged list has ten times as long.
    pub page_deadline: Duration,
    /// For the head of a watch's answer. The server sends it at once.
    pub watch_deadline: Duration,
    /// A watch that brings nothing for so long is taken for dead and opened again on a new connection. A server bookmarks about
    /// once a minute; this is two of them and a half. Kinds without watch cache have no bookmarks and pay a request each time.
    pub quiet_limit: Duration,
    /// How long the server should keep a watch open: uniformly in this range, so that not all end at once (`TestWatchTimeout`).
    pub watch_timeout: (Duration, Duration),
    /// First delay after a failure; doubles up to `max_delay`, plus up to a quarter at random.
    pub base_delay: Duration,
    /// See `base_delay`. With the quarter on top it is the five seconds within which an outage's end is noticed.
    pub max_delay: Duration,
    /// Longest line of a watch. etcd stores at most 1.5 MB an object, the API server takes 3 MiB.
    pub max_line: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            page_size: 500,
            page_deadline: Duration::from_secs(60),
            watch_deadline: Duration::from_secs(15),
            quiet_limit: Duration::from_secs(150),
            watch_timeout: (Duration::from_secs(300), Duration::from_secs(600)),
            base_delay: Duration::from_secs(1),
            max_delay: Duration::from_secs(4),
            max_line: 8 * 1024 * 1024,
        }
    }
}
