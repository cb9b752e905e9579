//! Mirrors the Endpoints of Services without a selector, which somebody else maintains, to
//! EndpointSlices.
//!
//! The rules are those of kube-controller-manager's endpointslicemirroring controller
//! (`pkg/controller/endpointslicemirroring` in kubernetes/kubernetes). The README lists them, with
//! the differences.

mod desired;
mod mirror;
mod objects;

use pilothouse_sdk::{
    Controller, Event, Failure, Filter, Host, Kind, Manifest, ObjectRef, Outcome, Request,
    Selection, Verb,
};
use serde::Deserialize;
use serde_json::{Value, json};
use services::changes::deletion;
use services::failures;
use services::slice::{MANAGED_BY, SERVICE_NAME, SLICES, Slice};

use desired::Desired;
use mirror::Mirror;
use objects::{ENDPOINTS, Endpoints, Service};

/// The value of [`MANAGED_BY`] of the slices that this controller maintains, the same that
/// kube-controller-manager uses.
const NAME: &str = "endpointslicemirroring-controller.k8s.io";

/// The endpointslicemirroring controller.
pub struct EndpointSliceMirroringController;

/// What the operator can change.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Config {
    /// Most addresses that are mirrored of a subset: kube-controller-manager's
    /// `--mirroring-max-endpoints-per-subset`.
    #[serde(default = "thousand")]
    max_endpoints_per_subset: usize,
}

/// As upstream.
fn thousand() -> usize {
    1_000
}

impl Config {
    /// What is valid: a slice of more than 1,000 endpoints the API server refuses.
    fn schema() -> Value {
        json!({
            "type": "object", "additionalProperties": false,
            "properties": {
                "maxEndpointsPerSubset": {
                    "type": "integer", "minimum": 1, "maximum": 1_000, "default": thousand(),
                },
            },
        })
    }
}

impl Controller for EndpointSliceMirroringController {
    fn manifest() -> Manifest {
        let mirrored = format!("{MANAGED_BY}={NAME}");
        let of_endpoints = [".metadata.labels", ".metadata.annotations", ".subsets"];
        Manifest::new(
            "endpointslicemirroring",
            env!("CARGO_PKG_VERSION"),
            Selection::of(ENDPOINTS),
        )
        .reconciles_also(Selection::of(SLICES).labels(&mirrored))
        .reads(ENDPOINTS, of_endpoints)
        .reads_as::<Service>()
        .reads_whole(SLICES)
        .writes(SLICES, [Verb::Create, Verb::Update, Verb::Delete])
        .config_schema(&Config::schema())
    }

    fn reconcile(request: &Request, host: &dyn Host) -> Result<Outcome, Failure> {
        let key = request.key();
        if key.kind == SLICES {
            return of_slice(request, host);
        }
        // The slices of Endpoints that are gone are keys of their own.
        let Some(endpoints) = request.object::<Endpoints>()? else {
            return Ok(Outcome::done());
        };
        let slices = mirrored(host, key)?;
        if !(endpoints.wants_mirror() && has_service(host, key)?) {
            return Ok(slices
                .iter()
                .map(deletion)
                .fold(Outcome::done(), Outcome::with));
        }
        let config: Config = request.configuration()?;
        let max = config.max_endpoints_per_subset;
        let desired = Desired::of(&endpoints.subsets, max);
        let events = told(key, &desired, max);
        let mut changes = Mirror::of(key, &endpoints).reconcile(slices, desired);
        // Upstream gives up a create in a namespace on its way out; whatever is created is refused.
        let ends = request
            .previous
            .iter()
            .any(failures::is_of_ending_namespace);
        if ends || endpoints.metadata.always.deletion_timestamp.is_some() {
            changes.create.clear();
        }
        let mut outcome = changes.write(Outcome::done(), false)?;
        let writes = outcome.actions().next().is_some();
        outcome.settled = writes && !ends;
        Ok(events.into_iter().fold(outcome.always(), Outcome::with))
    }
}

pilothouse_sdk::register!(EndpointSliceMirroringController);

/// A slice goes when there are no Endpoints of its name any more, also if they went while no host
/// was running. Everything else is the task of the key of the Endpoints.
fn of_slice(request: &Request, host: &dyn Host) -> Result<Outcome, Failure> {
    #[derive(Deserialize)]
    struct Named {}

    let key = request.key();
    let Some(slice) = request.object::<Slice>()? else {
        return Ok(Outcome::done());
    };
    let labels = slice.labels();
    let Some(name) = labels.get(SERVICE_NAME).filter(|name| !name.is_empty()) else {
        return Ok(Outcome::done());
    };
    let endpoints = ObjectRef::new(ENDPOINTS, &key.namespace, name);
    if host.get::<Named>(&endpoints)?.is_some() {
        return Ok(Outcome::done());
    }
    Ok(Outcome::done().with(deletion(&slice)).confirm(&endpoints))
}

/// The slices that are mirrored from Endpoints.
fn mirrored(host: &dyn Host, endpoints: &ObjectRef) -> Result<Vec<Slice>, Failure> {
    let filter = Filter::match_labels([(SERVICE_NAME, &*endpoints.name), (MANAGED_BY, NAME)]);
    host.list(SLICES, Some(&endpoints.namespace), &filter)
}

/// True if there is a Service of this name, and it has no selector: the Endpoints of one with a
/// selector are not somebody else's.
fn has_service(host: &dyn Host, endpoints: &ObjectRef) -> Result<bool, Failure> {
    let service = host.get::<Service>(&endpoints.of_kind(Service::KIND))?;
    Ok(service.is_some_and(|service| service.spec.selector.is_none()))
}

/// What is told of addresses that are left out.
fn told(endpoints: &ObjectRef, desired: &Desired, max: usize) -> Vec<Event> {
    let event = |reason, note: &str| Event::warning(endpoints, reason, "Mirror", note);
    let Desired {
        invalid, skipped, ..
    } = desired;
    let mut events = Vec::new();
    if *invalid > 0 {
        let note =
            format!("Skipped {invalid} invalid IP addresses when mirroring to EndpointSlices");
        events.push(event("InvalidIPAddress", &note));
    }
    if skipped > invalid {
        let note = format!(
            "A max of {max} addresses can be mirrored to EndpointSlices per Endpoints subset. \
             {skipped} addresses were skipped"
        );
        events.push(event("TooManyAddressesToMirror", &note));
    }
    events
}
