//! Packs endpoints into slices with as few writes as possible.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use pilothouse_sdk::ObjectRef;
use services::changes::Changes;
use services::slice::{EndpointSet, MANAGED_BY, Port, SERVICE_NAME, Slice, port_map};

use crate::desired::Desired;
use crate::objects::Service;

/// The value of [`MANAGED_BY`] of the slices that this controller maintains, the same that
/// kube-controller-manager uses.
pub const NAME: &str = "endpointslice-controller.k8s.io";

/// Label for the slices of a Service without a cluster IP. kube-proxy ignores those that have it.
const HEADLESS: &str = "service.kubernetes.io/headless";

/// Packs the endpoints of one Service.
pub struct Packer<'a> {
    key: &'a ObjectRef,
    uid: &'a str,
    /// Of the Service, but for those that say something else on a slice.
    copied: BTreeMap<String, String>,
    /// That all slices should have.
    labels: BTreeMap<String, String>,
    /// Most endpoints of a slice.
    max: usize,
}

impl<'a> Packer<'a> {
    pub fn of(key: &'a ObjectRef, service: &'a Service, max: usize) -> Self {
        let copied = copied(service.metadata.labels.clone());
        let mut labels = copied.clone();
        labels.insert(SERVICE_NAME.to_owned(), key.name.clone());
        labels.insert(MANAGED_BY.to_owned(), NAME.to_owned());
        if !service.spec.shared.has_cluster_ip() {
            labels.insert(HEADLESS.to_owned(), String::new());
        }
        Self {
            key,
            uid: &service.metadata.always.uid,
            copied,
            labels,
            max,
        }
    }

    /// True if the Service owns the slice.
    pub fn owns(&self, slice: &Slice) -> bool {
        let owners = slice.owners();
        let mut owners = owners.iter();
        owners.any(|owner| {
            owner.uid == self.uid && owner.kind == "Service" && owner.api_version == "v1"
        })
    }

    /// What is to be done with all slices of one address type. A Service without endpoints has one
    /// empty slice.
    pub fn reconcile(&self, address_type: &str, slices: Vec<Slice>, desired: Desired) -> Changes {
        let count = slices.len();
        let mut changes = Changes::default();
        let mut by_ports: BTreeMap<Vec<Port>, Vec<Slice>> = BTreeMap::new();
        for slice in slices {
            if self.owns(&slice) {
                let group = by_ports.entry(port_map(&slice.ports));
                group.or_default().push(slice);
            } else {
                changes.delete.push(slice);
            }
        }
        for (ports, endpoints) in desired.groups {
            let slices = by_ports.remove(&ports).unwrap_or_default();
            changes.extend(self.pack(address_type, slices, endpoints, &ports));
        }
        changes.delete.extend(by_ports.into_values().flatten());

        if changes.delete.len() == count && changes.create.is_empty() {
            match changes.delete.as_slice() {
                [only] if self.is_placeholder(only) => {
                    changes.unchanged.append(&mut changes.delete);
                }
                _ => {
                    let placeholder = self.new_slice(address_type, &[]);
                    changes.create.push(placeholder);
                }
            }
        }
        changes
    }

    /// The slices of one group of ports, and the endpoints that should be in them. In three steps:
    ///
    /// 1. What is not desired any more is removed, and what has changed is changed.
    /// 2. The slices that have to be written for that are filled up, the fullest first.
    /// 3. If endpoints are left, and fit into one of the other slices, they are put into the one
    ///    that is nearest to full then. Else new slices are made.
    fn pack(
        &self,
        address_type: &str,
        slices: Vec<Slice>,
        mut desired: EndpointSet,
        ports: &[Port],
    ) -> Changes {
        let mut changes = self.retain(slices, &mut desired);
        if !desired.is_empty() {
            changes
                .update
                .sort_by_key(|slice| Reverse(slice.endpoints.len()));
            for slice in &mut changes.update {
                self.fill(slice, &mut desired);
            }
        }
        while !desired.is_empty() {
            let room = self.best_room(&changes.unchanged, desired.len());
            if let Some(place) = room {
                let mut slice = changes.unchanged.remove(place);
                self.fill(&mut slice, &mut desired);
                changes.update.push(slice);
            } else {
                let mut slice = self.new_slice(address_type, ports);
                self.fill(&mut slice, &mut desired);
                changes.create.push(slice);
            }
        }
        changes
    }

    /// The first step. What is in a slice already is taken out of `desired`.
    fn retain(&self, slices: Vec<Slice>, desired: &mut EndpointSet) -> Changes {
        let mut changes = Changes::default();
        for mut slice in slices {
            let mut kept = Vec::new();
            let mut is_changed = false;
            for endpoint in &slice.endpoints {
                if let Some(wanted) = desired.remove(&endpoint.identity()) {
                    is_changed |= !wanted.is_same(endpoint);
                    kept.push(wanted);
                }
            }
            if is_changed || kept.len() != slice.endpoints.len() {
                slice.endpoints = kept;
                if slice.endpoints.is_empty() {
                    changes.delete.push(slice);
                    continue;
                }
            } else if copied(slice.labels()) == self.copied {
                changes.unchanged.push(slice);
                continue;
            }
            slice.set_texts("labels", &self.labels);
            changes.update.push(slice);
        }
        changes
    }

    /// The slice in which these endpoints fit, and that is nearest to full with them.
    fn best_room(&self, slices: &[Slice], count: usize) -> Option<usize> {
        if count >= self.max {
            return None;
        }
        let room = |slice: &Slice| self.max.checked_sub(count + slice.endpoints.len());
        let rooms = slices.iter().enumerate();
        let rooms = rooms.filter_map(|(place, slice)| Some((room(slice)?, place)));
        rooms.min().map(|(_, place)| place)
    }

    fn fill(&self, slice: &mut Slice, desired: &mut EndpointSet) {
        while slice.endpoints.len() < self.max {
            let Some((_, endpoint)) = desired.pop_first() else {
                return;
            };
            slice.endpoints.push(endpoint);
        }
    }

    fn new_slice(&self, address_type: &str, ports: &[Port]) -> Slice {
        let mut slice = Slice::new(self.key, self.uid, address_type, ports.to_vec());
        slice.set_texts("labels", &self.labels);
        slice
    }

    /// True if the slice is the one of a Service without endpoints. A label without a value is as
    /// good as none, as upstream compares them.
    fn is_placeholder(&self, slice: &Slice) -> bool {
        let said = |labels: BTreeMap<String, String>| {
            let labels = labels.into_iter().filter(|(_, value)| !value.is_empty());
            labels.collect::<BTreeMap<_, _>>()
        };
        let is_labelled = said(slice.labels()) == said(self.labels.clone());
        is_labelled && slice.endpoints.is_empty() && slice.ports.is_empty()
    }
}

/// The labels that a slice has from its Service. What of these differs from the Service's is
/// written; a difference in the others alone is not, as upstream.
fn copied(mut labels: BTreeMap<String, String>) -> BTreeMap<String, String> {
    let is_reserved = |name: &str| [SERVICE_NAME, MANAGED_BY, HEADLESS].contains(&name);
    labels.retain(|name, _| !is_reserved(name));
    labels
}
