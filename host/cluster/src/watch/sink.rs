//! What a list-watch tells: changes, and the state that it is in.

use std::sync::Arc;

use pilothouse_core::{Delta, ResourceVersion, Schema};

/// Receives what a list-watch learns: the one writer of the kind's cache.
pub trait CacheSink: Send {
    /// How objects are to be parsed now.
    fn schema(&self) -> Arc<Schema>;
    /// Applies a change, a list or a bookmark.
    fn apply(&mut self, delta: Delta);
    /// The state of the list-watch. Called only when it changes.
    fn state(&mut self, state: WatchState);
    /// The bytes that the objects of a first list may take
    /// ([`pilothouse_core::Object::size`]). A first list beyond that is abandoned while it
    /// is being collected. Later lists are not limited: they replace an earlier one.
    fn room(&self) -> usize {
        usize::MAX
    }
    /// An event of this version was older than the cache, and has been dropped.
    fn stale(&mut self, _version: &ResourceVersion) {}
    /// The server was rolled back, as happens when etcd is restored from a snapshot. The next
    /// [`Delta::Replace`] holds its state. `_is_news` is false if another list-watch of the same
    /// server has already reported it.
    fn rolled_back(&mut self, _from: &ResourceVersion, _to: &ResourceVersion, _is_news: bool) {}
}

/// The state of a list-watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchState {
    /// It fetches all objects.
    Listing,
    /// It follows the changes.
    Watching,
    /// It does neither, and retries; the cache may be behind. The text is one line for status and
    /// logs.
    Error(String),
    /// Like `Error`, but the cause is not the kind: the server is down, does not answer or is
    /// overloaded.
    Unreachable(String),
}

impl WatchState {
    pub(super) fn is_failure(&self) -> bool {
        matches!(self, Self::Error(_) | Self::Unreachable(_))
    }
}
