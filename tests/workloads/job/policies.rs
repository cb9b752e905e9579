//! Pod failure policy, success policy, pod replacement policy.

use anyhow::{Result, ensure};
use pilothouse_tests::name_of;
use serde_json::{Value, json};

use super::{BLOCKING, Counts, Jobs, active, condition_types};

fn failure_policy() -> Value {
    let codes = |values: &[i32]| json!({"operator": "In", "values": values});
    json!({"rules": [
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
        {"action": "Count", "onExitCodes": codes(&[10])},
        {"action": "FailJob", "onExitCodes": codes(&[5, 6, 7, -1_073_741_510])},
    ]})
}

/// `TestJobPodFailurePolicy`.
#[tokio::test]
async fn the_pod_failure_policy_decides_what_a_failure_means() -> Result<()> {
    let mut jobs = Jobs::start().await?;
    for (name, exit_code, restarts) in [
        ("five", 5, false),
        ("five-restarted", 5, true),
        ("negative", -1_073_741_510, false),
    ] {
        jobs.create(name, json!({"podFailurePolicy": failure_policy()}))
            .await?;
        jobs.until_pods(name, active(1)).await?;
        let pod = name_of(&jobs.active_pods(name).await?[0]);
        jobs.end_pod(&pod, "Failed", exit_code).await?;
        if restarts {
            jobs.rig.kill_host().await?;
            jobs.rig.start_host().await?;
        }
        let condition = jobs.until_condition(name, "Failed").await?;
        ensure!(condition["reason"] == "PodFailurePolicy", "{condition}");
        let text = format!(
            "Container main-container for pod {}/{pod} failed with exit code {exit_code} matching \
             FailJob rule at index 2",
            jobs.rig.namespace
        );
        ensure!(condition["message"] == text, "{condition}");
        jobs.until_pods(name, active(0).failed(1)).await?;
        jobs.until_ended_pods_are_free(name).await?;
    }
    for (name, exit_code, failed) in [("counted", 10, 1), ("unmatched", 1, 1), ("ignored", 0, 0)] {
        jobs.create(name, json!({"podFailurePolicy": failure_policy()}))
            .await?;
        jobs.until_pods(name, active(1)).await?;
        let pod = name_of(&jobs.active_pods(name).await?[0]);
        if name == "ignored" {
            let condition = json!({"type": "DisruptionTarget", "status": "True"});
            let status = json!({"phase": "Failed", "conditions": [condition]});
            jobs.rig.merge_status("pods", &pod, &status).await?;
        } else {
            jobs.end_pod(&pod, "Failed", exit_code).await?;
        }
        jobs.until_pods(name, active(1).failed(failed)).await?;
        jobs.rig
            .eventually_pods(&format!("job-name={name}"), 2)
            .await?;
        jobs.end(name, "Succeeded", 1).await?;
        jobs.until_condition(name, "Complete").await?;
        jobs.until_ended_pods_are_free(name).await?;
    }
    Ok(())
}

/// `TestJobPodFailurePolicyWithFailedPodDeletedDuringControllerRestart`.
#[tokio::test]
async fn a_job_that_is_to_fail_fails_though_the_pod_is_gone_that_was_the_reason() -> Result<()> {
    let mut jobs = Jobs::start().await?;
    let spec = json!({
        "parallelism": 3, "completions": 3, "podFailurePolicy": failure_policy(),
        // On a node pods that are deleted do not go at once, so the Job cannot end before.
        "template": {"spec": {"nodeName": "foo"}},
    });
    jobs.create("a", spec).await?;
    jobs.until_pods("a", active(3)).await?;
    let pod = name_of(&jobs.active_pods("a").await?[1]);
    jobs.end_pod(&pod, "Failed", 5).await?;
    let is_free = |pod: &Value| !super::is_tracked(pod);
    jobs.rig.eventually("pods", &pod, "free", is_free).await?;
    jobs.rig.kill_host().await?;
    jobs.rig.delete("pods", &pod).await?;
    jobs.rig.start_host().await?;
    for pod in jobs.pods("a").await? {
        jobs.end_pod(&name_of(&pod), "Failed", 0).await?;
    }
    let condition = jobs.until_condition("a", "Failed").await?;
    ensure!(condition["reason"] == "PodFailurePolicy", "{condition}");
    jobs.until("a", active(0).failed(3)).await?;
    jobs.until_all_pods_are_free("a").await
}

/// `TestSuccessPolicy`.
#[tokio::test]
async fn a_success_policy_ends_a_job_before_all_indexes_have_succeeded() -> Result<()> {
    let jobs = Jobs::start().await?;
    let spec = |rule: Value| {
        json!({
            "parallelism": 3, "completions": 3, "completionMode": "Indexed", "backoffLimit": 10,
            "successPolicy": {"rules": [rule]},
        })
    };
    let rules = [
        (
            "indexes",
            json!({"succeededIndexes": "0,2"}),
            vec![0, 2],
            "0,2",
        ),
        ("count", json!({"succeededCount": 1}), vec![1], "1"),
        (
            "both",
            json!({"succeededIndexes": "0-2", "succeededCount": 2}),
            vec![2, 1],
            "1,2",
        ),
    ];
    for (name, rule, succeed, completed) in rules {
        jobs.create(name, spec(rule)).await?;
        jobs.until_pods(name, active(3)).await?;
        for index in &succeed {
            jobs.end_index(name, "Succeeded", *index).await?;
        }
        let condition = jobs.until_condition(name, "SuccessCriteriaMet").await?;
        ensure!(condition["reason"] == "SuccessPolicy", "{condition}");
        ensure!(
            condition["message"] == "Matched rules at index 0",
            "{condition}"
        );
        let succeeded = i64::try_from(succeed.len())?;
        jobs.until_condition(name, "Complete").await?;
        let status = jobs
            .until_pods(name, active(0).succeeded(succeeded))
            .await?;
        ensure!(
            condition_types(&status) == ["SuccessCriteriaMet", "Complete"],
            "{status}"
        );
        jobs.expect_indexes(name, &[], completed, None).await?;
        jobs.until_all_pods_are_free(name).await?;
    }
    Ok(())
}

/// `TestJobPodReplacementPolicy`.
#[tokio::test]
async fn the_replacement_policy_says_when_a_deleted_pod_is_replaced() -> Result<()> {
    let jobs = Jobs::start().await?;
    let late = [active(0).terminating(2), active(2).failed(2)];
    let early = [active(2).failed(2).terminating(2), active(2).failed(2)];
    for (name, mode, policy, [deleted, ended]) in [
        ("early-indexed", "Indexed", "TerminatingOrFailed", early),
        ("early", "NonIndexed", "TerminatingOrFailed", early),
        ("late-indexed", "Indexed", "Failed", late),
        ("late", "NonIndexed", "Failed", late),
    ] {
        let spec = json!({
            "parallelism": 2, "completions": 2, "completionMode": mode,
            "podReplacementPolicy": policy, "template": {"metadata": {"finalizers": [BLOCKING]}},
        });
        jobs.create(name, spec).await?;
        jobs.until_pods(name, active(2)).await?;
        let doomed = jobs.active_pods(name).await?;
        for pod in &doomed {
            jobs.delete_with("pods", &name_of(pod), "Background")
                .await?;
        }
        jobs.until(name, deleted).await?;
        for pod in &doomed {
            jobs.end_pod(&name_of(pod), "Failed", 0).await?;
        }
        jobs.until(name, ended).await?;
    }
    Ok(())
}

/// `TestDelayTerminalPhaseCondition`.
#[tokio::test]
async fn a_job_ends_when_its_last_pod_has_ended() -> Result<()> {
    let jobs = Jobs::start().await?;
    let template = json!({"metadata": {"finalizers": [BLOCKING]}});
    let spec = json!({
        "parallelism": 2, "completions": 2, "backoffLimit": 0, "template": template,
    });
    jobs.create("fails", spec).await?;
    jobs.until_pods("fails", active(2)).await?;
    jobs.end("fails", "Failed", 1).await?;
    let before = Counts::default().failed(2).terminating(1);
    expect_delay(&jobs, "fails", before, ["FailureTarget", "Failed"]).await?;

    let spec = json!({
        "parallelism": 2, "completions": 2, "completionMode": "Indexed", "template": template,
    });
    jobs.create("shrinks", spec).await?;
    jobs.until_pods("shrinks", active(2)).await?;
    jobs.end_index("shrinks", "Succeeded", 0).await?;
    jobs.change("shrinks", &json!({"parallelism": 1, "completions": 1}))
        .await?;
    let before = Counts::default().succeeded(1).terminating(1);
    expect_delay(&jobs, "shrinks", before, ["SuccessCriteriaMet", "Complete"]).await
}

/// Expects the first of these conditions alone until the last pod has ended.
async fn expect_delay(jobs: &Jobs, name: &str, before: Counts, types: [&str; 2]) -> Result<()> {
    jobs.until_condition(name, types[0]).await?;
    jobs.until(name, before).await?;
    jobs.wait_for_mistakes().await;
    let status = jobs.until(name, before).await?;
    ensure!(condition_types(&status) == types[..1], "{status}");
    for pod in jobs.pods(name).await? {
        let has_ended = matches!(
            pod["status"]["phase"].as_str(),
            Some("Succeeded" | "Failed")
        );
        if !has_ended {
            jobs.end_pod(&name_of(&pod), "Succeeded", 0).await?;
        }
    }
    jobs.until_condition(name, types[1]).await?;
    let status = jobs.until(name, before.terminating(0)).await?;
    ensure!(condition_types(&status) == types, "{status}");
    Ok(())
}
