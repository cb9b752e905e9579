//! Events, with upstream's reasons and words.

use pilothouse_sdk::{ActionResult, Effect, EffectVerb, Event, ObjectRef};

use crate::objects::{CRON_JOBS, CronJob};

/// The Events of one reconcile, all of them about the CronJob.
pub struct Notes {
    cron_job: ObjectRef,
    pub events: Vec<Event>,
}

impl Notes {
    pub fn about(cron_job: &CronJob) -> Self {
        Self {
            cron_job: cron_job.metadata.always.of_kind(CRON_JOBS),
            events: Vec::new(),
        }
    }

    fn normal(&mut self, reason: &str, action: &str, note: &str) {
        let event = Event::normal(&self.cron_job, reason, action, note);
        self.events.push(event);
    }

    fn warning(&mut self, reason: &str, action: &str, note: &str) {
        let event = Event::warning(&self.cron_job, reason, action, note);
        self.events.push(event);
    }

    /// What became of a write to a Job that the last outcome has asked for.
    pub fn written(&mut self, effect: &Effect) {
        use ActionResult::{AlreadyExists, Answered, Done, Skipped, Unchanged};
        let job = &effect.object.name;
        let why = match &effect.outcome {
            Done(_) => None,
            ActionResult::Conflict(why)
            | ActionResult::NotFound(why)
            | ActionResult::Forbidden(why)
            | ActionResult::Invalid(why)
            | ActionResult::Failed(why) => Some(why),
            // What exists already is looked at in the snapshot.
            AlreadyExists(_) | Unchanged | Skipped | Answered(_) => return,
        };
        match (effect.verb, why) {
            (EffectVerb::Create, None) => {
                self.normal("SuccessfulCreate", "Create", &format!("Created job {job}"));
            }
            (EffectVerb::Create, Some(why)) => {
                self.warning(
                    "FailedCreate",
                    "Create",
                    &format!("Error creating job: {why}"),
                );
            }
            (EffectVerb::Delete, None) => {
                self.normal("SuccessfulDelete", "Delete", &format!("Deleted job {job}"));
            }
            (EffectVerb::Delete, Some(why)) => {
                self.warning("FailedDelete", "Delete", &format!("Deleted job: {why}"));
            }
            _ => {}
        }
    }

    pub fn unexpected(&mut self, job: &str) {
        let note = format!("Saw a job that the controller did not create or forgot: {job}");
        self.warning("UnexpectedJob", "Watch", &note);
    }

    pub fn completed(&mut self, job: &str, end: &str) {
        let note = format!("Saw completed job: {job}, condition: {end}");
        self.normal("SawCompletedJob", "Watch", &note);
    }

    pub fn missing(&mut self, job: &str) {
        let note = format!("Active job went missing: {job}");
        self.normal("MissingJob", "Watch", &note);
    }

    pub fn unknown_time_zone(&mut self, zone: &str, why: &str) {
        let note = format!("invalid timeZone: {zone:?}: {why}");
        self.warning("UnknownTimeZone", "Schedule", &note);
    }

    pub fn zone_in_schedule(&mut self, schedule: &str) {
        let note = format!(
            "CRON_TZ or TZ used in schedule {schedule:?} is not officially supported, see \
             https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
        );
        self.warning("UnsupportedSchedule", "Schedule", &note);
    }

    pub fn unparseable(&mut self, schedule: &str, why: &str) {
        let note = format!("unparseable schedule: {schedule:?} : {why}");
        self.warning("UnparseableSchedule", "Schedule", &note);
    }

    /// Of a schedule that has just been changed, upstream says it in other words.
    pub fn unparseable_change(&mut self, schedule: &str) {
        let note = format!("unparseable schedule for cronjob: {schedule}");
        self.warning("UnParseableCronJobSchedule", "Schedule", &note);
    }

    pub fn invalid(&mut self, schedule: &str, why: &str) {
        let note = format!("invalid schedule: {schedule} : {why}");
        self.warning("InvalidSchedule", "Schedule", &note);
    }

    pub fn many_missed(&mut self) {
        let note = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or \
                    check clock skew";
        self.warning("TooManyMissedTimes", "Schedule", note);
    }

    pub fn still_running(&mut self) {
        let note = "Not starting job because prior execution is running and concurrency policy is \
                    Forbid";
        self.normal("JobAlreadyActive", "Schedule", note);
    }
}
