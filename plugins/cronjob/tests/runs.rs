//! CronJobs from run to run, by the host's own rules.

use std::time::Duration;

use cronjob::CronJobController;
use pilothouse_sdk::testing::FakeCluster;
use pilothouse_sdk::{Controller, ObjectRef, Time};
use serde_json::{Value, json};

const MINUTE: u64 = 60;

/// 2016-05-19T09:59:00Z.
const CREATED: u64 = 1_463_651_940;

fn cron_job() -> Value {
    json!({
        "apiVersion": "batch/v1", "kind": "CronJob",
        "metadata": {
            "namespace": "test", "name": "tick", "uid": "tick-uid",
            "creationTimestamp": "2016-05-19T09:59:00Z",
        },
        "spec": {
            "schedule": "*/10 * * * *", "concurrencyPolicy": "Allow",
            "successfulJobsHistoryLimit": 1,
            "jobTemplate": {"spec": {"template": {"spec": {"restartPolicy": "Never"}}}},
        },
    })
}

fn key(kind: &str, name: &str) -> ObjectRef {
    ObjectRef::new(kind, "test", name)
}

fn cluster() -> FakeCluster {
    FakeCluster::new(CronJobController::manifest()).with(cron_job())
}

/// Runs the CronJob so many seconds after it was made, and what is due then. Nothing fails.
fn at(cluster: FakeCluster, seconds: u64) -> FakeCluster {
    let mut cluster = cluster.at(Duration::from_secs(CREATED + seconds));
    let decided = cluster.turn::<CronJobController>("test", "tick");
    assert!(decided.is_ok(), "{decided:?}");
    let runs = cluster.run_due::<CronJobController>();
    let failed: Vec<_> = runs.iter().filter(|run| run.error.is_some()).collect();
    assert!(failed.is_empty(), "{failed:?}");
    cluster
}

/// The names of the Jobs that there are, of those that can be.
fn jobs(cluster: &FakeCluster) -> Vec<u64> {
    let minutes = CREATED / MINUTE..CREATED / MINUTE + 60;
    let name = |minute: &u64| key("batch/v1/Job", &format!("tick-{minute}"));
    let there = minutes.filter(|minute| cluster.object(&name(minute)).is_some());
    there.map(|minute| minute - CREATED / MINUTE).collect()
}

fn status(cluster: &FakeCluster) -> Value {
    let found = cluster.object(&key("batch/v1/CronJob", "tick"));
    found.cloned().unwrap_or_default()["status"].clone()
}

/// The Job of this minute, which has ended well.
fn finish(cluster: FakeCluster, minute: u64) -> FakeCluster {
    let name = format!("tick-{}", CREATED / MINUTE + minute);
    let job = cluster.object(&key("batch/v1/Job", &name)).cloned();
    let mut job = job.unwrap_or_else(|| panic!("there is no {name}"));
    let time = Time(Duration::from_secs(CREATED + minute * MINUTE + 1)).to_string();
    job["status"] = json!({
        "startTime": time, "completionTime": time,
        "conditions": [{"type": "Complete", "status": "True"}],
    });
    cluster.with(job)
}

#[test]
fn a_job_is_started_at_each_time_and_old_ones_go() {
    let cluster = at(cluster(), 30);
    assert_eq!(jobs(&cluster), [0; 0]);
    assert_eq!(status(&cluster), Value::Null);

    let cluster = at(cluster, MINUTE);
    assert_eq!(jobs(&cluster), [1]);
    let active = &status(&cluster)["active"];
    assert_eq!(active.as_array().map(Vec::len), Some(1), "{active}");
    assert_eq!(active[0]["name"], format!("tick-{}", CREATED / MINUTE + 1));
    assert_eq!(status(&cluster)["lastScheduleTime"], "2016-05-19T10:00:00Z");

    let cluster = at(finish(cluster, 1), MINUTE + 5);
    assert_eq!(status(&cluster)["active"], Value::Null);
    assert_eq!(
        status(&cluster)["lastSuccessfulTime"],
        "2016-05-19T10:00:01Z"
    );
    assert_eq!(jobs(&cluster), [1]);

    let cluster = at(cluster, 11 * MINUTE);
    assert_eq!(jobs(&cluster), [1, 11]);
    let cluster = at(finish(cluster, 11), 11 * MINUTE + 5);
    assert_eq!(jobs(&cluster), [11], "one is kept");
    assert_eq!(status(&cluster)["active"], Value::Null);
}

#[test]
fn without_memos_each_run_is_started_once_all_the_same() {
    let cluster = at(cluster().forgetting_memos(), MINUTE);
    assert_eq!(jobs(&cluster), [1]);
    assert_eq!(status(&cluster)["lastScheduleTime"], "2016-05-19T10:00:00Z");
    let cluster = at(cluster, 10 * MINUTE);
    assert_eq!(jobs(&cluster), [1]);
    assert_eq!(status(&cluster)["active"].as_array().map(Vec::len), Some(1));
}

#[test]
fn a_job_replaces_the_one_that_is_active() {
    let mut replacing = cron_job();
    replacing["spec"]["concurrencyPolicy"] = "Replace".into();
    let cluster = at(cluster().with(replacing), MINUTE);
    let cluster = at(cluster, 11 * MINUTE);
    assert_eq!(jobs(&cluster), [11]);
    let active = &status(&cluster)["active"];
    assert_eq!(active.as_array().map(Vec::len), Some(1), "{active}");
    assert_eq!(active[0]["name"], format!("tick-{}", CREATED / MINUTE + 11));
}

/// Upstream's rows "this started but went missing": the server has the Job that no watch has
/// brought.
#[test]
fn a_job_that_is_not_seen_yet_is_not_missing() {
    let cluster = at(cluster(), MINUTE);
    let made = cluster.object(&key("batch/v1/CronJob", "tick")).cloned();
    let mut made = made.unwrap_or_default();
    made["status"]["active"][0]["name"] = "unseen".into();
    made["status"]["active"][0]["uid"] = "unseen-uid".into();
    let unseen = json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"namespace": "test", "name": "unseen", "uid": "unseen-uid"},
    });
    let mut cluster = FakeCluster::new(CronJobController::manifest())
        .with(made.clone())
        .with_unseen(unseen)
        .at(Duration::from_secs(CREATED + 2 * MINUTE));
    let _ = cluster.turn::<CronJobController>("test", "tick");
    assert_eq!(status(&cluster), made["status"], "nothing is written");
}
