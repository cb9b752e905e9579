//! Maintains the Endpoints of every Service: the pods behind it, with their addresses and ports.
//!
//! The rules are those of kube-controller-manager's endpoints controller (`pkg/controller/endpoint`
//! in kubernetes/kubernetes). The README lists them, with the differences.

mod leftovers;
mod objects;
mod pods;
mod subsets;
mod wanted;

use pilothouse_sdk::{
    Controller, Create, Effect, EffectVerb, Event, Failure, Filter, Host, Kind, Manifest,
    ObjectRef, Outcome, Request, Selection, Update, Verb,
};
use serde::{Deserialize, Serialize};
use services::failures;
use services::pod::Pod;
use services::trigger::TriggerTimes;

use objects::{Endpoints, Service};
use wanted::Wanted;

const ENDPOINTS: &str = "v1/Endpoints";

/// Label for the Endpoints that this controller writes, with the same value that
/// kube-controller-manager uses.
const MANAGED_BY: (&str, &str) = ("endpoints.kubernetes.io/managed-by", "endpoint-controller");

/// The endpoints controller.
pub struct EndpointsController;

/// What a key remembers. That there is one says that a reconcile has seen the key's object.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Memo {
    /// What the last reconcile has seen of the pods, if the Service selects any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    times: Option<TriggerTimes>,
}

impl Controller for EndpointsController {
    fn manifest() -> Manifest {
        let of_others = format!("{}!={}", MANAGED_BY.0, MANAGED_BY.1);
        Manifest::new(
            "endpoints",
            env!("CARGO_PKG_VERSION"),
            Selection::of(Service::KIND).also_enqueued_by(ENDPOINTS),
        )
        .reconciles_also(Selection::of(ENDPOINTS).labels(&of_others))
        .reads_as::<Service>()
        .reads_as::<Pod>()
        .reads_whole(ENDPOINTS)
        .writes(ENDPOINTS, [Verb::Create, Verb::Update, Verb::Delete])
    }

    fn reconcile(request: &Request, host: &dyn Host) -> Result<Outcome, Failure> {
        let key = request.key();
        if key.kind == ENDPOINTS {
            return leftovers::of_others(request, host);
        }
        let stored = host.get_json(&key.of_kind(ENDPOINTS))?;
        let current = stored.as_deref().map(serde_json::from_str::<Endpoints>);
        let current = current.transpose()?;
        let Some(service) = request.object::<Service>()? else {
            return Ok(leftovers::of_service(request, current.as_ref()));
        };
        let memo = request.memo::<Memo>();
        let Some(selector) = service.spec.selects() else {
            return Ok(Outcome::done().remember(&memo.unwrap_or_default())?);
        };

        let selected = Filter::match_labels(selector);
        let pods: Vec<Pod> = host.list(Pod::KIND, Some(&key.namespace), &selected)?;
        let times = TriggerTimes::of(service.metadata.creation_timestamp, &pods);
        let trigger = times.trigger(memo.and_then(|memo| memo.times).as_ref());
        let memo = Memo { times: Some(times) };
        let outcome = Outcome::done().remember(&memo)?;

        let wanted = Wanted::of(&service, &key.name, &pods);
        let previous = request.previous.as_slice();
        let outcome = match (current, stored) {
            (Some(current), _) if wanted.is_met_by(&current) => outcome,
            (Some(_), Some(stored)) => {
                let update = Update::new(&wanted.updated(&stored, trigger)?)?;
                outcome.with(update).settled()
            }
            // Whatever is created in a namespace that is being deleted is refused.
            _ if previous.iter().any(failures::is_of_ending_namespace) => outcome,
            _ => {
                let create = Create::new(&wanted.created(key, trigger)?)?;
                outcome.with(create).settled()
            }
        };
        let events = previous.iter().filter_map(|effect| told(key, effect));
        Ok(events.fold(outcome, Outcome::with))
    }
}

pilothouse_sdk::register!(EndpointsController);

/// An Event about a write that has failed.
fn told(service: &ObjectRef, effect: &Effect) -> Option<Event> {
    let reason = failures::reason(effect)?;
    let ObjectRef {
        namespace, name, ..
    } = service;
    let endpoints = &service.of_kind(ENDPOINTS);
    match effect.verb {
        _ if failures::is_of_ending_namespace(effect) => None,
        EffectVerb::Create => {
            let note =
                format!("Failed to create endpoint for service {namespace}/{name}: {reason}");
            let event = Event::warning(endpoints, "FailedToCreateEndpoint", "Create", &note);
            Some(event)
        }
        EffectVerb::Update => {
            let note = format!("Failed to update endpoint {namespace}/{name}: {reason}");
            let event = Event::warning(endpoints, "FailedToUpdateEndpoint", "Update", &note);
            Some(event)
        }
        _ => None,
    }
}
