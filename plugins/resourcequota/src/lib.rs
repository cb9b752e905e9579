//! Counts what every ResourceQuota limits, in its `status.used`.
//!
//! The rules are those of kube-controller-manager's resourcequota controller
//! (`pkg/controller/resourcequota`, `pkg/quota/v1/evaluator/core` and `k8s.io/apiserver/pkg/quota`
//! in kubernetes/kubernetes). The README lists them, with the differences. Whether an object may be
//! created is decided by the API server, which also adds to `status.used` what it lets in.

mod alike;
mod claims;
mod config;
mod counts;
mod device_claims;
mod device_classes;
mod memo;
mod objects;
mod pod_objects;
mod pods;
mod requests;
mod resources;
mod scopes;
mod services;
mod sync;
mod usage;

use pilothouse_sdk::{
    Controller, Failure, Host, Kind, Limits, Manifest, Outcome, Request, Selection, Verb,
};

use config::Config;
use objects::{Claim, DeviceClaim, DeviceClass, Quota, Service};
use pod_objects::Pod;

/// More than by default, because each run reads all pods of the namespace, and decodes what the
/// containers request of each that is like no other.
const FUEL: u64 = 4_000_000_000;
const MEMORY: u64 = 256 << 20;

/// The resourcequota controller.
pub struct ResourceQuotaController;

impl Controller for ResourceQuotaController {
    fn manifest() -> Manifest {
        Manifest::new(
            "resourcequota",
            env!("CARGO_PKG_VERSION"),
            Selection::of(Quota::KIND),
        )
        .reads_as::<Quota>()
        .reads_as::<Pod>()
        .reads_as::<Service>()
        .reads_as::<Claim>()
        .reads_as::<DeviceClaim>()
        .reads_as::<DeviceClass>()
        .optional(DeviceClaim::KIND)
        .optional(DeviceClass::KIND)
        // For `count/RESOURCE` of any kind, which is only watched if a quota limits it.
        .reads("*", [".metadata.uid"])
        .writes_subresource(Quota::KIND, "status", [Verb::Patch])
        .config_schema(&Config::schema())
        .limits(Limits {
            fuel: Some(FUEL),
            memory_bytes: Some(MEMORY),
            ..Limits::default()
        })
    }

    fn reconcile(request: &Request, host: &dyn Host) -> Result<Outcome, Failure> {
        sync::reconcile(request, host)
    }
}

pilothouse_sdk::register!(ResourceQuotaController);
