//! Small guests against the real engine, one file per promise.
#![allow(clippy::unwrap_used, reason = "tests")]

mod containment;
mod hostile;
mod loading;
mod logging;
mod mutations;
mod purity;
mod reuse;
mod support;
mod wasi;
