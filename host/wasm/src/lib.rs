//! Runs plugins: WebAssembly in, [`pilothouse_core::plugin::Plugin`] out.
//!
//! A file's bytes are checked, made a component if they are a core module, compiled and asked for their manifest ([`load()`]). What
//! comes out is run in a fresh instance for each reconcile ([`WasmPlugin`]), within [`limits`], with no world but the imports of
//! `wit/`. Nothing here knows what an API server is, which language a guest was written in, or whether an outcome is permitted.

mod bindings;
mod code_cache;
mod compile;
pub mod confined;
mod convert;
mod engine;
mod imports;
mod instance;
mod last_words;
pub mod limits;
mod load;
mod log;
mod native;
mod scan;
mod secret;
mod state;
mod stopwatch;

pub use code_cache::{CacheError, CacheStats, CodeCache};
pub use compile::{
    COMPILE_CHILD, CompileLimits, CompileOptions, Compiler, compile_child, own_executable,
};
pub use engine::{Engine, EngineError, EngineOptions};
pub use instance::{RunOptions, RunStats, RunTotals, WasmPlugin};
pub use limits::{LimitPolicy, RunLimits};
pub use load::{ABI_VERSION, LoadError, LoadReport, ScanError, load};
pub use log::{LOG_FIELDS, LOG_TARGET, LogBudget};
pub use stopwatch::{Clocks, Reading};
