//! Maintains the EndpointSlices of every Service that selects pods.
//!
//! The rules are those of kube-controller-manager's endpointslice controller
//! (`pkg/controller/endpointslice` in kubernetes/kubernetes, and the module
//! `k8s.io/endpointslice`). The README lists them, with the differences.

mod desired;
mod distribution;
mod nodes;
mod objects;
mod packing;
mod sync;
mod told;
mod topology;

use pilothouse_sdk::{
    Controller, Failure, Host, Kind, Limits, Manifest, Outcome, Request, Selection, Verb,
};
use serde::Deserialize;
use serde_json::{Value, json};
use services::pod::Pod;
use services::slice::SLICES;

use objects::{Node, Service};
use sync::Sync;

/// What a Service of 5,000 pods costs, twice.
const FUEL: u64 = 4_000_000_000;
const MEMORY: u64 = 128 << 20;

/// The endpointslice controller.
pub struct EndpointSliceController;

/// What the operator can change.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Config {
    /// Most endpoints of a slice: kube-controller-manager's `--max-endpoints-per-slice`.
    #[serde(default = "hundred")]
    max_endpoints_per_slice: usize,
}

/// As upstream.
fn hundred() -> usize {
    100
}

impl Config {
    /// What is valid: more than 1,000 endpoints the API server refuses.
    fn schema() -> Value {
        json!({
            "type": "object", "additionalProperties": false,
            "properties": {
                "maxEndpointsPerSlice": {
                    "type": "integer", "minimum": 1, "maximum": 1_000, "default": hundred(),
                },
            },
        })
    }
}

impl Controller for EndpointSliceController {
    fn manifest() -> Manifest {
        Manifest::new(
            "endpointslice",
            env!("CARGO_PKG_VERSION"),
            Selection::of(Service::KIND),
        )
        .reads_as::<Service>()
        .reads_as::<Pod>()
        .reads_as::<Node>()
        .reads_whole(SLICES)
        .writes(SLICES, [Verb::Create, Verb::Update, Verb::Delete])
        .config_schema(&Config::schema())
        .limits(Limits {
            fuel: Some(FUEL),
            memory_bytes: Some(MEMORY),
            ..Limits::default()
        })
    }

    fn reconcile(request: &Request, host: &dyn Host) -> Result<Outcome, Failure> {
        // The slices of a Service that is gone are deleted by the garbage collector.
        let Some(service) = request.object::<Service>()? else {
            return Ok(Outcome::done());
        };
        let Some(selector) = service.spec.shared.selects() else {
            let memo = request.memo.clone();
            return Ok(Outcome {
                memo,
                ..Outcome::done()
            });
        };
        let config: Config = request.configuration()?;
        let max = config.max_endpoints_per_slice;
        Sync::of(request, host, &service, selector, max)?.outcome()
    }
}

pilothouse_sdk::register!(EndpointSliceController);
