//! Small guests against the real engine, one file per promise.
#![allow(clippy::unwrap_used, reason = "tests")]

mod containment;
mod loading;
mod logging;
mod purity;
mod support;
mod wasi;
