//! Runs a pod of every DaemonSet on each node that it is for, and replaces pods when the template
//! changes.
//!
//! The rules are those of kube-controller-manager's daemonset controller (`pkg/controller/daemon`
//! in kubernetes/kubernetes). The README lists them, with the differences.

mod backoff;
mod claims;
mod events;
mod history;
mod manage;
mod objects;
mod placement;
mod rolling;
mod status;
mod template;

use std::time::Duration;

use pilothouse_sdk::{
    Action, Controller, Create, Delete, Event, Failure, Host, Kind, Limits, Manifest, ObjectRef,
    Outcome, Patch, Request, Selection, Verb,
};
use serde_json::{Value, json};
use workloads::pod::{self, seconds};
use workloads::revision::Revision;
use workloads::scheduling::Node;

use backoff::BackOff;
use claims::{BY_OWNER, ClaimableRevision, OWNER_UIDS};
use history::History;
use manage::{Manager, Work};
use objects::{DaemonSet, DaemonSetStatus, Pod};
use placement::{Layout, Placement};
use rolling::{Allowance, Rolling};
use template::PodTemplate;

/// The most pods that one reconcile creates, and the most that it deletes: too many at once could
/// overwhelm a registry.
const BURST: usize = 250;
/// The most bytes of pods that one reconcile creates: an outcome has at most 4 MiB.
const BURST_SIZE: usize = 3 << 20;
/// The most Events of an outcome.
const MAX_EVENTS: usize = 100;

/// What a DaemonSet with a pod on each of 5,000 nodes takes, the most that Kubernetes supports, and
/// as much again.
const FUEL: u64 = 2_000_000_000;
/// Likewise.
const MEMORY: u64 = 128 << 20;

/// The daemonset controller.
pub struct DaemonSetController;

impl Controller for DaemonSetController {
    fn manifest() -> Manifest {
        Manifest::new(
            "daemonset",
            env!("CARGO_PKG_VERSION"),
            Selection::of(DaemonSet::KIND),
        )
        .reads_as::<DaemonSet>()
        .reads_as::<Pod>()
        .reads_as::<Node>()
        .reads_as::<Revision>()
        .indexes(BY_OWNER, Pod::KIND, [OWNER_UIDS])
        .indexes(BY_OWNER, Revision::KIND, [OWNER_UIDS])
        .writes_subresource(DaemonSet::KIND, "status", [Verb::Patch])
        .writes(Pod::KIND, [Verb::Create, Verb::Delete, Verb::Patch])
        .writes(Revision::KIND, [Verb::Create, Verb::Delete, Verb::Patch])
        .limits(Limits {
            fuel: Some(FUEL),
            memory_bytes: Some(MEMORY),
            ..Limits::default()
        })
    }

    fn reconcile(request: &Request, host: &dyn Host) -> Result<Outcome, Failure> {
        let key = request.key();
        let Some(daemon_set) = request.object::<DaemonSet>()? else {
            return Ok(Outcome::done());
        };
        if daemon_set.selects_everything() {
            let note = "This daemon set is selecting all pods. A non-empty selector is required.";
            let event = Event::warning(key, "SelectingAll", "Select", note);
            return Ok(Outcome::done().with(event));
        }
        // Whether the garbage collector has taken its history already is not known, so there is
        // nothing to be said about it any more.
        if daemon_set.metadata.always.deletion_timestamp.is_some() {
            return Ok(Outcome::done());
        }
        let revisions = claims::claim::<ClaimableRevision>(&daemon_set, host)?;
        let pods = claims::claim::<Pod>(&daemon_set, host)?;
        events::see_taken_names(&request.previous, host)?;
        let told = events::of_previous(key, &request.previous);
        let told = told
            .into_iter()
            .take(MAX_EVENTS)
            .map(Action::from)
            .collect();
        let run = Run {
            key,
            daemon_set: &daemon_set,
            host,
            told,
            namespace_ends: events::namespace_ends(&request.previous),
            back_off: BackOff::of(request.memo(), &daemon_set),
        };
        if !(revisions.are_settled() && pods.are_settled()) {
            let adopts = !(revisions.adoptions.is_empty() && pods.adoptions.is_empty());
            let patches = [
                revisions.adoptions,
                revisions.releases,
                pods.adoptions,
                pods.releases,
            ];
            let patches = patches.into_iter().flatten().map(Action::from).collect();
            let outcome = run.before_all(patches, Vec::new())?;
            // One that is being deleted by now adopts nothing.
            return Ok(if adopts {
                outcome.confirm(key)
            } else {
                outcome
            });
        }
        let revisions = revisions.owned.into_iter().map(|revision| revision.0);
        run.on_pods(revisions.collect(), &pods.owned)
    }
}

pilothouse_sdk::register!(DaemonSetController);

/// One reconcile of a DaemonSet that is not being deleted.
struct Run<'a> {
    key: &'a ObjectRef,
    daemon_set: &'a DaemonSet,
    host: &'a dyn Host,
    /// Events about what was done the last time.
    told: Vec<Action>,
    /// No pod can be created any more.
    namespace_ends: bool,
    back_off: BackOff,
}

impl Run<'_> {
    /// An outcome with nothing but these actions: the next reconcile, which they wake, decides on
    /// what they have left.
    fn before_all(self, first: Vec<Action>, then: Vec<Action>) -> Result<Outcome, Failure> {
        let outcome = with_all(with_all(Outcome::done(), self.told), first);
        let outcome = with_all(outcome.stage(), then);
        remember(outcome, self.back_off, self.host.now())
    }

    /// Decides when it is clear which revisions and pods the DaemonSet has.
    fn on_pods(mut self, revisions: Vec<Revision>, pods: &[Pod]) -> Result<Outcome, Failure> {
        let (key, daemon_set, now) = (self.key, self.daemon_set, self.host.now());
        let history = History::of(key, daemon_set, revisions, pods, self.host)?;
        if history.comes_first {
            return self.before_all(history.actions, history.then);
        }
        let placement = Placement::of(&daemon_set.spec.template)?;
        let nodes = placement.nodes(self.host, pods)?;
        let layout = Layout::of(&placement, &nodes, pods);
        let (work, fault) = self.work(&layout, &history.hash, now);
        let surplus = if fault.is_none() {
            history.surplus(pods, daemon_set.history_limit())
        } else {
            Vec::new()
        };
        let status = status::status(daemon_set, &layout, &history.hash, now);
        let next = next_look(daemon_set, pods, work.look_again, now);
        let is_prepared = !history.actions.is_empty();
        let room = MAX_EVENTS - self.told.len();
        let outcome = with_all(with_all(Outcome::done(), self.told), history.actions);
        let outcome = with_work(outcome.stage(), key, daemon_set, &history.hash, work, room)?;
        let outcome = with_all(outcome.stage(), surplus);
        // What has been prepared decides on the status, too.
        let outcome = if is_prepared {
            outcome.stage()
        } else {
            outcome.always()
        };
        let outcome = with_status(outcome, key, daemon_set, &status)?;
        let outcome = match (fault, next) {
            (Some(fault), _) => outcome.retry(fault),
            (None, Some(next)) => outcome.requeue_after(next),
            (None, None) => outcome,
        };
        remember(outcome, self.back_off, now)
    }

    /// What is to be done about the pods, and why old ones cannot be replaced, if that is so. They
    /// are replaced only while nothing else is to be done.
    fn work<'a>(
        &mut self,
        layout: &Layout<'a>,
        hash: &str,
        now: Duration,
    ) -> (Work<'a>, Option<String>) {
        let daemon_set = self.daemon_set;
        let manager = Manager {
            key: self.key,
            daemon_set,
            hash,
            now,
        };
        let mut work = manager.work(layout, &mut self.back_off);
        if work.is_none() && daemon_set.is_rolling() {
            let allowance = match Allowance::of(daemon_set, layout.desired()) {
                Ok(allowance) => allowance,
                Err(reason) => {
                    let fault = format!("couldn't get unavailable numbers: {reason}");
                    return (work, Some(fault));
                }
            };
            let generation = daemon_set.template_generation();
            let rolling = Rolling {
                daemon_set,
                hash,
                generation: generation.as_deref(),
                allowance,
                now,
            };
            let look_again = work.look_again;
            work = Work {
                look_again,
                ..rolling.work(layout)
            };
        }
        if self.namespace_ends {
            work.create_on.clear();
        }
        (work, None)
    }
}

/// Adds the creation and deletion of pods.
fn with_work(
    outcome: Outcome,
    key: &ObjectRef,
    daemon_set: &DaemonSet,
    hash: &str,
    work: Work<'_>,
    room: usize,
) -> Result<Outcome, Failure> {
    let outcome = with_all(outcome, work.events.into_iter().take(room));
    let template = PodTemplate::of(key, daemon_set, hash);
    let mut creates = Vec::new();
    let mut size = 0;
    for node in work.create_on.into_iter().take(BURST) {
        let create = Create::new(&template.on_node(node))?;
        size += create.object.len();
        if size > BURST_SIZE && !creates.is_empty() {
            break;
        }
        creates.push(create);
    }
    let deletes = work.delete.into_iter().take(BURST).map(|pod| {
        let metadata = &pod.metadata.always;
        Delete::new(&metadata.of_kind(Pod::KIND)).uid(&metadata.uid)
    });
    Ok(with_all(with_all(outcome, creates), deletes))
}

/// Adds the status, if it has changed.
fn with_status(
    outcome: Outcome,
    key: &ObjectRef,
    daemon_set: &DaemonSet,
    status: &DaemonSetStatus,
) -> Result<Outcome, Failure> {
    if status::is_current(&daemon_set.status, status) {
        return Ok(outcome);
    }
    let body: Value = json!({"metadata": {"uid": daemon_set.uid()}, "status": status});
    Ok(outcome.with(Patch::merge(key, &body)?.subresource("status")))
}

/// When the key runs again though nothing changes: a pod becomes available, or a failed one is to
/// be deleted.
fn next_look(
    daemon_set: &DaemonSet,
    pods: &[Pod],
    failed: Option<Duration>,
    now: Duration,
) -> Option<Duration> {
    let min_ready = seconds(daemon_set.spec.min_ready_seconds);
    let available = pod::next_available(pods, min_ready, now);
    [available, failed].into_iter().flatten().min()
}

fn remember(outcome: Outcome, back_off: BackOff, now: Duration) -> Result<Outcome, Failure> {
    Ok(match back_off.memo(now) {
        Some(memo) => outcome.remember(&memo)?,
        None => outcome,
    })
}

fn with_all<A: Into<Action>>(outcome: Outcome, actions: impl IntoIterator<Item = A>) -> Outcome {
    actions.into_iter().fold(outcome, Outcome::with)
}
