//! The Job of one run.

use jiff::Timestamp;
use jiff::tz::Offset;
use serde_json::{Map, Value, json};

use crate::objects::{CRON_JOBS, CronJob};
use crate::schedule::{Millis, SECOND};
use crate::zone::Zone;

/// Annotation for the time that a Job was scheduled for.
const SCHEDULED: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";

/// The name of a run's Job: the CronJob's, and the minute since 1970. Two attempts to start one run
/// use the same name, so that only one succeeds.
pub fn name(cron_job: &CronJob, scheduled: Millis) -> String {
    let minute = scheduled.div_euclid(60 * SECOND);
    format!("{}-{minute}", cron_job.metadata.always.name)
}

/// The Job to create. The template is copied with all that is in it.
pub fn made_from(cron_job: &CronJob, scheduled: Millis, zone: &Zone) -> Value {
    let template = &cron_job.spec.job_template;
    let owner = &cron_job.metadata.always;
    let mut annotations = members(&template["metadata"]["annotations"]);
    annotations.insert(SCHEDULED.to_owned(), rfc3339(scheduled, zone).into());
    let mut metadata = json!({
        "namespace": owner.namespace,
        "name": name(cron_job, scheduled),
        "annotations": annotations,
        "ownerReferences": [owner.controller_reference(CRON_JOBS)],
    });
    let labels = members(&template["metadata"]["labels"]);
    if !labels.is_empty() {
        metadata["labels"] = labels.into();
    }
    json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": metadata, "spec": template["spec"],
    })
}

fn members(value: &Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap_or_default()
}

/// The time on the clocks of a time zone: `2016-05-19T12:00:00+02:00`.
fn rfc3339(time: Millis, zone: &Zone) -> String {
    let second = time.div_euclid(SECOND);
    let offset = zone.offset(second);
    let shown = Timestamp::from_second(second + offset).unwrap_or(Timestamp::MAX);
    let shown = Offset::UTC.to_datetime(shown);
    if offset == 0 {
        return format!("{shown}Z");
    }
    let sign = if offset < 0 { '-' } else { '+' };
    let minutes = offset.abs() / 60;
    format!("{shown}{sign}{:02}:{:02}", minutes / 60, minutes % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2016-05-19T10:00:00Z.
    const TOP_OF_THE_HOUR: Millis = 1_463_652_000_000;

    #[test]
    fn a_time_is_written_on_the_clocks_of_its_zone() {
        let written = |name: &str| {
            let zone = Zone::named(name).unwrap_or_else(|error| panic!("{error}"));
            rfc3339(TOP_OF_THE_HOUR, &zone)
        };
        assert_eq!(written("UTC"), "2016-05-19T10:00:00Z");
        assert_eq!(written("Africa/Accra"), "2016-05-19T10:00:00Z");
        assert_eq!(written("Europe/Rome"), "2016-05-19T12:00:00+02:00");
        assert_eq!(written("America/New_York"), "2016-05-19T06:00:00-04:00");
        assert_eq!(written("America/St_Johns"), "2016-05-19T07:30:00-02:30");
        assert_eq!(written("Asia/Tokyo"), "2016-05-19T19:00:00+09:00");
    }
}
