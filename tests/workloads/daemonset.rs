//! `test/integration/daemonset`, with a scheduler and a kubelet of the test's own.

mod rig;

use anyhow::{Result, ensure};
use http::Method;
use pilothouse_tests::name_of;
use pilothouse_tests::proxy::{Answer, writes};
use serde_json::{Value, json};

use rig::{Daemons, on_delete, rolling, strategies};

/// `TestOneNodeDaemonLaunchesPod`
#[tokio::test]
async fn the_only_node_gets_a_pod() -> Result<()> {
    let daemons = Daemons::start().await?;
    for strategy in strategies() {
        daemons.create(&daemons.set(&strategy)).await?;
        daemons.add_node("single-node", json!({})).await?;
        daemons.until_ready(1).await?;
        daemons.until_status("numberReady", 1).await?;
        daemons.clean_up(&["single-node"]).await?;
    }
    Ok(())
}

/// `TestSimpleDaemonSetLaunchesPods`
#[tokio::test]
async fn every_node_gets_a_pod() -> Result<()> {
    let daemons = Daemons::start().await?;
    for strategy in strategies() {
        daemons.create(&daemons.set(&strategy)).await?;
        let nodes = daemons.add_nodes(0..5, json!({})).await?;
        daemons.until_ready(5).await?;
        daemons.until_status("numberReady", 5).await?;
        daemons.clean_up(&nodes).await?;
    }
    Ok(())
}

/// `TestSimpleDaemonSetRestartsPodsOnTerminalPhase`
#[tokio::test]
async fn a_pod_that_has_ended_is_replaced() -> Result<()> {
    let daemons = Daemons::start().await?;
    for (phase, finalizer) in [("Succeeded", false), ("Failed", false), ("Succeeded", true)] {
        for strategy in strategies() {
            let mut set = daemons.set(&strategy);
            if finalizer {
                let finalizers = json!(["test.k8s.io/finalizer"]);
                set["spec"]["template"]["metadata"]["finalizers"] = finalizers;
            }
            daemons.create(&set).await?;
            let nodes = daemons.add_nodes(0..3, json!({})).await?;
            daemons.until_ready(3).await?;
            daemons.until_status("numberReady", 3).await?;
            let pods = daemons.pods().await?;
            daemons.rig.set_pod_phase(&name_of(&pods[0]), phase).await?;
            daemons.until_active(3).await?;
            daemons.until_ready(3).await?;
            daemons.until_status("numberReady", 3).await?;
            let old = daemons.pods().await?;
            let old = old.iter().find(|pod| name_of(pod) == name_of(&pods[0]));
            let is_same = |old: &Value| old["metadata"]["uid"] == pods[0]["metadata"]["uid"];
            let is_kept = old.is_some_and(is_same);
            ensure!(is_kept == finalizer, "the finalizer keeps the old pod");
            daemons.clean_up(&nodes).await?;
        }
    }
    Ok(())
}

/// `TestDaemonSetWithNodeSelectorLaunchesPods`
#[tokio::test]
async fn nodes_are_chosen_by_labels_or_name() -> Result<()> {
    let daemons = Daemons::start().await?;
    for strategy in strategies() {
        let mut set = daemons.set(&strategy);
        let terms = json!([
            {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["test"]}]},
            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-1"]}]},
        ]);
        set["spec"]["template"]["spec"]["affinity"] = json!({"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms},
        }});
        daemons.create(&set).await?;
        let mut nodes = daemons.add_nodes(0..2, json!({})).await?;
        let labelled = json!({"metadata": {"labels": {"zone": "test"}}});
        nodes.extend(daemons.add_nodes(2..4, labelled).await?);
        nodes.extend(daemons.add_nodes(4..6, json!({})).await?);
        daemons.until_ready(3).await?;
        daemons.until_status("numberReady", 3).await?;
        daemons.clean_up(&nodes).await?;
    }
    Ok(())
}

/// `TestNotReadyNodeDaemonDoesLaunchPod`
#[tokio::test]
async fn a_node_that_is_not_ready_gets_a_pod() -> Result<()> {
    let daemons = Daemons::start().await?;
    for strategy in strategies() {
        daemons.create(&daemons.set(&strategy)).await?;
        let status = json!({"conditions": [{"type": "Ready", "status": "False"}]});
        daemons
            .add_node("single-node", json!({"status": status}))
            .await?;
        daemons.until_ready(1).await?;
        daemons.until_status("numberReady", 1).await?;
        daemons.clean_up(&["single-node"]).await?;
    }
    Ok(())
}

/// `TestInsufficientCapacityNode`: whether a pod fits is for the scheduler to say, here the test's.
#[tokio::test]
async fn a_node_that_is_too_small_gets_a_pod_that_waits() -> Result<()> {
    let daemons = Daemons::start().await?;
    for strategy in strategies() {
        let mut set = daemons.set(&strategy);
        let requests = json!({"requests": {"memory": "120M", "cpu": "75m"}});
        set["spec"]["template"]["spec"]["containers"][0]["resources"] = requests;
        daemons.create(&set).await?;
        daemons
            .add_node("small", json!({"metadata": {"labels": {"full": "yes"}}}))
            .await?;
        let waiting = daemons.until_pods(1).await?;
        ensure!(waiting[0]["spec"]["nodeName"].is_null(), "{waiting:?}");
        daemons.until_status("desiredNumberScheduled", 1).await?;
        daemons.add_node("large", json!({})).await?;
        daemons.until_ready(2).await?;
        daemons.until_status("numberReady", 1).await?;
        daemons.clean_up(&["small", "large"]).await?;
    }
    Ok(())
}

/// `TestLaunchWithHashCollision`. Which hash the next template has, another DaemonSet tells: it
/// depends on the template alone.
#[tokio::test]
async fn a_name_that_another_revision_has_is_avoided() -> Result<()> {
    let daemons = Daemons::start().await?;
    daemons.add_node("single-node", json!({})).await?;
    let set = daemons.set(&rolling(&json!({"maxUnavailable": 1})));
    daemons.create(&set).await?;
    let first = daemons.until_revisions(1).await?.remove(0);
    daemons.until_ready(1).await?;

    let next = json!({"spec": {"template": {"spec": {"terminationGracePeriodSeconds": 1}}}});
    let hash = daemons.hash_of_next(&set, &next).await?;
    let mut taken = first.clone();
    let name = format!("foo-{hash}");
    taken["metadata"] = json!({
        "name": name, "labels": first["metadata"]["labels"],
        "ownerReferences": first["metadata"]["ownerReferences"],
    });
    taken["metadata"]["labels"]["controller-revision-hash"] = hash.into();
    taken["revision"] = 2.into();
    daemons.rig.create("controllerrevisions", &taken).await?;
    daemons.merge(&next).await?;
    daemons
        .until_pod("with the latest spec", |pod| {
            pod["spec"]["terminationGracePeriodSeconds"] == 1
        })
        .await?;
    daemons.until_status("collisionCount", 1).await?;
    daemons.clean_up(&["single-node"]).await
}

/// `TestDSCUpdatesPodLabelAfterDedupCurHistories`
#[tokio::test]
async fn of_two_revisions_of_a_template_the_newer_labels_the_pods() -> Result<()> {
    let daemons = Daemons::start().await?;
    daemons.add_node("single-node", json!({})).await?;
    daemons
        .create(&daemons.set(&rolling(&json!({"maxUnavailable": 1}))))
        .await?;
    let first = daemons.until_revisions(1).await?.remove(0);
    let mut second = first.clone();
    second["metadata"] = json!({
        "name": "foo-second", "labels": first["metadata"]["labels"],
        "ownerReferences": first["metadata"]["ownerReferences"],
    });
    second["metadata"]["labels"]["controller-revision-hash"] = "second".into();
    second["revision"] = 2.into();
    daemons.rig.create("controllerrevisions", &second).await?;
    daemons.add_node("second-node", json!({})).await?;
    let is_second = |pod: &Value| pod["metadata"]["labels"]["controller-revision-hash"] == "second";
    daemons
        .rig
        .eventually_all("pods", "", "labelled as of the second revision", |pods| {
            pods.len() == 2 && pods.iter().all(is_second)
        })
        .await?;
    let left = daemons.until_revisions(1).await?;
    ensure!(name_of(&left[0]) == "foo-second");
    daemons.clean_up(&["single-node", "second-node"]).await
}

/// `TestTaintedNode`
#[tokio::test]
async fn a_tainted_node_gets_a_pod_when_the_taint_is_gone() -> Result<()> {
    let daemons = Daemons::start().await?;
    for strategy in strategies() {
        daemons.create(&daemons.set(&strategy)).await?;
        let taints = json!([{"key": "key1", "value": "val1", "effect": "NoSchedule"}]);
        let tainted = json!({"spec": {"taints": taints}});
        daemons.add_node("node-with-taint", tainted).await?;
        daemons.add_node("node-without-taint", json!({})).await?;
        daemons.until_ready(1).await?;
        daemons.until_status("numberReady", 1).await?;
        let untainted = json!({"spec": {"taints": []}});
        daemons
            .rig
            .merge("nodes", "node-with-taint", &untainted)
            .await?;
        daemons.until_ready(2).await?;
        daemons.until_status("numberReady", 2).await?;
        daemons
            .clean_up(&["node-with-taint", "node-without-taint"])
            .await?;
    }
    Ok(())
}

/// `TestUnschedulableNodeDaemonDoesLaunchPod`
#[tokio::test]
async fn nodes_that_are_unschedulable_or_without_network_get_a_pod() -> Result<()> {
    let daemons = Daemons::start().await?;
    for strategy in strategies() {
        let mut set = daemons.set(&strategy);
        set["spec"]["template"]["spec"]["hostNetwork"] = true.into();
        daemons.create(&set).await?;
        let taint = |kind: &str| {
            let key = format!("node.kubernetes.io/{kind}");
            json!([{"key": key, "effect": "NoSchedule"}])
        };
        let unschedulable = json!({"unschedulable": true, "taints": taint("unschedulable")});
        let without_network = json!({"taints": taint("network-unavailable")});
        let names = ["unschedulable-node", "network-unavailable-node"];
        daemons
            .add_node(names[0], json!({"spec": unschedulable}))
            .await?;
        daemons
            .add_node(names[1], json!({"spec": without_network}))
            .await?;
        daemons.until_ready(2).await?;
        daemons.until_status("numberReady", 2).await?;
        daemons.clean_up(&names).await?;
    }
    Ok(())
}

/// `TestUpdateStatusDespitePodCreationFailure`: not an admission plugin refuses pods, but the way
/// to the server.
#[tokio::test]
async fn the_status_is_written_though_pods_are_refused() -> Result<()> {
    let daemons = Daemons::start().await?;
    for strategy in strategies() {
        let creates = writes("pods").method(Method::POST);
        let refused = daemons.rig.proxy.on(creates).after(2);
        let refused = refused.answer(Answer::status(403));
        daemons.create(&daemons.set(&strategy)).await?;
        let nodes = daemons.add_nodes(0..5, json!({})).await?;
        daemons.until_ready(2).await?;
        daemons.until_status("numberReady", 2).await?;
        daemons.until_status("desiredNumberScheduled", 5).await?;
        ensure!(refused.hits() > 0);
        refused.lift();
        daemons.clean_up(&nodes).await?;
    }
    Ok(())
}

/// `TestDaemonSetRollingUpdateWithTolerations`
#[tokio::test]
async fn a_surge_keeps_pods_on_nodes_that_are_left_until_others_are_ready() -> Result<()> {
    let daemons = Daemons::start().await?;
    let mut nodes = Vec::new();
    for (first, zone) in [(0, "zone-y"), (2, "zone-z"), (4, "zone-common")] {
        let tainted = json!({"spec": {"taints": [{"key": zone, "effect": "NoSchedule"}]}});
        nodes.extend(daemons.add_nodes(first..first + 2, tainted).await?);
    }
    let tolerating = |zones: &[&str]| -> Value {
        let tolerations = zones
            .iter()
            .map(|zone| json!({"key": format!("zone-{zone}"), "operator": "Exists"}));
        tolerations.collect()
    };
    let mut set = daemons.set(&rolling(&json!({"maxUnavailable": 0, "maxSurge": 1})));
    let first = tolerating(&["y", "common"]);
    set["spec"]["template"]["spec"]["tolerations"] = first.clone();
    daemons.create(&set).await?;
    daemons.until_active(4).await?;
    daemons.until_tolerating(4, &first).await?;

    // New ones wait on the two nodes of zone z, and one beside an old one; those of zone y stay.
    let second = tolerating(&["z", "common"]);
    daemons.tolerate(&second).await?;
    daemons.until_active(7).await?;
    daemons.until_tolerating(4, &second).await?;

    let third = tolerating(&["y", "z", "common"]);
    daemons.tolerate(&third).await?;
    daemons.until_active(7).await?;
    daemons.until_tolerating(6, &third).await?;

    daemons.tolerate(&Value::Null).await?;
    daemons.until_active(0).await?;
    daemons.until_status("numberReady", 0).await?;
    daemons.until_status("updatedNumberScheduled", 0).await?;
    daemons.clean_up(&nodes).await
}

/// `test/e2e/apps/daemon_set.go`: "should rollback without unnecessary restarts".
#[tokio::test]
async fn a_rollback_touches_only_pods_of_the_template_that_is_taken_back() -> Result<()> {
    let daemons = Daemons::start().await?;
    let nodes = daemons.add_nodes(0..3, json!({})).await?;
    let set = daemons.set(&rolling(&json!({"maxUnavailable": 1})));
    daemons.create(&set).await?;
    daemons.until_ready(3).await?;
    daemons.until_status("numberAvailable", 3).await?;
    let image = |image: &str| {
        let containers = json!([{"name": "foo", "image": image}]);
        json!({"spec": {"template": {"spec": {"containers": containers}}}})
    };
    daemons.merge(&image("new")).await?;
    // The new pod does not become ready: nobody schedules it yet.
    let new = daemons
        .until_pod("of the new image", |pod| {
            pod["spec"]["containers"][0]["image"] == "new"
        })
        .await?;
    daemons.until_status("numberUnavailable", 1).await?;
    let before = daemons.pods().await?;
    daemons.merge(&image("bar")).await?;
    let after = daemons.until_rolled_out(3).await?;
    daemons.until_status("numberAvailable", 3).await?;
    let uid = |pod: &Value| pod["metadata"]["uid"].clone();
    for pod in before.iter().filter(|pod| name_of(pod) != name_of(&new)) {
        ensure!(after.iter().any(|kept| uid(kept) == uid(pod)));
    }
    let revisions = daemons.until_revisions(2).await?;
    let numbers: Vec<i64> = revisions
        .iter()
        .filter_map(|revision| revision["revision"].as_i64())
        .collect();
    ensure!(numbers.contains(&2) && numbers.contains(&3), "{numbers:?}");
    daemons.clean_up(&nodes).await
}

/// Nothing of it is upstream's: the strategy stands for what `kubectl` shows to be done.
#[tokio::test]
async fn with_on_delete_a_pod_is_replaced_when_somebody_deletes_it() -> Result<()> {
    let daemons = Daemons::start().await?;
    daemons.create(&daemons.set(&on_delete())).await?;
    let nodes = daemons.add_nodes(0..2, json!({})).await?;
    daemons.until_ready(2).await?;
    let image = json!([{"name": "foo", "image": "new"}]);
    daemons
        .merge(&json!({"spec": {"template": {"spec": {"containers": image}}}}))
        .await?;
    daemons.until_status("updatedNumberScheduled", 0).await?;
    daemons.until_revisions(2).await?;
    let pod = name_of(&daemons.pods().await?[0]);
    daemons.rig.delete("pods", &pod).await?;
    daemons
        .until_pod("of the new image", |pod| {
            pod["spec"]["containers"][0]["image"] == "new"
        })
        .await?;
    daemons.until_ready(2).await?;
    daemons.until_status("updatedNumberScheduled", 1).await?;
    daemons.clean_up(&nodes).await
}
