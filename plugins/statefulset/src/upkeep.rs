//! What is written for the pods of a set and their claims. In order (`OrderedReady`) a pod waits
//! until all before it are available; in parallel none waits.

use std::time::Duration;

use pilothouse_sdk::{Action, Create, Delete, Failure, Patch};
use serde_json::{Map, Value, json};
use workloads::pod::PodView;

use crate::claims::{Claims, Found};
use crate::history::{History, Recorded};
use crate::objects::{Pod, StatefulSet};
use crate::replicas::{Replica, Replicas};
use crate::retention::Owners;
use crate::writes::{Step, Writes};
use crate::{events, identity, ownership, storage};

/// Whether there is more to do in this reconcile.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    GoOn,
    Stop,
}

/// A reconcile of the pods of a set.
pub struct Upkeep<'a> {
    set: &'a StatefulSet,
    history: &'a History,
    claims: Claims<'a>,
    now: Duration,
    /// What has been decided.
    pub writes: Writes,
}

impl<'a> Upkeep<'a> {
    pub fn new(
        set: &'a StatefulSet,
        history: &'a History,
        claims: Claims<'a>,
        now: Duration,
    ) -> Self {
        Self {
            set,
            history,
            claims,
            now,
            writes: Writes::new(),
        }
    }

    /// Decides about all pods. It goes on if nothing is in the way of a rolling update.
    pub fn run(&mut self, replicas: &Replicas<'a>) -> Result<Flow, Failure> {
        let is_ordered = self.set.is_ordered();
        for replica in &replicas.wanted {
            let flow = self.keep(*replica)?;
            if self.writes.are_full() || (is_ordered && flow == Flow::Stop) {
                return Ok(Flow::Stop);
            }
        }
        if self.writes.fault().is_some() {
            return Ok(Flow::Stop);
        }
        for pod in &replicas.condemned {
            let found = self.claims.of(self.set, pod.ordinal().unwrap_or(-1))?;
            self.own(Step::Owners, pod, &found)?;
            if self.writes.are_full() {
                return Ok(Flow::Stop);
            }
        }
        let first_unavailable = replicas.first_unavailable(self.set.min_ready(), self.now);
        for pod in &replicas.condemned {
            let is_first = first_unavailable.is_some_and(|first| first.name() == pod.name());
            self.condemn(pod, is_first);
            if is_ordered || self.writes.are_full() {
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
                self.writes.add(Step::First, delete(pod));
            }
            return Ok(Flow::Stop);
        }
        let found = self.claims.of(self.set, replica.ordinal)?;
        if pod.is_pending() {
            self.create_missing(&found)?;
            if let Some(fault) = deleted_claims(&found) {
                self.writes.fail(fault);
                return Ok(Flow::Stop);
            }
            self.tell_conflicts(replica.ordinal, &pod.metadata.always.uid, &found);
            self.own(Step::First, pod, &found)?;
        }
        let is_waited_for = pod.is_deleted()
            || !pod.is_running_and_ready()
            || !pod.is_available(self.set.min_ready(), self.now);
        if self.set.is_ordered() && is_waited_for {
            return Ok(Flow::Stop);
        }
        self.conform(pod, replica.ordinal, &found)
    }

    /// Makes a pod that exists what its ordinal wants. The claims of one that is pending are seen
    /// to already.
    fn conform(&mut self, pod: &Pod, ordinal: i64, found: &[Found<'_>]) -> Result<Flow, Failure> {
        let is_mounted = storage::matches(self.set, pod, ordinal);
        let is_named = pod.name() == identity::pod_name(self.set, ordinal);
        let is_same = is_named && identity::is_labelled(pod);
        let is_owned = pod.is_pending() || self.patches(pod, found)?.is_empty();
        if is_same && is_mounted && is_owned {
            return Ok(Flow::GoOn);
        }
        if !is_mounted && !pod.is_pending() {
            self.create_missing(found)?;
        }
        let fault = match is_named {
            true if is_mounted => None,
            true => deleted_claims(found),
            false => {
                let (name, wanted) = (pod.name(), identity::pod_name(self.set, ordinal));
                Some(format!(
                    "{name} has no valid name for its ordinal: {wanted}"
                ))
            }
        };
        if let Some(fault) = fault {
            self.fail("Update", pod.name(), fault);
            return Ok(Flow::Stop);
        }
        if !is_owned {
            self.tell_conflicts(ordinal, &pod.metadata.always.uid, found);
            self.own(Step::First, pod, found)?;
        }
        if !is_same || !is_mounted {
            let patch = self.identity_patch(pod, ordinal, is_same, is_mounted)?;
            self.writes.add(Step::First, patch);
        }
        let event = events::pod(self.set, "Update", pod.name(), Ok(()));
        self.writes.add(Step::Owners, event);
        Ok(Flow::GoOn)
    }

    /// Creates a pod, and the claims that it lacks.
    fn create(&mut self, ordinal: i64) -> Result<Flow, Failure> {
        let found = self.claims.of(self.set, ordinal)?;
        let owners = Owners {
            set: self.set,
            ordinal,
            pod_uid: "",
        };
        let mut claims = found.iter().filter_map(|found| found.claim.as_ref());
        if claims.any(|claim| owners.is_stale(claim)) {
            // The garbage collector deletes it, as its pod is gone.
            return Ok(Flow::Stop);
        }
        let is_complete = self.create_missing(&found)?;
        if let Some(fault) = deleted_claims(&found) {
            self.fail("Create", &identity::pod_name(self.set, ordinal), fault);
            return Ok(Flow::Stop);
        }
        let Recorded { name, template } = self.recorded_for(ordinal);
        let pod = Create::new(&identity::new_pod(self.set, template, name, ordinal))?;
        let step = if is_complete { Step::First } else { Step::Pods };
        self.writes.add(step, pod);
        self.tell_conflicts(ordinal, "", &found);
        for patch in patches(&owners, &found)? {
            self.writes.add(Step::First, patch);
        }
        Ok(Flow::Stop)
    }

    /// The revision that a new pod is made from: below the partition the current one, and without a
    /// partition for as many pods as there are of the current one.
    fn recorded_for(&self, ordinal: i64) -> &'a Recorded {
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

    /// Deletes a pod that is not wanted, in order only if it is available, or if nothing before it
    /// is unavailable.
    fn condemn(&mut self, pod: &Pod, is_first_unavailable: bool) {
        let is_well =
            pod.is_running_and_ready() && pod.is_available(self.set.min_ready(), self.now);
        let may_go = is_well || is_first_unavailable || !self.set.is_ordered();
        if may_go && !pod.is_deleted() {
            self.writes.add(Step::Deletions, delete(pod));
        }
    }

    /// Creates the claims that are missing. True if none is.
    fn create_missing(&mut self, found: &[Found<'_>]) -> Result<bool, Failure> {
        let mut is_complete = true;
        for missing in found.iter().filter(|found| found.claim.is_none()) {
            self.writes
                .add(Step::Claims, Create::new(&missing.wanted.object(self.set))?);
            is_complete = false;
        }
        Ok(is_complete)
    }

    /// Warns of claims whose retention policy cannot be followed.
    fn tell_conflicts(&mut self, ordinal: i64, pod_uid: &str, found: &[Found<'_>]) {
        let owners = Owners {
            set: self.set,
            ordinal,
            pod_uid,
        };
        let claims = found.iter().filter_map(|found| found.claim.as_ref());
        for claim in claims.filter(|claim| owners.has_unexpected_controller(claim)) {
            let event = events::conflicting_controller(self.set, claim.name());
            self.writes.add(Step::First, event);
        }
    }

    /// Gives the claims of a pod the owners that the retention policy wants.
    fn own(&mut self, step: Step, pod: &Pod, found: &[Found<'_>]) -> Result<(), Failure> {
        for patch in self.patches(pod, found)? {
            self.writes.add(step, patch);
        }
        Ok(())
    }

    fn patches(&self, pod: &Pod, found: &[Found<'_>]) -> Result<Vec<Patch>, Failure> {
        let ordinal = pod.ordinal().unwrap_or(-1);
        patches(
            &Owners {
                set: self.set,
                ordinal,
                pod_uid: &pod.metadata.always.uid,
            },
            found,
        )
    }

    /// Tells, and notes, why a pod could not be created or updated.
    fn fail(&mut self, verb: &str, pod: &str, fault: String) {
        let event = events::pod(self.set, verb, pod, Err(&fault));
        self.writes.add(Step::First, event);
        self.writes.fail(fault);
    }

    /// A patch that gives a pod the labels and the volumes of its ordinal.
    fn identity_patch(
        &self,
        pod: &Pod,
        ordinal: i64,
        is_labelled: bool,
        is_mounted: bool,
    ) -> Result<Patch, Failure> {
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
        Ok(Patch::strategic(&pod.object(), &body)?)
    }
}

/// Deletes a pod, and no later one of its name.
pub fn delete(pod: &Pod) -> Action {
    Delete::new(&pod.object())
        .uid(&pod.metadata.always.uid)
        .into()
}

/// Patches of the claims that do not have the owners that the retention policy wants.
fn patches(owners: &Owners<'_>, found: &[Found<'_>]) -> Result<Vec<Patch>, Failure> {
    let claims = found.iter().filter_map(|found| found.claim.as_ref());
    let outdated = claims.filter(|claim| !owners.are_up_to_date(claim));
    let patches = outdated.map(|claim| {
        let uid = &claim.metadata.always.uid;
        ownership::set_owners(&claim.object(), uid, &owners.wanted(claim))
    });
    patches.collect()
}

/// That claims are being deleted, so that no pod can use them.
fn deleted_claims(found: &[Found<'_>]) -> Option<String> {
    let claims = found.iter().filter_map(|found| found.claim.as_ref());
    let deleted = claims.filter(|claim| claim.is_deleted());
    let faults = deleted.map(|claim| format!("pvc {} is being deleted", claim.name()));
    let faults: Vec<String> = faults.collect();
    match faults.as_slice() {
        [] => None,
        [fault] => Some(fault.clone()),
        faults => Some(format!("[{}]", faults.join(", "))),
    }
}
