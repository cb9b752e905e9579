//! EndpointSlices (`discovery.k8s.io/v1`): what is in them, and when parts of them are the same.

use std::collections::BTreeMap;

use pilothouse_sdk::{ObjectRef, OwnerReference, Time};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::service::ServicePort;
use crate::{or_default, trigger};

/// The kind.
pub const SLICES: &str = "discovery.k8s.io/v1/EndpointSlice";
/// Label that names the Service.
pub const SERVICE_NAME: &str = "kubernetes.io/service-name";
/// Label that names the controller that maintains a slice.
pub const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";

/// An EndpointSlice. It is read whole, because it is written whole.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Slice {
    /// All of it, as it was read.
    pub metadata: Map<String, Value>,
    /// `IPv4`, `IPv6` or `FQDN`.
    #[serde(default)]
    pub address_type: String,
    /// The endpoints, at most 1,000.
    #[serde(default, deserialize_with = "or_default")]
    pub endpoints: Vec<Endpoint>,
    /// The ports that all of them have.
    #[serde(default, deserialize_with = "or_default")]
    pub ports: Vec<Port>,
}

impl Slice {
    /// A new slice of an owner, without endpoints. It gets a name when it is created.
    #[must_use]
    pub fn new(owner: &ObjectRef, uid: &str, address_type: &str, ports: Vec<Port>) -> Self {
        let metadata = json!({
            "namespace": owner.namespace,
            "generateName": name_prefix(&owner.name),
            "ownerReferences": [OwnerReference::controller_of(owner, uid)],
        });
        Self {
            metadata: object(metadata),
            address_type: address_type.to_owned(),
            endpoints: Vec::new(),
            ports,
        }
    }

    /// The name. Empty if it is to be created.
    #[must_use]
    pub fn name(&self) -> &str {
        self.text("name")
    }

    /// The namespace.
    #[must_use]
    pub fn namespace(&self) -> &str {
        self.text("namespace")
    }

    /// The uid.
    #[must_use]
    pub fn uid(&self) -> &str {
        self.text("uid")
    }

    fn text(&self, member: &str) -> &str {
        let text = self.metadata.get(member).and_then(Value::as_str);
        text.unwrap_or_default()
    }

    /// Makes a new slice one that replaces the slice of this name.
    pub fn set_name(&mut self, name: &str) {
        self.metadata.insert("name".to_owned(), name.into());
    }

    /// True if it is being deleted.
    #[must_use]
    pub fn is_deleted(&self) -> bool {
        self.metadata.contains_key("deletionTimestamp")
    }

    /// Its labels, or its annotations: a map of texts.
    #[must_use]
    pub fn texts(&self, member: &str) -> BTreeMap<String, String> {
        let members = self.metadata.get(member).and_then(Value::as_object);
        let members = members.into_iter().flatten();
        let texts = members.map(|(name, value)| {
            let value = value.as_str().unwrap_or_default();
            (name.clone(), value.to_owned())
        });
        texts.collect()
    }

    /// Its labels.
    #[must_use]
    pub fn labels(&self) -> BTreeMap<String, String> {
        self.texts("labels")
    }

    /// Replaces its labels, or its annotations.
    pub fn set_texts(&mut self, member: &str, texts: &BTreeMap<String, String>) {
        if texts.is_empty() {
            self.metadata.remove(member);
        } else {
            self.metadata.insert(member.to_owned(), json!(texts));
        }
    }

    /// The owners.
    #[must_use]
    pub fn owners(&self) -> Vec<OwnerReference> {
        let owners = self.metadata.get("ownerReferences").cloned();
        let owners = owners.map(serde_json::from_value::<Vec<OwnerReference>>);
        owners.and_then(Result::ok).unwrap_or_default()
    }

    /// Says when the change happened that a write of it answers. `None`: nobody knows.
    pub fn set_trigger(&mut self, trigger: Option<Time>) {
        let mut annotations = self.texts("annotations");
        match trigger {
            Some(time) => annotations.insert(trigger::ANNOTATION.to_owned(), time.to_string()),
            None => annotations.remove(trigger::ANNOTATION),
        };
        self.set_texts("annotations", &annotations);
    }

    /// The object to write.
    #[must_use]
    pub fn to_object(&self) -> Value {
        let mut slice = json!(self);
        slice["apiVersion"] = "discovery.k8s.io/v1".into();
        slice["kind"] = "EndpointSlice".into();
        slice
    }
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(members) => members,
        _ => Map::new(),
    }
}

/// The beginning of the names of slices: with a hyphen, unless the name of the owner is too long
/// for it.
fn name_prefix(owner: &str) -> String {
    const MAX_NAME: usize = 253;
    let hyphen = if owner.len() < MAX_NAME { "-" } else { "" };
    format!("{owner}{hyphen}")
}

/// An endpoint of a slice.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Endpoint {
    /// Its addresses, which all mean the same.
    pub addresses: Vec<String>,
    /// Whether it is of use.
    pub conditions: EndpointConditions,
    /// What of the topology has no field of its own, which others may have set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deprecated_topology: Option<Value>,
    /// Its name in DNS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
    /// The pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_ref: Option<TargetRef>,
    /// Where it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_name: Option<String>,
    /// Where that is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// Who should use it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hints: Option<Hints>,
}

impl Endpoint {
    /// True if it is known to be ready.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.conditions.ready == Some(true)
    }

    /// What tells it from other endpoints: its addresses, its hostname, and the name of its pod.
    /// Other attributes change in place.
    #[must_use]
    pub fn identity(&self) -> Identity {
        let mut addresses = self.addresses.clone();
        addresses.sort_unstable();
        let target = self.target_ref.clone().unwrap_or_default();
        Identity {
            addresses,
            hostname: self.hostname.clone().unwrap_or_default(),
            namespace: target.namespace,
            name: target.name,
        }
    }

    /// True if an endpoint of the same identity needs no update to become this one. Hints are no
    /// part of that (upstream's `EndpointsEqualBeyondHash`).
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        let target = |endpoint: &Self| {
            let mut target = endpoint.target_ref.clone();
            if let Some(target) = &mut target {
                target.resource_version.clear();
            }
            target
        };
        self.node_name == other.node_name
            && self.zone == other.zone
            && self.conditions == other.conditions
            && target(self) == target(other)
    }
}

/// What tells endpoints apart. Of all endpoints of a slice each is there once.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Identity {
    addresses: Vec<String>,
    hostname: String,
    namespace: String,
    name: String,
}

/// Endpoints, each once.
pub type EndpointSet = BTreeMap<Identity, Endpoint>;

/// Whether an endpoint is of use. `None`: nobody has said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct EndpointConditions {
    /// It serves and is not being deleted, or counts as if.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<bool>,
    /// The pod is ready, also while it is being deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serving: Option<bool>,
    /// The pod is being deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminating: Option<bool>,
}

/// The object that an endpoint stands for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
#[allow(missing_docs, reason = "an ObjectReference of Kubernetes")]
pub struct TargetRef {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub api_version: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub field_path: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub resource_version: String,
}

/// Who should use an endpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Hints {
    /// Clients in these zones.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub for_zones: Vec<Named>,
    /// Clients on these nodes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub for_nodes: Vec<Named>,
}

/// A zone, or a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct Named {
    /// Its name.
    pub name: String,
}

impl Named {
    /// The one of this name.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
        }
    }
}

/// A port of a slice. `None`: nobody has said.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Port {
    /// The name that the Service has for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// `TCP`, `UDP` or `SCTP`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
    /// Its number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<i32>,
    /// The protocol above.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub app_protocol: Option<String>,
}

impl Port {
    /// A Service's port, which has this number in a pod.
    #[must_use]
    pub fn of(port: &ServicePort, number: i32) -> Self {
        Self {
            name: Some(port.name.clone()),
            protocol: Some(port.protocol.clone()),
            port: Some(number),
            app_protocol: port.app_protocol.clone(),
        }
    }
}

/// What groups slices and endpoints: those with the same ports. Upstream's order of ports is by a
/// hash, and no client can rely on it; here it is by name, protocol and number.
#[must_use]
pub fn port_map(ports: &[Port]) -> Vec<Port> {
    let mut ports = ports.to_vec();
    ports.sort();
    ports
}
