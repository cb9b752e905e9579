//! Runs guests: what a plugin is once it is loaded, one call of it, and what a call may use.

mod call;
mod last_words;
pub(crate) mod limits;
pub(crate) mod plugin;
pub(crate) mod report;
pub(crate) mod state;
pub(crate) mod stats;
pub(crate) mod stopwatch;
pub(crate) mod totals;
mod trap;
mod verify;
pub(crate) mod wasi;
