//! Pods whose Job is gone, or never theirs.

use anyhow::{Result, ensure};
use pilothouse_tests::name_of;
use serde_json::json;

use super::{Jobs, TRACKING, active};

/// `TestOrphanPodsFinalizersClearedWithGC`. There is no garbage collector here, so the test does
/// what one would do.
#[tokio::test]
async fn pods_are_freed_however_their_job_is_deleted() -> Result<()> {
    let jobs = Jobs::start().await?;
    for policy in ["Background", "Foreground", "Orphan"] {
        let name = &policy.to_lowercase();
        jobs.create(name, json!({"parallelism": 2})).await?;
        jobs.until_pods(name, active(2)).await?;
        jobs.delete_with("jobs", name, policy).await?;
        for pod in jobs.pods(name).await? {
            if policy == "Orphan" {
                let patch = json!({"metadata": {"ownerReferences": []}});
                jobs.rig.merge("pods", &name_of(&pod), &patch).await?;
            } else {
                jobs.delete_with("pods", &name_of(&pod), "Background")
                    .await?;
            }
        }
        if policy != "Background" {
            let patch = json!({"metadata": {"finalizers": []}});
            jobs.rig.merge("jobs", name, &patch).await?;
        }
        jobs.until_all_pods_are_free(name).await?;
    }
    Ok(())
}

/// `TestOrphanPodsFinalizersClearedOnRestart`.
#[tokio::test]
async fn pods_are_freed_whose_job_was_deleted_while_no_host_ran() -> Result<()> {
    let mut jobs = Jobs::start().await?;
    for name in ["orphaned", "gone"] {
        jobs.create(name, json!({"parallelism": 1})).await?;
        jobs.until_pods(name, active(1)).await?;
    }
    jobs.rig.kill_host().await?;
    // As a Job is deleted by default: it stays until a garbage collector has seen it.
    jobs.delete_with("jobs", "orphaned", "Orphan").await?;
    jobs.delete_with("jobs", "gone", "Background").await?;
    for pod in jobs.pods("gone").await? {
        jobs.delete_with("pods", &name_of(&pod), "Background")
            .await?;
    }
    jobs.rig.start_host().await?;
    jobs.until_all_pods_are_free("orphaned").await?;
    jobs.until_all_pods_are_free("gone").await
}

/// `TestManagedBy_UsingReservedJobFinalizers`.
#[tokio::test]
async fn pods_of_another_controller_keep_the_finalizer() -> Result<()> {
    let jobs = Jobs::start().await?;
    let job = jobs
        .create(
            "a",
            json!({"managedBy": "example.com/custom-job-controller"}),
        )
        .await?;
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "pod1", "labels": job["spec"]["template"]["metadata"]["labels"],
            "finalizers": [TRACKING],
            "ownerReferences": [{
                "apiVersion": "batch/v1", "kind": "Job", "name": "a", "uid": job["metadata"]["uid"],
                "controller": true, "blockOwnerDeletion": true,
            }],
        },
        "spec": job["spec"]["template"]["spec"],
    });
    jobs.rig.create("pods", &pod).await?;
    jobs.end_pod("pod1", "Succeeded", 0).await?;
    let condition = json!({"type": "SuccessCriteriaMet", "status": "True"});
    let status = json!({"conditions": [condition], "startTime": pilothouse_tests::now()});
    jobs.rig.merge_status("jobs", "a", &status).await?;
    jobs.wait_for_mistakes().await;
    let pod = jobs.rig.get("pods", "pod1").await?;
    ensure!(pod["metadata"]["finalizers"] == json!([TRACKING]), "{pod}");
    Ok(())
}

/// `TestGetPodsForJob`, on a server.
#[tokio::test]
async fn a_job_adopts_pods_that_it_selects_and_gives_up_those_it_does_not() -> Result<()> {
    let jobs = Jobs::start().await?;
    let spec = json!({
        "parallelism": 2, "completions": 9, "manualSelector": true,
        "selector": {"matchLabels": {"mine": "yes"}},
        "template": {"metadata": {"labels": {"mine": "yes", "job-name": "a"}}},
    });
    jobs.create("a", spec).await?;
    jobs.until_pods("a", active(2)).await?;
    let pods = jobs.active_pods("a").await?;
    let patch = json!({"metadata": {"ownerReferences": []}});
    jobs.rig.merge("pods", &name_of(&pods[0]), &patch).await?;
    let is_adopted = |pod: &serde_json::Value| {
        pod["metadata"]["ownerReferences"][0]["name"] == "a" && super::is_tracked(pod)
    };
    jobs.rig
        .eventually("pods", &name_of(&pods[0]), "adopted", is_adopted)
        .await?;

    let patch = json!({"metadata": {"labels": {"mine": "no"}}});
    jobs.rig.merge("pods", &name_of(&pods[1]), &patch).await?;
    let is_given_up = |pod: &serde_json::Value| {
        pod["metadata"]["ownerReferences"].is_null() && !super::is_tracked(pod)
    };
    jobs.rig
        .eventually("pods", &name_of(&pods[1]), "given up", is_given_up)
        .await?;
    jobs.rig.eventually_pods("mine=yes", 2).await.map(drop)
}
