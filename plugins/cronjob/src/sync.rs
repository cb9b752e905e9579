//! One reconcile of a CronJob: what has happened, what is due, what is to be written.

use std::time::Duration;

use pilothouse_sdk::{
    Create, Delete, Effect, Failure, Host, ObjectRef, Outcome, Patch, Propagation, Request,
};
use serde_json::{Value, json};

use crate::due::{self, History};
use crate::memo::{self, Memo, Started};
use crate::notes::Notes;
use crate::objects::{CronJob, CronJobStatus, JOBS, Job};
use crate::schedule::{Millis, Schedule};
use crate::zone::Zone;
use crate::{job, upkeep};

/// What is to be done about a CronJob besides its upkeep.
#[derive(Default)]
struct Plan {
    /// What deletes the Jobs that the new one replaces.
    replaced: Vec<Delete>,
    /// The Job to create, and the run that it is for.
    start: Option<(Value, Started)>,
    /// How long it is until the next run.
    next: Option<Duration>,
}

pub fn sync(request: &Request, mut cron_job: CronJob, host: &dyn Host) -> Result<Outcome, Failure> {
    let key = request.key();
    let jobs = upkeep::jobs_of(key, host)?;
    let before = cron_job.status.clone();
    let mut notes = Notes::about(&cron_job);
    let told = request.memo::<Memo>();

    let writes: Vec<&Effect> = memo::writes_to_jobs(request).collect();
    for write in &writes {
        notes.written(write);
    }
    if let Some((started, version)) = memo::started(request, told.as_ref()) {
        upkeep::record(&mut cron_job, &jobs, &started, &version, &mut notes);
    }
    upkeep::forget_deleted(&mut cron_job.status.active, &writes);

    let surplus = upkeep::surplus(&cron_job, &jobs);
    let is_surplus = |uid: &str| surplus.iter().any(|job| job.uid() == uid);
    cron_job.status.active.retain(|job| !is_surplus(&job.uid));
    upkeep::look_at(&mut cron_job, &jobs, &mut notes);
    let missing = upkeep::drop_missing(&mut cron_job, &jobs, host, &mut notes)?;

    let is_changed = told.is_some_and(|told| told.differs_from(&cron_job));
    let mut decision = Decision {
        cron_job: &mut cron_job,
        host,
        notes: &mut notes,
        now: due::millis(host.now()),
    };
    let plan = decision.plan(is_changed)?;

    let status = (cron_job.status != before).then(|| status_patch(&cron_job.status));
    let memo = Memo::of(&cron_job, plan.start.as_ref().map(|start| start.1.clone()));
    let outcome = written(key, plan, notes, &surplus, status.as_ref())?.remember(&memo)?;
    Ok(missing.iter().fold(outcome, Outcome::confirm))
}

/// A decision about what is due.
struct Decision<'a> {
    cron_job: &'a mut CronJob,
    host: &'a dyn Host,
    notes: &'a mut Notes,
    now: Millis,
}

impl Decision<'_> {
    fn plan(&mut self, is_changed: bool) -> Result<Plan, Failure> {
        if self.cron_job.metadata.always.deletion_timestamp.is_some() {
            return Ok(Plan::default());
        }
        let zone = self.cron_job.spec.time_zone.as_deref().unwrap_or_default();
        let zone = match Zone::named(zone) {
            Ok(zone) => zone,
            Err(why) => {
                self.notes.unknown_time_zone(zone, &why);
                return Ok(Plan::default());
            }
        };
        if self.cron_job.spec.suspend {
            return Ok(Plan::default());
        }
        let Some(schedule) = self.schedule(is_changed) else {
            return Ok(Plan::default());
        };
        if is_changed {
            // Upstream waits for the next run of the new schedule, whatever was due by it before.
            return Ok(self.wait(&schedule));
        }
        let history = History::of(self.cron_job);
        match history.due(self.now, &schedule) {
            Err(why) => {
                self.notes.invalid(&self.cron_job.spec.schedule, &why);
                Ok(Plan::default())
            }
            Ok(None) => Ok(self.wait(&schedule)),
            Ok(Some((scheduled, is_many))) => {
                if is_many {
                    self.notes.many_missed();
                }
                self.due(scheduled, &schedule, &zone)
            }
        }
    }

    /// The schedule, on the clocks of `spec.timeZone` unless it names a time zone itself.
    fn schedule(&mut self, is_changed: bool) -> Option<Schedule> {
        let spec = &self.cron_job.spec;
        let has_zone = spec.schedule.contains("TZ");
        let text = match &spec.time_zone {
            Some(zone) if !has_zone => format!("TZ={zone} {}", spec.schedule),
            _ => spec.schedule.clone(),
        };
        if has_zone && !is_changed {
            self.notes.zone_in_schedule(&spec.schedule);
        }
        match Schedule::parse(&text) {
            Ok(schedule) => Some(schedule),
            Err(_) if is_changed => {
                self.notes.unparseable_change(&spec.schedule);
                None
            }
            Err(why) => {
                self.notes.unparseable(&spec.schedule, &why);
                None
            }
        }
    }

    /// Nothing but to wait for the next run.
    fn wait(&self, schedule: &Schedule) -> Plan {
        Plan {
            next: History::of(self.cron_job).until_next(self.now, schedule),
            ..Plan::default()
        }
    }

    /// What becomes of a run that is due.
    fn due(
        &mut self,
        scheduled: Millis,
        schedule: &Schedule,
        zone: &Zone,
    ) -> Result<Plan, Failure> {
        let name = job::name(self.cron_job, scheduled);
        let status = &self.cron_job.status;
        let is_active = status.active.iter().any(|job| job.name == name);
        if is_active || status.last_schedule_time == Some(due::time(scheduled)) {
            return Ok(self.wait(schedule));
        }
        let policy = self.cron_job.spec.concurrency_policy.as_str();
        if policy == "Forbid" && !status.active.is_empty() {
            self.notes.still_running();
            return Ok(self.wait(schedule));
        }
        let replaced = match policy {
            "Replace" => self.running()?,
            _ => Vec::new(),
        };
        let start = self.start(&name, scheduled, zone)?;
        if start.is_none() {
            return Ok(Plan {
                replaced,
                ..self.wait(schedule)
            });
        }
        let started = History {
            last: scheduled,
            deadline: None,
        };
        Ok(Plan {
            replaced,
            start,
            next: started.until_next(self.now, schedule),
        })
    }

    /// What deletes the Jobs that are active.
    fn running(&self) -> Result<Vec<Delete>, Failure> {
        let mut deletes = Vec::new();
        for job in &self.cron_job.status.active {
            let object = ObjectRef::new(JOBS, &job.namespace, &job.name);
            let found = self.host.get::<Job>(&object)?;
            let found = found.filter(|found| found.uid() == job.uid);
            deletes.extend(found.map(|found| deletion(&found)));
        }
        Ok(deletes)
    }

    /// The Job to create. One that was created before, and that nobody has taken into the status
    /// since, is only taken into the status.
    fn start(
        &mut self,
        name: &str,
        scheduled: Millis,
        zone: &Zone,
    ) -> Result<Option<(Value, Started)>, Failure> {
        let cron_job = &mut *self.cron_job;
        let owner = cron_job.metadata.always.clone();
        let found = self
            .host
            .get::<Job>(&ObjectRef::new(JOBS, &owner.namespace, name))?;
        let scheduled_time = due::time(scheduled);
        let Some(found) = found else {
            let job = job::made_from(cron_job, scheduled, zone);
            let started = Started {
                job: name.to_owned(),
                scheduled: scheduled_time,
            };
            return Ok(Some((job, started)));
        };
        if found.controller().is_some_and(|by| by.uid == owner.uid) {
            cron_job.status.last_schedule_time = Some(scheduled_time);
            upkeep::add(&mut cron_job.status.active, found.reference(""));
        }
        Ok(None)
    }
}

/// Deletes a Job, whatever has changed in it. The garbage collector deletes its pods afterwards.
fn deletion(job: &Job) -> Delete {
    let delete = Delete::new(&job.key()).uid(job.uid());
    delete.propagation(Propagation::Background)
}

/// The status as a merge patch. It is of the version that the snapshot shows, as an update is.
fn status_patch(status: &CronJobStatus) -> Value {
    let active = Some(&status.active).filter(|active| !active.is_empty());
    json!({
        "metadata": {"resourceVersion": "seen"},
        "status": {
            "active": active,
            "lastScheduleTime": status.last_schedule_time,
            "lastSuccessfulTime": status.last_successful_time,
        },
    })
}

/// The outcome.
///
/// A Job is created though an old one could not be deleted, but not though one that it replaces
/// could not. The status is written in any case.
fn written(
    key: &ObjectRef,
    plan: Plan,
    notes: Notes,
    surplus: &[&Job],
    status: Option<&Value>,
) -> Result<Outcome, Failure> {
    let Plan {
        replaced,
        start,
        next,
    } = plan;
    let is_replacing = !replaced.is_empty();
    let first: Vec<Delete> = surplus.iter().map(|job| deletion(job)).collect();
    let (first, last) = if is_replacing {
        (replaced, first)
    } else {
        (first, Vec::new())
    };

    let mut outcome = notes
        .events
        .into_iter()
        .fold(Outcome::done(), Outcome::with);
    outcome = first.into_iter().fold(outcome, Outcome::with);
    if let Some((job, _)) = &start {
        let stage = if is_replacing {
            outcome.stage()
        } else {
            outcome.always()
        };
        outcome = stage.with(Create::new(job)?);
    }
    outcome = last.into_iter().fold(outcome.always(), Outcome::with);
    if let Some(status) = status {
        outcome = outcome.with(Patch::merge(key, status)?.subresource("status"));
    }
    Ok(match next {
        Some(delay) => outcome.requeue_after(delay),
        None => outcome,
    })
}
