//! What the auditor needs to know of an object.

use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

/// An object at one version.
#[derive(Clone, Debug)]
pub struct Facts {
    pub uid: String,
    pub name: String,
    /// Whether it is being deleted.
    pub is_deleting: bool,
    /// Its status is of an older spec.
    pub is_behind: bool,
    pub owner: Option<Owner>,
    pub of: Of,
}

/// The manager of an object: the owner that says that it is the controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    pub kind: String,
    pub uid: String,
}

/// What depends on the kind.
#[derive(Clone, Debug)]
pub enum Of {
    Pod(Pod),
    /// A ReplicaSet or ReplicationController.
    Set(Set),
    Deployment(Deployment),
    StatefulSet(StatefulSet),
    DaemonSet(DaemonSet),
    Job(Job),
    CronJob(CronJob),
    Node,
    Other,
}

#[derive(Clone, Debug, Default)]
pub struct Pod {
    pub phase: String,
    /// Since when it is ready.
    pub ready_since: Option<Timestamp>,
    /// The node that it is on or is meant for.
    pub node: Option<String>,
    /// The label with the hash of its template.
    pub hash: String,
    /// Its completion index, of a Job.
    pub index: Option<u64>,
}

impl Pod {
    pub fn has_ended(&self) -> bool {
        matches!(self.phase.as_str(), "Succeeded" | "Failed")
    }
}

#[derive(Clone, Debug)]
pub struct Set {
    pub replicas: i64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deployment {
    pub replicas: i64,
    pub is_paused: bool,
    /// The most pods above and the most pods missing in a rolling update; none: Recreate.
    pub limits: Option<(i64, i64)>,
    pub min_ready_seconds: i64,
}

#[derive(Clone, Debug)]
pub struct StatefulSet {
    pub replicas: i64,
    pub start: i64,
    pub partition: i64,
    pub max_unavailable: i64,
    pub is_ordered: bool,
    pub min_ready_seconds: i64,
    /// The name of the newest revision that the controller knows.
    pub update_revision: String,
}

#[derive(Clone, Debug)]
pub struct DaemonSet {
    pub max_surge: i64,
    pub max_unavailable: i64,
    pub min_ready_seconds: i64,
}

#[derive(Clone, Debug)]
pub struct Job {
    pub parallelism: i64,
    pub completions: Option<i64>,
    pub is_indexed: bool,
    pub is_suspended: bool,
    /// Terminating pods are not replaced before they have failed.
    pub replaces_failed_only: bool,
    /// It has come to its end, or is about to.
    pub is_over: bool,
    pub succeeded: i64,
    pub failed: i64,
    /// Pods that have succeeded, and failed, and are not in the counters yet.
    pub uncounted: (Vec<String>, Vec<String>),
}

#[derive(Clone, Debug)]
pub struct CronJob {
    /// No run begins beside another.
    pub forbids: bool,
    pub is_suspended: bool,
}

impl Facts {
    pub fn of(resource: &str, object: &Value) -> Self {
        let metadata = &object["metadata"];
        let mut owners = metadata["ownerReferences"].as_array().into_iter().flatten();
        let manager = owners.find(|owner| owner["controller"] == true);
        let of = match resource {
            "pods" => Of::Pod(pod(object)),
            "replicasets" | "replicationcontrollers" => Of::Set(Set {
                replicas: number(&object["spec"]["replicas"], 1),
            }),
            "deployments" => Of::Deployment(deployment(&object["spec"])),
            "statefulsets" => Of::StatefulSet(stateful_set(object)),
            "daemonsets" => Of::DaemonSet(daemon_set(&object["spec"])),
            "jobs" => Of::Job(job(object)),
            "cronjobs" => Of::CronJob(CronJob {
                forbids: object["spec"]["concurrencyPolicy"] == "Forbid",
                is_suspended: object["spec"]["suspend"] == true,
            }),
            "nodes" => Of::Node,
            _ => Of::Other,
        };
        Self {
            uid: text(&metadata["uid"]),
            name: text(&metadata["name"]),
            is_deleting: !metadata["deletionTimestamp"].is_null(),
            is_behind: is_behind(resource, object),
            owner: manager.map(|owner| Owner {
                kind: text(&owner["kind"]),
                uid: text(&owner["uid"]),
            }),
            of,
        }
    }

    pub fn pod(&self) -> Option<&Pod> {
        match &self.of {
            Of::Pod(pod) => Some(pod),
            _ => None,
        }
    }

    /// Whether this is a pod that has not ended and is not being deleted.
    pub fn is_active(&self) -> bool {
        !self.is_deleting && self.pod().is_some_and(|pod| !pod.has_ended())
    }

    /// Whether this is an active pod that is ready for so long, at a time.
    pub fn is_available(&self, min_ready_seconds: i64, at: Timestamp) -> bool {
        let since = self.pod().and_then(|pod| pod.ready_since);
        let is_long = since.is_some_and(|since| {
            min_ready_seconds == 0 || at.as_second() >= since.as_second() + min_ready_seconds
        });
        self.is_active() && is_long
    }
}

fn is_behind(resource: &str, object: &Value) -> bool {
    let observes = matches!(
        resource,
        "replicasets" | "replicationcontrollers" | "deployments" | "statefulsets" | "daemonsets"
    );
    let metadata = &object["metadata"];
    let observed = number(&object["status"]["observedGeneration"], 0);
    let is_older = observed < number(&metadata["generation"], 0);
    observes && is_older && metadata["deletionTimestamp"].is_null()
}

fn pod(object: &Value) -> Pod {
    let metadata = &object["metadata"];
    let all = object["status"]["conditions"]
        .as_array()
        .into_iter()
        .flatten();
    let mut ready = all.filter(|one| one["type"] == "Ready" && one["status"] == "True");
    let ready = ready.next();
    let since = ready.and_then(|one| one["lastTransitionTime"].as_str()?.parse().ok());
    let labels = &metadata["labels"];
    let hash = ["pod-template-hash", "controller-revision-hash"];
    let index = &metadata["annotations"]["batch.kubernetes.io/job-completion-index"];
    let required = &object["spec"]["affinity"]["nodeAffinity"];
    let term = &required["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"][0];
    let pinned = &term["matchFields"][0]["values"][0];
    Pod {
        phase: text(&object["status"]["phase"]),
        ready_since: since,
        node: pinned.as_str().map(str::to_owned),
        hash: hash.iter().map(|name| text(&labels[*name])).collect(),
        index: index.as_str().and_then(|index| index.parse().ok()),
    }
}

fn deployment(spec: &Value) -> Deployment {
    let replicas = number(&spec["replicas"], 1);
    let limits = (spec["strategy"]["type"] != "Recreate").then(|| {
        let rolling = &spec["strategy"]["rollingUpdate"];
        let surge = resolve(&rolling["maxSurge"], replicas, true);
        let unavailable = resolve(&rolling["maxUnavailable"], replicas, false);
        // If both are zero, one pod may be missing.
        let least = i64::from(surge == 0);
        (surge, unavailable.max(least))
    });
    Deployment {
        replicas,
        is_paused: spec["paused"] == true,
        limits,
        min_ready_seconds: number(&spec["minReadySeconds"], 0),
    }
}

fn stateful_set(object: &Value) -> StatefulSet {
    let spec = &object["spec"];
    let rolling = &spec["updateStrategy"]["rollingUpdate"];
    let replicas = number(&spec["replicas"], 1);
    let unavailable = match &rolling["maxUnavailable"] {
        Value::Null => 1,
        value => resolve(value, replicas, false).max(1),
    };
    StatefulSet {
        replicas,
        start: number(&spec["ordinals"]["start"], 0),
        partition: number(&rolling["partition"], 0),
        max_unavailable: unavailable,
        is_ordered: spec["podManagementPolicy"] != "Parallel",
        min_ready_seconds: number(&spec["minReadySeconds"], 0),
        update_revision: text(&object["status"]["updateRevision"]),
    }
}

/// The limits of the day's DaemonSets are numbers, no percentages.
fn daemon_set(spec: &Value) -> DaemonSet {
    let rolling = &spec["updateStrategy"]["rollingUpdate"];
    DaemonSet {
        max_surge: number(&rolling["maxSurge"], 0),
        max_unavailable: number(&rolling["maxUnavailable"], 1),
        min_ready_seconds: number(&spec["minReadySeconds"], 0),
    }
}

fn job(object: &Value) -> Job {
    let (spec, status) = (&object["spec"], &object["status"]);
    let conditions = status["conditions"].as_array().into_iter().flatten();
    let ends = ["Complete", "Failed", "SuccessCriteriaMet", "FailureTarget"];
    let mut true_ones = conditions.filter(|one| one["status"] == "True");
    let uncounted = |list: &str| {
        let all = status["uncountedTerminatedPods"][list].as_array();
        all.into_iter().flatten().map(text).collect()
    };
    Job {
        parallelism: number(&spec["parallelism"], 1),
        completions: spec["completions"].as_i64(),
        is_indexed: spec["completionMode"] == "Indexed",
        is_suspended: spec["suspend"] == true,
        replaces_failed_only: spec["podReplacementPolicy"] == "Failed",
        is_over: true_ones.any(|one| ends.iter().any(|end| one["type"] == *end)),
        succeeded: number(&status["succeeded"], 0),
        failed: number(&status["failed"], 0),
        uncounted: (uncounted("succeeded"), uncounted("failed")),
    }
}

/// A number, or a percentage of the replicas.
fn resolve(value: &Value, replicas: i64, up: bool) -> i64 {
    let percent = value.as_str().and_then(|text| text.strip_suffix('%'));
    let Some(percent) = percent.and_then(|text| text.parse::<i64>().ok()) else {
        return number(value, 0);
    };
    let hundredths = replicas * percent;
    if up {
        (hundredths + 99) / 100
    } else {
        hundredths / 100
    }
}

fn number(value: &Value, otherwise: i64) -> i64 {
    value.as_i64().unwrap_or(otherwise)
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
