//! The nodes that a reconcile looks at.

use std::collections::{BTreeMap, BTreeSet};

use pilothouse_sdk::{Failure, Filter, Host, Kind, ObjectRef};
use services::pod::Pod;

use crate::objects::Node;

/// Up to so many nodes are read one by one, so that a change of one runs only the Services that
/// have pods on it. More reads than these cost the host too much memory.
const FEW: usize = 1_000;

/// Nodes by name.
pub struct Nodes(BTreeMap<String, Node>);

impl Nodes {
    /// All nodes.
    pub fn all(host: &dyn Host) -> Result<Self, Failure> {
        let nodes: Vec<Node> = host.list(Node::KIND, None, &Filter::Everything)?;
        let by_name = nodes
            .into_iter()
            .map(|node| (node.metadata.always.name.clone(), node));
        Ok(Self(by_name.collect()))
    }

    /// At least the nodes of these pods, as far as there are such nodes.
    pub fn of(host: &dyn Host, pods: &[Pod]) -> Result<Self, Failure> {
        let names = pods.iter().map(|pod| &*pod.spec.node_name);
        let names: BTreeSet<&str> = names.filter(|name| !name.is_empty()).collect();
        if names.len() > FEW {
            return Self::all(host);
        }
        let mut nodes = BTreeMap::new();
        for name in names {
            let node = host.get::<Node>(&ObjectRef::new(Node::KIND, "", name))?;
            nodes.extend(node.map(|node| (name.to_owned(), node)));
        }
        Ok(Self(nodes))
    }

    /// The node of this name.
    pub fn get(&self, name: &str) -> Option<&Node> {
        self.0.get(name)
    }

    /// All that were read.
    pub fn iter(&self) -> impl Iterator<Item = &Node> {
        self.0.values()
    }
}
