//! `test/integration/disruption` and `test/integration/evictions`, as far as the controller has a
//! part in them. What is left out stands in `plugins/disruption/cases/LEFT_OUT.md`.

use std::time::Duration;

use anyhow::{Result, bail};
use futures::future::try_join_all;
use pilothouse_tests::{WorkloadRig, name_of, now};
use serde_json::{Value, json};

const BUDGET: &str = "test-pdb";

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
