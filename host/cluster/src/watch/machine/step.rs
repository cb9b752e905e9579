//! The messages between the state machine and the code that sends its requests.

use pilothouse_core::ResourceVersion;

use super::failure_class::FailureClass;

/// The next request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NextRequest {
    /// All objects, then every change, over one connection (a streaming list).
    Stream {
        not_older_than: Option<ResourceVersion>,
    },
    /// All objects, as a list.
    List {
        not_older_than: Option<ResourceVersion>,
        paging: Paging,
    },
    /// Every change after a version.
    Watch {
        from: ResourceVersion,
        /// The last watch brought no change, or a probe is due after this one.
        is_quiet: bool,
    },
    /// The resourceVersion that the server is at.
    Probe,
}

/// The part of a list that is requested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Paging {
    First,
    /// The page after those so far, all of which are at `list_version` (`TestListPager_List`).
    After {
        token: String,
        list_version: ResourceVersion,
    },
    /// All objects in one answer: the token expired before the last page.
    Whole,
}

/// How a watch ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WatchEnd {
    /// The server closed it.
    Closed,
    /// Nothing came for too long.
    Quiet,
    /// Another list-watch has found that the server was rolled back.
    Doubted,
    Failed(FailureClass),
    /// It was to begin right before the position, and the server does not serve that.
    Unproven,
}

/// How a stream ended before its marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unfinished {
    /// It could not be opened.
    Unopened(FailureClass),
    /// The server closed it.
    Closed,
    /// Neither the marker nor another initial object came in time.
    Overdue,
    /// It broke off, or brought an error.
    Failed(FailureClass),
}

/// A complete list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CompleteList {
    pub(crate) version: ResourceVersion,
    pub(crate) is_rollback: bool,
}

/// The result of a probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Probed {
    /// The server is at the position or newer.
    Current,
    /// The server is behind the cache. That may be a lagging replica, or a cache between here and
    /// the server: probe once more.
    Suspicious,
    /// The server is behind the cache for the second time in a row, so it was rolled back from
    /// `from`. `is_news` is false if another list-watch has already reported it.
    RolledBack {
        from: ResourceVersion,
        is_news: bool,
    },
    /// The server is behind the list that followed a rollback, although nothing has come since. Its
    /// lists and probes count differently, as on some aggregated servers, so they cannot be
    /// compared.
    Incomparable,
}

/// A list that contradicts itself or an earlier one.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BadList {
    #[error("the list has no resourceVersion, so it cannot be watched")]
    NoVersion,
    #[error("its resourceVersion is longer than {0} bytes, so it cannot be asked for")]
    LongVersion(usize),
    #[error("the server continues the list where it already was")]
    Repeats,
    #[error("the server brings one empty page after the other")]
    Endless,
    #[error("it is of resourceVersion {listed}, older than {seen}, which was seen before")]
    Behind { listed: String, seen: String },
}

impl BadList {
    pub(crate) fn class(&self) -> FailureClass {
        match self {
            Self::NoVersion | Self::LongVersion(_) | Self::Repeats => FailureClass::Broken,
            Self::Behind { .. } => FailureClass::Behind,
            // Treated like an expired token: the whole list is requested at once.
            Self::Endless => FailureClass::BadVersion,
        }
    }
}
