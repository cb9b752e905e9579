//! `test/integration/endpointslice/endpointslicemirroring_test.go`.

use anyhow::{Result, ensure};
use pilothouse_tests::WorkloadRig;
use serde_json::{Value, json};

use crate::services::{service, slices_of};

const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
const MIRRORING: &str = "endpointslicemirroring-controller.k8s.io";

/// Endpoints of these subsets.
fn endpoints(name: &str, subsets: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": name}, "subsets": subsets})
}

fn one_address() -> Value {
    json!([{"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 80}]}])
}

/// Two subsets, one at each port.
fn two_subsets(first: &str, second: &str) -> Value {
    json!([
        {"addresses": [{"ip": first}], "ports": [{"name": "port1", "port": 80}]},
        {"addresses": [{"ip": second}], "ports": [{"name": "port2", "port": 90}]},
    ])
}

/// Waits until there are so many slices, all maintained by this controller, and returns them.
async fn slices(rig: &WorkloadRig, name: &str, count: usize, by: &str) -> Result<Vec<Value>> {
    let what = format!("{count} by {by}");
    let selector = slices_of(name);
    let are_wanted = |slices: &[Value]| slices.len() == count;
    let found = rig
        .eventually_all("endpointslices", &selector, &what, are_wanted)
        .await?;
    for slice in &found {
        let managed_by = &slice["metadata"]["labels"][MANAGED_BY];
        ensure!(managed_by == by, "{name} is managed by {managed_by}");
    }
    Ok(found)
}

/// `TestEndpointSliceMirroring`.
#[tokio::test]
async fn only_endpoints_of_a_service_without_a_selector_are_mirrored() -> Result<()> {
    let plugins = ["endpoints", "endpointslice", "endpointslicemirroring"];
    let rig = WorkloadRig::start(&plugins).await?;
    let none = json!({"selector": null});
    let by_hand = [
        ("without-service", one_address(), 0),
        ("without-selector", one_address(), 1),
        ("same-address", two_subsets("10.0.0.1", "10.0.0.1"), 1),
        ("two-addresses", two_subsets("10.0.0.1", "10.0.0.2"), 2),
    ];
    for (name, subsets, _) in &by_hand {
        if *name != "without-service" {
            rig.create("services", &service(name, &none)).await?;
        }
        rig.create("endpoints", &endpoints(name, subsets)).await?;
    }
    rig.create("services", &service("with-selector", &json!({})))
        .await?;
    // The first one is looked at last: nothing is to happen to it.
    for (name, _, count) in by_hand.iter().rev() {
        slices(&rig, name, *count, MIRRORING).await?;
    }
    slices(&rig, "with-selector", 1, "endpointslice-controller.k8s.io").await?;
    Ok(())
}

/// `TestEndpointSliceMirroringUpdates`.
#[tokio::test]
async fn changes_of_endpoints_are_mirrored() -> Result<()> {
    let rig = WorkloadRig::start(&["endpointslicemirroring"]).await?;
    let time = "endpoints.kubernetes.io/last-change-trigger-time";
    let more = json!([
        {"addresses": [{"ip": "1.2.3.4"}, {"ip": "1.2.3.6"}], "ports": [{"port": 80}]},
    ]);
    let rows = [
        ("labels", json!({"metadata": {"labels": {"foo": "bar"}}})),
        (
            "annotations",
            json!({"metadata": {"annotations": {"foo2": "bar2"}}}),
        ),
        (
            "times",
            json!({"metadata": {"annotations": {"foo2": "bar2", time: "date"}}}),
        ),
        ("addresses", json!({"subsets": more})),
    ];
    for (name, change) in &rows {
        rig.create("services", &service(name, &json!({"selector": null})))
            .await?;
        rig.create("endpoints", &endpoints(name, &one_address()))
            .await?;
        let changed = rig.merge("endpoints", name, change).await?;
        let is_mirrored = |slices: &[Value]| {
            let [slice] = slices else { return false };
            let addresses = |list: &Value, of: fn(&Value) -> &Value| {
                let list = list.as_array().into_iter().flatten();
                list.map(|one| of(one).clone()).collect::<Vec<_>>()
            };
            let labels = changed["metadata"]["labels"]
                .as_object()
                .into_iter()
                .flatten();
            let mut labels =
                labels.map(|(name, value)| slice["metadata"]["labels"][name] == *value);
            let mut annotations = changed["metadata"]["annotations"].clone();
            if let Some(annotations) = annotations.as_object_mut() {
                annotations.remove(time);
            }
            addresses(&slice["endpoints"], |one| &one["addresses"][0])
                == addresses(&changed["subsets"][0]["addresses"], |one| &one["ip"])
                && labels.all(|is_there| is_there)
                && slice["metadata"]["annotations"] == annotations
        };
        rig.eventually_all("endpointslices", &slices_of(name), "mirrored", is_mirrored)
            .await?;
    }
    Ok(())
}

/// `TestEndpointSliceMirroringSelectorTransition`. An empty selector is stored as none.
#[tokio::test]
async fn slices_go_and_come_with_the_selector_of_the_service() -> Result<()> {
    let rig = WorkloadRig::start(&["endpointslicemirroring"]).await?;
    let (none, empty, some) = (json!(null), json!({}), json!({"foo": "bar"}));
    let rows = [
        ("none-some", &none, 1, &some, 0),
        ("some-none", &some, 0, &none, 1),
        ("empty-some", &empty, 1, &some, 0),
        ("some-empty", &some, 0, &empty, 1),
    ];
    for (name, before, count, ..) in rows {
        rig.create("services", &service(name, &json!({"selector": before})))
            .await?;
        rig.create("endpoints", &endpoints(name, &one_address()))
            .await?;
        slices(&rig, name, count, MIRRORING).await?;
    }
    for (name, _, _, after, count) in rows {
        // A merge patch would leave labels of the old selector in an empty one.
        let selector = json!({"spec": {"selector": null}});
        if *after != some {
            rig.merge("services", name, &selector).await?;
        } else {
            rig.merge("services", name, &json!({"spec": {"selector": after}}))
                .await?;
        }
        slices(&rig, name, count, MIRRORING).await?;
    }
    Ok(())
}

/// Endpoints that go while no host runs take their slice with them when one starts.
#[tokio::test]
async fn a_slice_of_endpoints_that_went_unseen_goes_too() -> Result<()> {
    let mut rig = WorkloadRig::start(&["endpointslicemirroring"]).await?;
    rig.create("services", &service("test-123", &json!({"selector": null})))
        .await?;
    rig.create("endpoints", &endpoints("test-123", &one_address()))
        .await?;
    slices(&rig, "test-123", 1, MIRRORING).await?;
    rig.kill_host().await?;
    rig.delete("endpoints", "test-123").await?;
    slices(&rig, "test-123", 1, MIRRORING).await?;
    rig.start_host().await?;
    slices(&rig, "test-123", 0, MIRRORING).await.map(drop)
}
