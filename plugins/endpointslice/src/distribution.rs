//! Hints for Services with `spec.trafficDistribution` (upstream's `trafficdist`): every ready
//! endpoint is for the clients in its own zone, or on its own node.

use services::changes::Changes;
use services::slice::{Endpoint, Hints, Named};

/// Whom the endpoints are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distribution {
    /// `PreferClose` and `PreferSameZone`.
    SameZone,
    /// `PreferSameNode`: those on the node, and in its zone.
    SameNode,
}

impl Distribution {
    /// What a Service says. `None`: nothing, or what this version does not know.
    pub fn of(said: Option<&str>) -> Option<Self> {
        match said {
            Some("PreferClose" | "PreferSameZone") => Some(Self::SameZone),
            Some("PreferSameNode") => Some(Self::SameNode),
            _ => None,
        }
    }

    /// Gives the ready endpoints their hints. Slices in which one has other hints are updated.
    pub fn hint(self, changes: &mut Changes) {
        let is_wrong = |one: &Endpoint| one.is_ready() && !self.is_right(one);
        changes.update_if(|slice| slice.endpoints.iter().any(is_wrong));
        let endpoints = changes.written().flat_map(|slice| &mut slice.endpoints);
        for endpoint in endpoints.filter(|endpoint| endpoint.is_ready()) {
            let hints = self.hints(endpoint);
            endpoint.hints = Some(hints).filter(|hints| *hints != Hints::default());
        }
    }

    /// Hints that name nobody are as good as none.
    fn is_right(self, endpoint: &Endpoint) -> bool {
        endpoint.hints.clone().unwrap_or_default() == self.hints(endpoint)
    }

    fn hints(self, endpoint: &Endpoint) -> Hints {
        let named = |name: &Option<String>| name.iter().map(|name| Named::new(name)).collect();
        let for_nodes = match self {
            Self::SameZone => Vec::new(),
            Self::SameNode => named(&endpoint.node_name),
        };
        Hints {
            for_zones: named(&endpoint.zone),
            for_nodes,
        }
    }
}
