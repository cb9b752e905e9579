//! The actions that a plugin returns take effect: one kind of action after the other, through the
//! host to a real API server.

use anyhow::{Context, Result};
use pilothouse_tests::{Host, Server, plugin_directory};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A server and a host that runs the guest `actions`; the test has a namespace of its own.
struct Rig {
    server: Server,
    host: Host,
    namespace: String,
    /// The plugin directory. The host reads it while it runs, so it must not be deleted earlier.
    _plugins: TempDir,
}

impl Rig {
    async fn start() -> Result<Self> {
        let server = Server::start().await?;
        let namespace = server.namespace().await?;
        let plugins = plugin_directory(&["actions"]);
        let host = Host::ready(plugins.path(), server.kubeconfig()).await?;
        Ok(Self {
            server,
            host,
            namespace,
            _plugins: plugins,
        })
    }

    fn config_maps(&self) -> String {
        format!("/api/v1/namespaces/{}/configmaps", self.namespace)
    }

    fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.config_maps())
    }

    /// Creates a ConfigMap that is not a key of the guest.
    async fn create(&self, name: &str, data: Value) -> Result<Value> {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data});
        self.server.api.create(&self.config_maps(), &object).await
    }

    /// Creates the ConfigMap `name`, which is a key of the guest. Its data tell the guest what to
    /// do.
    async fn tell(&self, name: &str, data: Value) -> Result<Value> {
        let metadata = json!({"name": name, "labels": {"actions": "true"}});
        let object =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data});
        self.server.api.create(&self.config_maps(), &object).await
    }

    /// Merges these fields into a ConfigMap's data.
    async fn change(&self, name: &str, data: Value) -> Result<Value> {
        let patch = json!({"data": data});
        self.server.api.merge(&self.path(name), &patch).await
    }

    async fn get(&self, name: &str) -> Result<Option<Value>> {
        self.server.api.get(&self.path(name)).await
    }

    async fn delete(&self, name: &str) -> Result<()> {
        self.server.api.delete(&self.path(name)).await
    }

    /// Waits until the ConfigMap exists and returns it.
    async fn appears(&self, name: &str) -> Result<Value> {
        let is_there = |found: Option<&Value>| found.is_some();
        let found = self
            .server
            .api
            .eventually(&self.path(name), "there", is_there)
            .await
            .with_context(|| self.host.log())?;
        found.context("there and not there")
    }

    async fn disappears(&self, name: &str) -> Result<()> {
        let is_gone = |found: Option<&Value>| found.is_none();
        self.server
            .api
            .eventually(&self.path(name), "gone", is_gone)
            .await
            .with_context(|| self.host.log())?;
        Ok(())
    }

    /// Waits until the data of a ConfigMap is exactly this.
    async fn becomes(&self, name: &str, data: Value) -> Result<()> {
        let is_so = |found: Option<&Value>| found.is_some_and(|found| found["data"] == data);
        self.server
            .api
            .eventually(&self.path(name), &data.to_string(), is_so)
            .await
            .with_context(|| self.host.log())?;
        Ok(())
    }

    /// Returns the names of the ConfigMaps that start with this prefix.
    async fn names(&self, prefix: &str) -> Result<Vec<String>> {
        let list = self.server.api.get(&self.config_maps()).await?;
        let list = list.context("no list")?;
        let objects = list["items"].as_array().context("no items")?;
        let names = objects
            .iter()
            .filter_map(|object| object["metadata"]["name"].as_str());
        Ok(names
            .filter(|name| name.starts_with(prefix))
            .map(str::to_owned)
            .collect())
    }

    /// Returns how many of the guest's reconciles ended with this result, from the metrics.
    async fn reconciles(&self, result: &str) -> Result<u64> {
        let (_, metrics) = self.host.get("/metrics").await?;
        let series = format!(
            r#"controller_runtime_reconcile_total{{controller="actions",result="{result}"}} "#
        );
        let value = metrics.lines().find_map(|line| line.strip_prefix(&series));
        Ok(value.with_context(|| metrics.clone())?.parse()?)
    }
}

#[tokio::test]
async fn an_object_with_a_generated_name_is_created_once_however_often_its_key_runs() -> Result<()>
{
    let rig = Rig::start().await?;
    rig.tell("a", json!({"do": "create"})).await?;
    rig.tell("b", json!({"do": "create"})).await?;
    for name in ["a", "b"] {
        let path = rig.config_maps();
        let has_made = |found: Option<&Value>| {
            found.is_some_and(|found| found.to_string().contains(&format!("\"{name}-made-")))
        };
        let api = &rig.server.api;
        api.eventually(&path, "made", has_made).await?;
    }
    let made = rig.names("a-made-").await?;
    rig.change("a", json!({"again": "1"})).await?;
    rig.becomes("a-report", json!({"previous": "already-exists"}))
        .await?;
    assert_eq!(rig.names("a-made-").await?, made);
    assert_eq!(made.len(), 1, "{made:?}");
    // The generated name is made from the key, so another key's object gets another name.
    let of_b = rig.names("b-made-").await?;
    assert_ne!(
        made[0].trim_start_matches("a-made-"),
        of_b[0].trim_start_matches("b-made-")
    );
    Ok(())
}

#[tokio::test]
async fn an_update_replaces_the_object_that_was_read() -> Result<()> {
    let rig = Rig::start().await?;
    rig.create("t", json!({"value": "old", "keep": "1"}))
        .await?;
    rig.tell("a", json!({"do": "update", "target": "t", "value": "new"}))
        .await?;
    rig.becomes("t", json!({"value": "new", "keep": "1"}))
        .await?;
    // The guest read the ConfigMap, so another client's change of it wakes the key.
    rig.change("t", json!({"value": "other", "keep": null}))
        .await?;
    rig.becomes("t", json!({"value": "new"})).await
}

#[tokio::test]
async fn an_update_is_of_the_version_that_was_seen_whatever_it_says() -> Result<()> {
    let rig = Rig::start().await?;
    rig.create("t", json!({"value": "old"})).await?;
    let task = json!({"do": "update", "target": "t", "value": "new", "version": "1"});
    rig.tell("a", task).await?;
    rig.becomes("t", json!({"value": "new"})).await
}

#[tokio::test]
async fn a_conflict_is_told_to_the_guest_and_tried_again() -> Result<()> {
    let rig = Rig::start().await?;
    rig.create("t", json!({"value": "old"})).await?;
    let task = json!({"do": "update", "target": "t", "value": "new", "uid": "of-another"});
    rig.tell("a", task).await?;
    rig.becomes("t", json!({"value": "new", "previous": "conflict"}))
        .await
}

#[tokio::test]
async fn a_json_patch_changes_what_it_names_and_nothing_else() -> Result<()> {
    let rig = Rig::start().await?;
    rig.create("t", json!({"value": "old", "keep": "1"}))
        .await?;
    let task = json!({"do": "json-patch", "target": "t", "value": "new"});
    rig.tell("a", task).await?;
    rig.becomes("t", json!({"value": "new", "keep": "1"})).await
}

#[tokio::test]
async fn a_merge_patch_takes_away_what_it_sets_to_null() -> Result<()> {
    let rig = Rig::start().await?;
    rig.create("t", json!({"value": "old", "keep": "1", "drop": "1"}))
        .await?;
    let task = json!({"do": "merge-patch", "target": "t", "value": "new"});
    rig.tell("a", task).await?;
    rig.becomes("t", json!({"value": "new", "keep": "1"})).await
}

#[tokio::test]
async fn deleting_what_is_gone_already_is_a_success() -> Result<()> {
    let rig = Rig::start().await?;
    rig.create("t", json!({})).await?;
    let task = json!({"do": "delete", "target": "t"});
    rig.tell("a", task.clone()).await?;
    rig.appears("a-report").await?;
    assert_eq!(rig.get("t").await?, None);
    rig.tell("b", task).await?;
    rig.appears("b-report").await?;
    assert_eq!(rig.reconciles("error").await?, 0, "{}", rig.host.log());
    Ok(())
}

#[tokio::test]
async fn an_event_names_its_reporter_and_a_repeat_of_it_is_counted() -> Result<()> {
    let rig = Rig::start().await?;
    let informer_key = rig.tell("a", json!({"do": "event"})).await?;
    let events = format!("/apis/events.k8s.io/v1/namespaces/{}/events", rig.namespace);
    let is_one = |found: Option<&Value>| {
        found.is_some_and(|found| {
            found["items"]
                .as_array()
                .is_some_and(|items| items.len() == 1)
        })
    };
    let api = &rig.server.api;
    let list = api.eventually(&events, "one event", is_one).await?;
    let event = &list.context("no list")?["items"][0];
    let said = ["reportingController", "type", "reason", "action", "note"].map(|name| &event[name]);
    assert_eq!(
        said,
        [
            "pilothouse.dev/actions",
            "Normal",
            "Tested",
            "Test",
            "as it was told"
        ]
    );
    let regarding = ["apiVersion", "kind", "namespace", "name", "uid"];
    assert_eq!(
        regarding.map(|name| &event["regarding"][name]),
        [
            &json!("v1"),
            &json!("ConfigMap"),
            &json!(rig.namespace),
            &json!("a"),
            &informer_key["metadata"]["uid"]
        ]
    );
    rig.change("a", json!({"again": "1"})).await?;
    let is_counted = |found: Option<&Value>| {
        is_one(found) && found.is_some_and(|found| found["items"][0]["series"]["count"] == 2)
    };
    api.eventually(&events, "one event, counted twice", is_counted)
        .await?;
    Ok(())
}

#[tokio::test]
async fn a_finalizer_holds_an_object_until_it_has_been_cleaned_up_after() -> Result<()> {
    let rig = Rig::start().await?;
    let (ours, other) = ("example.dev/actions", "example.dev/other");
    let metadata = json!({"name": "a", "labels": {"actions": "true"}, "finalizers": [other]});
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"do": "finalizer"}});
    let api = &rig.server.api;
    api.create(&rig.config_maps(), &object).await?;
    let has = async |finalizers: Value| {
        let is_so = |found: Option<&Value>| {
            found.is_some_and(|found| found["metadata"]["finalizers"] == finalizers)
        };
        let what = finalizers.to_string();
        api.eventually(&rig.path("a"), &what, is_so)
            .await
            .with_context(|| rig.host.log())
    };
    has(json!([other, ours])).await?;
    assert_eq!(rig.get("a-cleaned").await?, None);

    rig.delete("a").await?;
    // The finalizer of the other writer must stay.
    has(json!([other])).await?;
    assert!(rig.get("a-cleaned").await?.is_some(), "released too early");
    let release = json!({"metadata": {"finalizers": null}});
    api.merge(&rig.path("a"), &release).await?;
    rig.disappears("a").await
}

#[tokio::test]
async fn children_follow_the_list_and_go_with_their_source() -> Result<()> {
    let rig = Rig::start().await?;
    rig.create("bystander", json!({})).await?;
    rig.tell("p", json!({"do": "children", "children": "a,b,c"}))
        .await?;
    rig.tell("q", json!({"do": "children", "children": "z"}))
        .await?;
    for name in ["a", "b", "z"] {
        rig.appears(name).await?;
    }
    let first = rig.appears("c").await?;
    assert_eq!(first["data"], json!({"child-of": "p"}));

    rig.change("p", json!({"children": "c,d"})).await?;
    rig.appears("d").await?;
    rig.disappears("a").await?;
    rig.disappears("b").await?;
    let kept = rig.appears("c").await?;
    assert_eq!(kept["metadata"]["uid"], first["metadata"]["uid"]);

    // A child that another client deletes or changes must be restored.
    rig.delete("c").await?;
    rig.becomes("c", json!({"child-of": "p"})).await?;
    rig.change("c", json!({"child-of": "nobody"})).await?;
    rig.becomes("c", json!({"child-of": "p"})).await?;

    rig.delete("p").await?;
    rig.disappears("c").await?;
    rig.disappears("d").await?;
    for name in ["bystander", "z"] {
        assert!(rig.get(name).await?.is_some(), "{name} was pruned");
    }
    Ok(())
}

#[tokio::test]
async fn a_strangers_object_of_a_childs_name_is_left_alone_until_it_is_handed_over() -> Result<()> {
    let rig = Rig::start().await?;
    rig.create("a", json!({"of": "nobody"})).await?;
    rig.tell("p", json!({"do": "children", "children": "a,b"}))
        .await?;
    let own = rig.appears("b").await?;
    let is_told = |plugin: &Value| {
        let told = plugin["lastError"].to_string();
        told.contains("a exists and is not a child of this key: delete it")
    };
    rig.host
        .eventually("actions.wasm", "in conflict", is_told)
        .await?;
    rig.change("p", json!({"children": "b"})).await?;
    rig.change("b", json!({"child-of": "nobody"})).await?;
    rig.becomes("b", json!({"child-of": "p"})).await?;
    let stranger = rig.appears("a").await?;
    assert_eq!(stranger["data"], json!({"of": "nobody"}));

    rig.change("p", json!({"children": "a,b"})).await?;
    let label = "pilothouse.dev/children-of";
    let handed_over = json!({"metadata": {"labels": {label: own["metadata"]["labels"][label]}, "annotations": null}});
    rig.server.api.merge(&rig.path("a"), &handed_over).await?;
    rig.becomes("a", json!({"of": "nobody", "child-of": "p"}))
        .await?;
    rig.delete("p").await?;
    rig.disappears("a").await
}

#[tokio::test]
async fn a_key_runs_again_after_the_time_it_asked_for() -> Result<()> {
    let rig = Rig::start().await?;
    rig.tell("a", json!({"do": "count", "until": "4"})).await?;
    let is_four = |found: Option<&Value>| found.is_some_and(|found| found["data"]["count"] == "4");
    let api = &rig.server.api;
    api.eventually(&rig.path("a-count"), "counted to 4", is_four)
        .await?;
    // The key waits 200 ms three times. Without the waits it would run hundreds of times.
    let waits = rig.reconciles("requeue_after").await?;
    assert!((3..30).contains(&waits), "{waits}");
    Ok(())
}

#[tokio::test]
async fn a_list_by_index_wakes_the_key_when_it_gains_or_loses_an_object() -> Result<()> {
    let rig = Rig::start().await?;
    rig.create("x", json!({"owner": "a"})).await?;
    rig.create("y", json!({"owner": "a"})).await?;
    rig.create("other", json!({"owner": "b"})).await?;
    rig.tell("a", json!({"do": "list"})).await?;
    rig.becomes("a-found", json!({"names": "x,y"})).await?;
    rig.create("w", json!({"owner": "a"})).await?;
    rig.becomes("a-found", json!({"names": "w,x,y"})).await?;
    rig.change("x", json!({"owner": "b"})).await?;
    rig.becomes("a-found", json!({"names": "w,y"})).await?;
    rig.delete("w").await?;
    rig.becomes("a-found", json!({"names": "y"})).await
}
