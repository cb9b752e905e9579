//! `test/integration/deployment/deployment_test.go` of Kubernetes. The pods have no kubelet: the
//! tests say that they are ready.

mod ownership;
mod paused;
mod rolling;
mod status;
mod terminating;

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use pilothouse_tests::{WorkloadRig, name_of};
use serde_json::{Value, json};
use tokio::time::Instant;

/// How long a rollout may take, of which the tests themselves delay some on purpose.
const PATIENCE: Duration = Duration::from_secs(90);

const DESIRED: &str = "deployment.kubernetes.io/desired-replicas";
const MAX: &str = "deployment.kubernetes.io/max-replicas";
const REVISION: &str = "deployment.kubernetes.io/revision";
const HASH: &str = "pod-template-hash";

/// A rig with one Deployment that the test is about.
struct Tester<'a> {
    rig: &'a WorkloadRig,
    name: String,
}

/// Upstream's `newDeployment`.
fn deployment(name: &str, replicas: u32) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"name": "test"}},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {}},
            "template": {
                "metadata": {"labels": {"name": "test"}},
                "spec": {"containers": [{"name": "fake-name", "image": "fakeimage"}]},
            },
        },
    })
}

async fn rig() -> Result<WorkloadRig> {
    WorkloadRig::start(&["deployment", "replicaset"]).await
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

fn is_terminating(pod: &Value) -> bool {
    !pod["metadata"]["deletionTimestamp"].is_null()
}

/// A number of a status, which leaves zeros out.
fn number(object: &Value, pointer: &str) -> i64 {
    object.pointer(pointer).and_then(Value::as_i64).unwrap_or(0)
}

fn condition<'a>(deployment: &'a Value, r#type: &str) -> Option<&'a Value> {
    let conditions = deployment["status"]["conditions"].as_array()?;
    conditions.iter().find(|one| one["type"] == r#type)
}

/// Upstream's `DeploymentComplete`.
fn is_complete(deployment: &Value) -> bool {
    let wanted = number(deployment, "/spec/replicas");
    let status = ["updatedReplicas", "replicas", "availableReplicas"];
    let is_wanted = |name: &&str| number(deployment, &format!("/status/{name}")) == wanted;
    status.iter().all(is_wanted) && is_observed(deployment)
}

fn is_observed(deployment: &Value) -> bool {
    let observed = number(deployment, "/status/observedGeneration");
    observed >= number(deployment, "/metadata/generation")
}

impl<'a> Tester<'a> {
    /// Creates the Deployment.
    async fn create(rig: &'a WorkloadRig, deployment: &Value) -> Result<Self> {
        rig.create("deployments", deployment).await?;
        let name = name_of(deployment);
        Ok(Self { rig, name })
    }

    async fn get(&self) -> Result<Value> {
        self.rig.get("deployments", &self.name).await
    }

    /// Changes the spec by a merge patch.
    async fn change(&self, spec: &Value) -> Result<Value> {
        let patch = json!({"spec": spec});
        self.rig.merge("deployments", &self.name, &patch).await
    }

    /// Gives the template another image.
    async fn set_image(&self, image: &str) -> Result<Value> {
        let containers = json!([{"name": "fake-name", "image": image}]);
        self.change(&json!({"template": {"spec": {"containers": containers}}}))
            .await
    }

    async fn eventually(&self, what: &str, is_wanted: impl Fn(&Value) -> bool) -> Result<Value> {
        let rig = self.rig;
        rig.eventually("deployments", &self.name, what, is_wanted)
            .await
    }

    /// Upstream's `waitForObservedDeployment`, of the latest generation.
    async fn observed(&self) -> Result<Value> {
        self.eventually("observed", is_observed).await
    }

    /// Upstream's `waitForDeploymentRevisionAndImage`: the Deployment has the revision, and so has
    /// a ReplicaSet with this image.
    async fn revision_and_image(&self, revision: &str, image: &str) -> Result<Value> {
        let what = format!("at revision {revision}");
        let is_there =
            |deployment: &Value| deployment["metadata"]["annotations"][REVISION] == revision;
        self.eventually(&what, is_there).await?;
        let set = self.the_new_set().await?;
        ensure!(
            set["metadata"]["annotations"][REVISION] == revision,
            "{set}"
        );
        let found = &set["spec"]["template"]["spec"]["containers"][0]["image"];
        ensure!(found == image, "{set}");
        Ok(set)
    }

    /// The ReplicaSets that the Deployment manages.
    async fn sets(&self) -> Result<Vec<Value>> {
        let uid = self.get().await?["metadata"]["uid"].clone();
        let mut sets = self.rig.list("replicasets", "").await?;
        let is_mine = |set: &Value| {
            let owners = set["metadata"]["ownerReferences"].as_array();
            let mut owners = owners.into_iter().flatten();
            owners.any(|owner| owner["uid"] == uid && owner["controller"] == true)
        };
        sets.retain(is_mine);
        Ok(sets)
    }

    /// The ReplicaSet with the Deployment's template, and the others.
    async fn new_and_old_sets(&self) -> Result<(Option<Value>, Vec<Value>)> {
        let template = self.get().await?["spec"]["template"].clone();
        let mut sets = self.sets().await?;
        let has_template = |set: &Value| {
            let mut own = set["spec"]["template"].clone();
            let labels = own["metadata"]["labels"].as_object_mut();
            labels.map(|labels| labels.remove(HASH));
            own == template
        };
        sets.sort_by_key(|set| set["metadata"]["creationTimestamp"].to_string());
        let place = sets.iter().position(has_template);
        let new = place.map(|place| sets.remove(place));
        Ok((new, sets))
    }

    async fn new_set(&self) -> Result<Option<Value>> {
        Ok(self.new_and_old_sets().await?.0)
    }

    /// The ReplicaSet with the Deployment's template, which must be there.
    async fn the_new_set(&self) -> Result<Value> {
        self.new_set().await?.context("there is no new ReplicaSet")
    }

    /// The pods of a ReplicaSet.
    async fn pods_of(&self, set: &Value) -> Result<Vec<Value>> {
        let hash = set["metadata"]["labels"][HASH].as_str();
        let selector = format!("{HASH}={}", hash.context("a ReplicaSet has a hash")?);
        self.rig.list("pods", &selector).await
    }

    /// Says of all pods of the new ReplicaSet that they are ready.
    async fn mark_ready(&self) -> Result<()> {
        let Some(new) = self.new_set().await? else {
            return Ok(());
        };
        for pod in self.pods_of(&new).await? {
            if !is_ready(&pod) && !is_terminating(&pod) {
                // It may be gone by now.
                drop(self.rig.set_pod_ready(&name_of(&pod), true).await);
            }
        }
        Ok(())
    }

    /// Upstream's `waitForDeploymentCompleteAndMarkPodsReady`. What is done besides, at each look,
    /// is `meanwhile`.
    async fn completes_while(
        &self,
        meanwhile: impl AsyncFn(&Value) -> Result<()>,
    ) -> Result<Value> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let deployment = self.get().await?;
            meanwhile(&deployment).await?;
            if is_complete(&deployment) {
                return Ok(deployment);
            }
            ensure!(Instant::now() < deadline, "not complete: {deployment}");
            self.mark_ready().await?;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    async fn completes(&self) -> Result<Value> {
        self.completes_while(async |_| Ok(())).await
    }

    /// Upstream's `waitForDeploymentCompleteAndCheckRollingAndMarkPodsReady`: at no time are there
    /// too many pods, or too few available ones.
    async fn completes_within(&self, max_surge: i64, max_unavailable: i64) -> Result<Value> {
        self.completes_while(async |deployment| {
            let wanted = number(deployment, "/spec/replicas");
            let sets = self.sets().await?;
            let total: i64 = sets.iter().map(|set| number(set, "/spec/replicas")).sum();
            ensure!(total <= wanted + max_surge, "{total} pods: {sets:?}");
            let available = number(deployment, "/status/availableReplicas");
            ensure!(available >= wanted - max_unavailable, "{deployment}");
            Ok(())
        })
        .await
    }

    /// Waits until a condition has this reason.
    async fn condition_with_reason(&self, r#type: &str, reason: &str) -> Result<Value> {
        let has_reason = |deployment: &Value| {
            condition(deployment, r#type).is_some_and(|found| found["reason"] == reason)
        };
        self.eventually(&format!("{type}, {reason}", r#type = r#type), has_reason)
            .await
    }

    /// Waits until the status has these numbers: replicas, updated, ready, available, unavailable
    /// and terminating.
    async fn counts(&self, wanted: [i64; 6]) -> Result<Value> {
        const NAMES: [&str; 6] = [
            "replicas",
            "updatedReplicas",
            "readyReplicas",
            "availableReplicas",
            "unavailableReplicas",
            "terminatingReplicas",
        ];
        let is_wanted = |deployment: &Value| {
            let mut all = NAMES.iter().zip(wanted);
            is_observed(deployment)
                && deployment["status"]["terminatingReplicas"].is_i64()
                && all
                    .all(|(name, wanted)| number(deployment, &format!("/status/{name}")) == wanted)
        };
        self.eventually(&format!("of {wanted:?} pods"), is_wanted)
            .await
    }

    /// Waits until a ReplicaSet has as many pods as it is to have, all counted.
    async fn stable(&self, set: &Value) -> Result<Value> {
        let is_stable = |set: &Value| {
            number(set, "/status/replicas") == number(set, "/spec/replicas") && is_observed(set)
        };
        let rig = self.rig;
        rig.eventually("replicasets", &name_of(set), "stable", is_stable)
            .await
    }
}
