//! One reconcile of a Service that selects pods.

use std::collections::BTreeMap;

use pilothouse_sdk::{Event, Failure, Filter, Host, Kind, Outcome, Request, Time};
use serde::{Deserialize, Serialize};
use services::changes::{Changes, deletion};
use services::failures;
use services::pod::Pod;
use services::slice::{MANAGED_BY, SERVICE_NAME, SLICES, Slice};
use services::trigger::TriggerTimes;

use crate::desired::{Desired, address_types};
use crate::distribution::Distribution;
use crate::nodes::Nodes;
use crate::objects::Service;
use crate::packing::{NAME, Packer};
use crate::told;
use crate::topology::{self, Zones};

/// Most endpoints that one outcome writes, which has at most 4 MiB: one endpoint may have 600
/// bytes.
const MOST: usize = 6_000;

/// What a Service remembers.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Memo {
    /// What the last reconcile has seen of the pods.
    times: TriggerTimes,
    /// The Service has hints by annotation, which its Events have told.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_hinted: bool,
}

/// All that is known of the Service.
pub struct Sync<'a> {
    request: &'a Request,
    service: &'a Service,
    pods: Vec<Pod>,
    nodes: Nodes,
    slices: Vec<Slice>,
    packer: Packer<'a>,
    /// When the change happened that this reconcile answers.
    trigger: Option<Time>,
    memo: Memo,
    events: Vec<Event>,
}

impl<'a> Sync<'a> {
    /// Reads it.
    pub fn of(
        request: &'a Request,
        host: &dyn Host,
        service: &'a Service,
        selector: &BTreeMap<String, String>,
        max: usize,
    ) -> Result<Self, Failure> {
        let key = request.key();
        let namespace = Some(&*key.namespace);
        let pods: Vec<Pod> = host.list(Pod::KIND, namespace, &Filter::match_labels(selector))?;
        let nodes = if service.wants_topology() {
            Nodes::all(host)?
        } else {
            Nodes::of(host, &pods)?
        };
        let ours = Filter::match_labels([(SERVICE_NAME, &*key.name), (MANAGED_BY, NAME)]);
        let mut slices: Vec<Slice> = host.list(SLICES, namespace, &ours)?;
        slices.retain(|slice| !slice.is_deleted());

        let known = request.memo::<Memo>();
        let times = TriggerTimes::of(service.metadata.creation_timestamp, &pods);
        let trigger = times.trigger(known.as_ref().map(|memo| &memo.times));
        let is_hinted = known.is_some_and(|memo| memo.is_hinted);
        Ok(Self {
            request,
            service,
            pods,
            nodes,
            slices,
            packer: Packer::of(key, service, max),
            trigger,
            memo: Memo { times, is_hinted },
            events: Vec::new(),
        })
    }

    /// What is to be done.
    ///
    /// What fails for one address type stops nothing of the other but deletes. Within one, new
    /// slices come first and deletes last, so that no endpoint is missing meanwhile.
    pub fn outcome(mut self) -> Result<Outcome, Failure> {
        let key = self.request.key();
        let previous = &self.request.previous;
        let failed = told::failure(key, previous).map(|reason| told::not_updated(key, &reason));
        self.events.extend(failed);
        // Upstream gives up a create in a namespace on its way out; whatever is created is refused.
        let ends = previous.iter().any(failures::is_of_ending_namespace);
        let may_create = !ends && self.service.metadata.always.deletion_timestamp.is_none();

        let types = address_types(&self.service.spec.shared);
        let is_of_type = |slice: &Slice| types.contains(&&*slice.address_type);
        let slices = std::mem::take(&mut self.slices).into_iter();
        let (mut slices, unwanted): (Vec<_>, Vec<_>) = slices.partition(is_of_type);
        self.memo.is_hinted &= unwanted.is_empty();

        let mut without_node = Vec::new();
        let (mut room, mut is_complete) = (MOST, !ends);
        let mut outcome = Outcome::done();
        for address_type in types {
            let (of_type, others) = slices
                .into_iter()
                .partition(|slice| slice.address_type == address_type);
            slices = others;
            let name = &*key.name;
            let spec = &self.service.spec.shared;
            let mut desired = Desired::of(spec, name, address_type, &self.pods, &self.nodes);
            without_node.append(&mut desired.without_node);
            let mut changes = self.packer.reconcile(address_type, of_type, desired);
            self.hint(address_type, &mut changes);
            changes.recycle(|slice| self.packer.owns(slice));
            changes
                .written()
                .for_each(|slice| slice.set_trigger(self.trigger));
            if !may_create {
                changes.create.clear();
            }
            is_complete &= changes.limit(&mut room);
            let is_second = outcome.actions().next().is_some();
            outcome = changes.write(outcome, is_second)?;
        }
        let unwanted = unwanted.iter().map(deletion);
        outcome = unwanted.fold(outcome.always(), Outcome::with);
        // Slices that get no hints, though the Service wants them, are looked at once more.
        let is_final = is_complete && !self.service.wants_topology();
        outcome.settled = is_final && outcome.actions().next().is_some();
        let skipped = told::without_node(key, &without_node);
        let skipped = skipped.map(|reason| told::not_updated(key, &reason));
        let events = self.events.into_iter().chain(skipped);
        let outcome = events.fold(outcome.always(), Outcome::with);
        Ok(outcome.remember(&self.memo)?)
    }

    /// Gives endpoints of an address type their hints, and takes those away that they should not
    /// have.
    fn hint(&mut self, address_type: &str, changes: &mut Changes) {
        let told = if self.service.wants_topology() {
            Zones::of(self.nodes.iter()).hint(changes, &mut self.memo.is_hinted)
        } else {
            match Distribution::of(self.service.spec.traffic_distribution.as_deref()) {
                Some(distribution) => distribution.hint(changes),
                None => topology::remove(changes),
            }
            let had_hints = std::mem::take(&mut self.memo.is_hinted);
            had_hints.then(told::no_hints_wanted)
        };
        let key = self.request.key();
        let event = told.map(|told| told::about_hints(key, &told, address_type));
        self.events.extend(event);
    }
}
