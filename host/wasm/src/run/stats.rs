//! What one run of a guest used.

use std::time::Duration;

/// What one run used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunStats {
    /// Fuel used, including the instantiation. A reused instance is charged for its instantiation
    /// in every run. The fuel of a repetition is not included.
    pub fuel: u64,
    /// Peak size of memories and tables, in bytes.
    pub memory_bytes: usize,
    /// Wall-clock time, including instantiation and disposal, and including the repetition if the
    /// run was verified.
    pub duration: Duration,
    /// True if the answer came from an instance that had answered before.
    pub is_reused: bool,
    /// True if the run was repeated and compared.
    pub is_verified: bool,
}
