//! Stops writes that are under way.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Tells the writes of some reconciles to stop. An operator who pauses a plugin, removes it or
/// withdraws its grants must not have to watch ten thousand more of its deletions.
#[derive(Clone, Debug, Default)]
pub struct Halt {
    is_halted: Arc<AtomicBool>,
    /// That of which this is a part.
    whole: Option<Arc<AtomicBool>>,
}

impl Halt {
    /// One that stops some of these writes. They also stop with the others.
    pub fn part(&self) -> Self {
        Self {
            is_halted: Arc::default(),
            whole: Some(self.is_halted.clone()),
        }
    }

    /// From now on nothing more is written.
    pub fn halt(&self) {
        self.is_halted.store(true, Ordering::Relaxed);
    }

    /// Whether nothing more may be written.
    pub fn is_halted(&self) -> bool {
        let mut flags = std::iter::once(&self.is_halted).chain(&self.whole);
        flags.any(|flag| flag.load(Ordering::Relaxed))
    }
}
