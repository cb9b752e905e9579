//! Starts the Jobs of every CronJob when their time has come, and keeps what has become of them.
//!
//! The rules are those of kube-controller-manager's cronjob controller (`pkg/controller/cronjob` in
//! kubernetes/kubernetes) and of robfig/cron, which it reads schedules with. The README lists the
//! differences.

mod due;
mod job;
mod memo;
mod notes;
mod objects;
mod schedule;
mod sync;
mod upkeep;
mod zone;

use pilothouse_sdk::{
    Controller, Failure, Host, Kind, Manifest, Outcome, Request, Selection, Verb,
};

use objects::{CRON_JOBS, CronJob, JOBS, Job};

/// The index of Jobs by the names of their owners.
const OWNER: &str = "owner";

/// Most questions that one outcome may have confirmed: the contract's limit.
const MAX_QUESTIONS: usize = 100;

/// The cronjob controller.
pub struct CronJobController;

impl Controller for CronJobController {
    fn manifest() -> Manifest {
        Manifest::new(
            "cronjob",
            env!("CARGO_PKG_VERSION"),
            Selection::of(CronJob::KIND),
        )
        .reads_as::<CronJob>()
        .reads_as::<Job>()
        .indexes(OWNER, Job::KIND, [".metadata.ownerReferences[*].name"])
        .writes_subresource(CRON_JOBS, "status", [Verb::Patch])
        .writes(JOBS, [Verb::Create, Verb::Delete])
    }

    fn reconcile(request: &Request, host: &dyn Host) -> Result<Outcome, Failure> {
        match request.object::<CronJob>()? {
            Some(cron_job) => sync::sync(request, cron_job, host),
            // The garbage collector deletes its Jobs.
            None => Ok(Outcome::done()),
        }
    }
}

pilothouse_sdk::register!(CronJobController);
