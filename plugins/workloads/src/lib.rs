//! What the controllers of Kubernetes' workloads have in common. Each module is one idea, with the
//! rules of upstream's `pkg/controller` that belong to it. Only [`replicas`] reads and writes: it
//! is a whole controller, of two kinds.

pub mod claim;
pub mod pod;
pub mod ranking;
pub mod replicas;
pub mod selector;
pub mod template;
