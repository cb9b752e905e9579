//! What is written for the pods of a set and their claims. In order (`OrderedReady`) a pod waits
//! until all before it are available; in parallel none waits.

use std::time::Duration;

use pilothouse_sdk::{Action, Create, Delete, Event, Failure, Host, Outcome, Patch};
use serde_json::{Map, Value, json};
use workloads::pod::PodView;

use crate::history::{History, Recorded};
use crate::objects::{Claim, Pod, StatefulSet};
use crate::replicas::{Replica, Replicas};
use crate::retention::Owners;
use crate::{events, identity, ownership, storage};

/// Most bytes of pods and claims that one reconcile creates. An outcome has at most 4 MiB; what is
/// left over is created at the next reconcile, which the first pods bring about.
const MAX_BYTES: usize = 3 * 1024 * 1024;

/// Writes, in the order in which they depend on each other.
#[derive(Default)]
pub struct Writes {
    /// What depends on nothing.
    pub first: Vec<Action>,
    /// Claims that are missing.
    pub claims: Vec<Action>,
    /// Pods that wait for these claims.
    pub pods: Vec<Action>,
    /// That what was to be updated has been.
    pub notes: Vec<Event>,
    /// New owners of the claims of condemned pods.
    pub owners: Vec<Action>,
    /// Deletions of condemned pods, which may take their claims along.
    pub deletions: Vec<Action>,
    /// Why not all could be decided: the key runs again.
    pub faults: Vec<String>,
}

impl Writes {
    /// The first reason why not all could be decided.
    pub fn take_fault(&mut self) -> Option<String> {
        let faults = std::mem::take(&mut self.faults);
        faults.into_iter().next()
    }

    /// True if nothing is to be written.
    pub fn is_empty(&self) -> bool {
        let all = [
            &self.first,
            &self.claims,
            &self.pods,
            &self.owners,
            &self.deletions,
        ];
        all.into_iter().all(Vec::is_empty)
    }

    /// Adds the writes to an outcome, what depends on others in later stages.
    pub fn add_to(self, outcome: Outcome) -> Outcome {
        let add = |outcome: Outcome, actions: Vec<Action>| {
            actions.into_iter().fold(outcome, Outcome::with)
        };
        let outcome = add(outcome, self.first);
        let outcome = add(outcome.stage(), self.claims);
        let outcome = add(outcome.stage(), self.pods);
        let notes = self.notes.into_iter().map(Action::from).collect();
        let outcome = add(add(outcome.stage(), notes), self.owners);
        add(outcome.stage(), self.deletions)
    }
}

/// Whether there is more to do in this reconcile.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    GoOn,
    Stop,
}

/// A reconcile of the pods of a set.
pub struct Upkeep<'a> {
    host: &'a dyn Host,
    set: &'a StatefulSet,
    history: &'a History,
    now: Duration,
    /// How many bytes of objects may still be created.
    room: usize,
    /// What has been decided.
    pub writes: Writes,
}

/// A claim that a pod needs, as it is.
struct Found {
    wanted: storage::Wanted,
    claim: Option<Claim>,
}

impl<'a> Upkeep<'a> {
    pub fn new(
        host: &'a dyn Host,
        set: &'a StatefulSet,
        history: &'a History,
        now: Duration,
    ) -> Self {
        Self {
            host,
            set,
            history,
            now,
            room: MAX_BYTES,
            writes: Writes::default(),
        }
    }

    /// Decides about all pods. It goes on if nothing is in the way of a rolling update.
    pub fn run(&mut self, replicas: &Replicas<'a>) -> Result<Flow, Failure> {
        let is_ordered = self.set.is_ordered();
        for replica in &replicas.wanted {
            let flow = self.keep(*replica)?;
            if is_ordered && flow == Flow::Stop {
                return Ok(Flow::Stop);
            }
        }
        if !self.writes.faults.is_empty() {
            return Ok(Flow::Stop);
        }
        for pod in &replicas.condemned {
            let found = self.claims_of(pod.ordinal().unwrap_or(-1))?;
            let patches = self.owner_patches(pod, &found)?;
            self.writes.owners.extend(patches);
        }
        let first_unavailable = replicas.first_unavailable(self.set.min_ready(), self.now);
        for pod in &replicas.condemned {
            let is_first = first_unavailable.is_some_and(|first| first.name() == pod.name());
            let flow = self.condemn(pod, is_first);
            if is_ordered && flow == Flow::Stop {
                return Ok(Flow::Stop);
            }
        }
        Ok(Flow::GoOn)
    }

    /// Sees to one pod that is wanted.
    fn keep(&mut self, replica: Replica<'a>) -> Result<Flow, Failure> {
        let Some(pod) = replica.pod else {
            return self.create(replica.ordinal);
        };
        // The pod comes again at the next reconcile after it is gone.
        if pod.is_terminal() {
            if !pod.is_deleted() {
                self.writes.first.push(delete(pod));
            }
            return Ok(Flow::Stop);
        }
        let found = self.claims_of(replica.ordinal)?;
        let mut are_claims_kept = false;
        if pod.is_pending() {
            self.create_missing(&found)?;
            if let Some(fault) = deleted_claims(&found) {
                self.writes.faults.push(fault);
                return Ok(Flow::Stop);
            }
            self.tell_conflicts(replica.ordinal, &pod.metadata.always.uid, &found);
            let patches = self.owner_patches(pod, &found)?;
            self.writes.first.extend(patches);
            are_claims_kept = true;
        }
        let is_waited_for = pod.is_deleted()
            || !pod.is_running_and_ready()
            || !pod.is_available(self.set.min_ready(), self.now);
        if self.set.is_ordered() && is_waited_for {
            return Ok(Flow::Stop);
        }
        self.conform(pod, replica.ordinal, &found, are_claims_kept)
    }

    /// Makes a pod that exists what its ordinal wants.
    fn conform(
        &mut self,
        pod: &Pod,
        ordinal: i64,
        found: &[Found],
        are_claims_kept: bool,
    ) -> Result<Flow, Failure> {
        let is_mounted = storage::matches(self.set, pod, ordinal);
        let is_named = pod.name() == identity::pod_name(self.set, ordinal);
        let is_same = is_named && identity::is_labelled(pod);
        let patches = if are_claims_kept {
            Vec::new()
        } else {
            self.owner_patches(pod, found)?
        };
        if is_same && is_mounted && patches.is_empty() {
            return Ok(Flow::GoOn);
        }
        let mut fault = None;
        if !is_mounted {
            self.create_missing(found)?;
            fault = deleted_claims(found);
        }
        if !is_named {
            let name = identity::pod_name(self.set, ordinal);
            fault = Some(format!(
                "{} has no valid name for its ordinal: {name}",
                pod.name()
            ));
        }
        if let Some(fault) = fault {
            let event = events::pod(self.set, "Update", pod.name(), Err(&fault));
            self.writes.first.push(event.into());
            self.writes.faults.push(fault);
            return Ok(Flow::Stop);
        }
        if !patches.is_empty() {
            self.tell_conflicts(ordinal, &pod.metadata.always.uid, found);
        }
        self.writes.first.extend(patches);
        if !is_same || !is_mounted {
            self.writes
                .first
                .push(self.identity_patch(pod, ordinal, is_same, is_mounted)?);
        }
        self.writes
            .notes
            .push(events::pod(self.set, "Update", pod.name(), Ok(())));
        Ok(Flow::GoOn)
    }

    /// Creates a pod, and the claims that it lacks.
    fn create(&mut self, ordinal: i64) -> Result<Flow, Failure> {
        if self.room == 0 {
            return Ok(Flow::Stop);
        }
        let found = self.claims_of(ordinal)?;
        let owners = self.owners("", ordinal);
        let claims = found.iter().filter_map(|found| found.claim.as_ref());
        if claims.clone().any(|claim| owners.is_stale(claim)) {
            // The garbage collector deletes it, as its pod is gone.
            return Ok(Flow::Stop);
        }
        let is_complete = self.create_missing(&found)?;
        if let Some(fault) = deleted_claims(&found) {
            let name = identity::pod_name(self.set, ordinal);
            let event = events::pod(self.set, "Create", &name, Err(&fault));
            self.writes.first.push(event.into());
            self.writes.faults.push(fault);
            return Ok(Flow::Stop);
        }
        let Recorded { name, template } = self.recorded_for(ordinal);
        let pod = identity::new_pod(self.set, template, name, ordinal);
        let pod = Create::new(&pod)?;
        self.room = self.room.saturating_sub(pod.object.len());
        match is_complete {
            true => self.writes.first.push(pod.into()),
            false => self.writes.pods.push(pod.into()),
        }
        self.tell_conflicts(ordinal, "", &found);
        let patches = self.patches(&self.owners("", ordinal), &found)?;
        self.writes.first.extend(patches);
        Ok(Flow::Stop)
    }

    /// The revision that a new pod is made from: below the partition the current one, and without a
    /// partition for as many pods as there are of the current one.
    fn recorded_for(&self, ordinal: i64) -> &Recorded {
        let strategy = &self.set.spec.update_strategy;
        let kept = match &strategy.rolling_update {
            Some(rolling) => rolling.partition,
            None if strategy.r#type == "RollingUpdate" => self.set.status.current_replicas,
            None => 0,
        };
        let is_kept = ordinal < self.set.ordinals().start + kept;
        if is_kept {
            &self.history.current
        } else {
            &self.history.update
        }
    }

    /// Deletes a pod that is not wanted, as soon as its turn has come.
    fn condemn(&mut self, pod: &Pod, is_first_unavailable: bool) -> Flow {
        let is_ordered = self.set.is_ordered();
        if pod.is_deleted() {
            return Flow::Stop;
        }
        let is_well =
            pod.is_running_and_ready() && pod.is_available(self.set.min_ready(), self.now);
        if is_ordered && !is_well && !is_first_unavailable {
            return Flow::Stop;
        }
        self.writes.deletions.push(delete(pod));
        Flow::Stop
    }

    /// The claims that a pod of this ordinal needs, as they are.
    fn claims_of(&self, ordinal: i64) -> Result<Vec<Found>, Failure> {
        let wanted = storage::claims(self.set, ordinal).into_iter();
        let found = wanted.map(|wanted| {
            let claim = self.host.get_as(self.set.namespace(), &wanted.name)?;
            Ok(Found { wanted, claim })
        });
        found.collect()
    }

    /// Creates the claims that are missing. True if none is.
    fn create_missing(&mut self, found: &[Found]) -> Result<bool, Failure> {
        let mut is_complete = true;
        for missing in found.iter().filter(|found| found.claim.is_none()) {
            let create = Create::new(&missing.wanted.object)?;
            self.room = self.room.saturating_sub(create.object.len());
            self.writes.claims.push(create.into());
            is_complete = false;
        }
        Ok(is_complete)
    }

    fn owners<'b>(&'b self, pod_uid: &'b str, ordinal: i64) -> Owners<'b> {
        Owners {
            set: self.set,
            ordinal,
            pod_uid,
        }
    }

    /// Warns of claims whose retention policy cannot be followed.
    fn tell_conflicts(&mut self, ordinal: i64, pod_uid: &str, found: &[Found]) {
        let owners = Owners {
            set: self.set,
            ordinal,
            pod_uid,
        };
        let claims = found.iter().filter_map(|found| found.claim.as_ref());
        for claim in claims.filter(|claim| owners.has_unexpected_controller(claim)) {
            let event = events::conflicting_controller(self.set, claim.name());
            self.writes.first.push(event.into());
        }
    }

    fn owner_patches(&self, pod: &Pod, found: &[Found]) -> Result<Vec<Action>, Failure> {
        let ordinal = pod.ordinal().unwrap_or(-1);
        self.patches(&self.owners(&pod.metadata.always.uid, ordinal), found)
    }

    /// Patches of the claims that do not have the owners that the retention policy wants.
    fn patches(&self, owners: &Owners<'_>, found: &[Found]) -> Result<Vec<Action>, Failure> {
        let claims = found.iter().filter_map(|found| found.claim.as_ref());
        let outdated = claims.filter(|claim| !owners.are_up_to_date(claim));
        let patches = outdated.map(|claim| {
            let uid = &claim.metadata.always.uid;
            let patch = ownership::set_owners(&claim.object(), uid, &owners.wanted(claim))?;
            Ok(patch.into())
        });
        patches.collect()
    }

    /// A patch that gives a pod the labels and the volumes of its ordinal.
    fn identity_patch(
        &self,
        pod: &Pod,
        ordinal: i64,
        is_labelled: bool,
        is_mounted: bool,
    ) -> Result<Action, Failure> {
        let mut body = json!({"metadata": {"uid": pod.metadata.always.uid}});
        if !is_labelled {
            let labels = identity::labels(self.set, ordinal).into_iter();
            let labels = labels.map(|(label, value)| (label.to_owned(), value.into()));
            body["metadata"]["labels"] = Value::Object(labels.collect::<Map<_, _>>());
        }
        if !is_mounted {
            let mut volumes = storage::volumes(self.set, ordinal);
            for volume in &mut volumes {
                volume["$retainKeys"] = json!(["name", "persistentVolumeClaim"]);
            }
            body["spec"]["volumes"] = volumes.into();
        }
        Ok(Patch::strategic(&pod.object(), &body)?.into())
    }
}

/// Deletes a pod, and no later one of its name.
pub fn delete(pod: &Pod) -> Action {
    Delete::new(&pod.object())
        .uid(&pod.metadata.always.uid)
        .into()
}

/// That claims are being deleted, so that no pod can use them.
fn deleted_claims(found: &[Found]) -> Option<String> {
    let claims = found.iter().filter_map(|found| found.claim.as_ref());
    let deleted = claims.filter(|claim| claim.is_deleted());
    let faults: Vec<String> = deleted
        .map(|claim| format!("pvc {} is being deleted", claim.name()))
        .collect();
    match faults.as_slice() {
        [] => None,
        [fault] => Some(fault.clone()),
        faults => Some(format!("[{}]", faults.join(", "))),
    }
}
