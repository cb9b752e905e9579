//! Keeps the Endpoints of every Service: which pods stand behind it, at which addresses and ports.
//!
//! The rules are those of kube-controller-manager's endpoints controller (`pkg/controller/endpoint` in kubernetes/kubernetes);
//! the README lists them, and where this controller departs from them.

mod objects;
mod pods;
mod ports;
mod subsets;

use std::collections::BTreeMap;

use pilothouse_sdk::{
    Apply, Cluster, Controller, Delete, Failure, Filter, Kind, Manifest, ObjectKey, Outcome, Patch,
    Request, Selection, Verb,
};
use serde_json::{Value, json};

use objects::{Endpoints, Pod, Service, Subset};

/// Marks the Endpoints of a Service without a cluster IP, so that kube-proxy passes over them.
const HEADLESS: &str = "service.kubernetes.io/headless";
/// Marks what this controller wrote, with the value that kube-controller-manager gives it.
const MANAGED_BY: (&str, &str) = ("endpoints.kubernetes.io/managed-by", "endpoint-controller");
/// Says that there are more addresses than the object holds.
const OVER_CAPACITY: (&str, &str) = ("endpoints.kubernetes.io/over-capacity", "truncated");
/// Kept up by kube-controller-manager, not here: one that is found would be out of date after a write.
const LAST_CHANGE: &str = "endpoints.kubernetes.io/last-change-trigger-time";
/// Endpoints that are a lock of client-go's leader election. They never had a Service.
const LEADER: &str = "control-plane.alpha.kubernetes.io/leader";

/// The endpoints controller.
pub struct EndpointsController;

impl Controller for EndpointsController {
    fn manifest() -> Manifest {
        Manifest::new(
            "endpoints",
            env!("CARGO_PKG_VERSION"),
            Selection::of(&services()).companion(&endpoints()),
        )
        .reads(&services(), objects::SERVICE_FIELDS)
        .reads(&pods(), objects::POD_FIELDS)
        .reads(&endpoints(), objects::ENDPOINTS_FIELDS)
        .writes(&endpoints(), [Verb::Apply, Verb::Patch, Verb::Delete])
    }

    fn reconcile(request: &Request, cluster: &dyn Cluster) -> Result<Outcome, Failure> {
        let key = &request.key;
        let current = cluster.get::<Endpoints>(&endpoints(), key)?;
        let Some(service) = cluster.get::<Service>(&services(), key)? else {
            return Ok(clean_up(key, current.as_ref()));
        };
        // Without a selector somebody else says where a Service leads; an external name leads out of the cluster.
        let Some(selector) = service
            .spec
            .selector
            .as_ref()
            .filter(|_| service.spec.r#type != "ExternalName")
        else {
            return Ok(Outcome::done());
        };

        let pods: Vec<Pod> = cluster.list(
            &pods(),
            Some(&key.namespace),
            &Filter::match_labels(selector),
        )?;
        let wanted = Wanted::of(&service, &key.name, &pods);
        if current
            .as_ref()
            .is_some_and(|current| wanted.is_met_by(current))
        {
            return Ok(Outcome::done());
        }
        let outcome = Outcome::done().with(Apply::new(&wanted.object(key))?.force());
        match current.and_then(|current| wanted.removals(&current)) {
            Some(removals) => Ok(outcome.with(Patch::merge(&endpoints(), key, &removals)?)),
            None => Ok(outcome),
        }
    }
}

pilothouse_sdk::register!(EndpointsController);

/// What the Endpoints of a Service should say.
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

    /// Whether nothing needs to be written. As upstream, Endpoints that lack the managed-by label are
    /// written, and those that differ in the headless label alone are not.
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

    /// The object to apply. `subsets` is there even when empty: applying it takes over what another manager wrote.
    fn object(&self, key: &ObjectKey) -> Value {
        let mut metadata =
            json!({"namespace": key.namespace, "name": key.name, "labels": self.labels});
        if self.is_truncated {
            metadata["annotations"] = json!({OVER_CAPACITY.0: OVER_CAPACITY.1});
        }
        json!({"apiVersion": "v1", "kind": "Endpoints", "metadata": metadata, "subsets": self.subsets})
    }

    /// A merge patch that takes away the labels and annotations that should not be there. Applying cannot: it leaves alone what
    /// other managers wrote, where upstream, which replaces the object, does not.
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

/// There is no Service: deletes the Endpoints that a controller wrote for one.
///
/// Upstream deletes whatever Endpoints a deleted Service leaves, and, when it starts, all that have no Service. Here there is no
/// telling a Service that is gone from one that is yet to come, as when a file creates the Endpoints first; so Endpoints made
/// by hand stay.
fn clean_up(key: &ObjectKey, current: Option<&Endpoints>) -> Outcome {
    match current {
        Some(current) if is_ours(current) => {
            Outcome::done().with(Delete::new(&endpoints(), key).uid(&current.metadata.uid))
        }
        _ => Outcome::done(),
    }
}

/// Written by this controller or by kube-controller-manager's, which has marked its own since 1.33. Before that, only an
/// endpoints controller gave every address a pod to refer to.
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

fn services() -> Kind {
    Kind::core("v1", "Service")
}

fn pods() -> Kind {
    Kind::core("v1", "Pod")
}

fn endpoints() -> Kind {
    Kind::core("v1", "Endpoints")
}
