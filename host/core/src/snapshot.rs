//! One instant of all caches.

use std::sync::Arc;

use crate::cache::Cache;

/// Which informer, as an index into a [`Snapshot`]. Informers are numbered in the order plugins first ask for them and never
/// renumbered; the number of one that has ended is not used again.
pub type InformerId = usize;

/// A frozen view of every informer's cache at one instant of the host. Cloning copies one pointer.
///
/// It is not a causal cut: each informer's watch lags the server on its own.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// How many changes the host had stored when this was taken.
    pub sequence: u64,
    /// By [`InformerId`].
    pub informers: Arc<Vec<Arc<Cache>>>,
}

impl Snapshot {
    /// One cache, to change it. Copies what a clone of the snapshot still shows.
    pub(crate) fn cache_mut(&mut self, informer: InformerId) -> &mut Cache {
        Arc::make_mut(&mut Arc::make_mut(&mut self.informers)[informer])
    }
}
