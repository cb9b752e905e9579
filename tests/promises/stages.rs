//! The stages of an outcome: what is sent side by side, in which order, and what a failure stops.
//! The guest `stages` runs through the host, a proxy and a real API server.

use std::time::Duration;

use anyhow::{Context, Result};
use http::Method;
use pilothouse_core::Execution;
use pilothouse_tests::proxy::{Answer, Proxy, Which, writes};
use pilothouse_tests::{Host, Server, plugin_directory};
use serde_json::{Value, json};
use tempfile::TempDir;

const SOON: Duration = Duration::from_secs(30);

/// A server and, behind a proxy, a host that runs the guest; the test has a namespace of its own.
struct Rig {
    server: Server,
    proxy: Proxy,
    host: Host,
    namespace: String,
    /// The plugin directory. The host reads it while it runs, so it must not be deleted earlier.
    _plugins: TempDir,
}

impl Rig {
    async fn start() -> Result<Self> {
        let server = Server::start().await?;
        let namespace = server.namespace().await?;
        let proxy = Proxy::before(server.kubeconfig()).await?;
        let plugins = plugin_directory(&["stages"]);
        let host = Host::ready(plugins.path(), &proxy.kubeconfig()).await?;
        Ok(Self {
            server,
            proxy,
            host,
            namespace,
            _plugins: plugins,
        })
    }

    fn path(&self, resource: &str, name: &str) -> String {
        let namespace = &self.namespace;
        format!("/api/v1/namespaces/{namespace}/{resource}/{name}")
    }

    /// The host's requests that create ConfigMaps in the test's namespace.
    fn creates(&self) -> Which {
        let under = format!("/api/v1/namespaces/{}/", self.namespace);
        writes("configmaps").method(Method::POST).under(&under)
    }

    async fn config_map(&self, name: &str, labels: Value, data: Value) -> Result<()> {
        let metadata = json!({"name": name, "labels": labels});
        let object =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data});
        let path = self.path("configmaps", "");
        let path = path.trim_end_matches('/');
        self.server.api.create(path, &object).await?;
        Ok(())
    }

    /// Creates the ConfigMap `name`, which is a key of the guest and tells it what to do.
    async fn tell(&self, name: &str, task: &str) -> Result<()> {
        let labels = json!({"stages": "true"});
        self.config_map(name, labels, json!({"do": task})).await
    }

    /// Creates the Service in whose status the guest says something for the key of this name.
    async fn service(&self, name: &str) -> Result<()> {
        let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
            "spec": {"ports": [{"port": 80}]}});
        let path = self.path("services", "");
        let path = path.trim_end_matches('/');
        self.server.api.create(path, &service).await?;
        Ok(())
    }

    /// Waits until the Service's condition has a message like this, and returns the message.
    async fn says(&self, name: &str, is_wanted: impl Fn(&str) -> bool) -> Result<String> {
        let message = |found: Option<&Value>| {
            let message = found?.pointer("/status/conditions/0/message")?;
            message.as_str().map(str::to_owned)
        };
        let is_said =
            |found: Option<&Value>| message(found).is_some_and(|message| is_wanted(&message));
        let api = &self.server.api;
        let path = self.path("services", name);
        let found = api
            .eventually(&path, "said", is_said)
            .await
            .with_context(|| self.host.log())?;
        message(found.as_ref()).context("no message")
    }

    /// Waits until this many ConfigMaps of the namespace have the label.
    async fn are_left(&self, label: &str, count: usize) -> Result<()> {
        let path = self.path("configmaps", "");
        let path = format!("{}?labelSelector={label}", path.trim_end_matches('/'));
        let is_so = |found: Option<&Value>| {
            let items = found.and_then(|found| found["items"].as_array());
            items.is_some_and(|items| items.len() == count)
        };
        let what = format!("{count} of them");
        self.server
            .api
            .eventually(&path, &what, is_so)
            .await
            .with_context(|| self.host.log())?;
        Ok(())
    }

    async fn errors(&self) -> Result<f64> {
        let labels = r#"controller="stages",result="error""#;
        let name = "controller_runtime_reconcile_total";
        self.host.metric(name, labels).await
    }
}

#[tokio::test]
async fn one_object_that_cannot_be_deleted_keeps_no_other_waiting_but_the_next_stage() -> Result<()>
{
    let rig = Rig::start().await?;
    let label = json!({"sweep": "a"});
    for number in 0..500 {
        let name = format!("x-{number}");
        rig.config_map(&name, label.clone(), json!({})).await?;
    }
    // In the guest's order it comes before the others.
    rig.config_map("stuck", label, json!({})).await?;
    rig.tell("a", "sweep").await?;
    rig.are_left("sweep=a", 1).await?;
    let api = &rig.server.api;
    let (stuck, swept) = (
        rig.path("configmaps", "stuck"),
        rig.path("configmaps", "a-swept"),
    );
    assert!(api.get(&stuck).await?.is_some());
    assert!(api.get(&swept).await?.is_none(), "it is of a later stage");
    assert!(rig.errors().await? >= 1.0);
    let release = json!({"metadata": {"labels": {"sweep": null}}});
    api.merge(&stuck, &release).await?;
    let is_there = |found: Option<&Value>| found.is_some();
    api.eventually(&swept, "swept", is_there)
        .await
        .with_context(|| rig.host.log())?;
    Ok(())
}

#[tokio::test]
async fn writes_of_a_stage_are_sent_side_by_side_one_more_for_each_that_is_accepted() -> Result<()>
{
    let rig = Rig::start().await?;
    rig.service("a").await?;
    let held = rig.proxy.on(rig.creates()).after(3).hold();
    rig.tell("a", "create").await?;
    rig.proxy.until_seen(rig.creates(), 7, SOON).await?;
    assert_eq!(rig.proxy.seen(rig.creates()).len(), 7, "three and four");
    held.lift();
    rig.are_left("made-by=a", 500).await?;
    assert_eq!(rig.proxy.seen(rig.creates()).len(), 500, "each once");
    Ok(())
}

#[tokio::test]
async fn creates_that_are_refused_from_one_on_are_soon_given_up_and_a_status_says_so() -> Result<()>
{
    let rig = Rig::start().await?;
    rig.service("a").await?;
    let refused = rig.proxy.on(rig.creates()).after(36);
    let refused = refused.answer(Answer::status(403));
    rig.tell("a", "create").await?;
    let said = rig.says("a", |said| !said.starts_with("0 done")).await?;
    let numbers: Vec<usize> = said
        .split(|letter: char| !letter.is_ascii_digit())
        .filter_map(|number| number.parse().ok())
        .collect();
    let [done, forbidden, skipped] = numbers[..] else {
        panic!("{said}");
    };
    assert_eq!((done, done + forbidden + skipped), (36, 500), "{said}");
    assert!((1..=Execution::MAX_WINDOW).contains(&forbidden), "{said}");
    assert!(said.ends_with("named: true"), "{said}");
    refused.lift();
    rig.are_left("made-by=a", 500).await
}

#[tokio::test]
async fn two_writes_of_one_object_are_sent_one_after_the_other() -> Result<()> {
    let rig = Rig::start().await?;
    rig.config_map("a-target", json!({}), json!({"step": "none"}))
        .await?;
    // The second would overtake the first if it did not wait for it.
    let target = rig.path("configmaps", "a-target");
    let first = writes("configmaps").under(&target);
    rig.proxy
        .on(first)
        .times(1)
        .delay(Duration::from_millis(500));
    rig.tell("a", "twice").await?;
    let is_done = |found: Option<&Value>| found.is_some_and(|found| found["data"]["step"] == "two");
    let api = &rig.server.api;
    api.eventually(&target, "both", is_done)
        .await
        .with_context(|| rig.host.log())?;
    assert!(rig.errors().await?.abs() < 0.5, "{}", rig.host.log());
    Ok(())
}

#[tokio::test]
async fn an_outcome_writes_a_status_and_is_retried_with_back_off() -> Result<()> {
    let rig = Rig::start().await?;
    rig.service("a").await?;
    rig.tell("a", "retry").await?;
    rig.says("a", |said| said == "attempt 4").await?;
    assert!(rig.errors().await? >= 3.0);
    let line = rig.host.logs("reconcile failed").await?;
    assert_eq!(line["error"], "no quota", "{line}");
    Ok(())
}
