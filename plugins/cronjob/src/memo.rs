//! What a reconcile leaves for the next one.

use pilothouse_sdk::{ActionResult, Effect, EffectVerb, Request, Time};
use serde::{Deserialize, Serialize};

use crate::objects::{CronJob, JOBS};

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Memo {
    /// The schedule that the last reconcile has followed, by which a change of it is noticed.
    pub schedule: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<String>,
    /// The run that it has asked to start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<Started>,
}

/// A run whose Job has been created, and that the status does not have yet.
#[derive(Clone, Deserialize, Serialize)]
pub struct Started {
    pub job: String,
    pub scheduled: Time,
}

impl Memo {
    pub fn of(cron_job: &CronJob, started: Option<Started>) -> Self {
        Self {
            schedule: cron_job.spec.schedule.clone(),
            time_zone: cron_job.spec.time_zone.clone(),
            started,
        }
    }

    /// True if the CronJob is to follow another schedule than before.
    pub fn differs_from(&self, cron_job: &CronJob) -> bool {
        self.schedule != cron_job.spec.schedule || self.time_zone != cron_job.spec.time_zone
    }
}

/// The writes to Jobs of the last outcome.
pub fn writes_to_jobs(request: &Request) -> impl Iterator<Item = &Effect> {
    let effects = request.previous.iter();
    effects.filter(|effect| effect.object.kind == JOBS && effect.verb != EffectVerb::Event)
}

/// The run that the last outcome has started, and its Job's resourceVersion.
///
/// The Job's own name and uid are not known before it is created, so the status can only have it
/// one reconcile later.
pub fn started(request: &Request, memo: Option<&Memo>) -> Option<(Started, String)> {
    let started = memo?.started.clone()?;
    writes_to_jobs(request).find_map(|effect| match &effect.outcome {
        ActionResult::Done(version)
            if effect.verb == EffectVerb::Create && effect.object.name == started.job =>
        {
            Some((started.clone(), version.clone().unwrap_or_default()))
        }
        _ => None,
    })
}
