//! Runs the pods of every Job until it is complete or has failed.
//!
//! The rules are those of kube-controller-manager's job controller (`pkg/controller/job` in
//! kubernetes/kubernetes). The README lists them, with the differences.

mod backoff;
mod claim;
mod events;
mod failure_policy;
mod indexes;
mod job;
mod manage;
mod objects;
mod observed;
mod orphans;
mod pods;
mod rest;
mod status;
mod success_policy;
mod sync;
mod template;
mod tracking;
mod verdict;

use pilothouse_sdk::{
    Controller, Event, Failure, Host, Kind, Limits, Manifest, Outcome, Request, Selection, Verb,
};

use backoff::Config;
use objects::{Job, Pod};
use orphans::Leftovers;

/// Enough for a Job of ten thousand pods, as `tests/promises/plugin_cases.rs` shows.
const FUEL: u64 = 2_500_000_000;
const MEMORY: u64 = 128 << 20;

/// The job controller.
pub struct JobController;

impl Controller for JobController {
    fn manifest() -> Manifest {
        Manifest::new("job", env!("CARGO_PKG_VERSION"), Selection::of(Job::KIND))
            .reconciles_also(Selection::of(Pod::KIND))
            .reads_as::<Job>()
            .reads_as::<Pod>()
            .indexes(
                claim::OWNER,
                Pod::KIND,
                [".metadata.ownerReferences[*].name"],
            )
            .writes_subresource(Job::KIND, "status", [Verb::Patch])
            .writes(Pod::KIND, [Verb::Create, Verb::Patch, Verb::Delete])
            .config_schema(&Config::schema())
            .limits(Limits {
                fuel: Some(FUEL),
                memory_bytes: Some(MEMORY),
                ..Limits::default()
            })
    }

    fn reconcile(request: &Request, host: &dyn Host) -> Result<Outcome, Failure> {
        if request.key().kind == Pod::KIND {
            return orphans::reconcile(request, host);
        }
        let key = request.key();
        let job = request.object::<Job>()?;
        if let Some(job) = job.as_ref().filter(|job| is_to_be_run(job))
            && let Some(outcome) = rest::resting(request, job, host.now())?
        {
            return Ok(outcome);
        }
        let owned = claim::owned(host, key)?;
        let leftovers = Leftovers::among(&owned, &key.name, job.as_ref());
        let events = job.as_ref().map(|job| events::about_pods(job, request));
        let mut outcome = match job {
            Some(job) if is_to_be_run(&job) => run(request, host, &job, owned)?,
            _ => Outcome::done(),
        };
        if leftovers.are_of_another {
            outcome = outcome.confirm(key);
        }
        outcome = leftovers
            .actions
            .into_iter()
            .fold(outcome.always(), Outcome::with);
        let events = events.into_iter().flatten();
        Ok(events.fold(outcome.always(), Outcome::with))
    }
}

pilothouse_sdk::register!(JobController);

fn is_to_be_run(job: &Job) -> bool {
    !job.is_managed_by_another() && !job.is_finished()
}

fn run(request: &Request, host: &dyn Host, job: &Job, owned: Vec<Pod>) -> Result<Outcome, Failure> {
    if job.has_known_mode() {
        return sync::sync(request, host, job, owned);
    }
    let note = "Skipped Job sync because completion mode is unknown";
    Ok(Outcome::done().with(Event::warning(
        request.key(),
        "UnknownCompletionMode",
        "Sync",
        note,
    )))
}
