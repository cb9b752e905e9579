//! Keeps the status of every PodDisruptionBudget, by which the API server allows evictions, and
//! takes the condition `DisruptionTarget` from pods that were not disrupted after all.
//!
//! The rules are those of kube-controller-manager's disruption controller
//! (`pkg/controller/disruption` in kubernetes/kubernetes). The README lists them, with the
//! differences.

mod budget;
mod custom;
mod disrupted;
mod memo;
mod objects;
mod overlap;
mod scale;
mod selector;
mod stale;
mod status;

use pilothouse_sdk::{
    Controller, Failure, Host, Kind, Limits, Manifest, Outcome, Request, Selection, Verb,
};

use objects::{Budget, EVERY_KIND, Pod, SCALED};
use stale::Config;

/// Enough for a budget of ten thousand pods. The default is for about half of them.
const FUEL: u64 = 2_000_000_000;

/// The disruption controller.
pub struct DisruptionController;

impl Controller for DisruptionController {
    fn manifest() -> Manifest {
        let manifest = Manifest::new(
            "disruption",
            env!("CARGO_PKG_VERSION"),
            Selection::of(Budget::KIND),
        )
        .reconciles_also(Selection::of(Pod::KIND))
        .reads_as::<Budget>()
        .reads_as::<Pod>();
        let reads = SCALED.iter();
        let manifest = reads.fold(manifest, |manifest, (kind, fields)| {
            manifest.reads(kind, fields.iter().copied())
        });
        manifest
            .reads(EVERY_KIND, [".spec"])
            .writes_subresource(Budget::KIND, "status", [Verb::Patch])
            .writes_subresource(Pod::KIND, "status", [Verb::Patch])
            .config_schema(&Config::schema())
            .limits(Limits {
                fuel: Some(FUEL),
                ..Limits::default()
            })
    }

    fn reconcile(request: &Request, host: &dyn Host) -> Result<Outcome, Failure> {
        if request.key().kind == Pod::KIND {
            stale::reconcile(request, host)
        } else {
            budget::reconcile(request, host)
        }
    }
}

pilothouse_sdk::register!(DisruptionController);
