//! Runs plugins: takes WebAssembly, returns a [`pilothouse_core::Plugin`].
//!
//! [`load()`] checks a file's bytes, makes them a component if they are a core module, compiles
//! them and asks them for their manifest. The result, a [`WasmPlugin`], runs each reconcile in a
//! fresh instance, within [`limits`], with no other imports than those of `wit/` and a minimal
//! WASI. This crate does not know about the API server or the language of a guest, and it does not
//! decide whether an outcome is permitted.

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
