//! A cluster with one StatefulSet, and a kubelet that does what a test says.
#![allow(dead_code, reason = "each test file uses a part")]

use std::time::Duration;

use pilothouse_sdk::testing::{Failing, FakeCluster, Run};
use pilothouse_sdk::{Controller, Host, ObjectRef, Outcome, Time};
use serde_json::{Value, json};
use statefulset::StatefulSetController;

pub const NOW: &str = "2026-01-01T00:00:00Z";

/// A set of upstream's `newStatefulSet`, as the API server would fill it in.
pub fn set(replicas: i64) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet",
        "metadata": {"namespace": "default", "name": "web", "uid": "u1", "generation": 1},
        "spec": {
            "replicas": replicas,
            "serviceName": "governing",
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "nginx", "image": "nginx"}]},
            },
            "volumeClaimTemplates": [{
                "apiVersion": "v1", "kind": "PersistentVolumeClaim",
                "metadata": {"name": "data"},
                "spec": {"accessModes": ["ReadWriteOnce"]},
            }],
            "podManagementPolicy": "OrderedReady",
            "updateStrategy": {
                "type": "RollingUpdate", "rollingUpdate": {"partition": 0, "maxUnavailable": 1},
            },
            "revisionHistoryLimit": 10,
            "persistentVolumeClaimRetentionPolicy": {
                "whenDeleted": "Retain", "whenScaled": "Retain",
            },
        },
    })
}

/// The notes of all Events.
pub fn notes(cluster: &FakeCluster) -> Vec<String> {
    cluster
        .events()
        .iter()
        .map(|event| event.note.clone())
        .collect()
}

pub struct Cluster {
    cluster: Option<FakeCluster>,
    now: Duration,
}

impl Cluster {
    pub fn new(set: Value) -> Self {
        let now: Time = NOW.parse().expect("a time");
        let cluster = FakeCluster::new(StatefulSetController::manifest()).at(now.0);
        let cluster = cluster.with(set);
        Self {
            cluster: Some(cluster),
            now: now.0,
        }
    }

    fn change(&mut self, change: impl FnOnce(FakeCluster) -> FakeCluster) {
        let cluster = self.cluster.take().expect("a cluster");
        self.cluster = Some(change(cluster));
    }

    pub fn cluster(&mut self) -> &mut FakeCluster {
        self.cluster.as_mut().expect("a cluster")
    }

    /// Runs what is due. Nothing may fail.
    pub fn run(&mut self) {
        let failed: Vec<Run> = self.try_run();
        assert!(failed.is_empty(), "{failed:?}");
    }

    /// Runs what is due, and returns what has failed.
    pub fn try_run(&mut self) -> Vec<Run> {
        let runs = self.cluster().run_due::<StatefulSetController>();
        runs.into_iter().filter(|run| run.error.is_some()).collect()
    }

    /// What is decided after the first revision is recorded.
    pub fn after_revision(mut self) -> Outcome {
        let cluster = self.cluster();
        let first = cluster.turn::<StatefulSetController>("default", "web");
        first.expect("the first outcome is valid");
        let outcome = cluster.reconcile::<StatefulSetController>("default", "web");
        outcome.expect("the outcome is valid")
    }

    /// Lets writes fail.
    pub fn fail(&mut self, failing: Failing) {
        self.change(|cluster| cluster.failing(failing));
    }

    /// Lets no write fail any more.
    pub fn heal(&mut self) {
        self.change(FakeCluster::healed);
    }

    /// Lets time pass.
    pub fn wait(&mut self, seconds: u64) {
        self.now += Duration::from_secs(seconds);
        let now = self.now;
        self.change(|cluster| cluster.at(now));
    }

    /// Changes the spec of the set, as a user does.
    pub fn edit(&mut self, pointer: &str, value: Value) {
        let mut set = self.object("apps/v1/StatefulSet", "web").expect("the set");
        let generation = set["metadata"]["generation"].as_i64().unwrap_or(0);
        set["metadata"]["generation"] = json!(generation + 1);
        set["metadata"]
            .as_object_mut()
            .map(|metadata| metadata.remove("resourceVersion"));
        *set.pointer_mut(pointer).expect("a member of the set") = value;
        self.put(set);
    }

    pub fn put(&mut self, object: Value) {
        self.change(|cluster| cluster.with(object));
    }

    /// Puts an object on the server that no watch has brought yet.
    pub fn put_unseen(&mut self, object: Value) {
        self.change(|cluster| cluster.with_unseen(object));
    }

    /// Changes a member of a pod's metadata.
    pub fn change_pod(&mut self, name: &str, member: &str, value: Value) {
        let mut pod = self.object("v1/Pod", name).expect("the pod");
        pod["metadata"][member] = value;
        pod["metadata"]
            .as_object_mut()
            .map(|metadata| metadata.remove("resourceVersion"));
        self.put(pod);
    }

    pub fn delete(&mut self, kind: &str, name: &str) {
        self.cluster()
            .delete(&ObjectRef::new(kind, "default", name));
    }

    pub fn object(&mut self, kind: &str, name: &str) -> Option<Value> {
        self.cluster()
            .object(&ObjectRef::new(kind, "default", name))
            .cloned()
    }

    pub fn status(&mut self) -> Value {
        self.object("apps/v1/StatefulSet", "web").expect("the set")["status"].clone()
    }

    /// The names of the objects of this kind.
    pub fn names(&mut self, kind: &str) -> Vec<String> {
        let everything = pilothouse_sdk::Filter::Everything;
        let host: &dyn Host = self.cluster();
        let all: Vec<Value> = host
            .list(kind, Some("default"), &everything)
            .expect("a list");
        let name = |object: &Value| object["metadata"]["name"].as_str().map(str::to_owned);
        all.iter().filter_map(name).collect()
    }

    pub fn pods(&mut self) -> Vec<String> {
        self.names("v1/Pod")
    }

    /// Says of a pod what a kubelet would say: its phase, and whether it is ready.
    pub fn set_pod(&mut self, name: &str, phase: &str, is_ready: bool) {
        let mut pod = self.object("v1/Pod", name).expect("the pod");
        let since = Time(self.now);
        pod["status"] = json!({"phase": phase, "conditions": [{
            "type": "Ready", "status": if is_ready { "True" } else { "False" },
            "lastTransitionTime": since,
        }]});
        pod["metadata"]
            .as_object_mut()
            .map(|metadata| metadata.remove("resourceVersion"));
        self.put(pod);
    }

    /// Gives every pod that has none the phase that the API server gives it.
    fn admit(&mut self) {
        for name in self.pods() {
            let pod = self.object("v1/Pod", &name).expect("the pod");
            if pod["status"]["phase"].is_null() {
                self.set_pod(&name, "Pending", false);
            }
        }
    }

    /// Runs what is due, and makes each pod that comes up ready, until nothing changes. Returns the
    /// pods at each step.
    pub fn settle(&mut self) -> Vec<Vec<String>> {
        let mut steps = Vec::new();
        for _ in 0..200 {
            self.run();
            let pods = self.pods();
            let is_new = steps.last() != Some(&pods);
            if is_new {
                steps.push(pods.clone());
            }
            self.admit();
            self.run();
            let mut changed = is_new;
            for name in pods {
                let pod = self.object("v1/Pod", &name);
                if pod.is_some_and(|pod| pod["status"]["phase"] == "Pending") {
                    self.set_pod(&name, "Running", true);
                    changed = true;
                }
            }
            if !changed {
                return steps;
            }
        }
        panic!("the set never comes to rest: {steps:?}");
    }
}
