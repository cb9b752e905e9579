//! What the state machine asks, and what it is told: the words between it and whoever sends the requests.

use pilothouse_core::key::ResourceVersion;

use super::verdict::Verdict;

/// What to ask next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Everything there is, then every change, over one connection.
    Stream {
        not_older_than: Option<ResourceVersion>,
    },
    /// Everything there is.
    List {
        not_older_than: Option<ResourceVersion>,
        paging: Paging,
    },
    /// Every change from there on.
    Watch {
        from: ResourceVersion,
        /// The last watch brought none.
        is_quiet: bool,
    },
    /// Which version the server is at.
    Probe,
}

/// Which part of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Paging {
    First,
    /// What follows the pages so far. They are of `list_version` (`TestListPager_List`).
    After {
        token: String,
        list_version: ResourceVersion,
    },
    /// Everything at once: the token had expired before the last page.
    Whole,
}

/// How a watch ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The server closed it.
    Closed,
    /// Nothing came for too long.
    Quiet,
    /// Another list-watch has found that the server has gone back in time.
    Doubted,
    Failed(Verdict),
}

/// How a stream ended before it was complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unfinished {
    /// It was not opened.
    Unopened(Verdict),
    /// The server closed it.
    Closed,
    /// No marker came, and nothing new that it could be waiting for.
    Overdue,
    /// It broke.
    Failed(Verdict),
}

/// A complete list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Listed {
    pub(super) version: ResourceVersion,
    pub(super) is_rollback: bool,
}

/// What came of asking where the server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Probed {
    /// Where it should be.
    Current,
    /// Behind the cache. That may be a replica that lags, or an answer from a cache in between: ask once more.
    Suspicious,
    /// Behind the cache, twice: it has gone back in time from there. News, unless another list-watch has said so before.
    RolledBack {
        from: ResourceVersion,
        is_news: bool,
    },
    /// Behind the list that followed a rollback, though nothing has come since: lists and probes count differently here, as some
    /// aggregated servers do, and neither says anything about the other.
    Incomparable,
}

/// An answer that contradicts itself, or an earlier one.
#[derive(Debug, thiserror::Error)]
pub(super) enum BadList {
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
    pub(super) fn verdict(&self) -> Verdict {
        match self {
            Self::NoVersion | Self::LongVersion(_) | Self::Repeats => Verdict::Broken,
            Self::Behind { .. } => Verdict::Behind,
            // As if the token had expired: all of it is to come at once.
            Self::Endless => Verdict::BadVersion,
        }
    }
}
