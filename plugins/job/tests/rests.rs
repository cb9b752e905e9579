//! When a Job is looked at again after a run that has written, as the host would run its key.

use std::time::Duration;

use job::JobController;
use pilothouse_sdk::testing::{FakeCluster, Run};
use pilothouse_sdk::{Controller, EffectVerb, ObjectRef};
use serde_json::{Value, json};

const START: Duration = Duration::from_secs(1_767_225_600);

fn job_ref() -> ObjectRef {
    ObjectRef::new("batch/v1/Job", "default", "a")
}

/// A cluster with an indexed Job, which has just created its one pod, and that pod.
fn cluster() -> (FakeCluster, ObjectRef) {
    let job = json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"namespace": "default", "name": "a"},
        "spec": {
            "parallelism": 1, "completions": 1, "completionMode": "Indexed",
            "selector": {"matchLabels": {"job": "a"}},
            "template": {
                "metadata": {"labels": {"job": "a"}}, "spec": {"containers": [{"name": "c"}]},
            },
        },
    });
    let mut cluster = FakeCluster::new(JobController::manifest())
        .at(START)
        .with(job);
    let mut pods = created(&cluster.run_due::<JobController>());
    assert_eq!(pods.len(), 1);
    (cluster, pods.remove(0))
}

/// The pods that these runs have created.
fn created(runs: &[Run]) -> Vec<ObjectRef> {
    let effects = runs.iter().flat_map(|run| &run.effects);
    let created = effects.filter(|effect| effect.verb == EffectVerb::Create);
    created.map(|effect| effect.object.clone()).collect()
}

/// With a change of an object by another client. The server gives it the generation.
fn with_change(
    cluster: FakeCluster,
    object: &ObjectRef,
    change: impl FnOnce(&mut Value),
) -> FakeCluster {
    let mut changed = cluster.object(object).expect("it is there").clone();
    change(&mut changed);
    let metadata = changed["metadata"].as_object_mut();
    metadata.expect("it has metadata").remove("generation");
    cluster.with(changed)
}

fn status(cluster: &FakeCluster) -> &Value {
    &cluster.object(&job_ref()).expect("it is there")["status"]
}

fn runs_of_the_job(runs: &[Run]) -> usize {
    runs.iter().filter(|run| run.key == Some(job_ref())).count()
}

#[test]
fn another_spec_is_acted_upon_at_once() {
    let (cluster, _) = cluster();
    let mut cluster = with_change(cluster, &job_ref(), |job| {
        job["spec"]["parallelism"] = 2.into();
        job["spec"]["completions"] = 2.into();
    });
    let runs = cluster.run_due::<JobController>();
    assert_eq!(created(&runs).len(), 1);
}

#[test]
fn pods_that_end_within_a_second_are_counted_after_it_and_run_nothing_before() {
    let (mut cluster, pod) = cluster();
    for phase in ["Running", "Succeeded"] {
        cluster = with_change(cluster, &pod, |pod| pod["status"] = json!({"phase": phase}));
        assert_eq!(runs_of_the_job(&cluster.run_due::<JobController>()), 0);
    }
    let mut cluster = cluster.at(START + Duration::from_millis(999));
    assert_eq!(runs_of_the_job(&cluster.run_due::<JobController>()), 0);
    assert_eq!(status(&cluster)["succeeded"], Value::Null);

    let mut cluster = cluster.at(START + Duration::from_secs(1));
    cluster.run_due::<JobController>();
    assert_eq!(status(&cluster)["succeeded"], 1);
}
