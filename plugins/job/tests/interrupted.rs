//! A Job's life, interrupted after each of its writes: however it is, every pod is counted once.

use std::collections::BTreeMap;
use std::time::Duration;

use job::JobController;
use pilothouse_sdk::testing::FakeCluster;
use pilothouse_sdk::{Action, Controller, EffectVerb, ObjectRef, Outcome, Time};
use serde_json::{Value, json};

/// Longer than any back-off.
const STEP: Duration = Duration::from_secs(700);
const MAX_ROUNDS: u32 = 60;

/// A Job in a cluster whose pods end as soon as they are seen, and a host that dies once.
struct Life {
    cluster: FakeCluster,
    now: Duration,
    /// Every pod that was ever created, with the phase in which it ends.
    pods: BTreeMap<String, &'static str>,
    /// The phases in which the next pods end. Those after them succeed.
    script: Vec<&'static str>,
    /// How many writes are sent before the host dies.
    writes_left: Option<usize>,
}

fn job_ref() -> ObjectRef {
    ObjectRef::new("batch/v1/Job", "default", "a")
}

fn pod_ref(name: &str) -> ObjectRef {
    ObjectRef::new("v1/Pod", "default", name)
}

fn job(spec: &Value) -> Value {
    let mut job = json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"namespace": "default", "name": "a", "uid": "job-a"},
        "spec": {
            "selector": {"matchLabels": {"job": "a"}},
            "template": {
                "metadata": {"labels": {"job": "a"}}, "spec": {"containers": [{"name": "c"}]},
            },
        },
    });
    for (name, value) in spec.as_object().into_iter().flatten() {
        job["spec"][name] = value.clone();
    }
    job
}

impl Life {
    fn new(spec: &Value, script: &[&'static str], writes_left: Option<usize>) -> Self {
        let now = Duration::from_secs(1_767_225_600);
        Self {
            cluster: FakeCluster::new(JobController::manifest())
                .at(now)
                .with(job(spec)),
            now,
            pods: BTreeMap::new(),
            script: script.iter().rev().copied().collect(),
            writes_left,
        }
    }

    /// Lives until the Job has ended and nothing is left to write. Returns its status, and whether
    /// the host has died.
    fn live(mut self) -> (Value, BTreeMap<String, &'static str>, bool) {
        for _ in 0..MAX_ROUNDS {
            let wrote = self.round();
            self.end_pods();
            if !wrote && self.has_ended() {
                let status = self.job()["status"].clone();
                self.expect_pods_free();
                return (status, self.pods, self.writes_left.is_none());
            }
        }
        panic!("the Job never ended: {}", self.job());
    }

    fn job(&self) -> &Value {
        self.cluster
            .object(&job_ref())
            .expect("nobody deletes the Job")
    }

    fn has_ended(&self) -> bool {
        let conditions = self.job()["status"]["conditions"].as_array();
        conditions.is_some_and(|conditions| {
            let mut types = conditions.iter().map(|condition| &condition["type"]);
            types.any(|r#type| r#type == "Complete" || r#type == "Failed")
        })
    }

    fn expect_pods_free(&self) {
        for name in self.pods.keys() {
            let pod = self
                .cluster
                .object(&pod_ref(name))
                .cloned()
                .unwrap_or_default();
            let finalizers = pod["metadata"]["finalizers"].as_array().map_or(0, Vec::len);
            assert_eq!(finalizers, 0, "{name} is not free: {pod}");
        }
    }

    /// Runs the Job's key and those of its pods. Returns whether anything was written.
    fn round(&mut self) -> bool {
        self.now += STEP;
        let cluster = FakeCluster::new(JobController::manifest());
        self.cluster = std::mem::replace(&mut self.cluster, cluster).at(self.now);
        let pods = self.pods.keys().map(|name| pod_ref(name));
        let keys: Vec<ObjectRef> = [job_ref()].into_iter().chain(pods).collect();
        let mut wrote = false;
        for key in keys {
            let outcome = self.cluster.reconcile_key::<JobController>(&key);
            let outcome = outcome.expect("the controller decides");
            wrote |= outcome.actions().any(is_write);
            self.carry_out(&key, outcome);
        }
        wrote
    }

    /// Sends the writes of an outcome, or as many as are left before the host dies and forgets.
    fn carry_out(&mut self, key: &ObjectRef, mut outcome: Outcome) {
        let writes = outcome.actions().filter(|action| is_write(action)).count();
        let dies = self.writes_left.is_some_and(|left| left < writes);
        if let Some(left) = &mut self.writes_left {
            if dies {
                keep_writes(&mut outcome, *left);
            } else {
                *left -= writes;
            }
        }
        for effect in self.cluster.apply_key(key, &outcome) {
            if effect.verb == EffectVerb::Create {
                let end = self.script.pop().unwrap_or("Succeeded");
                self.pods.insert(effect.object.name, end);
            }
        }
        if dies {
            self.writes_left = None;
            let cluster = FakeCluster::new(JobController::manifest());
            self.cluster = std::mem::replace(&mut self.cluster, cluster).previous([]);
        }
    }

    /// What a kubelet does: pods end, and those that are to be deleted fail.
    fn end_pods(&mut self) {
        for (name, end) in &self.pods {
            let Some(pod) = self.cluster.object(&pod_ref(name)) else {
                continue;
            };
            let mut pod = pod.clone();
            if pod["status"]["phase"].is_string() || (*end == "Running" && !is_deleted(&pod)) {
                continue;
            }
            let end = if is_deleted(&pod) { "Failed" } else { *end };
            let ended =
                json!({"finishedAt": Time(self.now), "exitCode": u8::from(end == "Failed")});
            pod["status"] = json!({
                "phase": end, "containerStatuses": [{"name": "c", "state": {"terminated": ended}}],
            });
            let cluster = FakeCluster::new(JobController::manifest());
            self.cluster = std::mem::replace(&mut self.cluster, cluster).with(pod);
        }
    }
}

fn is_deleted(pod: &Value) -> bool {
    pod["metadata"]["deletionTimestamp"].is_string()
}

fn is_write(action: &Action) -> bool {
    !matches!(action, Action::Event(_))
}

fn keep_writes(outcome: &mut Outcome, mut left: usize) {
    for stage in &mut outcome.stages {
        stage.actions.retain(|action| {
            let keeps = is_write(action) && left > 0;
            left -= usize::from(keeps);
            keeps
        });
    }
}

fn size(pods: usize) -> i64 {
    i64::try_from(pods).unwrap_or_default()
}

fn counts(status: &Value) -> (i64, i64) {
    let count = |name: &str| status[name].as_i64().unwrap_or_default();
    (count("succeeded"), count("failed"))
}

/// Lives a life once for each of its writes after which the host dies. In each all pods are counted
/// that there ever were, and in the one without a death `wanted` are the succeeded and the failed.
fn every_life_ends(spec: &Value, script: &[&'static str], wanted: (i64, i64), end: &str) {
    for writes in 0.. {
        let (status, pods, has_died) = Life::new(spec, script, Some(writes)).live();
        let succeeded = pods.values().filter(|end| **end == "Succeeded").count();
        let ended = (size(succeeded), size(pods.len() - succeeded));
        assert_eq!(counts(&status), ended, "after {writes} writes: {status}");
        let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
        let last = conditions.last().cloned().unwrap_or_default();
        assert_eq!(last["type"], end, "after {writes} writes: {status}");
        assert_eq!(
            status["active"].as_i64().unwrap_or_default(),
            0,
            "after {writes} writes: {status}"
        );
        if !has_died {
            assert_eq!(ended, wanted, "{status}");
            assert!(writes > 10, "a life has more writes than {writes}");
            return;
        }
    }
}

#[test]
fn a_job_whose_pods_fail_at_first_counts_each_of_them_once() {
    let spec = json!({"parallelism": 2, "completions": 4});
    every_life_ends(
        &spec,
        &["Failed", "Succeeded", "Failed"],
        (4, 2),
        "Complete",
    );
}

#[test]
fn an_indexed_job_counts_each_pod_once() {
    let spec = json!({
        "parallelism": 3, "completions": 3, "completionMode": "Indexed", "backoffLimitPerIndex": 2,
    });
    every_life_ends(
        &spec,
        &["Failed", "Failed", "Succeeded", "Failed"],
        (3, 3),
        "Complete",
    );
}

#[test]
fn a_job_that_fails_counts_the_pods_that_it_deletes() {
    let spec = json!({"parallelism": 3, "completions": 3, "backoffLimit": 0});
    every_life_ends(&spec, &["Running", "Failed", "Running"], (0, 3), "Failed");
}

#[test]
fn a_job_that_replaces_only_ended_pods_counts_each_of_them_once() {
    let spec = json!({
        "parallelism": 2, "completions": 2, "podReplacementPolicy": "Failed",
        "podFailurePolicy": {"rules": [{"action": "Count", "onPodConditions": []}]},
    });
    every_life_ends(&spec, &["Failed", "Failed"], (2, 2), "Complete");
}
