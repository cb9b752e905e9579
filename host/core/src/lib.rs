//! What Pilothouse decides, apart from what it does.
//!
//! A change of an object travels through this crate in the order of its modules: it is parsed ([`object`]), enters the cache of its kind
//! and that cache's indexes in one step ([`cache`]), is held against what every reconcile has read ([`reads`]), and queues the keys it
//! concerns ([`queue`]). [`hub`] is the one place where these meet. A reconcile gets a frozen [`snapshot`] through a
//! [`reader`](reader::Reader) that checks permission and records each read; what it returns is an [`outcome`], which [`plan`] turns
//! into writes.
//!
//! Nothing here does I/O, reads a clock or draws a random number: time comes in as an argument, so every test is exact.
#![deny(missing_docs)]

pub mod backoff;
pub mod cache;
pub mod children;
pub mod cluster;
pub mod fields;
pub mod gate;
pub mod grants;
pub mod hub;
pub mod key;
pub mod manifest;
pub mod object;
pub mod outcome;
mod owned;
pub mod permission;
pub mod plan;
pub mod plugin;
pub mod queue;
pub mod reader;
pub mod reads;
pub mod selector;
pub mod snapshot;
pub mod source;
pub mod stores;
pub mod text;
pub mod tree;
pub mod unchanged;
pub mod wants;
