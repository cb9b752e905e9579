//! Kubernetes' own integration tests of the workload controllers (`test/integration`), held against
//! the real binary, the built plugins and a real API server: a module for each plugin.
