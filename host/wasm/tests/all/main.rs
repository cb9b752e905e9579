//! Small guests against the real engine, one file per promise.
#![allow(clippy::unwrap_used, reason = "tests")]
#![allow(clippy::disallowed_types, reason = "the time guests take is printed")]

mod containment;
mod loading;
mod logging;
mod purity;
mod support;
mod wasi;
