//! Stops writes that are under way.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Tells the writes of some reconciles to stop. An operator who pauses a plugin, removes it or
/// withdraws its grants must not have to watch ten thousand more of its deletions.
#[derive(Clone, Debug, Default)]
pub struct Halt(Arc<AtomicBool>);

impl Halt {
    /// From now on nothing more is written.
    pub fn halt(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether nothing more may be written.
    pub fn is_halted(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
