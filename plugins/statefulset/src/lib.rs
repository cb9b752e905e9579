//! Keeps the pods of every StatefulSet, each with its name and its storage.
//!
//! The rules are those of kube-controller-manager's statefulset controller
//! (`pkg/controller/statefulset` in kubernetes/kubernetes). The README lists them, with the
//! differences.

mod claims;
mod events;
mod history;
mod identity;
mod objects;
mod ownership;
mod replicas;
mod retention;
mod rollout;
mod status;
mod storage;
mod upkeep;
mod writes;

use std::time::Duration;

use pilothouse_sdk::{
    Action, Controller, Failure, Host, Kind, Limits, Manifest, Outcome, Request, Selection, Verb,
};
use workloads::pod::{self, PodView};
use workloads::revision::{self, Revision};

use claims::Claims;
use history::History;
use objects::{Claim, Pod, StatefulSet, Status};
use ownership::{OWNER_INDEX, Ownership};
use replicas::Replicas;
use upkeep::{Flow, Upkeep};

/// The statefulset controller.
pub struct StatefulSetController;

impl Controller for StatefulSetController {
    fn manifest() -> Manifest {
        let version = env!("CARGO_PKG_VERSION");
        Manifest::new("statefulset", version, Selection::of(StatefulSet::KIND))
            .limits(LIMITS)
            .reads_as::<StatefulSet>()
            .reads_as::<Pod>()
            .reads_as::<Claim>()
            .reads(Revision::KIND, REVISION_FIELDS)
            .indexes(OWNER_INDEX, Pod::KIND, [".metadata.ownerReferences[*].uid"])
            .writes_subresource(StatefulSet::KIND, "status", [Verb::Patch])
            .writes(Pod::KIND, [Verb::Create, Verb::Patch, Verb::Delete])
            .writes(Claim::KIND, [Verb::Create, Verb::Patch])
            .writes(Revision::KIND, [Verb::Create, Verb::Patch, Verb::Delete])
    }

    fn reconcile(request: &Request, host: &dyn Host) -> Result<Outcome, Failure> {
        let Some(set) = request.object::<StatefulSet>()? else {
            return Ok(Outcome::done());
        };
        let reports = events::report(&set, &request.previous).into_iter();
        let outcome = with(Outcome::done(), reports.map(Action::from));
        let revisions = revision::list(host, set.namespace(), set.uid(), &set.spec.selector)?;
        let Ownership {
            pods,
            adoptions,
            releases,
        } = Ownership::of(host, &set, &revisions)?;
        if !adoptions.is_empty() || !releases.is_empty() {
            // What is adopted counts at the next reconcile, which the adoption brings about.
            let is_confirmed = adoptions.is_empty();
            let outcome = with(with(outcome, adoptions), releases);
            return Ok(if is_confirmed {
                outcome
            } else {
                outcome.confirm(request.key())
            });
        }
        let history = History::of(host, &set, &revisions)?;
        let sync = Sync {
            host,
            set: &set,
            pods: &pods,
            revisions: &revisions,
            history,
        };
        Ok(events::limited(sync.run(outcome, request.attempt)?))
    }
}

pilothouse_sdk::register!(StatefulSetController);

/// Sets of thousands of pods take more than the host's default, which is enough for some thousand.
const LIMITS: Limits = Limits {
    memory_bytes: None,
    fuel: Some(5_000_000_000),
    timeout: None,
    concurrency: None,
};

/// All fields of a [`Revision`] but its labels, by which the host selects.
const REVISION_FIELDS: [&str; 4] = [
    ".metadata.ownerReferences",
    ".metadata.creationTimestamp",
    ".data",
    ".revision",
];

/// A set with what belongs to it.
struct Sync<'a> {
    host: &'a dyn Host,
    set: &'a StatefulSet,
    pods: &'a [Pod],
    revisions: &'a [Revision],
    history: History,
}

impl Sync<'_> {
    fn run(mut self, outcome: Outcome, attempt: u32) -> Result<Outcome, Failure> {
        let now = self.host.now();
        if let Some(record) = self.history.record.take() {
            // Everything else names the revision, so it waits until that is there.
            let status = self.status(self.pods, 0, now);
            return Ok(with(
                outcome.with(record).stage(),
                self.status_patch(&status)?,
            ));
        }
        if self.set.is_deleted() {
            let status = self.status(self.pods, 0, now);
            return Ok(self.requeue(self.finish(outcome, &status)?, &status, now));
        }
        let replicas = Replicas::of(self.set, self.pods);
        let claims = Claims::new(self.host, self.set, &replicas)?;
        let mut upkeep = Upkeep::new(self.set, &self.history, claims, now);
        let outdated = match upkeep.run(&replicas)? {
            Flow::GoOn => rollout::outdated(self.set, &replicas, &self.history.update.name, now)?,
            Flow::Stop => Vec::new(),
        };
        let writes = upkeep.writes;
        let fault = writes.fault().cloned();
        let is_first = attempt == 1 && writes.is_empty();
        let outcome = writes.add_to(outcome);
        let status = self.status(replicas.pods(), 0, now);
        let outcome = match outdated.is_empty() {
            true => self.finish(outcome, &status)?,
            false => {
                // If the deletions fail, or are not reached, that is the status.
                let before = if is_first {
                    None
                } else {
                    self.status_patch(&status)?
                };
                self.finish_rollout(outcome, &outdated, before, &replicas, now)?
            }
        };
        Ok(match fault {
            Some(fault) => outcome.retry(fault),
            None => self.requeue(outcome, &status, now),
        })
    }

    /// The status with these pods, of which so many are going to be deleted for an update.
    fn status<'b>(
        &self,
        pods: impl IntoIterator<Item = &'b Pod>,
        outdated: usize,
        now: Duration,
    ) -> Status {
        let mut status = status::of(self.set, &self.history, pods, now);
        let outdated = i64::try_from(outdated).unwrap_or(i64::MAX);
        status.current_replicas = status.current_replicas.saturating_sub(outdated).max(0);
        status::complete_update(self.set, &mut status);
        status
    }

    /// Writes the status, if it has to be, whatever has failed; and removes surplus revisions.
    fn finish(&self, outcome: Outcome, status: &Status) -> Result<Outcome, Failure> {
        let outcome = with(outcome.always(), self.status_patch(status)?);
        Ok(with(
            outcome,
            self.history.truncation(self.set, self.pods, self.revisions),
        ))
    }

    /// Writes a status, if there is one, deletes pods of older revisions, and writes the status if
    /// that has succeeded.
    fn finish_rollout(
        &self,
        outcome: Outcome,
        outdated: &[&Pod],
        before: Option<Action>,
        replicas: &Replicas<'_>,
        now: Duration,
    ) -> Result<Outcome, Failure> {
        let status = self.status(replicas.pods(), outdated.len(), now);
        let after = match before {
            Some(_) => Some(status::patch(self.set, &status)?.into()),
            None => self.status_patch(&status)?,
        };
        // One that has ended is being deleted already.
        let outdated = outdated.iter().filter(|pod| !pod.is_terminal());
        let outcome = with(outcome.always(), before).stage();
        let outcome = with(outcome, outdated.map(|pod| upkeep::delete(pod))).stage();
        let surplus = self.history.truncation(self.set, self.pods, self.revisions);
        Ok(with(with(outcome, after).always(), surplus))
    }

    fn status_patch(&self, status: &Status) -> Result<Option<Action>, Failure> {
        let is_needed = status::differs(self.set, status);
        is_needed
            .then(|| Ok(status::patch(self.set, status)?.into()))
            .transpose()
    }

    /// Looks again when the next pod becomes available. If no pod says when that will be, as soon
    /// as one that becomes ready now would be.
    fn requeue(&self, outcome: Outcome, status: &Status, now: Duration) -> Outcome {
        let min_ready = self.set.min_ready();
        if min_ready.is_zero() || status.ready_replicas == status.available_replicas {
            return outcome;
        }
        let next = pod::next_available(self.pods, min_ready, now);
        outcome.requeue_after(next.unwrap_or(min_ready))
    }
}

/// The outcome with more actions in its current stage.
fn with(outcome: Outcome, actions: impl IntoIterator<Item = Action>) -> Outcome {
    actions.into_iter().fold(outcome, Outcome::with)
}
