//! The controller of ReplicaSets and ReplicationControllers, which differ in little more than their
//! names: it keeps as many pods of a template as there should be (upstream's
//! `pkg/controller/replicaset` and `pkg/controller/replication`).

mod history;
mod objects;
mod scale;
mod status;

use std::collections::BTreeSet;

use pilothouse_sdk::{
    Failure, Filter, Host, Kind, Limits, Manifest, ObjectRef, Outcome, Patch, Projection, Read,
    Request, Selection, Verb, controller_of,
};
use serde_json::{Value, json};

use crate::claim::{Claim, Claimant};
use crate::pod::{PodView, next_available, seconds};
use crate::selector;
use history::History;
use objects::{Named, Pod, Set};
use status::Status;

/// The index of pods, and of the sets themselves, by the uids of their owners.
const OWNER: &str = "owner";

/// Enough for an object of ten thousand pods. One pod takes 150,000, most of it to be
/// decoded; the default is for less than five thousand.
const FUEL: u64 = 2_000_000_000;

/// One of the two kinds.
#[derive(Clone, Copy, Debug)]
pub struct Flavor {
    /// The plugin's name.
    pub name: &'static str,
    /// The kind, such as `apps/v1/ReplicaSet`.
    pub kind: &'static str,
    /// Its `spec.selector` is a map of labels, and no LabelSelector.
    pub selects_by_map: bool,
    /// Its `status.terminatingReplicas` says how many pods are being deleted.
    pub counts_terminating: bool,
}

impl Flavor {
    /// What the plugin reads and writes.
    #[must_use]
    pub fn manifest(&self) -> Manifest {
        let fields = Set::fields();
        let is_read = |field: &&String| {
            self.counts_terminating || field.as_str() != ".status.terminatingReplicas"
        };
        let fields = fields.iter().filter(is_read).map(String::as_str);
        let owners = [".metadata.ownerReferences[*].uid"];
        Manifest::new(
            self.name,
            env!("CARGO_PKG_VERSION"),
            Selection::of(self.kind),
        )
        .reads_only(Read::new(self.kind, fields))
        .reads_as::<Pod>()
        .indexes(OWNER, self.kind, owners)
        .indexes(OWNER, Pod::KIND, owners)
        .writes(Pod::KIND, [Verb::Create, Verb::Patch, Verb::Delete])
        .writes_subresource(self.kind, "status", [Verb::Patch])
        .limits(Limits {
            fuel: Some(FUEL),
            ..Limits::default()
        })
    }

    /// Decides what is to be done about one object.
    ///
    /// # Errors
    ///
    /// A read is denied, or an object cannot be decoded.
    pub fn reconcile(&self, request: &Request, host: &dyn Host) -> Result<Outcome, Failure> {
        let Some(set) = request.object::<Set>()? else {
            return Ok(Outcome::done());
        };
        let selector = match selector::filter(&self.selector(&set.spec.selector)) {
            Ok(selector) => selector,
            Err(reason) => {
                host.error("the selector is invalid", &[("reason", &reason)]);
                return Ok(Outcome::done());
            }
        };
        let round = Round {
            flavor: self,
            key: request.key(),
            set: &set,
            history: History::of(request),
            host,
        };
        round.decide(selector.as_ref())
    }

    /// A `spec.selector` as a LabelSelector.
    fn selector(&self, selector: &Value) -> Value {
        if self.selects_by_map && !selector.is_null() {
            json!({"matchLabels": selector})
        } else {
            selector.clone()
        }
    }
}

/// One reconcile of an object that is there.
struct Round<'a> {
    flavor: &'a Flavor,
    key: &'a ObjectRef,
    set: &'a Set,
    history: History,
    host: &'a dyn Host,
}

impl Round<'_> {
    fn decide(&self, selector: Option<&Filter>) -> Result<Outcome, Failure> {
        let events = self.history.events(self.key);
        let outcome = events.into_iter().fold(Outcome::done(), Outcome::with);
        let metadata = &self.set.metadata.always;
        let (selected, others) = self.pods(selector)?;
        let names: BTreeSet<&str> = selected.iter().map(Pod::name).collect();
        let claimant = Claimant::new(&self.key.kind, metadata);
        let may_be_own = selected.iter().filter(|pod| self.may_claim(pod));
        let terminating = may_be_own.filter(PodView::is_terminating);
        let is_own = |pod: &&Pod| claimant.claim(*pod, true) == Claim::Owned;
        let terminating = terminating.filter(is_own).count();
        let active = selected.iter().chain(&others);
        let active = active.filter(|pod| self.may_claim(pod) && pod.is_active());
        let claims = claimant.claim_all(Pod::KIND, active, |pod| names.contains(pod.name()))?;
        if !claims.are_settled() {
            // What is owned is known when this is done: the key then runs again.
            let outcome = if claims.adoptions.is_empty() {
                outcome
            } else {
                outcome.confirm(self.key)
            };
            let patches = claims.adoptions.into_iter().chain(claims.releases);
            return Ok(patches.fold(outcome, Outcome::with));
        }
        let now = self.host.now();
        let min_ready = seconds(self.set.spec.min_ready_seconds);
        let next = next_available(claims.owned.iter().copied(), min_ready, now);
        let status = Status::new(self, &claims.owned, terminating, now);
        let outcome = self.scale(outcome, claims.owned, &selected)?.always();
        let outcome = match status.patch(self)? {
            Some(patch) => outcome.with(patch),
            None => outcome,
        };
        Ok(if status.is_waiting() && !min_ready.is_zero() {
            outcome.requeue_after(next.unwrap_or(min_ready))
        } else {
            outcome
        })
    }

    /// The pods of the namespace that the selector selects, and those that it does not select and
    /// that have the object as an owner.
    fn pods(&self, selector: Option<&Filter>) -> Result<(Vec<Pod>, Vec<Pod>), Failure> {
        let namespace = Some(self.key.namespace.as_str());
        let selected = match selector {
            Some(selector) => self.host.list_as::<Pod>(namespace, selector)?,
            None => Vec::new(),
        };
        let names: BTreeSet<&str> = selected.iter().map(Pod::name).collect();
        let owned = Filter::index(OWNER, &self.set.metadata.always.uid);
        let owned = self.host.list::<Named>(Pod::KIND, namespace, &owned)?;
        let others = owned.iter().map(|pod| pod.metadata.name.as_str());
        let others = others.filter(|name| !names.contains(name));
        let others = others.map(|name| self.host.get_as::<Pod>(&self.key.namespace, name));
        let others: Vec<Option<Pod>> = others.collect::<Result<_, _>>()?;
        Ok((selected, others.into_iter().flatten().collect()))
    }

    /// True unless the pod's controller is another object, by its kind or its name: upstream looks
    /// for its pods by these, too.
    fn may_claim(&self, pod: &Pod) -> bool {
        let Some(controller) = controller_of(&pod.metadata.owner_references) else {
            return true;
        };
        let kind = self.key.kind.rsplit('/').next();
        kind == Some(controller.kind.as_str()) && controller.name == self.key.name
    }

    /// How many pods there are too many. Negative: too few.
    fn surplus(&self, active: usize) -> i64 {
        let active = i64::try_from(active).unwrap_or(i64::MAX);
        active.saturating_sub(self.set.spec.replicas)
    }

    fn is_being_deleted(&self) -> bool {
        self.set.metadata.always.deletion_timestamp.is_some()
    }

    /// A patch of the object's status.
    fn status_patch(&self, status: &Value) -> Result<Patch, Failure> {
        let uid = &self.set.metadata.always.uid;
        let body = json!({"metadata": {"uid": uid}, "status": status});
        Ok(Patch::merge(self.key, &body)?.subresource("status"))
    }
}
