//! `test/integration/endpoints`.

use anyhow::{Context, Result, ensure};
use pilothouse_tests::WorkloadRig;
use serde_json::{Value, json};

use crate::services::{create_pod, service, terminate};

/// Waits until the Endpoints of a Service have so many ready addresses, and returns them.
async fn addresses(rig: &WorkloadRig, service: &str, count: usize) -> Result<Value> {
    let is_wanted = |endpoints: &Value| {
        let ready = endpoints["subsets"][0]["addresses"].as_array();
        ready.map_or(0, Vec::len) == count
    };
    let what = format!("with {count} addresses");
    rig.eventually("endpoints", service, &what, is_wanted).await
}

/// `TestEndpointUpdates`.
#[tokio::test]
async fn endpoints_are_not_written_when_nothing_has_changed() -> Result<()> {
    let rig = WorkloadRig::start(&["endpoints"]).await?;
    create_pod(&rig, "test-pod", "1.1.1.1", true).await?;
    rig.create("services", &service("foo1", &json!({}))).await?;
    let before = addresses(&rig, "foo1", 1).await?;
    // The Service is looked at again, and then one that comes after it.
    let annotation = json!({"metadata": {"annotations": {"foo": "bar"}}});
    rig.merge("services", "foo1", &annotation).await?;
    rig.create("services", &service("foo2", &json!({}))).await?;
    addresses(&rig, "foo2", 1).await?;
    let after = rig.get("endpoints", "foo1").await?;
    assert_eq!(
        before["metadata"]["resourceVersion"],
        after["metadata"]["resourceVersion"]
    );
    Ok(())
}

/// `TestEndpointWithMultiplePodUpdates`.
#[tokio::test]
async fn a_pod_that_changes_there_and_back_is_ready_in_the_end() -> Result<()> {
    let rig = WorkloadRig::start(&["endpoints"]).await?;
    let pod = create_pod(&rig, "test-pod", "1.1.1.1", true).await?;
    let names: Vec<String> = (0..10).map(|number| format!("foo{number}")).collect();
    for name in &names {
        rig.create("services", &service(name, &json!({}))).await?;
    }
    for name in &names {
        addresses(&rig, name, 1).await?;
    }
    for _ in 0..5 {
        rig.set_pod_ready("test-pod", false).await?;
        rig.set_pod_ready("test-pod", true).await?;
    }
    // What comes after the changes shows that the host has seen them.
    rig.create("services", &service("last", &json!({}))).await?;
    addresses(&rig, "last", 1).await?;
    let target = json!({
        "kind": "Pod", "namespace": rig.namespace, "name": "test-pod",
        "uid": pod["metadata"]["uid"],
    });
    for name in &names {
        let endpoints = addresses(&rig, name, 1).await?;
        let wanted = json!([{"ip": "1.1.1.1", "nodeName": "fake-node", "targetRef": target}]);
        ensure!(
            endpoints["subsets"][0]["addresses"] == wanted,
            "{endpoints}"
        );
    }
    Ok(())
}

/// `TestExternalNameToClusterIPTransition`.
#[tokio::test]
async fn an_external_name_has_endpoints_when_it_becomes_something_else() -> Result<()> {
    let rig = WorkloadRig::start(&["endpoints"]).await?;
    create_pod(&rig, "test-pod", "1.1.1.1", true).await?;
    let external = json!({"type": "ExternalName", "externalName": "google.com"});
    rig.create("services", &service("foo1", &external)).await?;
    rig.create("services", &service("later", &json!({})))
        .await?;
    addresses(&rig, "later", 1).await?;
    let none = rig.api().get(&rig.path("endpoints", "foo1")).await?;
    ensure!(none.is_none(), "an external name has {none:?}");

    let ip = "10.200.0.1";
    let cluster_ip = json!({"spec": {
        "type": "ClusterIP", "externalName": null, "clusterIP": ip, "clusterIPs": [ip],
        "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack",
    }});
    rig.merge("services", "foo1", &cluster_ip).await?;
    let endpoints = addresses(&rig, "foo1", 1).await?;
    let labels = endpoints["metadata"]["labels"]
        .as_object()
        .context("there are labels")?;
    assert!(!labels.contains_key("service.kubernetes.io/headless"));
    Ok(())
}

/// `TestEndpointWithTerminatingPod`.
#[tokio::test]
async fn a_pod_that_is_being_deleted_is_not_in_endpoints() -> Result<()> {
    let rig = WorkloadRig::start(&["endpoints"]).await?;
    create_pod(&rig, "test-pod", "10.0.0.1", true).await?;
    rig.create("services", &service("test-service", &json!({})))
        .await?;
    addresses(&rig, "test-service", 1).await?;
    terminate(&rig, "test-pod").await?;
    addresses(&rig, "test-service", 0).await?;
    let pod = rig.get("pods", "test-pod").await?;
    ensure!(
        pod["metadata"]["deletionTimestamp"].is_string(),
        "the pod is still there: {pod}"
    );
    Ok(())
}

/// `TestEndpointTruncate`.
#[tokio::test]
async fn endpoints_over_capacity_say_so_until_they_are_not() -> Result<()> {
    let rig = WorkloadRig::start(&["endpoints"]).await?;
    let name = |number: usize| format!("test-pod-{number}");
    for number in 0..1_001 {
        let ip = format!("10.0.{}.{}", number / 250, number % 250 + 1);
        create_pod(&rig, &name(number), &ip, true).await?;
    }
    rig.create("services", &service("test-service", &json!({})))
        .await?;
    let truncated = |endpoints: &Value| {
        let annotations = &endpoints["metadata"]["annotations"];
        annotations["endpoints.kubernetes.io/over-capacity"] == "truncated"
    };
    let endpoints = addresses(&rig, "test-service", 1_000).await?;
    ensure!(
        truncated(&endpoints),
        "they say so: {}",
        endpoints["metadata"]
    );
    let listed = endpoints["subsets"][0]["addresses"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let is_listed = |name: &String| listed.iter().any(|one| one["targetRef"]["name"] == **name);
    let left_out = (0..1_001).map(name).find(|name| !is_listed(name));
    let left_out = left_out.context("one pod is left out")?;
    for _ in 0..10 {
        rig.set_pod_ready(&left_out, false).await?;
        rig.set_pod_ready(&left_out, true).await?;
    }
    for number in 500..1_001 {
        rig.delete("pods", &name(number)).await?;
    }
    let endpoints = addresses(&rig, "test-service", 500).await?;
    ensure!(
        !truncated(&endpoints),
        "they say so no more: {}",
        endpoints["metadata"]
    );
    Ok(())
}
