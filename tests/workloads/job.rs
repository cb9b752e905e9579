//! `test/integration/job`. Each test names the one of upstream that it re-expresses. What is left
//! out stands in `plugins/job/cases/LEFT_OUT.md`.

mod ends;
mod indexed;
mod lifecycle;
mod orphans;
mod policies;

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use http::Method;
use k8s_openapi::jiff::Timestamp;
use pilothouse_tests::{WorkloadRig, name_of, now};
use serde_json::{Value, json};

pub const TRACKING: &str = "batch.kubernetes.io/job-tracking";
pub const INDEX: &str = "batch.kubernetes.io/job-completion-index";
/// A finalizer that nobody takes off: what has it stays.
pub const BLOCKING: &str = "fake.example.com/block-deletion";

/// A rig with the plugin. Failed pods are replaced at once, unless a test says otherwise.
pub struct Jobs {
    pub rig: WorkloadRig,
}

/// What the status of a Job says, and how many of its pods are active.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub active: i64,
    pub ready: i64,
    pub succeeded: i64,
    pub failed: i64,
    pub terminating: i64,
}

pub fn active(active: i64) -> Counts {
    Counts {
        active,
        ..Counts::default()
    }
}

impl Counts {
    pub fn ready(self, ready: i64) -> Self {
        Self { ready, ..self }
    }

    pub fn succeeded(self, succeeded: i64) -> Self {
        Self { succeeded, ..self }
    }

    pub fn failed(self, failed: i64) -> Self {
        Self { failed, ..self }
    }

    pub fn terminating(self, terminating: i64) -> Self {
        Self {
            terminating,
            ..self
        }
    }

    fn of(status: &Value) -> Self {
        let count = |name: &str| status[name].as_i64().unwrap_or_default();
        Self {
            active: count("active"),
            ready: count("ready"),
            succeeded: count("succeeded"),
            failed: count("failed"),
            terminating: count("terminating"),
        }
    }
}

impl Jobs {
    pub async fn start() -> Result<Self> {
        Self::start_with_back_off(0).await
    }

    /// With so many seconds of back-off after the first failure.
    pub async fn start_with_back_off(seconds: u64) -> Result<Self> {
        let mut rig = WorkloadRig::without_host(&["job"]).await?;
        let settings = format!("[config]\npodFailureBackOffSeconds = {seconds}\n");
        rig.configure("job", &settings)?;
        rig.start_host().await?;
        Ok(Self { rig })
    }

    /// Creates a Job with this spec, in which a template need not be.
    pub async fn create(&self, name: &str, spec: Value) -> Result<Value> {
        let mut spec = spec;
        let pod = &mut spec["template"]["spec"];
        if pod["containers"].is_null() {
            pod["containers"] = json!([{"name": "main-container", "image": "foo"}]);
        }
        if pod["restartPolicy"].is_null() {
            pod["restartPolicy"] = "Never".into();
        }
        let job = json!({
            "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec,
        });
        self.rig.create("jobs", &job).await
    }

    pub async fn change(&self, name: &str, spec: &Value) -> Result<()> {
        let patch = json!({"spec": spec});
        self.rig.merge("jobs", name, &patch).await.map(drop)
    }

    pub async fn status(&self, name: &str) -> Result<Value> {
        Ok(self.rig.get("jobs", name).await?["status"].clone())
    }

    /// Waits until the status has these counts. It returns the status.
    pub async fn until(&self, name: &str, wanted: Counts) -> Result<Value> {
        let what = format!("{wanted:?}");
        let is_so = |job: &Value| Counts::of(&job["status"]) == wanted;
        let job = self.rig.eventually("jobs", name, &what, is_so).await?;
        Ok(job["status"].clone())
    }

    /// Waits until the status has these counts, and so many pods are active.
    pub async fn until_pods(&self, name: &str, wanted: Counts) -> Result<Value> {
        let status = self.until(name, wanted).await?;
        let wanted = usize::try_from(wanted.active)?;
        let count = |pods: &[Value]| pods.iter().filter(|pod| is_active(pod)).count();
        let what = format!("{wanted} active ones");
        let labels = format!("job-name={name}");
        let are_so = |pods: &[Value]| count(pods) == wanted;
        self.rig
            .eventually_all("pods", &labels, &what, are_so)
            .await?;
        Ok(status)
    }

    /// Waits until the status has a condition of this type that is true, and returns it.
    pub async fn until_condition(&self, name: &str, r#type: &str) -> Result<Value> {
        let has = |job: &Value| true_condition(&job["status"], r#type).is_some();
        let job = self.rig.eventually("jobs", name, r#type, has).await?;
        Ok(true_condition(&job["status"], r#type)
            .cloned()
            .unwrap_or_default())
    }

    pub async fn pods(&self, name: &str) -> Result<Vec<Value>> {
        self.rig.list("pods", &format!("job-name={name}")).await
    }

    pub async fn active_pods(&self, name: &str) -> Result<Vec<Value>> {
        let mut pods = self.pods(name).await?;
        pods.retain(is_active);
        Ok(pods)
    }

    /// Says of so many active pods that they have ended in this phase.
    pub async fn end(&self, name: &str, phase: &str, count: usize) -> Result<()> {
        let pods = self.active_pods(name).await?;
        ensure!(
            pods.len() >= count,
            "of {name} only {} pods are active",
            pods.len()
        );
        for pod in &pods[..count] {
            self.end_pod(&name_of(pod), phase, 0).await?;
        }
        Ok(())
    }

    /// Says of a pod that it has ended in this phase, its container with this exit code.
    pub async fn end_pod(&self, pod: &str, phase: &str, exit_code: i32) -> Result<()> {
        let terminated = json!({"finishedAt": now(), "exitCode": exit_code});
        let container = json!({
            "name": "main-container", "image": "foo", "imageID": "", "ready": false,
            "restartCount": 0, "state": {"terminated": terminated},
        });
        let not_ready = json!({"type": "Ready", "status": "False", "lastTransitionTime": now()});
        let status = json!({
            "phase": phase, "conditions": [not_ready], "containerStatuses": [container],
        });
        self.rig.merge_status("pods", pod, &status).await.map(drop)
    }

    /// Waits for an active pod of this index, and says that it has ended in this phase.
    pub async fn end_index(&self, name: &str, phase: &str, index: i64) -> Result<()> {
        let pod = self.active_pod_of(name, index).await?;
        self.end_pod(&name_of(&pod), phase, 0).await
    }

    /// Waits for an active pod of this index.
    pub async fn active_pod_of(&self, name: &str, index: i64) -> Result<Value> {
        let labels = format!("job-name={name},{}={index}", INDEX.replace('/', "%2F"));
        let find = |pods: &[Value]| pods.iter().find(|pod| is_active(pod)).cloned();
        let what = "ever active";
        let has = |pods: &[Value]| find(pods).is_some();
        let pods = self.rig.eventually_all("pods", &labels, what, has).await?;
        find(&pods).context("a pod is active")
    }

    /// The indexes of active pods, and those of the status that have succeeded and failed.
    pub async fn expect_indexes(
        &self,
        name: &str,
        active: &[i64],
        completed: &str,
        failed: Option<&str>,
    ) -> Result<()> {
        let status = self.status(name).await?;
        let has = status["completedIndexes"].as_str().unwrap_or_default();
        ensure!(
            has == completed,
            "{completed:?} are to be completed: {status}"
        );
        let has = status["failedIndexes"].as_str();
        ensure!(has == failed, "{failed:?} are to be failed: {status}");
        let indexes = |pods: &[Value]| -> BTreeSet<i64> {
            let active = pods.iter().filter(|pod| is_active(pod));
            let index = |pod: &Value| pod["metadata"]["annotations"][INDEX].as_str()?.parse().ok();
            active.filter_map(index).collect()
        };
        let wanted: BTreeSet<i64> = active.iter().copied().collect();
        let are_so = |pods: &[Value]| indexes(pods) == wanted;
        let labels = format!("job-name={name}");
        let what = format!("active at {wanted:?}");
        let pods = self
            .rig
            .eventually_all("pods", &labels, &what, are_so)
            .await?;
        for pod in pods.iter().filter(|pod| is_active(pod)) {
            let index = &pod["metadata"]["annotations"][INDEX];
            let hostname = format!("{name}-{}", index.as_str().unwrap_or_default());
            ensure!(pod["spec"]["hostname"] == *hostname, "{pod}");
            ensure!(name_of(pod).starts_with(&format!("{hostname}-")), "{pod}");
            let variable = &pod["spec"]["containers"][0]["env"][0];
            ensure!(variable["name"] == "JOB_COMPLETION_INDEX", "{pod}");
            ensure!(pod["metadata"]["labels"][INDEX] == *index, "{pod}");
        }
        Ok(())
    }

    /// Waits until no pod that has ended is tracked any more.
    pub async fn until_ended_pods_are_free(&self, name: &str) -> Result<()> {
        let is_held = |pod: &Value| !is_active(pod) && is_tracked(pod);
        let are_free = |pods: &[Value]| !pods.iter().any(is_held);
        let labels = format!("job-name={name}");
        let pods = self.rig.eventually_all("pods", &labels, "free", are_free);
        pods.await.map(drop)
    }

    /// Waits until no pod at all is tracked any more.
    pub async fn until_all_pods_are_free(&self, name: &str) -> Result<()> {
        let are_free = |pods: &[Value]| !pods.iter().any(is_tracked);
        let labels = format!("job-name={name}");
        let pods = self.rig.eventually_all("pods", &labels, "free", are_free);
        pods.await.map(drop)
    }

    /// Waits until there is an Event about a Job with this reason.
    pub async fn until_event(&self, name: &str, reason: &str) -> Result<()> {
        let is_it = |event: &Value| event["regarding"]["name"] == name && event["reason"] == reason;
        let has = |events: &[Value]| events.iter().any(is_it);
        let what = format!("with one {reason}");
        let events = self.rig.eventually_all("events", "", &what, has);
        events.await.map(drop)
    }

    /// Deletes with this propagation policy.
    pub async fn delete_with(&self, resource: &str, name: &str, policy: &str) -> Result<()> {
        let path = self.rig.path(resource, name);
        let path = format!("{path}?propagationPolicy={policy}");
        self.rig
            .api()
            .request_text(Method::DELETE, &path)
            .await
            .map(drop)
    }

    /// Long enough for the controller to have done what it must not do.
    pub async fn wait_for_mistakes(&self) {
        tokio::time::sleep(Duration::from_secs(3)).await;
    }
}

pub fn is_active(pod: &Value) -> bool {
    let has_ended = matches!(
        pod["status"]["phase"].as_str(),
        Some("Succeeded" | "Failed")
    );
    !has_ended && pod["metadata"]["deletionTimestamp"].is_null()
}

pub fn is_tracked(pod: &Value) -> bool {
    let finalizers = pod["metadata"]["finalizers"].as_array();
    finalizers.is_some_and(|finalizers| finalizers.iter().any(|name| name == TRACKING))
}

pub fn true_condition<'a>(status: &'a Value, r#type: &str) -> Option<&'a Value> {
    let mut conditions = status["conditions"].as_array()?.iter();
    conditions.find(|condition| condition["type"] == r#type && condition["status"] == "True")
}

/// The types of the conditions, in their order.
pub fn condition_types(status: &Value) -> Vec<&str> {
    let conditions = status["conditions"].as_array().into_iter().flatten();
    conditions
        .filter_map(|condition| condition["type"].as_str())
        .collect()
}

/// `validateExpotentialBackoffDelay`: the second pod is created at least so many seconds after the
/// first has failed, and the third twice as many after the second.
pub fn expect_exponential_back_off(pods: &[Value], seconds: u64) -> Result<()> {
    let time = |value: &Value| -> Result<Duration> {
        let text = value.as_str().context("a time is missing")?;
        let time: Timestamp = text.parse()?;
        Ok(Duration::from_secs(u64::try_from(time.as_second())?))
    };
    let times = |path: &str| -> Result<Vec<Duration>> {
        let found = pods.iter().filter_map(|pod| pod.pointer(path));
        let mut times = found.map(time).collect::<Result<Vec<_>>>()?;
        times.sort();
        Ok(times)
    };
    let created = times("/metadata/creationTimestamp")?;
    let ended = times("/status/containerStatuses/0/state/terminated/finishedAt")?;
    ensure!(
        created.len() == 3 && ended.len() >= 2,
        "{created:?} {ended:?}"
    );
    for (number, factor) in [(0, 1), (1, 2)] {
        let least = Duration::from_secs(seconds * factor);
        let waited = created[number + 1].saturating_sub(ended[number]);
        let is_right = waited >= least && waited < 2 * least;
        ensure!(is_right, "it waited {waited:?} and not {least:?}");
    }
    Ok(())
}
