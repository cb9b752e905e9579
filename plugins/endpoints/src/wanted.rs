//! The content that the Endpoints of a Service should have.

use std::collections::BTreeMap;

use pilothouse_sdk::{ObjectRef, Time};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Error, Map, Value, json};
use services::pod::Pod;
use services::subsets::{Subset, pack};
use services::trigger;

use crate::objects::{Endpoints, Service};
use crate::{MANAGED_BY, pods, subsets};

/// Label for the Endpoints of a Service without a cluster IP. kube-proxy ignores Endpoints that
/// have it.
const HEADLESS: &str = "service.kubernetes.io/headless";
/// Annotation for Endpoints that lack some addresses because the object cannot hold more.
const OVER_CAPACITY: (&str, &str) = ("endpoints.kubernetes.io/over-capacity", "truncated");

/// The members of an object, each as its text: most of Endpoints are their subsets, which are
/// written from what they should be without a look at what they are.
pub type Body = BTreeMap<String, Box<RawValue>>;

/// What the Endpoints should be.
pub struct Wanted {
    labels: BTreeMap<String, String>,
    is_truncated: bool,
    subsets: Vec<Subset>,
}

impl Wanted {
    /// Of a Service with these pods.
    pub fn of(service: &Service, name: &str, pods: &[Pod]) -> Self {
        let endpoints = pods
            .iter()
            .flat_map(|pod| pods::endpoints_of(pod, &service.spec, name));
        let mut subsets = pack(endpoints);
        let is_truncated = subsets::truncate(&mut subsets);

        let mut labels = service.metadata.labels.clone();
        labels.insert(MANAGED_BY.0.to_owned(), MANAGED_BY.1.to_owned());
        labels.remove(HEADLESS);
        if !service.spec.has_cluster_ip() {
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
    pub fn is_met_by(&self, current: &Endpoints) -> bool {
        let over_capacity = current.metadata.annotations.get(OVER_CAPACITY.0);
        let wanted_over_capacity = self.is_truncated.then_some(OVER_CAPACITY.1);
        over_capacity.map(String::as_str) == wanted_over_capacity
            && compared(&current.metadata.labels).eq(compared(&self.labels))
            && subsets::say_the_same(&current.subsets, &self.subsets)
    }

    /// New Endpoints of this content, for a change at this time.
    pub fn created(&self, key: &ObjectRef, trigger: Option<Time>) -> Result<Body, Error> {
        let address = [("namespace", &key.namespace), ("name", &key.name)];
        let metadata = address.map(|(name, value)| (name.to_owned(), value.as_str().into()));
        self.body(Body::new(), Map::from_iter(metadata), trigger)
    }

    /// The Endpoints that are stored as this text, with this content, for a change at this time.
    /// What this controller does not know stays.
    pub fn updated(&self, stored: &str, trigger: Option<Time>) -> Result<Body, Error> {
        let members: Body = serde_json::from_str(stored)?;
        let metadata = members.get("metadata").map_or("{}", |text| text.get());
        let metadata = serde_json::from_str(metadata)?;
        self.body(members, metadata, trigger)
    }

    fn body(
        &self,
        mut members: Body,
        mut metadata: Map<String, Value>,
        trigger: Option<Time>,
    ) -> Result<Body, Error> {
        metadata.insert("labels".to_owned(), json!(self.labels));
        let annotations = [
            (trigger::ANNOTATION, trigger.map(|time| time.to_string())),
            (
                OVER_CAPACITY.0,
                self.is_truncated.then(|| OVER_CAPACITY.1.to_owned()),
            ),
        ];
        annotate(&mut metadata, annotations);
        members.insert("apiVersion".to_owned(), to_raw_value("v1")?);
        members.insert("kind".to_owned(), to_raw_value("Endpoints")?);
        members.insert("metadata".to_owned(), to_raw_value(&metadata)?);
        members.remove("subsets");
        if !self.subsets.is_empty() {
            members.insert("subsets".to_owned(), to_raw_value(&self.subsets)?);
        }
        Ok(members)
    }
}

/// Sets these annotations, and removes those that have no value.
fn annotate<const N: usize>(
    metadata: &mut Map<String, Value>,
    wanted: [(&str, Option<String>); N],
) {
    let mut annotations = match metadata.remove("annotations") {
        Some(Value::Object(annotations)) => annotations,
        _ => Map::new(),
    };
    for (name, value) in wanted {
        match value {
            Some(value) => annotations.insert(name.to_owned(), value.into()),
            None => annotations.remove(name),
        };
    }
    if !annotations.is_empty() {
        metadata.insert("annotations".to_owned(), annotations.into());
    }
}

/// The labels that are compared.
fn compared(labels: &BTreeMap<String, String>) -> impl Iterator<Item = (&String, &String)> {
    labels.iter().filter(|(name, _)| *name != HEADLESS)
}
