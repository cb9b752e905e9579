//! What Kubernetes documents of workloads when all is well: the end of the day.

use std::collections::BTreeSet;
use std::sync::Arc;

use pilothouse_tests::name_of;
use serde_json::Value;

use crate::cast::{self, Fate};
use crate::story::Story;
use crate::world::World;

/// What is not as it should be when nothing more happens; empty if all is.
pub fn shortcomings(world: &World, story: &Story) -> Vec<String> {
    let mut found = Shortcomings {
        pods: world.all("pods"),
        sets: world.all("replicasets"),
        revisions: world.all("controllerrevisions"),
        words: Vec::new(),
    };
    for (resource, workload) in cast::workloads() {
        let name = name_of(&workload);
        let Some(object) = world.get(resource, &name) else {
            found.say(format!("{resource} {name} is not there"));
            continue;
        };
        match resource {
            "deployments" => found.deployment(&object),
            "statefulsets" => found.stateful_set(&object),
            "daemonsets" => found.daemon_set(&object, world.all("nodes").len()),
            "cronjobs" => found.cron_job(&object, &world.all("jobs")),
            _ => found.set(&object),
        }
    }
    for (name, fate) in &story.jobs {
        match world.get("jobs", name) {
            Some(job) => found.job(&job, *fate),
            None => found.say(format!("Job {name} is not there")),
        }
    }
    found.leftovers(world);
    found.words
}

struct Shortcomings {
    pods: Vec<Arc<Value>>,
    sets: Vec<Arc<Value>>,
    revisions: Vec<Arc<Value>>,
    words: Vec<String>,
}

impl Shortcomings {
    fn say(&mut self, words: String) {
        self.words.push(words);
    }

    fn ensure(&mut self, holds: bool, object: &Value, words: &str) {
        if !holds {
            let (kind, name) = (&object["kind"], name_of(object));
            let status = &object["status"];
            self.say(format!("{kind} {name}: {words}; {status}"));
        }
    }

    /// These members of the status are all this number, and the status is of the newest spec.
    fn counts(&mut self, object: &Value, members: &[&str], number: i64) {
        for member in members {
            let is = object["status"][*member].as_i64().unwrap_or(0);
            self.ensure(is == number, object, &format!("{member} is not {number}"));
        }
        let is_new = object["status"]["observedGeneration"] == object["metadata"]["generation"];
        self.ensure(is_new, object, "not of the newest spec");
    }

    /// The pods that an object manages.
    fn pods_of(&self, owner: &Value) -> Vec<Arc<Value>> {
        owned(&self.pods, owner)
    }

    /// It has so many pods, all of them ready and of this template.
    fn are_ready(&mut self, owner: &Value, number: i64, hash: Option<(&str, &Value)>) {
        let pods = self.pods_of(owner);
        let is_right = |pod: &Arc<Value>| {
            let label = hash.is_none_or(|(name, hash)| pod["metadata"]["labels"][name] == *hash);
            is_ready(pod) && pod["metadata"]["deletionTimestamp"].is_null() && label
        };
        let right = pods.iter().filter(|pod| is_right(pod)).count();
        let holds = pods.len() == right && i64::try_from(right) == Ok(number);
        let words = format!("{right} of {} pods are right, of {number}", pods.len());
        self.ensure(holds, owner, &words);
    }

    fn set(&mut self, set: &Value) {
        let replicas = wanted(set);
        let all = [
            "replicas",
            "fullyLabeledReplicas",
            "readyReplicas",
            "availableReplicas",
        ];
        self.counts(set, &all, replicas);
        self.are_ready(set, replicas, None);
    }

    fn deployment(&mut self, deployment: &Value) {
        let replicas = wanted(deployment);
        let all = [
            "replicas",
            "updatedReplicas",
            "readyReplicas",
            "availableReplicas",
        ];
        self.counts(deployment, &all, replicas);
        self.counts(deployment, &["unavailableReplicas"], 0);
        let is = |kind: &str, reason: &str| {
            let all = deployment["status"]["conditions"].as_array();
            all.into_iter().flatten().any(|one| {
                one["type"] == kind && one["status"] == "True" && one["reason"] == reason
            })
        };
        let holds = is("Available", "MinimumReplicasAvailable");
        self.ensure(holds, deployment, "not Available");
        let holds = is("Progressing", "NewReplicaSetAvailable");
        self.ensure(holds, deployment, "the rollout is not complete");
        self.rollout(deployment, replicas);
    }

    /// The newest ReplicaSet has all pods, and the past is within its limit.
    fn rollout(&mut self, deployment: &Value, replicas: i64) {
        let sets = owned(&self.sets, deployment);
        let Some(newest) = sets.iter().max_by_key(|set| revision(set)).cloned() else {
            return self.ensure(false, deployment, "it has no ReplicaSet");
        };
        let image = |of: &Value| of["spec"]["template"]["spec"]["containers"][0]["image"].clone();
        let is_new = image(&newest) == image(deployment);
        self.ensure(is_new, deployment, "another template has the last revision");
        let is_same = revision(&newest) == revision(deployment);
        self.ensure(is_same, deployment, "its revision is not its ReplicaSet's");
        let limit = deployment["spec"]["revisionHistoryLimit"].as_u64();
        let holds = sets.len() as u64 <= limit.unwrap_or(10) + 1;
        let words = format!("{} ReplicaSets", sets.len());
        self.ensure(holds, deployment, &words);
        for set in &sets {
            let is_newest = name_of(set) == name_of(&newest);
            let number = if is_newest { replicas } else { 0 };
            self.ensure(
                wanted(set) == number,
                set,
                "not of the size that it should be",
            );
            self.set(set);
        }
    }

    fn stateful_set(&mut self, set: &Value) {
        let replicas = wanted(set);
        let all = [
            "replicas",
            "readyReplicas",
            "availableReplicas",
            "currentReplicas",
            "updatedReplicas",
        ];
        self.counts(set, &all, replicas);
        let status = &set["status"];
        let is_done = status["currentRevision"] == status["updateRevision"];
        self.ensure(is_done, set, "the update is not complete");
        let hash = ("controller-revision-hash", &status["updateRevision"]);
        self.are_ready(set, replicas, Some(hash));
        let names: BTreeSet<String> = self.pods_of(set).iter().map(|pod| name_of(pod)).collect();
        let right = (0..replicas).map(|ordinal| format!("{}-{ordinal}", name_of(set)));
        self.ensure(
            names == right.collect(),
            set,
            &format!("its pods are {names:?}"),
        );
        self.history(set);
    }

    fn daemon_set(&mut self, set: &Value, nodes: usize) {
        let nodes = i64::try_from(nodes).unwrap_or(0);
        let all = [
            "desiredNumberScheduled",
            "currentNumberScheduled",
            "numberReady",
            "numberAvailable",
            "updatedNumberScheduled",
        ];
        self.counts(set, &all, nodes);
        self.counts(set, &["numberMisscheduled", "numberUnavailable"], 0);
        self.are_ready(set, nodes, None);
        let pods = self.pods_of(set);
        let on: BTreeSet<String> = pods
            .iter()
            .map(|pod| pod["spec"]["nodeName"].to_string())
            .collect();
        self.ensure(
            on.len() == pods.len(),
            set,
            "two of its pods are on one node",
        );
        let image = |spec: &Value| spec["containers"][0]["image"].clone();
        let new = image(&set["spec"]["template"]["spec"]);
        let are_new = pods.iter().all(|pod| image(&pod["spec"]) == new);
        self.ensure(are_new, set, "not all pods are of the newest template");
        self.history(set);
    }

    /// Of the revisions, those of the past are within the limit.
    fn history(&mut self, set: &Value) {
        let revisions = owned(&self.revisions, set).len() as u64;
        let limit = set["spec"]["revisionHistoryLimit"].as_u64().unwrap_or(10);
        let holds = (1..=limit + 1).contains(&revisions);
        self.ensure(holds, set, &format!("{revisions} revisions"));
    }

    fn job(&mut self, job: &Value, fate: Fate) {
        let (spec, status) = (&job["spec"], &job["status"]);
        let is = |kind: &str| {
            let all = status["conditions"].as_array().into_iter().flatten();
            all.clone()
                .any(|one| one["type"] == kind && one["status"] == "True")
        };
        let count = |member: &str| status[member].as_i64().unwrap_or(0);
        let completions = spec["completions"].as_i64();
        match fate {
            Fate::Complete => {
                let done =
                    completions.map_or(count("succeeded") > 0, |all| count("succeeded") == all);
                let holds = is("Complete") && !is("Failed") && done;
                self.ensure(holds, job, "not complete");
                if spec["completionMode"] == "Indexed" {
                    let all = format!("0-{}", completions.unwrap_or(1) - 1);
                    let holds = status["completedIndexes"] == all;
                    self.ensure(holds, job, "not all indexes are complete");
                }
            }
            Fate::Fails => self.ensure(is("Failed") && !is("Complete"), job, "not failed"),
            Fate::FailsAtOne => {
                let failed = status["failedIndexes"].as_str().unwrap_or_default();
                let has_one = failed
                    .split(',')
                    .any(|part| part == "1" || part.starts_with("1-") || part == "0-1");
                let holds = is("Failed") && !is("Complete") && has_one;
                self.ensure(holds, job, "index 1 has not failed");
            }
        }
        let none = ["active", "ready", "terminating"]
            .iter()
            .all(|one| count(one) == 0);
        self.ensure(none, job, "pods still count");
        let uncounted = &status["uncountedTerminatedPods"];
        let none = uncounted.as_object().is_none_or(serde_json::Map::is_empty);
        self.ensure(none, job, "pods are not counted");
        for pod in self.pods_of(job) {
            let is_free = pod["metadata"]["finalizers"].is_null();
            self.ensure(is_free, &pod, "it has its finalizer still");
        }
    }

    fn cron_job(&mut self, cron: &Value, jobs: &[Arc<Value>]) {
        let jobs = owned(jobs, cron);
        let active = cron["status"]["active"].as_array().map_or(0, Vec::len);
        self.ensure(active == 0, cron, "a run is active");
        // One that was created in the last minute may have had no run.
        let least = usize::from(cron["status"]["lastScheduleTime"].is_string());
        let holds = (least..=3).contains(&jobs.len());
        let words = format!("{} Jobs are kept", jobs.len());
        self.ensure(holds, cron, &words);
        for job in jobs {
            self.job(&job, Fate::Complete);
        }
    }

    /// Nothing is left of what has been deleted.
    fn leftovers(&mut self, world: &World) {
        let resources = [
            "pods",
            "replicasets",
            "jobs",
            "controllerrevisions",
            "persistentvolumeclaims",
        ];
        let owners = [
            "deployments",
            "statefulsets",
            "daemonsets",
            "jobs",
            "cronjobs",
            "pods",
        ];
        let owners = owners
            .into_iter()
            .chain(["replicasets", "replicationcontrollers"]);
        let uids: BTreeSet<String> = {
            let all = owners.flat_map(|resource| world.all(resource));
            all.map(|owner| owner["metadata"]["uid"].to_string())
                .collect()
        };
        for resource in resources {
            for object in world.all(resource) {
                let name = name_of(&object);
                if object["metadata"]["deletionTimestamp"].is_string() {
                    self.say(format!("{resource} {name} is still being deleted"));
                }
                let mut all = object["metadata"]["ownerReferences"]
                    .as_array()
                    .into_iter()
                    .flatten();
                if all.any(|owner| !uids.contains(&owner["uid"].to_string())) {
                    self.say(format!("{resource} {name} has an owner that is gone"));
                }
            }
        }
    }
}

fn owned(all: &[Arc<Value>], owner: &Value) -> Vec<Arc<Value>> {
    let is_owner =
        |one: &Value| one["controller"] == true && one["uid"] == owner["metadata"]["uid"];
    let of_it = |object: &&Arc<Value>| {
        let owners = object["metadata"]["ownerReferences"].as_array();
        owners.is_some_and(|owners| owners.iter().any(is_owner))
    };
    all.iter().filter(of_it).cloned().collect()
}

/// The revision of a Deployment or its ReplicaSet.
fn revision(object: &Value) -> i64 {
    let annotations = &object["metadata"]["annotations"];
    let revision = annotations["deployment.kubernetes.io/revision"].as_str();
    revision.and_then(|text| text.parse().ok()).unwrap_or(0)
}

fn wanted(object: &Value) -> i64 {
    object["spec"]["replicas"].as_i64().unwrap_or(1)
}

fn is_ready(pod: &Value) -> bool {
    let mut all = pod["status"]["conditions"].as_array().into_iter().flatten();
    let is_running = pod["status"]["phase"] == "Running";
    is_running && all.any(|one| one["type"] == "Ready" && one["status"] == "True")
}
