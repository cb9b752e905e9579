//! What several of the workload controllers need.

pub mod revision;
