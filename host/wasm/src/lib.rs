//! Runs plugins: takes WebAssembly, returns a [`pilothouse_core::Plugin`].
//!
//! [`load()`] checks a file's bytes, makes them a component if they are a core module, compiles
//! them and asks them for their manifest. The result, a [`WasmPlugin`], runs each reconcile in a
//! fresh instance, within [`RunLimits`], with no other imports than those of `wit/` and a minimal
//! WASI. This crate does not know about the API server or the language of a guest, and it does not
//! decide whether an outcome is permitted.

mod bindings;
mod compile;
mod convert;
mod engine;
mod file;
mod imports;
mod load;
mod log;
mod run;
mod secret;
mod ticker;

pub use bindings::ABI_VERSION;
pub use compile::code_cache::{CacheError, CacheStats, CodeCache};
pub use compile::{COMPILE_CHILD, CompileLimits, CompileOptions, Compiler, compile_child};
pub use engine::{Engine, EngineError, EngineOptions};
pub use file::error::LoadError;
pub use file::scan::ScanError;
pub use load::{load, load_cached, load_with};
pub use log::{LOG_FIELDS, LOG_TARGET, LogBudget};
pub use run::limits::{LimitPolicy, RunLimits};
pub use run::plugin::{RunOptions, WasmPlugin};
pub use run::report::LoadReport;
pub use run::stats::RunStats;
pub use run::stopwatch::{Clocks, Reading};
pub use run::totals::RunTotals;
