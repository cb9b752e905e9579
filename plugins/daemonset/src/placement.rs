//! On which nodes the pods of a DaemonSet belong, and which pods are on which.

use std::collections::BTreeMap;

use pilothouse_sdk::{Failure, Filter, Host};
use serde::Deserialize;
use serde_json::{Value, json};
use workloads::pod::PodView;
use workloads::scheduling::{NO_EXECUTE, NO_SCHEDULE, Node, NodeChoice, RequiredNode, Toleration};

use crate::objects::Pod;
use crate::template;

/// What a node is to a DaemonSet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// It takes a pod.
    Wanted,
    /// It takes no new pod, but one that is there may stay.
    Tolerated,
    /// No pod belongs there.
    Unwanted,
}

/// The part of a template's spec that says where its pods may run.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct TemplateSpec {
    node_name: String,
    #[serde(flatten)]
    choice: NodeChoice,
}

/// Where the pods of a template may run.
pub struct Placement {
    /// Empty: on every node that fits.
    node_name: String,
    choice: NodeChoice,
    required: RequiredNode,
    tolerations: Vec<Toleration>,
}

impl Placement {
    pub fn of(template: &Value) -> Result<Self, Failure> {
        let spec = template.get("spec").cloned().unwrap_or_else(|| json!({}));
        let tolerations = Value::Array(template::tolerations(&spec));
        let TemplateSpec { node_name, choice } = serde_json::from_value(spec)?;
        Ok(Self {
            node_name,
            required: choice.required(),
            choice,
            tolerations: serde_json::from_value(tolerations)?,
        })
    }

    pub fn of_node(&self, node: &Node) -> Place {
        let is_named = self.node_name.is_empty() || self.node_name == node.name();
        let keeps_out = |effects: &[&str]| node.untolerated(&self.tolerations, effects).is_some();
        if !is_named || !self.required.matches(node) || keeps_out(&[NO_EXECUTE]) {
            Place::Unwanted
        } else if keeps_out(&[NO_SCHEDULE]) {
            Place::Tolerated
        } else {
            Place::Wanted
        }
    }

    /// The nodes that matter: those that the node selector selects, and those others that the pods
    /// are on. A node that is not there is left out. So a DaemonSet for a few nodes does not read
    /// thousands of them.
    pub fn nodes(&self, host: &dyn Host, pods: &[Pod]) -> Result<Vec<Node>, Failure> {
        let selector = &self.choice.node_selector;
        let filter = if selector.is_empty() {
            Filter::Everything
        } else {
            Filter::match_labels(selector)
        };
        let nodes: Vec<Node> = host.list_as(None, &filter)?;
        let mut nodes: BTreeMap<String, Node> = nodes
            .into_iter()
            .map(|node| (node.name().to_owned(), node))
            .collect();
        if !selector.is_empty() {
            for name in pods.iter().filter_map(Pod::node) {
                if !nodes.contains_key(name)
                    && let Some(node) = host.get_as::<Node>("", name)?
                {
                    nodes.insert(name.to_owned(), node);
                }
            }
        }
        Ok(nodes.into_values().collect())
    }
}

/// The nodes and the pods on them.
pub struct Layout<'a> {
    /// By name.
    pub places: BTreeMap<&'a str, Place>,
    /// By the name of the node that they are on or meant for, which may be gone. Of each node those
    /// that are scheduled come first, and then the older ones. Those that have ended and are being
    /// deleted are left out: nothing remains to be done about them.
    pub pods: BTreeMap<&'a str, Vec<&'a Pod>>,
}

impl<'a> Layout<'a> {
    pub fn of(placement: &Placement, nodes: &'a [Node], pods: &'a [Pod]) -> Self {
        let places = nodes
            .iter()
            .map(|node| (node.name(), placement.of_node(node)))
            .collect();
        let mut on_nodes: BTreeMap<&str, Vec<&Pod>> = BTreeMap::new();
        for pod in pods {
            if pod.is_terminal() && pod.is_deleted() {
                continue;
            }
            if let Some(node) = pod.node() {
                on_nodes.entry(node).or_default().push(pod);
            }
        }
        for pods in on_nodes.values_mut() {
            pods.sort_by_key(|pod| {
                let is_waiting = pod.spec.node_name.is_empty();
                (is_waiting, pod.metadata.creation_timestamp, pod.name())
            });
        }
        Self {
            places,
            pods: on_nodes,
        }
    }

    pub fn pods_on(&self, node: &str) -> &[&'a Pod] {
        self.pods.get(node).map_or(&[], Vec::as_slice)
    }

    /// How many nodes take a pod.
    pub fn desired(&self) -> usize {
        let places = self.places.values();
        places.filter(|place| **place == Place::Wanted).count()
    }
}
