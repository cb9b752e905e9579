//! A host with the plugin, and what a scheduler and kubelets would do.

use std::ops::Range;
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use pilothouse_tests::{WorkloadRig, name_of};
use serde_json::{Value, json};
use tokio::time::Instant;

/// How long a test waits for pods, as the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(60);

pub struct Daemons {
    pub rig: WorkloadRig,
}

/// The two strategies that most of upstream's tests are run with.
pub fn strategies() -> [Value; 2] {
    [on_delete(), rolling(&json!({"maxUnavailable": 1}))]
}

pub fn on_delete() -> Value {
    json!({"type": "OnDelete"})
}

pub fn rolling(limits: &Value) -> Value {
    json!({"type": "RollingUpdate", "rollingUpdate": limits})
}

impl Daemons {
    pub async fn start() -> Result<Self> {
        let rig = WorkloadRig::start(&["daemonset"]).await?;
        Ok(Self { rig })
    }

    /// The DaemonSet of upstream's tests.
    pub fn set(&self, strategy: &Value) -> Value {
        json!({
            "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "foo"},
            "spec": {
                "revisionHistoryLimit": 2, "updateStrategy": strategy,
                "selector": {"matchLabels": {"name": "test"}},
                "template": {
                    "metadata": {"labels": {"name": "test"}},
                    "spec": {
                        "containers": [{"name": "foo", "image": "bar"}],
                        "terminationGracePeriodSeconds": 0,
                    },
                },
            },
        })
    }

    pub async fn create(&self, set: &Value) -> Result<()> {
        self.rig.create("daemonsets", set).await.map(drop)
    }

    /// Changes the DaemonSet.
    pub async fn merge(&self, patch: &Value) -> Result<()> {
        let merged = self.rig.merge("daemonsets", "foo", patch).await;
        merged.map(drop)
    }

    /// Changes what its pods tolerate.
    pub async fn tolerate(&self, tolerations: &Value) -> Result<()> {
        let spec = json!({"tolerations": tolerations});
        self.merge(&json!({"spec": {"template": {"spec": spec}}}))
            .await
    }

    pub async fn add_node(&self, name: &str, with: Value) -> Result<()> {
        let mut node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}});
        for part in ["metadata", "spec", "status"] {
            for (member, value) in with[part].as_object().into_iter().flatten() {
                node[part][member] = value.clone();
            }
        }
        self.rig.create("nodes", &node).await.map(drop)
    }

    pub async fn add_nodes(&self, numbers: Range<usize>, with: Value) -> Result<Vec<String>> {
        let names: Vec<String> = numbers.map(|number| format!("node-{number}")).collect();
        for name in &names {
            self.add_node(name, with.clone()).await?;
        }
        Ok(names)
    }

    pub async fn pods(&self) -> Result<Vec<Value>> {
        self.rig.list("pods", "").await
    }

    pub async fn until_pods(&self, count: usize) -> Result<Vec<Value>> {
        self.rig.eventually_pods("", count).await
    }

    pub async fn until_pod(&self, what: &str, is_it: impl Fn(&Value) -> bool) -> Result<Value> {
        let what = format!("one {what}");
        let pods = self
            .rig
            .eventually_all("pods", "", &what, |pods| pods.iter().any(&is_it));
        let found = pods.await?.into_iter().find(|pod| is_it(pod));
        Ok(found.unwrap_or_default())
    }

    /// Waits until so many pods have not ended, and makes all that have a node ready, after giving
    /// a node to those that wait (`validateDaemonSetPodsAndMarkReady`). A node with the label
    /// `full` takes none.
    pub async fn until_ready(&self, count: usize) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let pods = self.pods().await?;
            for pod in &pods {
                ensure_daemon(pod)?;
            }
            let going_on = pods.iter().filter(|pod| !has_ended(pod));
            let going_on: Vec<&Value> = going_on.collect();
            let mut are_done = going_on.len() == count;
            for pod in going_on {
                are_done &= self.make_ready(pod).await?;
            }
            if are_done {
                return Ok(());
            }
            if Instant::now() > deadline {
                bail!(
                    "there never were {count} pods that go on: {}",
                    summary(&pods)
                );
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Does one step with a pod. True: nothing more is to be done.
    async fn make_ready(&self, pod: &Value) -> Result<bool> {
        let is_ready = pod["status"]["conditions"].as_array().is_some_and(|all| {
            let mut all = all.iter();
            all.any(|one| one["type"] == "Ready" && one["status"] == "True")
        });
        if is_ready || pod["metadata"]["deletionTimestamp"].is_string() {
            return Ok(true);
        }
        let name = name_of(pod);
        if pod["spec"]["nodeName"].is_string() {
            self.rig.set_pod_ready(&name, true).await?;
            return Ok(false);
        }
        let node = pinned_to(pod);
        let found = self.rig.get("nodes", &node).await?;
        if found["metadata"]["labels"]["full"].is_string() {
            return Ok(true);
        }
        let binding = json!({
            "apiVersion": "v1", "kind": "Binding", "metadata": {"name": name},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        });
        let path = format!("{}/binding", self.rig.path("pods", &name));
        self.rig.api().create(&path, &binding).await?;
        Ok(false)
    }

    /// Waits until so many pods run or are about to (`validateDaemonSetPodsActive`).
    pub async fn until_active(&self, count: usize) -> Result<()> {
        let what = format!("{count} that have not ended");
        let are_active =
            |pods: &[Value]| pods.iter().filter(|pod| !has_ended(pod)).count() == count;
        let pods = self.rig.eventually_all("pods", "", &what, are_active);
        pods.await?.iter().try_for_each(ensure_daemon)
    }

    /// Waits until there are so many ready pods of the current template, and no others.
    pub async fn until_rolled_out(&self, count: usize) -> Result<Vec<Value>> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            self.make_all_ready().await?;
            let set = self.rig.get("daemonsets", "foo").await?;
            let pods = self.pods().await?;
            let is_done = set["status"]["updatedNumberScheduled"] == count
                && set["status"]["numberReady"] == count
                && set["status"]["observedGeneration"] == set["metadata"]["generation"]
                && pods.len() == count;
            if is_done {
                return Ok(pods);
            }
            if Instant::now() > deadline {
                let status = &set["status"];
                bail!(
                    "{count} pods never were updated: {status}, {}",
                    summary(&pods)
                );
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Waits for a rollout to so many pods, with these tolerations of zones.
    pub async fn until_tolerating(&self, count: usize, tolerations: &Value) -> Result<()> {
        for pod in self.until_rolled_out(count).await? {
            let all = pod["spec"]["tolerations"].as_array().cloned();
            let is_zone =
                |one: &Value| one["key"].as_str().is_some_and(|key| key.contains("zone-"));
            let zones = all.unwrap_or_default().into_iter().filter(is_zone);
            ensure!(zones.collect::<Value>() == *tolerations, "{pod}");
        }
        Ok(())
    }

    async fn make_all_ready(&self) -> Result<()> {
        for pod in self.pods().await? {
            match self.make_ready(&pod).await {
                // It may have been deleted meanwhile.
                Err(error) if format!("{error:?}").contains("404") => {}
                other => drop(other?),
            }
        }
        Ok(())
    }

    pub async fn until_status(&self, member: &str, number: i64) -> Result<()> {
        let is_so = |set: &Value| set["status"][member].as_i64().unwrap_or(0) == number;
        let what = format!("of {member} {number}");
        let set = self.rig.eventually("daemonsets", "foo", &what, is_so);
        set.await.map(drop)
    }

    /// Waits until there are so many revisions.
    pub async fn until_revisions(&self, count: usize) -> Result<Vec<Value>> {
        let what = format!("{count} revisions");
        let revisions = self
            .rig
            .eventually_all("controllerrevisions", "", &what, |revisions| {
                revisions.len() == count
            });
        revisions.await
    }

    /// The hash of the revision that a change of this DaemonSet will lead to.
    pub async fn hash_of_next(&self, set: &Value, change: &Value) -> Result<String> {
        let namespace = self.rig.server.namespace().await?;
        let path = format!("/apis/apps/v1/namespaces/{namespace}");
        let mut other = set.clone();
        let spec = change["spec"]["template"]["spec"].as_object();
        for (member, value) in spec.into_iter().flatten() {
            other["spec"]["template"]["spec"][member] = value.clone();
        }
        // It is for no node, but its revision comes.
        other["spec"]["selector"]["matchLabels"] = json!({"name": "test"});
        let sets = format!("{path}/daemonsets");
        self.rig.api().create(&sets, &other).await?;
        let revisions = format!("{path}/controllerrevisions");
        let found = self.rig.api().eventually(&revisions, "one", |list| {
            list.is_some_and(|list| list["items"].as_array().is_some_and(|all| all.len() == 1))
        });
        let found = found.await?.unwrap_or_default();
        let label = &found["items"][0]["metadata"]["labels"]["controller-revision-hash"];
        Ok(label.as_str().unwrap_or_default().to_owned())
    }

    /// Lets the DaemonSet delete its pods, and deletes it and its nodes (`cleanupDaemonSets`).
    pub async fn clean_up(&self, nodes: &[impl AsRef<str>]) -> Result<()> {
        let nowhere = json!({"nodeSelector": {"no-node": "has-this"}, "tolerations": null});
        self.merge(&json!({"spec": {"template": {"spec": nowhere}}}))
            .await?;
        let is_empty = |set: &Value| {
            let number = |member: &str| set["status"][member].as_i64().unwrap_or(0);
            number("currentNumberScheduled") + number("numberMisscheduled") == 0
                && set["status"]["observedGeneration"] == set["metadata"]["generation"]
        };
        for pod in self.pods().await? {
            let released = json!({"metadata": {"finalizers": null}});
            // It may be gone already.
            drop(self.rig.merge("pods", &name_of(&pod), &released).await);
        }
        let deadline = Instant::now() + PATIENCE;
        while !is_empty(&self.rig.get("daemonsets", "foo").await?) {
            for pod in self.pods().await? {
                // What a kubelet does to a pod whose time is over.
                if pod["metadata"]["deletionTimestamp"].is_string() {
                    drop(self.rig.delete("pods", &name_of(&pod)).await);
                }
            }
            ensure!(
                Instant::now() < deadline,
                "{}",
                summary(&self.pods().await?)
            );
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        self.rig.delete("daemonsets", "foo").await?;
        for node in nodes {
            self.rig.delete("nodes", node.as_ref()).await?;
        }
        // There is no garbage collector.
        for revision in self.rig.list("controllerrevisions", "").await? {
            let name = name_of(&revision);
            self.rig.delete("controllerrevisions", &name).await?;
        }
        self.until_pods(0).await.map(drop)
    }
}

fn has_ended(pod: &Value) -> bool {
    matches!(
        pod["status"]["phase"].as_str(),
        Some("Succeeded" | "Failed")
    )
}

/// The node that a pod's affinity names.
fn pinned_to(pod: &Value) -> String {
    let required =
        &pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    let field = &required["nodeSelectorTerms"][0]["matchFields"][0];
    field["values"][0].as_str().unwrap_or_default().to_owned()
}

fn ensure_daemon(pod: &Value) -> Result<()> {
    let owners = pod["metadata"]["ownerReferences"].as_array();
    let owners = owners.map_or(&[][..], Vec::as_slice);
    ensure!(owners.len() == 1, "one owner: {pod}");
    ensure!(
        owners[0]["kind"] == "DaemonSet" && owners[0]["controller"] == true,
        "{pod}"
    );
    Ok(())
}

fn summary(pods: &[Value]) -> String {
    let pods = pods.iter().map(|pod| {
        let (node, status) = (pinned_to(pod), &pod["status"]["phase"]);
        let deleted = &pod["metadata"]["deletionTimestamp"];
        format!("{} for {node} {status} {deleted}", name_of(pod))
    });
    pods.collect::<Vec<_>>().join(", ")
}
