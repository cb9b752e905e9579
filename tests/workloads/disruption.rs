//! `test/integration/disruption` and `test/integration/evictions`, as far as the controller has a
//! part in them. What is left out stands in `plugins/disruption/cases/LEFT_OUT.md`.

use std::time::Duration;

use anyhow::{Result, bail};
use futures::future::try_join_all;
use pilothouse_tests::{DEFINITIONS, WorkloadRig, definition, name_of, now};
use serde_json::{Value, json};

const BUDGET: &str = "test-pdb";

/// All that the plugin asks for, the pattern included.
const WITH_CUSTOM_KINDS: &str = r#"
[grants]
reads = [
  "*", "PodDisruptionBudget", "Pod", "ReplicationController", "apps/ReplicaSet", "apps/Deployment",
  "apps/StatefulSet",
]
events = true
writes = [
  { kind = "policy/PodDisruptionBudget", subresource = "status" },
  { kind = "Pod", subresource = "status" },
]
"#;

/// A rig with the plugin.
struct Budgets {
    rig: WorkloadRig,
}

impl Budgets {
    async fn start() -> Result<Self> {
        let rig = WorkloadRig::start(&["disruption"]).await?;
        Ok(Self { rig })
    }

    /// A pod in this phase, which is ready or says nothing about it.
    async fn pod(&self, name: &str, phase: &str, is_ready: bool) -> Result<()> {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "labels": {"app": "test-evictions"}},
            "spec": {"containers": [{"name": "fake-name", "image": "fakeimage"}]},
        });
        self.rig.create("pods", &pod).await?;
        let ready = json!([{"type": "Ready", "status": "True"}]);
        let conditions = if is_ready { ready } else { json!([]) };
        let status = json!({"phase": phase, "conditions": conditions});
        self.rig.merge_status("pods", name, &status).await.map(drop)
    }

    /// A budget that selects these pods, and lets all of them go.
    async fn budget(&self, policy: Option<&str>) -> Result<()> {
        let budget = json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": {"name": BUDGET},
            "spec": {
                "minAvailable": 0, "selector": {"matchLabels": {"app": "test-evictions"}},
                "unhealthyPodEvictionPolicy": policy,
            },
        });
        let created = self.rig.create("poddisruptionbudgets", &budget).await?;
        assert_eq!(name_of(&created), BUDGET);
        Ok(())
    }

    /// Waits until this number of the status has this value. It returns the budget.
    async fn until(&self, number: &str, value: usize) -> Result<Value> {
        let what = format!("{number}={value}");
        let is_so = |budget: &Value| budget["status"][number] == value;
        self.rig
            .eventually("poddisruptionbudgets", BUDGET, &what, is_so)
            .await
    }

    /// A custom object of which there should be four pods, its pods, which run, and a budget that
    /// lets two of them go.
    async fn custom(&self, group: &str) -> Result<()> {
        let mut defined = definition(group, "Crd");
        defined["spec"]["versions"][0]["subresources"] = json!({"scale": {
            "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas",
        }});
        let rig = &self.rig;
        rig.api().create(DEFINITIONS, &defined).await?;
        let is_served = |found: Option<&Value>| found.is_some();
        let path = custom(rig, group, "");
        rig.api().eventually(&path, "served", is_served).await?;
        let api_version = format!("{group}/v1");
        let owner = json!({
            "apiVersion": api_version, "kind": "Crd", "metadata": {"name": "resource"},
            "spec": {"replicas": 4},
        });
        let owner = rig.api().create(&path, &owner).await?;
        for number in 0..4 {
            let name = format!("pod-{number}");
            let pod = json!({
                "apiVersion": "v1", "kind": "Pod",
                "metadata": {
                    "name": name, "labels": {"app": "test-crd"},
                    "ownerReferences": [{
                        "apiVersion": api_version, "kind": "Crd", "name": "resource",
                        "uid": owner["metadata"]["uid"], "controller": true,
                    }],
                },
                "spec": {"containers": [{"name": "fake-name", "image": "fakeimage"}]},
            });
            rig.create("pods", &pod).await?;
            rig.set_pod_ready(&name, true).await?;
        }
        let budget = json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": {"name": BUDGET},
            "spec": {"maxUnavailable": 2, "selector": {"matchLabels": {"app": "test-crd"}}},
        });
        rig.create("poddisruptionbudgets", &budget).await.map(drop)
    }

    /// Asks for an eviction. `false`: the budget does not allow it now.
    async fn evict(&self, name: &str) -> Result<bool> {
        let eviction = json!({
            "apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name},
            "deleteOptions": {"gracePeriodSeconds": 30},
        });
        let path = format!("{}/eviction", self.rig.path("pods", name));
        let Err(error) = self.rig.api().create(&path, &eviction).await else {
            return Ok(true);
        };
        match error.downcast_ref::<kube::Error>() {
            Some(kube::Error::Api(status)) if status.code == 429 => Ok(false),
            _ => Err(error),
        }
    }

    /// Asks until the eviction is allowed.
    async fn evict_at_last(&self, name: &str) -> Result<()> {
        for _ in 0..600 {
            if self.evict(name).await? {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        bail!("the pod {name} was never allowed to go");
    }
}

/// The path of custom objects, or of one of them.
fn custom(rig: &WorkloadRig, group: &str, name: &str) -> String {
    let path = format!("/apis/{group}/v1/namespaces/{}/crds/{name}", rig.namespace);
    path.trim_end_matches('/').to_owned()
}

/// `TestPDBWithScaleSubresource`; and then the scale changes, and nothing else does.
#[tokio::test]
async fn a_budget_counts_the_pods_of_a_custom_object_by_its_scale() -> Result<()> {
    let mut rig = WorkloadRig::without_host(&["disruption"]).await?;
    rig.configure("disruption", WITH_CUSTOM_KINDS)?;
    rig.start_host().await?;
    let budgets = Budgets { rig };
    let group = "scaled.example.com";
    budgets.custom(group).await?;
    let healthy = |budget: &Value| budget["status"]["currentHealthy"] == 4;
    let rig = &budgets.rig;
    let budget = rig
        .eventually("poddisruptionbudgets", BUDGET, "healthy", healthy)
        .await?;
    assert_eq!(budget["status"]["expectedPods"], 4);
    assert_eq!(budget["status"]["desiredHealthy"], 2);
    assert_eq!(budget["status"]["disruptionsAllowed"], 2);
    let scale = format!("{}/scale", custom(rig, group, "resource"));
    let five = json!({"spec": {"replicas": 5}});
    rig.api().merge(&scale, &five).await?;
    let budget = budgets.until("expectedPods", 5).await?;
    assert_eq!(budget["status"]["desiredHealthy"], 3);
    assert_eq!(budget["status"]["disruptionsAllowed"], 1);
    Ok(())
}

#[tokio::test]
async fn without_the_pattern_a_budget_of_custom_pods_lets_none_go_and_says_why() -> Result<()> {
    let budgets = Budgets::start().await?;
    budgets.custom("ungranted.example.com").await?;
    let condition = |budget: &Value| budget["status"]["conditions"][0].clone();
    let is_told = |budget: &Value| condition(budget)["reason"] == "SyncFailed";
    let budget = budgets
        .rig
        .eventually("poddisruptionbudgets", BUDGET, "told", is_told)
        .await?;
    assert_eq!(budget["status"]["disruptionsAllowed"], 0);
    let message = condition(&budget)["message"].to_string();
    for part in [
        "the scale of kind",
        "Crd",
        "not granted",
        "integer minAvailable",
    ] {
        assert!(message.contains(part), "{message}");
    }
    Ok(())
}

/// `TestConcurrentEvictionRequests`: the API server and the controller write the same status.
#[tokio::test]
async fn pods_that_are_evicted_at_the_same_time_all_go() -> Result<()> {
    let budgets = Budgets::start().await?;
    let names: Vec<String> = (0..10).map(|number| format!("test-pod-{number}")).collect();
    for name in &names {
        budgets.pod(name, "Running", true).await?;
    }
    budgets.budget(None).await?;
    budgets.until("currentHealthy", 10).await?;
    try_join_all(names.iter().map(|name| budgets.evict_at_last(name))).await?;
    assert_eq!(budgets.rig.list("pods", "").await?, [] as [Value; 0]);
    let settled = |budget: &Value| {
        let pods = budget["status"]["disruptedPods"].as_object();
        budget["status"]["expectedPods"] == 0 && pods.is_none_or(serde_json::Map::is_empty)
    };
    let rig = &budgets.rig;
    rig.eventually("poddisruptionbudgets", BUDGET, "settled", settled)
        .await
        .map(drop)
}

/// `TestTerminalPodEviction`.
#[tokio::test]
async fn a_pod_that_has_ended_goes_without_the_budget() -> Result<()> {
    let budgets = Budgets::start().await?;
    budgets.pod("test-terminal-pod1", "Succeeded", true).await?;
    budgets.budget(None).await?;
    let before = budgets.until("currentHealthy", 1).await?;
    budgets.evict_at_last("test-terminal-pod1").await?;
    let after = budgets.until("currentHealthy", 0).await?;
    let generation = |budget: &Value| budget["status"]["observedGeneration"].clone();
    assert_eq!(generation(&after), generation(&before));
    assert_eq!(after["status"]["disruptedPods"], Value::Null);
    Ok(())
}

/// `TestEvictionWithUnhealthyPodEvictionPolicy`: the first request is allowed.
#[tokio::test]
async fn unready_pods_go_as_the_budget_says() -> Result<()> {
    let budgets = Budgets::start().await?;
    for (policy, is_ready) in [
        (None, true),
        (Some("IfHealthyBudget"), true),
        (Some("AlwaysAllow"), true),
        (Some("AlwaysAllow"), false),
    ] {
        budgets.pod("pod", "Running", is_ready).await?;
        budgets.budget(policy).await?;
        budgets.until("expectedPods", 1).await?;
        budgets
            .until("currentHealthy", usize::from(is_ready))
            .await?;
        assert!(budgets.evict("pod").await?, "{policy:?}");
        budgets.until("currentHealthy", 0).await?;
        budgets.until("expectedPods", 0).await?;
        budgets.rig.delete("poddisruptionbudgets", BUDGET).await?;
    }
    Ok(())
}

/// `TestStalePodDisruption`, with its three seconds.
#[tokio::test]
async fn a_condition_is_set_back_when_its_pod_was_not_disrupted() -> Result<()> {
    let mut rig = WorkloadRig::without_host(&["disruption"]).await?;
    rig.configure("disruption", "[config]\nstaleDisruptionSeconds = 3\n")?;
    rig.start_host().await?;
    for (name, phase, reason) in [
        ("deleted-pod", "Running", ""),
        ("condition-by-kubelet", "Failed", "TerminationByKubelet"),
        ("condition-on-failed-pod", "Failed", ""),
        ("stale-condition", "Running", ""),
    ] {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
            "spec": {"nodeName": "foo", "containers": [{"name": "pause", "image": "pause"}]},
        });
        rig.create("pods", &pod).await?;
        let condition = json!({
            "type": "DisruptionTarget", "status": "True", "reason": reason,
            "lastTransitionTime": now(),
        });
        let status = json!({"phase": phase, "conditions": [condition]});
        rig.merge_status("pods", name, &status).await?;
        if name == "deleted-pod" {
            rig.api()
                .delete_with_grace(&rig.path("pods", name), 30)
                .await?;
        }
    }
    let target = |pod: &Value| pod["status"]["conditions"][0].clone();
    let is_false = |pod: &Value| target(pod)["status"] == "False";
    let stale = rig
        .eventually("pods", "stale-condition", "set back", is_false)
        .await?;
    assert_eq!(target(&stale)["observedGeneration"], 1);
    // The other conditions are older: their time has passed as well.
    for name in [
        "deleted-pod",
        "condition-by-kubelet",
        "condition-on-failed-pod",
    ] {
        let pod = rig.get("pods", name).await?;
        assert_eq!(target(&pod)["status"], "True", "{name}");
    }
    Ok(())
}
