//! `test/integration/garbagecollector`.

mod custom;
mod unwatched;

use std::collections::BTreeSet;

use anyhow::Result;
use http::Method;
use pilothouse_tests::proxy::{gets, watches, writes};
use pilothouse_tests::{WorkloadRig, name_of};
use serde_json::{Value, json};

const PLUGIN: &str = "garbage-collector";
const RCS: &str = "replicationcontrollers";
const SETTINGS: &str = r#"
grants.reads = ["*"]
grants.writes = [{ kind = "*", verbs = ["patch", "delete"] }]
grants.events = true
"#;

/// A server, and the collector's host, which is started by `start_host`.
async fn rig_without_host() -> Result<WorkloadRig> {
    let rig = WorkloadRig::without_host(&[PLUGIN]).await?;
    rig.configure(PLUGIN, SETTINGS)?;
    Ok(rig)
}

async fn rig() -> Result<WorkloadRig> {
    let mut rig = rig_without_host().await?;
    rig.start_host().await?;
    Ok(rig)
}

fn config_map(name: &str, owners: &[Value]) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "ownerReferences": owners},
    })
}

fn pod(name: &str, owners: &[Value]) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "ownerReferences": owners},
        "spec": {"containers": [{"name": "fake-name", "image": "fakeimage"}]},
    })
}

fn rc(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ReplicationController", "metadata": {"name": name},
        "spec": {
            "replicas": 0, "selector": {"name": "test"},
            "template": {
                "metadata": {"labels": {"name": "test"}},
                "spec": {"containers": [{"name": "fake-name", "image": "fakeimage"}]},
            },
        },
    })
}

/// A reference to an object.
fn owner(object: &Value) -> Value {
    json!({
        "apiVersion": object["apiVersion"], "kind": object["kind"],
        "name": object["metadata"]["name"], "uid": object["metadata"]["uid"],
    })
}

fn blocking(object: &Value) -> Value {
    let mut owner = owner(object);
    owner["blockOwnerDeletion"] = true.into();
    owner
}

async fn delete(rig: &WorkloadRig, resource: &str, name: &str, policy: &str) -> Result<()> {
    let path = rig.path(resource, name);
    rig.api()
        .delete_with(&path, &json!({"propagationPolicy": policy}))
        .await
}

/// Waits until the object is gone.
async fn until_gone(rig: &WorkloadRig, path: &str) -> Result<()> {
    let is_gone = |found: Option<&Value>| found.is_none();
    rig.api().eventually(path, "gone", is_gone).await.map(drop)
}

/// Waits until the collector has looked at all that was written before: it has collected what is
/// created here, and it looks at what is new first come, first served.
async fn until_seen(rig: &WorkloadRig, name: &str) -> Result<()> {
    let lost = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "none", "uid": "none"});
    rig.create("configmaps", &config_map(name, &[lost])).await?;
    until_gone(rig, &rig.path("configmaps", name)).await
}

async fn names(rig: &WorkloadRig, resource: &str) -> Result<BTreeSet<String>> {
    let found = rig.list(resource, "").await?;
    Ok(found.iter().map(name_of).collect())
}

/// `TestCascadingDeletion`.
#[tokio::test]
async fn what_a_deleted_object_owned_alone_is_deleted() -> Result<()> {
    let rig = rig().await?;
    let doomed = rig.create(RCS, &rc("doomed")).await?;
    let remaining = rig.create(RCS, &rc("remaining")).await?;
    rig.create("pods", &pod("lost", &[owner(&doomed)])).await?;
    let owners = [owner(&doomed), owner(&remaining)];
    rig.create("pods", &pod("shared", &owners)).await?;
    rig.create("pods", &pod("independent", &[])).await?;
    delete(&rig, RCS, "doomed", "Background").await?;
    until_gone(&rig, &rig.path("pods", "lost")).await?;
    let has_one = |pod: &Value| pod["metadata"]["ownerReferences"] == json!([owner(&remaining)]);
    rig.eventually("pods", "shared", "owned by one", has_one)
        .await?;
    rig.get("pods", "independent").await?;
    Ok(())
}

/// `TestCreateWithNonExistentOwner`.
#[tokio::test]
async fn what_is_created_with_an_owner_that_is_not_there_is_deleted() -> Result<()> {
    let rig = rig().await?;
    let owner = json!({
        "apiVersion": "v1", "kind": "ReplicationController", "name": "none", "uid": "doesn't matter",
    });
    rig.create("pods", &pod("lost", &[owner])).await?;
    until_gone(&rig, &rig.path("pods", "lost")).await
}

/// `TestStressingCascadingDeletion`.
#[tokio::test]
async fn each_deletion_orphans_or_takes_along_what_it_says() -> Result<()> {
    let rig = rig().await?;
    let orphan = json!({"propagationPolicy": "Orphan"});
    let ways = [
        ("default", json!([]), json!({}), true),
        ("finalizer", json!(["orphan"]), json!({}), true),
        (
            "overruled",
            json!(["orphan"]),
            json!({"orphanDependents": false}),
            false,
        ),
        (
            "dependents",
            json!([]),
            json!({"orphanDependents": true}),
            true,
        ),
        ("policy", json!([]), orphan, true),
    ];
    let numbers = || 0..10;
    for (way, finalizers, ..) in &ways {
        for number in numbers() {
            let mut controller = rc(&format!("{way}-{number}"));
            controller["metadata"]["finalizers"] = finalizers.clone();
            let controller = rig.create(RCS, &controller).await?;
            for pod_number in 0..3 {
                let name = format!("{way}-{number}-{pod_number}");
                rig.create("pods", &pod(&name, &[owner(&controller)]))
                    .await?;
            }
        }
    }
    until_seen(&rig, "last").await?;
    for (way, _, options, _) in &ways {
        for number in numbers() {
            let path = rig.path(RCS, &format!("{way}-{number}"));
            rig.api().delete_with(&path, options).await?;
        }
    }
    rig.eventually_all(RCS, "", "gone", <[Value]>::is_empty)
        .await?;
    let pods = rig.eventually_pods("", 4 * 10 * 3).await?;
    assert!(
        pods.iter()
            .all(|pod| !name_of(pod).starts_with("overruled"))
    );
    Ok(())
}

/// `TestOrphaning`.
#[tokio::test]
async fn orphans_stay_and_name_their_owner_no_more() -> Result<()> {
    let rig = rig().await?;
    let doomed = rig.create(RCS, &rc("doomed")).await?;
    for name in ["a", "b", "c"] {
        rig.create("pods", &pod(name, &[owner(&doomed)])).await?;
    }
    until_seen(&rig, "last").await?;
    delete(&rig, RCS, "doomed", "Orphan").await?;
    until_gone(&rig, &rig.path(RCS, "doomed")).await?;
    let pods = rig.list("pods", "").await?;
    assert_eq!(pods.len(), 3);
    let is_orphan = |pod: &Value| pod["metadata"].get("ownerReferences").is_none();
    assert!(pods.iter().all(is_orphan), "{pods:?}");
    Ok(())
}

/// `TestSolidOwnerDoesNotBlockWaitingOwner`.
#[tokio::test]
async fn what_has_another_owner_does_not_block_one_that_waits() -> Result<()> {
    let rig = rig().await?;
    let doomed = rig.create(RCS, &rc("doomed")).await?;
    let remaining = rig.create(RCS, &rc("remaining")).await?;
    let owners = [blocking(&doomed), owner(&remaining)];
    rig.create("pods", &pod("pod", &owners)).await?;
    delete(&rig, RCS, "doomed", "Foreground").await?;
    until_gone(&rig, &rig.path(RCS, "doomed")).await?;
    let pod = rig.get("pods", "pod").await?;
    assert_eq!(
        pod["metadata"]["ownerReferences"],
        json!([owner(&remaining)])
    );
    Ok(())
}

/// `TestNonBlockingOwnerRefDoesNotBlock`.
#[tokio::test]
async fn references_that_do_not_block_stop_no_deletion() -> Result<()> {
    let rig = rig().await?;
    let doomed = rig.create(RCS, &rc("doomed")).await?;
    let mut not_blocking = owner(&doomed);
    not_blocking["blockOwnerDeletion"] = false.into();
    for (name, owner) in [("pod1", owner(&doomed)), ("pod2", not_blocking)] {
        let mut pod = pod(name, &[owner]);
        pod["metadata"]["finalizers"] = json!(["x/y"]);
        rig.create("pods", &pod).await?;
    }
    delete(&rig, RCS, "doomed", "Foreground").await?;
    until_gone(&rig, &rig.path(RCS, "doomed")).await?;
    assert_eq!(names(&rig, "pods").await?.len(), 2);
    Ok(())
}

/// `TestDoubleDeletionWithFinalizer`.
#[tokio::test]
async fn an_object_may_be_deleted_in_the_foreground_twice() -> Result<()> {
    let rig = rig().await?;
    let mut lucy = pod("lucy", &[]);
    lucy["metadata"]["finalizers"] = json!(["x/y"]);
    rig.create("pods", &lucy).await?;
    for _ in 0..2 {
        delete(&rig, "pods", "lucy", "Foreground").await?;
        let is_left = |pod: &Value| pod["metadata"]["finalizers"] == json!(["x/y"]);
        rig.eventually("pods", "lucy", "left with its own", is_left)
            .await?;
    }
    let patch = json!({"metadata": {"finalizers": null}});
    rig.merge("pods", "lucy", &patch).await?;
    until_gone(&rig, &rig.path("pods", "lucy")).await
}

/// `TestBlockingOwnerRefDoesBlock`.
#[tokio::test]
async fn a_reference_that_blocks_holds_its_owner() -> Result<()> {
    let rig = rig().await?;
    let doomed = rig.create(RCS, &rc("doomed")).await?;
    let mut blocking = pod("pod", &[blocking(&doomed)]);
    blocking["metadata"]["finalizers"] = json!(["x/y"]);
    rig.create("pods", &blocking).await?;
    until_seen(&rig, "before").await?;
    delete(&rig, RCS, "doomed", "Foreground").await?;
    let is_ending = |pod: &Value| pod["metadata"]["deletionTimestamp"].is_string();
    rig.eventually("pods", "pod", "being deleted", is_ending)
        .await?;
    until_seen(&rig, "after").await?;
    rig.get(RCS, "doomed").await?;
    assert_eq!(names(&rig, "pods").await?.len(), 1);
    let patch = json!({"metadata": {"finalizers": null}});
    rig.merge("pods", "pod", &patch).await?;
    until_gone(&rig, &rig.path(RCS, "doomed")).await
}

/// `TestCrossNamespaceReferencesWithWatchCache`.
#[tokio::test]
async fn bad_references_from_another_namespace_harm_nobody() -> Result<()> {
    let mut rig = rig_without_host().await?;
    let parent = rig.create("configmaps", &config_map("parent", &[])).await?;
    for number in 0..10 {
        let mut child = config_map(&format!("child-{number}"), &[owner(&parent)]);
        child["kind"] = "Secret".into();
        rig.create("secrets", &child).await?;
    }
    let uid = &parent["metadata"]["uid"];
    let bad = json!({"apiVersion": "v1", "kind": "Pod", "name": "invalid", "uid": uid});
    let unknown = (0..25).map(|number| {
        json!({
            "apiVersion": "test/v1", "kind": format!("invalid{number}"), "name": "invalid",
            "uid": format!("invalid-{number}"),
        })
    });
    let all: Vec<Value> = unknown.chain([bad.clone()]).collect();
    let elsewhere = rig.server.namespace().await?;
    let secrets = format!("/api/v1/namespaces/{elsewhere}/secrets");
    for number in 0..5 {
        for (name, owners) in [("many", &all[..]), ("single", &[bad.clone()][..])] {
            let mut child = config_map(&format!("{name}-{number}"), owners);
            child["kind"] = "Secret".into();
            rig.api().create(&secrets, &child).await?;
        }
    }
    rig.start_host().await?;
    for number in 0..5 {
        until_gone(&rig, &format!("{secrets}/single-{number}")).await?;
    }
    let mut late = config_map("late", &[bad]);
    late["kind"] = "Secret".into();
    rig.api().create(&secrets, &late).await?;
    until_gone(&rig, &format!("{secrets}/late")).await?;
    assert_eq!(rig.list("secrets", "").await?.len(), 10);
    rig.get("configmaps", "parent").await?;
    for number in 0..5 {
        let many = rig.api().get(&format!("{secrets}/many-{number}")).await?;
        assert!(
            many.is_some(),
            "of unknown kinds nobody knows what is there"
        );
    }
    Ok(())
}

/// `TestClusterScopedOwners`, with a watch of the owners that stands still.
#[tokio::test]
async fn owners_without_a_namespace_are_confirmed_and_those_of_unknown_kinds_are_not_judged()
-> Result<()> {
    let rig = rig().await?;
    until_seen(&rig, "first").await?;
    rig.proxy.freeze(watches("clusterroles"));
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "valid"}, "rules": [],
    });
    let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    let role = rig.api().create(roles, &role).await?;
    let valid = config_map("valid", &[owner(&role)]);
    rig.create("configmaps", &valid).await?;
    let mut missing = owner(&role);
    missing["name"] = "missing".into();
    missing["uid"] = "missing".into();
    let missing = config_map("missing", &[missing]);
    rig.create("configmaps", &missing).await?;
    let unknown = json!({
        "apiVersion": "unknown.group/v1", "kind": "UnknownType", "name": "invalid-name",
        "uid": "invalid-uid",
    });
    let unknown = config_map("unknown", &[unknown]);
    rig.create("configmaps", &unknown).await?;
    until_gone(&rig, &rig.path("configmaps", "missing")).await?;
    until_seen(&rig, "last").await?;
    rig.get("configmaps", "valid").await?;
    rig.get("configmaps", "unknown").await?;
    Ok(())
}

/// What it costs: of owners that have been seen the server is not asked.
#[tokio::test]
async fn a_chain_and_a_fan_cost_one_request_an_object() -> Result<()> {
    let rig = rig().await?;
    let root = rig.create("configmaps", &config_map("root", &[])).await?;
    let mut last = root.clone();
    for number in 0..20 {
        let link = config_map(&format!("link-{number}"), &[owner(&last)]);
        last = rig.create("configmaps", &link).await?;
        let leaf = config_map(&format!("leaf-{number}"), &[owner(&root)]);
        rig.create("configmaps", &leaf).await?;
    }
    until_seen(&rig, "seen").await?;
    rig.proxy.forget();
    delete(&rig, "configmaps", "root", "Background").await?;
    rig.eventually_all("configmaps", "", "gone", <[Value]>::is_empty)
        .await?;
    let sent = rig.proxy.seen(writes("configmaps"));
    assert!(sent.iter().all(|seen| seen.method == Method::DELETE));
    assert_eq!(sent.len(), 40);
    assert_eq!(rig.proxy.seen(gets("configmaps")).len(), 0);
    Ok(())
}
