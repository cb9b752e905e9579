//! The endpoints plugin keeps the Endpoints of a real API server right.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use futures::{StreamExt, TryStreamExt};
use pilothouse_tests::{Api, Host, Server, plugin_directory};
use serde_json::{Value, json};

/// A server, a host with the endpoints plugin, and a namespace.
struct Rig {
    server: Server,
    host: Host,
    plugins: tempfile::TempDir,
    namespace: String,
}

impl Rig {
    async fn start() -> Result<Self> {
        let server = Server::start().await?;
        let plugins = plugin_directory(&["endpoints"]);
        let host = Host::ready(plugins.path(), server.kubeconfig()).await?;
        let namespace = server.namespace().await?;
        Ok(Self {
            server,
            host,
            plugins,
            namespace,
        })
    }

    fn api(&self) -> &Api {
        &self.server.api
    }

    fn path(&self, resource: &str, name: &str) -> String {
        format!("/api/v1/namespaces/{}/{resource}/{name}", self.namespace)
    }

    async fn create_service(&self, name: &str, selector: Value) -> Result<Value> {
        let service = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "labels": {"team": "blue"}},
            "spec": {"selector": selector, "ports": [{"name": "http", "port": 80, "targetPort": "web"}]},
        });
        self.api()
            .create(
                &format!("/api/v1/namespaces/{}/services", self.namespace),
                &service,
            )
            .await
    }

    /// Creates a running pod with this address, ready or not.
    async fn create_pod(&self, name: &str, app: &str, ip: &str, is_ready: bool) -> Result<()> {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": app}},
            "spec": {"nodeName": "node-1", "containers": [
                {"name": "c", "image": "i", "ports": [{"name": "web", "containerPort": 8080}]},
            ]},
        });
        self.api()
            .create(&format!("/api/v1/namespaces/{}/pods", self.namespace), &pod)
            .await?;
        self.set_pod_status(name, ip, is_ready).await
    }

    async fn set_pod_status(&self, name: &str, ip: &str, is_ready: bool) -> Result<()> {
        let status = json!({"status": {
            "phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}],
            "conditions": [{"type": "Ready", "status": if is_ready { "True" } else { "False" }}],
        }});
        self.api()
            .merge(&format!("{}/status", self.path("pods", name)), &status)
            .await
            .map(drop)
    }

    async fn expect(&self, service: &str, ready: &[&str], not_ready: &[&str]) -> Result<Value> {
        let set = |names: &[&str]| {
            names
                .iter()
                .map(|name| (*name).to_owned())
                .collect::<BTreeSet<_>>()
        };
        let wanted = (set(ready), set(not_ready));
        let what = format!("{wanted:?}");
        let is_wanted =
            |found: Option<&Value>| found.is_some_and(|found| addresses(found) == wanted);
        let found = self
            .api()
            .eventually(&self.path("endpoints", service), &what, is_wanted)
            .await?;
        Ok(found.unwrap_or_default())
    }

    /// Makes sure that these Endpoints still exist after their Service has been deleted. A real
    /// cluster deletes them with the Service, but not always in time.
    async fn put_back(&self, mut endpoints: Value) -> Result<()> {
        let name = endpoints["metadata"]["name"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        if self
            .api()
            .get(&self.path("endpoints", &name))
            .await?
            .is_some()
        {
            return Ok(());
        }
        if let Some(metadata) = endpoints["metadata"].as_object_mut() {
            metadata.retain(|field, _| ["name", "namespace", "labels"].contains(&field.as_str()));
        }
        let collection = format!("/api/v1/namespaces/{}/endpoints", self.namespace);
        self.api().create(&collection, &endpoints).await.map(drop)
    }

    async fn expect_gone(&self, service: &str) -> Result<()> {
        self.api()
            .eventually(&self.path("endpoints", service), "gone", |found| {
                found.is_none()
            })
            .await
            .map(drop)
    }
}

/// Returns the ready and the not-ready addresses.
fn addresses(endpoints: &Value) -> (BTreeSet<String>, BTreeSet<String>) {
    let collect = |list: &str| {
        let subsets = endpoints["subsets"].as_array().into_iter().flatten();
        let addresses = subsets.flat_map(|subset| subset[list].as_array().into_iter().flatten());
        addresses
            .filter_map(|address| address["ip"].as_str().map(str::to_owned))
            .collect()
    };
    (collect("addresses"), collect("notReadyAddresses"))
}

#[tokio::test]
async fn a_service_gets_the_endpoints_of_its_pods() -> Result<()> {
    let rig = Rig::start().await?;
    rig.create_service("web", json!({"app": "web"})).await?;
    rig.create_pod("a", "web", "10.1.0.1", true).await?;
    rig.create_pod("b", "web", "10.1.0.2", false).await?;
    rig.create_pod("other", "db", "10.1.0.3", true).await?;
    let endpoints = rig.expect("web", &["10.1.0.1"], &["10.1.0.2"]).await?;

    assert_eq!(endpoints["metadata"]["labels"]["team"], "blue");
    let subset = &endpoints["subsets"][0];
    assert_eq!(
        subset["ports"],
        json!([{"name": "http", "port": 8080, "protocol": "TCP"}])
    );
    let address = &subset["addresses"][0];
    assert_eq!(
        (&address["nodeName"], &address["targetRef"]["name"]),
        (&json!("node-1"), &json!("a"))
    );
    let managers: Vec<_> = endpoints["metadata"]["managedFields"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|entry| &entry["manager"])
        .collect();
    assert_eq!(
        managers,
        ["pilothouse.dev/endpoints"],
        "written under the plugin's name"
    );
    Ok(())
}

#[tokio::test]
async fn every_change_that_matters_is_followed() -> Result<()> {
    let rig = Rig::start().await?;
    rig.create_service("web", json!({"app": "web"})).await?;
    rig.create_pod("a", "web", "10.1.0.1", true).await?;
    rig.create_pod("b", "web", "10.1.0.2", true).await?;
    rig.expect("web", &["10.1.0.1", "10.1.0.2"], &[]).await?;

    rig.set_pod_status("a", "10.1.0.1", false).await?;
    rig.expect("web", &["10.1.0.2"], &["10.1.0.1"]).await?;

    rig.api()
        .merge(
            &rig.path("pods", "a"),
            &json!({"metadata": {"labels": {"app": "db"}}}),
        )
        .await?;
    rig.expect("web", &["10.1.0.2"], &[]).await?;

    rig.api()
        .merge(
            &rig.path("services", "web"),
            &json!({"spec": {"selector": {"app": "db"}}}),
        )
        .await?;
    rig.expect("web", &[], &["10.1.0.1"]).await?;

    rig.api().delete(&rig.path("pods", "a")).await?;
    rig.expect("web", &[], &[]).await?;

    rig.api().delete(&rig.path("services", "web")).await?;
    rig.expect_gone("web").await
}

#[tokio::test]
async fn a_pod_that_is_being_deleted_is_left_out() -> Result<()> {
    let rig = Rig::start().await?;
    rig.create_service("web", json!({"app": "web"})).await?;
    rig.create_pod("a", "web", "10.1.0.1", true).await?;
    rig.expect("web", &["10.1.0.1"], &[]).await?;
    // A finalizer keeps the pod in the state Terminating while the test checks.
    rig.api()
        .merge(
            &rig.path("pods", "a"),
            &json!({"metadata": {"finalizers": ["example.dev/hold"]}}),
        )
        .await?;
    rig.api().delete(&rig.path("pods", "a")).await?;
    rig.expect("web", &[], &[]).await?;
    let pod = rig.api().get(&rig.path("pods", "a")).await?;
    assert!(
        pod.is_some_and(|pod| pod["metadata"]["deletionTimestamp"].is_string()),
        "the pod is still there"
    );
    Ok(())
}

#[tokio::test]
async fn what_is_not_its_own_it_leaves_alone() -> Result<()> {
    let rig = Rig::start().await?;
    let collection = format!("/api/v1/namespaces/{}/endpoints", rig.namespace);
    let by_hand = json!({"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "by-hand"}, "subsets": [
        {"addresses": [{"ip": "192.0.2.1"}], "ports": [{"port": 80}]},
    ]});
    rig.api().create(&collection, &by_hand).await?;
    rig.create_service("by-hand", Value::Null).await?;
    let leader = json!({"apiVersion": "v1", "kind": "Endpoints", "metadata": {
        "name": "leader", "annotations": {"control-plane.alpha.kubernetes.io/leader": "{}"},
    }});
    rig.api().create(&collection, &leader).await?;
    // Once the plugin has served a Service that was created later, it has seen both.
    rig.create_service("web", json!({"app": "web"})).await?;
    rig.expect("web", &[], &[]).await?;

    let endpoints = rig
        .api()
        .get(&rig.path("endpoints", "by-hand"))
        .await?
        .unwrap_or_default();
    assert!(addresses(&endpoints).0.contains("192.0.2.1"), "{endpoints}");
    assert!(
        rig.api()
            .get(&rig.path("endpoints", "leader"))
            .await?
            .is_some()
    );
    Ok(())
}

#[tokio::test]
async fn a_thousand_ready_pods_are_the_most_a_service_gets() -> Result<()> {
    let rig = Rig::start().await?;
    rig.create_service("web", json!({"app": "web"})).await?;
    let pods = (0..1001).map(|i| (format!("p{i}"), format!("10.1.{}.{}", i / 250, i % 250 + 1)));
    futures::stream::iter(pods)
        .map(|(name, ip)| {
            let rig = &rig;
            async move { rig.create_pod(&name, "web", &ip, true).await }
        })
        .buffer_unordered(16)
        .try_collect::<Vec<()>>()
        .await?;
    let is_full = |found: Option<&Value>| {
        found.is_some_and(|found| {
            let is_marked = found["metadata"]["annotations"]["endpoints.kubernetes.io/over-capacity"] == "truncated";
            is_marked && addresses(found).0.len() == 1000
        })
    };
    rig.api()
        .eventually(
            &rig.path("endpoints", "web"),
            "full and marked as truncated",
            is_full,
        )
        .await
        .map(drop)
}

#[tokio::test]
async fn a_host_that_was_killed_makes_good_what_it_missed() -> Result<()> {
    let mut rig = Rig::start().await?;
    for name in ["web", "gone"] {
        rig.create_service(name, json!({"app": "web"})).await?;
    }
    rig.create_pod("a", "web", "10.1.0.1", true).await?;
    rig.create_pod("b", "web", "10.1.0.2", true).await?;
    let left = rig.expect("gone", &["10.1.0.1", "10.1.0.2"], &[]).await?;

    rig.host.kill().await?;
    rig.api().delete(&rig.path("pods", "a")).await?;
    rig.api().delete(&rig.path("services", "gone")).await?;
    rig.put_back(left).await?;
    rig.host = Host::ready(rig.plugins.path(), rig.server.kubeconfig()).await?;

    rig.expect("web", &["10.1.0.2"], &[]).await?;
    rig.expect_gone("gone").await
}

#[tokio::test]
async fn a_host_that_was_killed_in_the_middle_of_its_work_ends_it_after_a_restart() -> Result<()> {
    let mut rig = Rig::start().await?;
    let services: Vec<String> = (0..60).map(|number| format!("s{number}")).collect();
    rig.create_pod("a", "web", "10.1.0.1", true).await?;
    for name in &services {
        rig.create_service(name, json!({"app": "web"})).await?;
    }
    // Every Service's Endpoints must now be rewritten. The host is killed while it does so.
    rig.create_pod("b", "web", "10.1.0.2", true).await?;
    rig.expect("s0", &["10.1.0.1", "10.1.0.2"], &[]).await?;
    rig.host.kill().await?;
    rig.host = Host::ready(rig.plugins.path(), rig.server.kubeconfig()).await?;
    for name in &services {
        rig.expect(name, &["10.1.0.1", "10.1.0.2"], &[]).await?;
    }
    Ok(())
}

#[tokio::test]
async fn an_idle_cluster_costs_no_writes() -> Result<()> {
    let rig = Rig::start().await?;
    if !rig.server.is_own() {
        return Ok(());
    }
    rig.create_service("web", json!({"app": "web"})).await?;
    rig.create_pod("a", "web", "10.1.0.1", true).await?;
    rig.expect("web", &["10.1.0.1"], &[]).await?;
    let writes = async || -> Result<u64> {
        let creates = rig.server.requests("create", "endpoints").await?;
        Ok(creates + rig.server.requests("update", "endpoints").await?)
    };
    let before = writes().await?;
    assert!(before > 0, "the plugin creates and updates");
    // Changes a field of the Service that the plugin does not read, and a label of the pod that no
    // Service selects by.
    rig.api()
        .merge(
            &rig.path("services", "web"),
            &json!({"metadata": {"annotations": {"a": "b"}}}),
        )
        .await?;
    rig.api()
        .merge(
            &rig.path("pods", "a"),
            &json!({"metadata": {"labels": {"unrelated": "yes"}}}),
        )
        .await?;
    rig.create_service("next", json!({"app": "none"})).await?;
    rig.expect("next", &[], &[]).await?;
    assert_eq!(
        writes().await?,
        before + 1,
        "one write, for the new service"
    );
    let patches = rig.server.requests("patch", "endpoints").await?;
    assert_eq!(patches, 0, "it replaces whole objects");
    Ok(())
}

#[tokio::test]
async fn a_change_is_one_run_though_the_plugin_sees_its_own_writes() -> Result<()> {
    const CHANGES: u32 = 20;
    let rig = Rig::start().await?;
    // The watch of Endpoints has brought all writes once it has brought that of a new Service, and
    // then no key is left to run.
    let runs = async |fence: &str| -> Result<u64> {
        rig.create_service(fence, json!({"app": "none"})).await?;
        rig.expect(fence, &[], &[]).await?;
        let is_at_rest = |plugin: &Value| {
            let keys = &plugin["keys"];
            keys["queued"] == 0 && keys["running"] == 0
        };
        let plugin = "endpoints.wasm";
        let plugin = rig.host.eventually(plugin, "at rest", is_at_rest).await?;
        let runs = plugin["reconciles"]["success"].as_u64();
        runs.context("a count of reconciles")
    };
    rig.create_service("web", json!({"app": "web"})).await?;
    rig.create_pod("a", "web", "10.1.0.1", true).await?;
    rig.expect("web", &["10.1.0.1"], &[]).await?;
    let before = runs("one").await?;
    for number in 0..CHANGES {
        let is_ready = number % 2 == 1;
        rig.set_pod_status("a", "10.1.0.1", is_ready).await?;
        let (ready, not_ready): (&[_], &[_]) = match is_ready {
            true => (&["10.1.0.1"], &[]),
            false => (&[], &["10.1.0.1"]),
        };
        rig.expect("web", ready, not_ready).await?;
    }
    let after = runs("two").await?;
    assert_eq!(
        after - before,
        u64::from(CHANGES + 1),
        "and one of the fence"
    );
    Ok(())
}

#[tokio::test]
async fn what_others_add_to_the_subsets_is_taken_away_again() -> Result<()> {
    let rig = Rig::start().await?;
    rig.create_service("web", json!({"app": "web"})).await?;
    rig.create_pod("a", "web", "10.1.0.1", true).await?;
    let own = rig.expect("web", &["10.1.0.1"], &[]).await?;
    let path = rig.path("endpoints", "web");
    let mut more = own["subsets"].clone();
    more[0]["notReadyAddresses"] = json!([{"ip": "10.9.9.9"}]);
    let mut named = own["subsets"].clone();
    named[0]["addresses"][0]["hostname"] = "intruder".into();
    for subsets in [more, named] {
        rig.api().merge(&path, &json!({"subsets": subsets})).await?;
        let is_own =
            |found: Option<&Value>| found.is_some_and(|found| found["subsets"] == own["subsets"]);
        rig.api().eventually(&path, "as it was", is_own).await?;
    }
    Ok(())
}

#[tokio::test]
async fn sigterm_ends_the_host_well() -> Result<()> {
    let rig = Rig::start().await?;
    rig.create_service("web", json!({"app": "web"})).await?;
    let (status, log) = rig.host.terminate().await?;
    assert!(status.success(), "{status}\n{log}");
    assert!(log.contains("\"message\":\"stopped\""), "{log}");
    Ok(())
}
