//! CronJobs: each run once.

use pilothouse_tests::What;

use super::{Audit, Event};
use crate::facts::{CronJob, Facts, Of};

/// A Job of a CronJob is named after its run, so a second one of the name would be the same run
/// again. With Forbid none comes while another goes on, and none while the CronJob is suspended.
pub fn judge(audit: &mut Audit, event: &Event) {
    let Some(owner) = &event.now.owner else {
        return;
    };
    let is_new = event.before.is_none() && event.what == What::Added;
    if owner.kind != "CronJob" || !is_new {
        return;
    }
    let name = event.now.name.clone();
    let of_run = audit.cluster.owned(&owner.uid).filter(|job| {
        let latest = job.versions().last();
        latest.is_some_and(|job| job.name == name)
    });
    let of_run = of_run.count();
    audit.check("no run is started twice", of_run == 1, || {
        format!("{of_run} of {name}")
    });
    let Some(track) = audit.cluster.track(&owner.uid) else {
        return;
    };
    let spec = |facts: &Facts| match &facts.of {
        Of::CronJob(cron) => Some(cron.clone()),
        _ => None,
    };
    let wanted: Vec<CronJob> = track.since(event.horizon).filter_map(spec).collect();
    let is_at_rest = wanted.iter().all(|cron| cron.is_suspended);
    audit.check("a suspended CronJob starts nothing", !is_at_rest, || {
        name.clone()
    });
    if wanted.iter().all(|cron| cron.forbids) {
        let jobs = audit.cluster.owned_now(&owner.uid);
        let active = jobs.filter(|job| match &job.of {
            Of::Job(of) => job.name != name && !of.is_over && !job.is_deleting,
            _ => false,
        });
        let active: Vec<String> = active.map(|job| job.name.clone()).collect();
        audit.check(
            "with Forbid no run begins beside another",
            active.is_empty(),
            || format!("{name} beside {active:?}"),
        );
    }
}
