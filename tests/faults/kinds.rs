//! Kinds that are deleted and come back, a namespace that is deleted, and large lists: the host
//! stays within its bounds.

use std::time::Duration;

use anyhow::Result;
use futures::{StreamExt, TryStreamExt, stream};
use pilothouse_tests::proxy::{all, complete_lists, error_event, is_patient, watches, writes};
use pilothouse_tests::{DEFINITIONS, FaultOptions, FaultRig, HEALED};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[tokio::test]
async fn a_kind_that_goes_and_comes_back_takes_its_plugin_along_and_no_other() -> Result<()> {
    let options = FaultOptions {
        guests: &["endpoints", "widgets"],
        ..FaultOptions::default()
    };
    let mut rig = FaultRig::without_host(options).await?;
    let widgets = format!("/apis/example.dev/v1/namespaces/{}/widgets", rig.namespace);
    let api = rig.server.api.clone();
    let path = rig.path("configmaps", "a");
    let size_is = async |size: &str| {
        let is_so =
            |found: Option<&Value>| found.is_some_and(|found| found["data"]["size"] == size);
        api.eventually(&path, size, is_so).await.map(drop)
    };
    api.create(DEFINITIONS, &widget_definition("widgets", "Namespaced"))
        .await?;
    api.eventually(&widgets, "served", |found| found.is_some())
        .await?;
    rig.start_host().await?;
    rig.web().await?;
    api.create(&widgets, &widget(1)).await?;
    size_is("1").await?;

    api.delete(&format!("{DEFINITIONS}/widgets.example.dev"))
        .await?;
    api.eventually(&widgets, "gone", |found| found.is_none())
        .await?;
    rig.proxy.forget();
    sleep(seconds(4)).await;
    // Requests for the kind, and for the discovery of its group.
    let asked = rig.proxy.seen(all().under("/apis/example.dev"));
    assert!(is_patient(&asked, seconds(4)), "{asked:?}");
    rig.readdress("a", "10.1.1.1").await?;
    rig.is_right_within(HEALED).await?;

    api.create(DEFINITIONS, &widget_definition("widgets", "Namespaced"))
        .await?;
    api.eventually(&widgets, "served", |found| found.is_some())
        .await?;
    api.create(&widgets, &widget(2)).await?;
    size_is("2").await
}

/// Deletes a kind and defines it anew. `before` and `after` are its plural and its scope.
async fn is_made_anew(before: (&str, &str), after: (&str, &str)) -> Result<()> {
    let options = FaultOptions {
        guests: &["endpoints", "widgets"],
        ..FaultOptions::default()
    };
    let mut rig = FaultRig::without_host(options).await?;
    let api = rig.server.api.clone();
    api.create(DEFINITIONS, &widget_definition(before.0, before.1))
        .await?;
    let everywhere = format!("/apis/example.dev/v1/{}", before.0);
    api.eventually(&everywhere, "served", |found| found.is_some())
        .await?;
    rig.start_host().await?;
    rig.web().await?;

    api.delete(&format!("{DEFINITIONS}/{}.example.dev", before.0))
        .await?;
    api.eventually(&everywhere, "gone", |found| found.is_none())
        .await?;
    api.create(DEFINITIONS, &widget_definition(after.0, after.1))
        .await?;
    let (namespace, plural) = (&rig.namespace, after.0);
    let is_namespaced = after.1 == "Namespaced";
    let widgets = if is_namespaced {
        format!("/apis/example.dev/v1/namespaces/{namespace}/{plural}")
    } else {
        format!("/apis/example.dev/v1/{plural}")
    };
    api.eventually(&widgets, "served", |found| found.is_some())
        .await?;
    api.create(&widgets, &widget(3)).await?;
    let started = Instant::now();
    let status = format!("{widgets}/a");
    let is_so =
        |found: Option<&Value>| found.is_some_and(|found| found["status"]["observedSize"] == 3);
    api.eventually(&status, "observed", is_so).await?;
    assert!(started.elapsed() < seconds(15), "{:?}", started.elapsed());
    if is_namespaced {
        let path = rig.path("configmaps", "a");
        let is_so = |found: Option<&Value>| found.is_some_and(|found| found["data"]["size"] == "3");
        api.eventually(&path, "written", is_so).await?;
    }
    rig.readdress("a", "10.1.1.1").await?;
    rig.is_right_within(HEALED).await
}

#[tokio::test]
async fn a_kind_that_comes_back_under_another_name_is_found() -> Result<()> {
    is_made_anew(("widgets", "Namespaced"), ("gadgets", "Namespaced")).await
}

#[tokio::test]
async fn a_kind_that_comes_back_with_another_scope_is_found() -> Result<()> {
    is_made_anew(("widgets", "Cluster"), ("widgets", "Namespaced")).await?;
    is_made_anew(("widgets", "Namespaced"), ("widgets", "Cluster")).await
}

fn widget(size: u32) -> Value {
    json!({"apiVersion": "example.dev/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": {"size": size}})
}

fn widget_definition(plural: &str, scope: &str) -> Value {
    let size = json!({"type": "object", "properties": {"size": {"type": "integer"}}});
    let observed = json!({"type": "object", "properties": {"observedSize": {"type": "integer"}}});
    let schema = json!({"type": "object", "properties": {"spec": size, "status": observed}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": format!("{plural}.example.dev")},
        "spec": {
            "group": "example.dev", "scope": scope, "names": {"plural": plural, "singular": "widget", "kind": "Widget"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "subresources": {"status": {}}, "schema": {"openAPIV3Schema": schema},
            }],
        },
    })
}

#[tokio::test]
async fn a_namespace_that_is_being_deleted_is_no_hot_loop() -> Result<()> {
    let rig = FaultRig::start().await?;
    rig.web().await?;
    let namespace = format!("/api/v1/namespaces/{}", rig.namespace);
    rig.server.api.delete(&namespace).await?;
    rig.proxy.forget();
    // A namespace that is being deleted accepts no new objects.
    rig.server.api.delete(&rig.path("endpoints", "web")).await?;
    sleep(seconds(3)).await;
    let asked = rig.proxy.seen(writes("endpoints"));
    assert!((1..=14).contains(&asked.len()), "{asked:?}");
    Ok(())
}

#[tokio::test]
async fn lists_again_and_again_take_no_more_memory() -> Result<()> {
    let rig = FaultRig::start().await?;
    rig.web().await?;
    let text = "x".repeat(100_000);
    let create = |number: usize| {
        let name = format!("p{number}");
        let metadata = json!({"name": name, "annotations": {"example.dev/large": text}});
        let spec = json!({"containers": [{"name": "c", "image": "i"}]});
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec});
        let rig = &rig;
        async move { rig.create("pods", &pod).await }
    };
    let created = stream::iter(0..200).map(create).buffer_unordered(4);
    created.try_collect::<()>().await?;
    let mut held = Vec::new();
    for number in 0..8 {
        rig.proxy.forget();
        rig.proxy.until_open(watches("pods"), 1, HEALED).await?;
        rig.proxy.inject(watches("pods"), &error_event(410));
        let lists = complete_lists("pods");
        rig.proxy.until_seen(lists, 1, HEALED).await?;
        rig.readdress("a", &format!("10.1.1.{number}")).await?;
        rig.is_right_within(HEALED).await?;
        held.push(rig.host().memory()? >> 20);
    }
    // The allocator keeps some memory for each thread. If lists were never freed, it would be 7
    // times 20 MB more by now.
    assert!(held[7] < held[0] + 110, "{held:?} MiB, for 20 MB of text");
    let labels = "kind=\"Pod\"";
    let objects = rig
        .host()
        .metric("pilothouse_cached_objects", labels)
        .await?;
    assert!((objects - 202.0).abs() < 0.5, "{objects}");
    Ok(())
}
