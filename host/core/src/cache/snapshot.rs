//! A frozen view of all caches at one instant.

use std::sync::Arc;

use crate::cache::Cache;

/// Identifies an informer, as an index into a [`Snapshot`]. Informers are numbered in the order in
/// which plugins first ask for them, and never renumbered. The number of an informer that has ended
/// is not used again.
pub type InformerId = usize;

/// A frozen view of every informer's cache at one instant of the host. Cloning copies one pointer.
///
/// It is not a causal cut: each informer's watch lags behind the server on its own.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// How many changes the host had stored when this snapshot was taken.
    pub sequence: u64,
    /// The caches, by [`InformerId`].
    pub informers: Arc<Vec<Arc<Cache>>>,
}

impl Snapshot {
    /// One cache, for changing it. Copies the parts that a clone of this snapshot still shares.
    pub(crate) fn cache_mut(&mut self, informer: InformerId) -> &mut Cache {
        Arc::make_mut(&mut Arc::make_mut(&mut self.informers)[informer])
    }
}
