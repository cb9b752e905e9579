//! `test/integration/cronjob`, with the job controller beside this one.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use pilothouse_tests::{WorkloadRig, name_of};
use serde_json::{Value, json};

/// The CronJob's name.
const NAME: &str = "foo";

const PLUGINS: [&str; 2] = ["cronjob", "job"];

/// How long upstream waits for a run: a minute until it is due, and a minute for all else.
const A_MINUTE_AND_MORE: Duration = Duration::from_secs(120);

/// Starts a server with a CronJob of which one run is due, since New Year, and the next one next
/// year; and then the host with both plugins.
async fn rig_with_a_due_run() -> Result<WorkloadRig> {
    let mut rig = WorkloadRig::without_host(&PLUGINS).await?;
    rig.create("cronjobs", &cron_job("0 0 1 1 ?")).await?;
    let last = Timestamp::now() - SignedDuration::from_hours(366 * 24);
    let last = last.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let status = json!({"lastScheduleTime": last});
    rig.merge_status("cronjobs", NAME, &status).await?;
    rig.start_host().await?;
    Ok(rig)
}

/// Upstream's `newCronJob`.
fn cron_job(schedule: &str) -> Value {
    let pod = json!({
        "containers": [{"name": "foo", "image": "bar"}],
        "terminationGracePeriodSeconds": 0, "restartPolicy": "Never",
    });
    json!({
        "apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": NAME},
        "spec": {
            "schedule": schedule, "successfulJobsHistoryLimit": 0,
            "jobTemplate": {"spec": {"template": {"spec": pod}}},
        },
    })
}

/// Waits until there is one object, and returns it. It has one owner, of this kind.
async fn the_only(rig: &WorkloadRig, resource: &str, owner: &str) -> Result<Value> {
    let is_one = |found: &[Value]| found.len() == 1;
    let found = rig.eventually_all(resource, "", "one", is_one).await?;
    let found = found.into_iter().next().context("there is one")?;
    let owners = found["metadata"]["ownerReferences"].as_array();
    let owners = owners.context("it has owners")?;
    ensure!(owners.len() == 1 && owners[0]["kind"] == owner, "{found}");
    Ok(found)
}

/// `TestCronJobLaunchesPodAndCleansUp`, with its real wait for the next minute.
#[tokio::test]
async fn a_cron_job_of_every_minute_gets_a_job_in_the_next_minute_and_that_job_a_pod() -> Result<()>
{
    let mut rig = WorkloadRig::start(&PLUGINS).await?;
    rig.patience = A_MINUTE_AND_MORE;
    let created = Timestamp::now();
    rig.create("cronjobs", &cron_job("* * * * ?")).await?;
    let job = the_only(&rig, "jobs", "CronJob").await?;
    let pod = the_only(&rig, "pods", "Job").await?;
    let owner = &pod["metadata"]["ownerReferences"][0]["name"];
    ensure!(*owner == name_of(&job), "{pod}");
    let due = job["metadata"]["annotations"]["batch.kubernetes.io/cronjob-scheduled-timestamp"]
        .as_str()
        .context("a run has its time")?;
    let due: Timestamp = due.parse()?;
    ensure!(due > created && due.as_second() % 60 == 0, "due at {due}");
    rig.delete("cronjobs", NAME).await
}

/// The second half of that name, which upstream leaves to the deletion after the test.
#[tokio::test]
async fn a_job_that_has_succeeded_is_cleaned_up_and_not_run_again_whatever_becomes_of_the_host()
-> Result<()> {
    let mut rig = rig_with_a_due_run().await?;
    let job = the_only(&rig, "jobs", "CronJob").await?;
    rig.kill_host().await?;
    rig.start_host().await?;
    let is_active = |cron_job: &Value| {
        let active = cron_job["status"]["active"].as_array();
        active.is_some_and(|active| active.len() == 1 && active[0]["name"] == name_of(&job))
    };
    let what = "one whose Job is active";
    rig.eventually("cronjobs", NAME, what, is_active).await?;

    let pod = the_only(&rig, "pods", "Job").await?;
    rig.set_pod_phase(&name_of(&pod), "Succeeded").await?;
    let has_ended = |cron_job: &Value| {
        let status = &cron_job["status"];
        status["active"].is_null() && status["lastSuccessfulTime"].is_string()
    };
    let what = "one whose Job has succeeded";
    rig.eventually("cronjobs", NAME, what, has_ended).await?;
    let are_none = |jobs: &[Value]| jobs.is_empty();
    rig.eventually_all("jobs", "", "gone", are_none).await?;
    let is_told = |events: &[Value]| events.iter().any(is_deletion);
    rig.eventually_all("events", "", "about its deletion", is_told)
        .await?;
    ensure!(rig.list("jobs", "").await?.is_empty(), "it was run again");
    Ok(())
}

fn is_deletion(event: &Value) -> bool {
    event["regarding"]["kind"] == "CronJob" && event["reason"] == "SuccessfulDelete"
}
