//! Kubernetes' own integration tests of the workload controllers (`test/integration`), held against
//! the real binary, the built plugins and a real API server: a module for each plugin.
#![allow(
    clippy::unwrap_used,
    reason = "clippy knows the tests of an integration test, but not its helpers"
)]

mod bootstrap_tokens;
mod cronjob;
mod daemonset;
mod deployment;
mod disruption;
mod endpoints;
mod endpointslice;
mod endpointslicemirroring;
mod ephemeral_volume;
mod garbage_collector;
mod job;
mod legacy_tokens;
mod namespace;
mod persistentvolume_expander;
mod pod_garbage_collector;
mod replicas;
mod replicaset;
mod replicationcontroller;
mod resourcequota;
mod serviceaccount;
mod services;
mod statefulset;
mod taint_eviction;
mod ttl;
mod volume_protection;
