//! Makes slices of Endpoints.

use std::collections::BTreeMap;

use pilothouse_sdk::ObjectRef;
use services::changes::Changes;
use services::slice::{EndpointSet, MANAGED_BY, Port, SERVICE_NAME, Slice, port_map};
use services::trigger;

use crate::NAME;
use crate::desired::{Desired, Group};
use crate::objects::Endpoints;

/// Mirrors the Endpoints of one Service.
pub struct Mirror<'a> {
    key: &'a ObjectRef,
    uid: &'a str,
    /// Those of the Endpoints, but for those that say something else on a slice.
    labels: BTreeMap<String, String>,
    /// Those of the Endpoints, but for the time of their own last change. What `kubectl apply`
    /// remembers of them is in no cache of the host.
    annotations: BTreeMap<String, String>,
}

impl<'a> Mirror<'a> {
    pub fn of(key: &'a ObjectRef, endpoints: &'a Endpoints) -> Self {
        let mut annotations = endpoints.metadata.annotations.clone();
        annotations.remove(trigger::ANNOTATION);
        Self {
            key,
            uid: &endpoints.metadata.always.uid,
            labels: copied(endpoints.metadata.labels.clone()),
            annotations,
        }
    }

    /// What is to be done with the slices: each group has one, if it has endpoints.
    pub fn reconcile(&self, slices: Vec<Slice>, desired: Desired) -> Changes {
        let mut by_group: BTreeMap<(String, Vec<Port>), Vec<Slice>> = BTreeMap::new();
        for slice in slices {
            let group = (slice.address_type.clone(), port_map(&slice.ports));
            by_group.entry(group).or_default().push(slice);
        }
        let mut changes = Changes::default();
        for ((address_type, ports), endpoints) in desired.groups {
            let group = (address_type.to_owned(), ports.clone());
            let slices = by_group.remove(&group).unwrap_or_default();
            self.group(&mut changes, slices, endpoints, &(address_type, ports));
        }
        changes.delete.extend(by_group.into_values().flatten());
        changes.recycle(|_| true);
        changes
    }

    /// Of several slices of a group all but the first go.
    fn group(
        &self,
        changes: &mut Changes,
        slices: Vec<Slice>,
        endpoints: EndpointSet,
        (address_type, ports): &Group,
    ) {
        if endpoints.is_empty() {
            changes.delete.extend(slices);
            return;
        }
        let mut slices = slices.into_iter();
        let first = slices.next();
        changes.delete.extend(slices);
        let mut new = Slice::new(self.key, self.uid, address_type, ports.clone());
        let mut labels = self.labels.clone();
        labels.insert(SERVICE_NAME.to_owned(), self.key.name.clone());
        labels.insert(MANAGED_BY.to_owned(), NAME.to_owned());
        new.set_texts("labels", &labels);
        new.set_texts("annotations", &self.annotations);
        match first {
            None => {
                new.endpoints = endpoints.into_values().collect();
                changes.create.push(new);
            }
            Some(first) if self.is_right(&first, &endpoints) => changes.unchanged.push(first),
            Some(first) => {
                new.endpoints = endpoints.into_values().collect();
                new.metadata.remove("generateName");
                new.set_name(first.name());
                changes.update.push(new);
            }
        }
    }

    /// True if the slice needs no update. One of earlier Endpoints of the name does.
    fn is_right(&self, slice: &Slice, desired: &EndpointSet) -> bool {
        let endpoints = slice.endpoints.iter();
        let endpoints: BTreeMap<_, _> = endpoints.map(|one| (one.identity(), one)).collect();
        let are_same = endpoints.len() == slice.endpoints.len()
            && endpoints.len() == desired.len()
            && desired.iter().all(|(identity, wanted)| {
                let found = endpoints.get(identity);
                found.is_some_and(|found| wanted.is_same(found))
            });
        let mut owners = slice.owners().into_iter();
        let is_of_others = owners.any(|owner| {
            owner.kind == "Endpoints" && owner.name == self.key.name && owner.uid != self.uid
        });
        are_same
            && !is_of_others
            && copied(slice.labels()) == self.labels
            && slice.texts("annotations") == self.annotations
    }
}

fn copied(mut labels: BTreeMap<String, String>) -> BTreeMap<String, String> {
    labels.retain(|name, _| name != SERVICE_NAME && name != MANAGED_BY);
    labels
}
