//! `test/integration/endpointslice`: `endpointslice_test.go` and
//! `endpointsliceterminating_test.go`.

use anyhow::{Result, ensure};
use pilothouse_tests::WorkloadRig;
use serde_json::{Value, json};

use crate::services::{create_node, create_pod, service, slices_of, terminate};

const HEADLESS: &str = "service.kubernetes.io/headless";

/// Waits until the Endpoints of a Service and its one slice have these labels, and not those.
async fn labelled(rig: &WorkloadRig, service: &str, with: &[&str], without: &[&str]) -> Result<()> {
    let is_labelled = |object: &Value| {
        let labels = &object["metadata"]["labels"];
        let has = |label: &&str| labels.get(label).is_some();
        with.iter().all(has) && !without.iter().any(has)
    };
    let what = format!("with {with:?} and without {without:?}");
    rig.eventually("endpoints", service, &what, is_labelled)
        .await?;
    let selector = slices_of(service);
    let are_labelled = |slices: &[Value]| slices.len() == 1 && is_labelled(&slices[0]);
    rig.eventually_all("endpointslices", &selector, &what, are_labelled)
        .await
        .map(drop)
}

/// `TestEndpointsControllersLabelSemantics`.
#[tokio::test]
async fn labels_of_the_service_are_on_its_endpoints_and_slices() -> Result<()> {
    let rig = WorkloadRig::start(&["endpoints", "endpointslice"]).await?;
    let mut headless = service("test-123", &json!({"clusterIP": "None"}));
    headless["metadata"]["labels"] = json!({"app": "test"});
    rig.create("services", &headless).await?;
    labelled(&rig, "test-123", &[HEADLESS, "app"], &[]).await?;

    let labels = json!({"metadata": {"labels": {"app": null, "new-label": "new-label-value"}}});
    rig.merge("services", "test-123", &labels).await?;
    labelled(&rig, "test-123", &[HEADLESS, "new-label"], &["app"]).await
}

/// `TestEndpointsHeadlessLabel`.
#[tokio::test]
async fn only_a_headless_service_has_the_label_of_one() -> Result<()> {
    let rig = WorkloadRig::start(&["endpoints", "endpointslice"]).await?;
    let rows = [(false, false), (true, false), (false, true), (true, true)];
    let name = |number: usize| format!("test-svc-{number}");
    for (number, (is_headless, is_labelled)) in rows.into_iter().enumerate() {
        let spec = if is_headless {
            json!({"clusterIP": "None"})
        } else {
            json!({})
        };
        let mut service = service(&name(number), &spec);
        service["metadata"]["labels"] = match is_labelled {
            true => json!({HEADLESS: ""}),
            false => json!({}),
        };
        rig.create("services", &service).await?;
    }
    for (number, (is_headless, _)) in rows.into_iter().enumerate() {
        let label: &[&str] = &[HEADLESS];
        let (with, without) = if is_headless {
            (label, &[][..])
        } else {
            (&[][..], label)
        };
        labelled(&rig, &name(number), with, without).await?;
    }
    Ok(())
}

/// Waits until the Service has one slice with one endpoint of these conditions.
async fn conditions(rig: &WorkloadRig, wanted: &Value) -> Result<()> {
    let are_wanted = |slices: &[Value]| match slices {
        [slice] => {
            let endpoint = &slice["endpoints"][0];
            endpoint["addresses"] == json!(["10.0.0.1"]) && endpoint["conditions"] == *wanted
        }
        _ => false,
    };
    let selector = slices_of("test-service");
    rig.eventually_all(
        "endpointslices",
        &selector,
        "of these conditions",
        are_wanted,
    )
    .await
    .map(drop)
}

async fn terminating(is_ready: bool) -> Result<()> {
    let rig = WorkloadRig::start(&["endpointslice"]).await?;
    create_node(&rig).await?;
    rig.create("services", &service("test-service", &json!({})))
        .await?;
    create_pod(&rig, "test-pod", "10.0.0.1", is_ready).await?;
    let there = json!({"ready": is_ready, "serving": is_ready, "terminating": false});
    conditions(&rig, &there).await?;
    terminate(&rig, "test-pod").await?;
    let going = json!({"ready": false, "serving": is_ready, "terminating": true});
    conditions(&rig, &going).await?;
    rig.delete("pods", "test-pod").await?;
    let selector = slices_of("test-service");
    // The server stores a list without elements as null.
    let is_empty = |slice: &Value| slice["endpoints"].as_array().is_none_or(Vec::is_empty);
    let are_empty = |slices: &[Value]| slices.len() == 1 && is_empty(&slices[0]);
    rig.eventually_all("endpointslices", &selector, "one, and empty", are_empty)
        .await
        .map(drop)
}

/// `TestEndpointSliceTerminating`, "ready terminating pods".
#[tokio::test]
async fn a_ready_pod_that_is_being_deleted_serves() -> Result<()> {
    terminating(true).await
}

/// `TestEndpointSliceTerminating`, "not ready terminating pods".
#[tokio::test]
async fn a_pod_that_is_not_ready_and_is_being_deleted_does_not_serve() -> Result<()> {
    terminating(false).await
}

/// A host that is killed while it writes leaves nothing that the next one does not put right: 250
/// pods are in three slices in the end, each once.
#[tokio::test]
async fn a_host_that_is_killed_while_it_writes_leaves_no_slice_too_many() -> Result<()> {
    let mut rig = WorkloadRig::without_host(&["endpointslice"]).await?;
    create_node(&rig).await?;
    for number in 0..250 {
        let ip = format!("10.0.{}.{}", number / 250, number % 250 + 1);
        create_pod(&rig, &format!("pod-{number}"), &ip, true).await?;
    }
    for number in 0..20 {
        let name = format!("service-{number}");
        rig.create("services", &service(&name, &json!({}))).await?;
    }
    rig.start_host().await?;
    let first = |slices: &[Value]| !slices.is_empty();
    rig.eventually_all("endpointslices", "", "there", first)
        .await?;
    rig.kill_host().await?;
    rig.start_host().await?;
    let are_settled = |slices: &[Value]| {
        let sizes = slices
            .iter()
            .map(|slice| slice["endpoints"].as_array().map_or(0, Vec::len));
        slices.len() == 60 && sizes.sum::<usize>() == 20 * 250
    };
    let slices = rig
        .eventually_all("endpointslices", "", "60 of 5,000 endpoints", are_settled)
        .await?;
    for number in 0..20 {
        let name = format!("service-{number}");
        let of_service = slices
            .iter()
            .filter(|slice| slice["metadata"]["labels"]["kubernetes.io/service-name"] == *name);
        let endpoints =
            of_service.flat_map(|slice| slice["endpoints"].as_array().into_iter().flatten());
        let mut addresses: Vec<String> =
            endpoints.map(|one| one["addresses"].to_string()).collect();
        addresses.sort();
        addresses.dedup();
        ensure!(
            addresses.len() == 250,
            "{name} has {} addresses",
            addresses.len()
        );
    }
    Ok(())
}
