//! One instant of all caches.

use std::sync::Arc;

use crate::cache::KindCache;

/// Which kind, as an index into a [`Snapshot`]. Kinds are numbered in the order plugins first name them and never renumbered.
pub type KindId = usize;

/// A frozen view of every kind's cache at one instant of the host. Cloning copies one pointer.
///
/// It is not a causal cut: each kind's watch lags the server on its own.
#[derive(Clone, Default)]
pub struct Snapshot {
    /// How many changes the host had stored when this was taken.
    pub sequence: u64,
    /// By [`KindId`].
    pub kinds: Arc<Vec<KindCache>>,
}
