//! The limits that a confined child process is started with.

use clap::Args;

#[derive(Debug, Args)]
pub struct ChildArgs {
    /// Address space.
    pub memory_bytes: u64,
    /// CPU time.
    pub cpu_seconds: u64,
}
