//! No key waits for its Events: they are written aside, in order, and those of one plugin do not
//! hold up those of another. Guests run through the host, a proxy and a real API server.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use http::Method;
use pilothouse_tests::proxy::{Proxy, Which, writes};
use pilothouse_tests::{Host, HostOptions, Server, plugin_directory};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

const SOON: Duration = Duration::from_secs(30);

/// How long the server takes for an Event, within the 300 ms that a host has for the last ones.
const ONE_EVENT: Duration = Duration::from_millis(120);

/// A server and, behind a proxy, a host that runs these guests; the test has a namespace of its
/// own.
struct Rig {
    server: Server,
    proxy: Proxy,
    host: Host,
    namespace: String,
    /// The plugin directory. The host reads it while it runs, so it must not be deleted earlier.
    _plugins: TempDir,
}

impl Rig {
    async fn start(guests: &[&str]) -> Result<Self> {
        Self::start_with(guests, HostOptions::default()).await
    }

    async fn start_with(guests: &[&str], mut options: HostOptions) -> Result<Self> {
        let server = Server::start().await?;
        let namespace = server.namespace().await?;
        let proxy = Proxy::before(server.kubeconfig()).await?;
        let plugins = plugin_directory(guests);
        for guest in guests {
            let settings = plugins.path().join(format!("{guest}.toml"));
            std::fs::write(settings, "grants = \"as-requested\"\n")?;
        }
        let leases = format!("--leader-elect-resource-namespace={namespace}");
        options.arguments.push(leases);
        let mut host = Host::start(&HostOptions {
            plugins: plugins.path().into(),
            kubeconfig: proxy.kubeconfig(),
            ..options
        })
        .await?;
        host.wait_until_ready().await?;
        Ok(Self {
            server,
            proxy,
            host,
            namespace,
            _plugins: plugins,
        })
    }

    fn config_maps(&self) -> String {
        format!("/api/v1/namespaces/{}/configmaps", self.namespace)
    }

    async fn create(&self, namespace: &str, object: Value) -> Result<()> {
        let path = format!("/api/v1/namespaces/{namespace}/configmaps");
        self.server.api.create(&path, &object).await?;
        Ok(())
    }

    /// Creates the key `a` of the guest `actions`, which records so many Events in each run and
    /// sets the value of `target`, and waits until it has run.
    async fn tell(&self, value: &str, events: usize) -> Result<()> {
        let target =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "target"}});
        self.create(&self.namespace, target).await?;
        let metadata = json!({"name": "a", "labels": {"actions": "true"}});
        let task =
            json!({"do": "tell", "target": "target", "value": value, "events": events.to_string()});
        let key =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": task});
        self.create(&self.namespace, key).await?;
        self.has_run(value).await
    }

    /// Has the key run again with this value, and waits until it has.
    async fn tell_again(&self, value: &str) -> Result<()> {
        let path = format!("{}/a", self.config_maps());
        let patch = json!({"data": {"value": value}});
        self.server.api.merge(&path, &patch).await?;
        self.has_run(value).await
    }

    async fn has_run(&self, value: &str) -> Result<()> {
        let path = format!("{}/target", self.config_maps());
        let is_set =
            |found: Option<&Value>| found.is_some_and(|found| found["data"]["value"] == value);
        let api = &self.server.api;
        let found = api.eventually(&path, value, is_set).await;
        found.with_context(|| self.host.log())?;
        Ok(())
    }

    /// The notes of the namespace's Events, in the order in which they were written.
    async fn notes(&self) -> Result<Vec<String>> {
        let path = events_of(&self.namespace);
        let list = self.server.api.get(&path).await?.context("no list")?;
        let mut events = list["items"].as_array().context("no items")?.clone();
        events.sort_by_key(|event| {
            let version = event["metadata"]["resourceVersion"].as_str();
            version.and_then(|version| version.parse::<u64>().ok())
        });
        let notes = events.iter().filter_map(|event| event["note"].as_str());
        Ok(notes.map(str::to_owned).collect())
    }

    /// Waits until so many Events of the guest `stranger` did not fit into its queue.
    async fn are_dropped(&self, least: f64) -> Result<()> {
        let (name, labels) = (
            "pilothouse_unwritten_events_total",
            r#"reason="queue-full""#,
        );
        let began = Instant::now();
        while self.host.metric(name, labels).await? < least {
            ensure!(began.elapsed() < SOON, "{}", self.host.log());
            sleep(Duration::from_millis(25)).await;
        }
        Ok(())
    }

    async fn are_written(&self, notes: &[&str]) -> Result<()> {
        let path = events_of(&self.namespace);
        let is_so = |found: Option<&Value>| {
            let items = found.and_then(|found| found["items"].as_array());
            items.is_some_and(|items| items.len() >= notes.len())
        };
        let api = &self.server.api;
        let found = api.eventually(&path, "written", is_so).await;
        found.with_context(|| self.host.log())?;
        assert_eq!(self.notes().await?, notes);
        Ok(())
    }
}

fn events_of(namespace: &str) -> String {
    format!("/apis/events.k8s.io/v1/namespaces/{namespace}/events")
}

/// The requests that create Events in a namespace.
fn events_in(namespace: &str) -> Which {
    let path = events_of(namespace);
    writes("events").method(Method::POST).under(&path)
}

#[tokio::test]
async fn a_key_whose_events_get_no_answer_runs_again_at_once() -> Result<()> {
    let rig = Rig::start(&["actions"]).await?;
    let held = rig.proxy.on(events_in(&rig.namespace)).hold();
    let began = Instant::now();
    rig.tell("1", 2).await?;
    rig.tell_again("2").await?;
    rig.tell_again("3").await?;
    let took = began.elapsed();
    // A request without an answer ends after 30 seconds.
    assert!(took < Duration::from_secs(20), "{took:?}");
    assert_eq!(held.hits(), 1, "one at a time");
    held.lift();
    rig.are_written(&["1 0", "1 1", "2 0", "2 1", "3 0", "3 1"])
        .await
}

#[tokio::test]
async fn at_its_end_the_host_writes_the_events_that_it_has_taken() -> Result<()> {
    let rig = Rig::start(&["actions"]).await?;
    let held = rig.proxy.on(events_in(&rig.namespace)).hold();
    rig.tell("1", 3).await?;
    rig.tell_again("2").await?;
    rig.host.ask_to_end()?;
    rig.host.logs("draining").await?;
    held.lift();
    let mut rig = rig;
    let status = rig.host.end().await?;
    assert!(status.success(), "{status}\n{}", rig.host.log());
    rig.are_written(&["1 0", "1 1", "1 2", "2 0", "2 1", "2 2"])
        .await
}

#[tokio::test]
async fn before_others_take_over_a_host_writes_the_events_that_it_has_taken() -> Result<()> {
    for share in [false, true] {
        let arguments = share.then(|| "--share".to_owned());
        let options = HostOptions {
            elects: true,
            arguments: arguments.into_iter().collect(),
            ..HostOptions::default()
        };
        let mut rig = Rig::start_with(&["actions"], options).await?;
        let events = events_in(&rig.namespace);
        let held = rig.proxy.on(events.clone()).hold();
        rig.tell("1", 3).await?;
        rig.proxy.until_seen(events.clone(), 1, SOON).await?;
        // Meanwhile a host could give everything back.
        rig.proxy.on(events).times(1).delay(ONE_EVENT);
        rig.host.ask_to_end()?;
        rig.host.logs("draining").await?;
        held.lift();
        let status = rig.host.end().await?;
        assert!(status.success(), "{status}\n{}", rig.host.log());
        let written = rig.are_written(&["1 0", "1 1", "1 2"]).await;
        written.with_context(|| format!("shares: {share}"))?;
    }
    Ok(())
}

#[tokio::test]
async fn a_plugin_that_floods_with_events_delays_no_other_and_its_queue_is_bounded() -> Result<()> {
    let rig = Rig::start(&["actions", "stranger"]).await?;
    // Nothing of the flood is answered, so that it comes up to the queue's bound.
    let held = rig.proxy.on(events_in("kube-system")).hold();
    for number in 0..5 {
        let metadata = json!({"name": format!("events-{number}")});
        let key = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata});
        rig.create("default", key).await?;
    }
    rig.are_dropped(1.0).await?;
    rig.tell("1", 2).await?;
    rig.are_written(&["1 0", "1 1"]).await?;
    rig.are_dropped(2_000.0).await?;
    rig.tell_again("2").await?;
    rig.are_written(&["1 0", "1 1", "2 0", "2 1"]).await?;
    assert_eq!(held.hits(), 1, "one at a time");
    let said = rig.host.log().matches("Events were dropped").count();
    assert_eq!(said, 1, "{}", rig.host.log());
    Ok(())
}
