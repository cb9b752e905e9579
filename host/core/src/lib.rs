//! The decisions of Pilothouse: what should be done, never doing it.
//!
//! A change of an object travels through these modules in this order. It is parsed ([`object`]). It
//! enters the cache of its kind and the indexes of that cache in one step ([`cache`]). It is
//! compared with what every reconcile has read ([`reads`]), and the keys it concerns are queued
//! ([`queue`]). [`hub`] is the one place where these modules meet. A reconcile gets a frozen
//! [`snapshot`] through a [`reader`](reader::Reader), which checks permission and records each
//! read. What it returns is an [`outcome`], which [`plan`] turns into writes.
//!
//! Nothing here does I/O, reads a clock or draws a random number. Time comes in as an argument, so
//! every test is exact.
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
