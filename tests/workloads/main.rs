//! Kubernetes' own integration tests of the workload controllers (`test/integration`), held against
//! the real binary, the built plugins and a real API server: a module for each plugin.
#![allow(
    clippy::unwrap_used,
    reason = "clippy knows the tests of an integration test, but not its helpers"
)]

mod daemonset;
mod deployment;
mod garbage_collector;
mod job;
mod namespace;
mod replicas;
mod replicaset;
mod replicationcontroller;
mod statefulset;
