//! What the controllers of Kubernetes' workloads have in common. Each module is one idea, with the
//! rules of upstream's `pkg/controller` that belong to it. Only [`replicas`] writes, as it is a
//! whole controller, of two kinds; it and [`revision`] read.

pub mod claim;
pub mod go_hash;
pub mod hash;
pub mod pod;
pub mod ranking;
pub mod replicas;
pub mod revision;
pub mod scheduling;
pub mod selector;
pub mod template;
