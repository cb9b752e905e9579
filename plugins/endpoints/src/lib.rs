//! Maintains the Endpoints of every Service: the pods behind it, with their addresses and ports.
//!
//! The rules are those of kube-controller-manager's endpoints controller (`pkg/controller/endpoint`
//! in kubernetes/kubernetes). The README lists them, with the differences.

mod objects;
mod pods;
mod ports;
mod subsets;

use std::collections::BTreeMap;

use pilothouse_sdk::{
    Apply, Controller, Delete, Failure, Filter, Host, Manifest, ObjectRef, Outcome, Patch, Request,
    Selection, Verb,
};
use serde_json::{Value, json};

use objects::{Endpoints, Pod, Service, Subset};

const SERVICES: &str = "v1/Service";
const PODS: &str = "v1/Pod";
const ENDPOINTS: &str = "v1/Endpoints";

/// Label for the Endpoints of a Service without a cluster IP. kube-proxy ignores Endpoints that
/// have it.
const HEADLESS: &str = "service.kubernetes.io/headless";
/// Label for the Endpoints that this controller writes, with the same value that
/// kube-controller-manager uses.
const MANAGED_BY: (&str, &str) = ("endpoints.kubernetes.io/managed-by", "endpoint-controller");
/// Annotation for Endpoints that lack some addresses because the object cannot hold more.
const OVER_CAPACITY: (&str, &str) = ("endpoints.kubernetes.io/over-capacity", "truncated");
/// Annotation that kube-controller-manager maintains and this controller does not. One that exists
/// would be out of date after a write.
const LAST_CHANGE: &str = "endpoints.kubernetes.io/last-change-trigger-time";
/// Annotation of Endpoints that are a lock of client-go's leader election. They never had a
/// Service.
const LEADER: &str = "control-plane.alpha.kubernetes.io/leader";

/// The endpoints controller.
pub struct EndpointsController;

impl Controller for EndpointsController {
    fn manifest() -> Manifest {
        Manifest::new(
            "endpoints",
            env!("CARGO_PKG_VERSION"),
            Selection::of(SERVICES).also_enqueued_by(ENDPOINTS),
        )
        .reads(SERVICES, objects::SERVICE_FIELDS)
        .reads(PODS, objects::POD_FIELDS)
        .reads(ENDPOINTS, objects::ENDPOINTS_FIELDS)
        .writes(ENDPOINTS, [Verb::Apply, Verb::Patch, Verb::Delete])
    }

    fn reconcile(request: &Request, host: &dyn Host) -> Result<Outcome, Failure> {
        let key = request.key();
        let current = host.get::<Endpoints>(&key.of_kind(ENDPOINTS))?;
        let Some(service) = request.object::<Service>()? else {
            return Ok(clean_up(key, current.as_ref()));
        };
        // The endpoints of a Service without a selector are maintained by somebody else. An
        // external name points outside the cluster.
        let Some(selector) = service
            .spec
            .selector
            .as_ref()
            .filter(|_| service.spec.r#type != "ExternalName")
        else {
            return Ok(Outcome::done());
        };

        let pods: Vec<Pod> =
            host.list(PODS, Some(&key.namespace), &Filter::match_labels(selector))?;
        let wanted = Wanted::of(&service, &key.name, &pods);
        if current
            .as_ref()
            .is_some_and(|current| wanted.is_met_by(current))
        {
            return Ok(Outcome::done());
        }
        let outcome = Outcome::done().with(Apply::new(&wanted.object(key))?.force());
        match current.and_then(|current| wanted.removals(&current)) {
            Some(removals) => Ok(outcome.with(Patch::merge(&key.of_kind(ENDPOINTS), &removals)?)),
            None => Ok(outcome),
        }
    }
}

pilothouse_sdk::register!(EndpointsController);

/// The content that the Endpoints of a Service should have.
struct Wanted {
    labels: BTreeMap<String, String>,
    is_truncated: bool,
    subsets: Vec<Subset>,
}

impl Wanted {
    fn of(service: &Service, name: &str, pods: &[Pod]) -> Self {
        let mut subsets = subsets::pack(
            pods.iter()
                .flat_map(|pod| pods::endpoints_of(pod, service, name)),
        );
        let is_truncated = subsets::truncate(&mut subsets);

        let mut labels = service.metadata.labels.clone();
        labels.insert(MANAGED_BY.0.to_owned(), MANAGED_BY.1.to_owned());
        labels.remove(HEADLESS);
        if !service.has_cluster_ip() {
            labels.insert(HEADLESS.to_owned(), String::new());
        }
        Self {
            labels,
            is_truncated,
            subsets,
        }
    }

    /// True if nothing needs to be written. As upstream does, this controller writes Endpoints that
    /// lack the managed-by label, but not those that differ only in the headless label.
    fn is_met_by(&self, current: &Endpoints) -> bool {
        let over_capacity = current
            .metadata
            .annotations
            .get(OVER_CAPACITY.0)
            .map(String::as_str);
        let wanted_over_capacity = self.is_truncated.then_some(OVER_CAPACITY.1);
        over_capacity == wanted_over_capacity
            && compared(&current.metadata.labels).eq(compared(&self.labels))
            && subsets::say_the_same(&current.subsets, &self.subsets)
    }

    /// The object to apply. It contains `subsets` even when they are empty, so that the apply takes
    /// them over from another manager.
    fn object(&self, key: &ObjectRef) -> Value {
        let mut metadata =
            json!({"namespace": key.namespace, "name": key.name, "labels": self.labels});
        if self.is_truncated {
            metadata["annotations"] = json!({OVER_CAPACITY.0: OVER_CAPACITY.1});
        }
        json!({"apiVersion": "v1", "kind": "Endpoints", "metadata": metadata, "subsets": self.subsets})
    }

    /// A merge patch that removes labels and annotations which should not exist. An apply cannot
    /// remove what other managers wrote. Upstream replaces the whole object and so removes them.
    fn removals(&self, current: &Endpoints) -> Option<Value> {
        let is_stale = |name: &&String| {
            *name == LAST_CHANGE || (*name == OVER_CAPACITY.0 && !self.is_truncated)
        };
        let labels = current
            .metadata
            .labels
            .keys()
            .filter(|name| !self.labels.contains_key(*name));
        let annotations = current.metadata.annotations.keys().filter(is_stale);

        let mut metadata = serde_json::Map::new();
        for (field, names) in [
            ("labels", nulls(labels)),
            ("annotations", nulls(annotations)),
        ] {
            if !names.is_empty() {
                metadata.insert(field.to_owned(), Value::Object(names));
            }
        }
        (!metadata.is_empty()).then(|| json!({"metadata": metadata}))
    }
}

/// The labels that are compared.
fn compared(labels: &BTreeMap<String, String>) -> impl Iterator<Item = (&String, &String)> {
    labels.iter().filter(|(name, _)| *name != HEADLESS)
}

fn nulls<'a>(names: impl Iterator<Item = &'a String>) -> serde_json::Map<String, Value> {
    names.map(|name| (name.clone(), Value::Null)).collect()
}

/// Deletes the Endpoints of a Service that does not exist, if a controller wrote them.
///
/// Upstream deletes all Endpoints that a deleted Service leaves and, when it starts, all that have
/// no Service. This controller cannot distinguish a Service that was deleted from one that will be
/// created later, for example when a file creates the Endpoints first. Therefore it keeps Endpoints
/// made by hand.
fn clean_up(key: &ObjectRef, current: Option<&Endpoints>) -> Outcome {
    match current {
        Some(current) if is_ours(current) => {
            Outcome::done().with(Delete::new(&key.of_kind(ENDPOINTS)).uid(&current.metadata.uid))
        }
        _ => Outcome::done(),
    }
}

/// True if this controller wrote the Endpoints, or kube-controller-manager's did, which has marked
/// them since 1.33. Without the mark: only an endpoints controller gives every address a reference
/// to a pod.
fn is_ours(endpoints: &Endpoints) -> bool {
    if endpoints.metadata.annotations.contains_key(LEADER) {
        return false;
    }
    let is_marked = endpoints
        .metadata
        .labels
        .get(MANAGED_BY.0)
        .is_some_and(|by| by == MANAGED_BY.1);
    is_marked || subsets::are_all_pods(&endpoints.subsets)
}
