//! What loading a file took, and what the file contains.

use std::time::Duration;

use pilothouse_core::text::hex;

use super::stats::RunStats;

/// What loading a file took, and what the file contains.
#[derive(Clone, Debug)]
pub struct LoadReport {
    /// SHA-256 of the file.
    pub digest: [u8; 32],
    /// Size of the file, in bytes.
    pub bytes: usize,
    /// Size of the native code, in bytes.
    pub native_bytes: usize,
    /// Time to compile it. `None` if the code was cached.
    pub compiled: Option<Duration>,
    /// Time for the whole load.
    pub total: Duration,
    /// Its imports, as written in the file: interfaces of a component, or modules of a core module.
    pub imports: Vec<String>,
    /// Its exports, as written in the file.
    pub exports: Vec<String>,
    /// What the call of `describe` used.
    pub describe: RunStats,
}

impl LoadReport {
    /// The digest in hexadecimal.
    pub fn digest_hex(&self) -> String {
        hex(&self.digest)
    }
}
