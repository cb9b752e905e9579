//! Talks to an API server: reads which kinds it serves, watches their objects, and writes changes.
//!
//! [`connect`] finds the server. [`client`] sends every request within the limits. [`discovery`]
//! knows the kinds, and [`watch`] keeps one cache current. [`leases`] has the requests by which
//! hosts agree who runs what. `write` sends the writes of a plan, under an [`Identity`], and
//! fetches single objects. [`ApiCluster`] holds them together.
//!
//! Requests are built here and not by `kube::Api`, for two reasons: objects stay the bytes that the
//! server sent, and each request's retry is decided where its meaning is known.
//!
//! This crate spawns no task: everything runs in the caller's future. (kube's client has one task
//! of its own, which ends with the client.)

pub mod client;
mod cluster;
pub mod connect;
pub mod discovery;
pub mod leases;
#[cfg(test)]
mod testing;
pub mod watch;
mod write;

pub use cluster::ApiCluster;
pub use write::{Identity, IdentityError, ReviewError, WriteError};
