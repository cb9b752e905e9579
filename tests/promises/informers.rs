//! The host watches only what plugins ask for, each kind once, and holds no more of it than they
//! need.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use pilothouse_tests::{Host, HostOptions, Server, ServerOptions, guest, plugin_directory};
use serde_json::{Value, json};

/// Returns the content of `/informers`.
async fn informers(host: &Host) -> Result<Vec<Value>> {
    let (_, body) = host.get("/informers").await?;
    Ok(serde_json::from_str(&body)?)
}

async fn start(plugins: &Path, kubeconfig: &Path, arguments: &[&str]) -> Result<Host> {
    let mut host = Host::start(&HostOptions {
        plugins: plugins.into(),
        kubeconfig: kubeconfig.into(),
        arguments: arguments.iter().map(ToString::to_string).collect(),
        ..HostOptions::default()
    })
    .await?;
    host.wait_until_ready().await?;
    Ok(host)
}

async fn namespaces(server: &Server) -> Result<()> {
    for name in ["one", "two", "three"] {
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        server.api.create("/api/v1/namespaces", &namespace).await?;
    }
    Ok(())
}

async fn pod(server: &Server, namespace: &str, name: &str, app: &str) -> Result<()> {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"namespace": namespace, "name": name, "labels": {"app": app}},
        "spec": {"containers": [{"name": "c", "image": "a-long-image-name"}]},
    });
    let collection = format!("/api/v1/namespaces/{namespace}/pods");
    server.api.create(&collection, &pod).await.map(drop)
}

/// Waits until the guest `narrow` has seen exactly these pods.
async fn has_seen(server: &Server, pods: &str) -> Result<Value> {
    let path = "/api/v1/namespaces/one/configmaps/summary";
    let is_wanted =
        |found: Option<&Value>| found.is_some_and(|found| found["data"]["pods"] == pods);
    let found = server.api.eventually(path, pods, is_wanted).await?;
    found.context("no summary")
}

#[tokio::test]
async fn a_plugin_that_narrows_its_reads_needs_permission_for_these_alone() -> Result<()> {
    let server = Server::start_with(ServerOptions {
        rbac: true,
        tokens: vec!["narrow=narrow".into()],
        ..ServerOptions::default()
    })
    .await?;
    if !server.is_own() {
        return Ok(());
    }
    namespaces(&server).await?;
    for namespace in ["one", "two"] {
        allow(&server, namespace).await?;
    }
    for (namespace, name, app) in [
        ("one", "a", "web"),
        ("two", "b", "web"),
        ("three", "c", "web"),
        ("one", "d", "db"),
    ] {
        pod(&server, namespace, name, app).await?;
    }
    let plugins = plugin_directory(&["narrow"]);
    let host = start(plugins.path(), &server.kubeconfig_for("narrow")?, &[]).await?;
    let summary = has_seen(&server, "one/a two/b").await?;
    assert_eq!(
        summary["data"]["elsewhere"], "true",
        "another namespace is denied"
    );
    let informers = informers(&host).await?;
    let informer_keys: Vec<_> = informers
        .iter()
        .map(|informer| &informer["informer"])
        .collect();
    assert_eq!(
        informer_keys,
        ["v1/Pod in one with app=web", "v1/Pod in two with app=web"]
    );
    for informer in &informers {
        assert_eq!(informer["detail"], "metadata", "{informer}");
        assert_eq!(informer["users"], json!(["narrow"]));
        assert_eq!(informer["objects"], 1);
        assert!(informer["bytes"].as_u64() > Some(0), "{informer}");
    }
    pod(&server, "two", "e", "web").await?;
    has_seen(&server, "one/a two/b two/e").await?;
    let labels = json!({"metadata": {"labels": {"app": "db"}}});
    server
        .api
        .merge("/api/v1/namespaces/one/pods/a", &labels)
        .await?;
    has_seen(&server, "two/b two/e").await?;
    Ok(())
}

/// Allows the user `narrow` in this namespace what the plugin does there, and nothing elsewhere.
async fn allow(server: &Server, namespace: &str) -> Result<()> {
    let group = "/apis/rbac.authorization.k8s.io/v1";
    let metadata = json!({"namespace": namespace, "name": "narrow"});
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": metadata, "rules": [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]},
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create", "patch"]},
    ]});
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": metadata,
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "narrow"}],
        "roleRef": {"kind": "Role", "apiGroup": "rbac.authorization.k8s.io", "name": "narrow"}});
    for (collection, object) in [("roles", role), ("rolebindings", binding)] {
        let path = format!("{group}/namespaces/{namespace}/{collection}");
        server.api.create(&path, &object).await?;
    }
    Ok(())
}

#[tokio::test]
async fn the_values_of_secrets_are_read_by_whom_the_operator_names_and_by_nobody_else() -> Result<()>
{
    let server = Server::start().await?;
    let namespace = server.namespace().await?;
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": namespace, "name": "a"}, "data": {"key": "c2VjcmV0"}});
    let secrets = format!("/api/v1/namespaces/{namespace}/secrets");
    server.api.create(&secrets, &secret).await?;
    let plugins = plugin_directory(&["keyring", "hello-rust"]);

    let host = start(plugins.path(), server.kubeconfig(), &[]).await?;
    let refused = host.plugin("keyring.wasm").await?;
    assert_eq!(refused["state"], "failed");
    let reason = refused["reason"].as_str().unwrap_or_default();
    assert!(
        reason.contains("secret-values = true"),
        "the fix is in it: {reason}"
    );
    assert_eq!(host.plugin("hello-rust.wasm").await?["state"], "running");
    let informers = informers(&host).await?;
    assert!(
        informers
            .iter()
            .all(|informer| informer["informer"] != "v1/Secret"),
        "{informers:?}"
    );
    // The operator allows it while the host runs.
    std::fs::write(plugins.path().join("keyring.toml"), "secret-values = true")?;
    let note = format!("/api/v1/namespaces/{namespace}/configmaps/a");
    let is_wanted =
        |found: Option<&Value>| found.is_some_and(|found| found["data"]["length"] == "8");
    server
        .api
        .eventually(&note, "the length of the value", is_wanted)
        .await?;
    Ok(())
}

#[tokio::test]
async fn a_resync_period_runs_everything_again_and_writes_nothing() -> Result<()> {
    let server = Server::start().await?;
    let namespace = server.namespace().await?;
    let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": namespace, "name": "a", "labels": {"hello": "true"}}, "data": {"who": "you"}});
    let configs = format!("/api/v1/namespaces/{namespace}/configmaps");
    server.api.create(&configs, &config).await?;
    let plugins = plugin_directory(&["hello-rust"]);
    let host = start(
        plugins.path(),
        server.kubeconfig(),
        &["--min-resync-period", "1s"],
    )
    .await?;
    let greeting = format!("{configs}/a-greeting");
    server
        .api
        .eventually(&greeting, "a greeting", |found| found.is_some())
        .await?;
    let runs = |plugin: &Value| plugin["reconciles"]["success"].as_u64().unwrap_or_default();
    let settled = runs(
        &host
            .eventually("hello-rust.wasm", "settled", |plugin| runs(plugin) >= 2)
            .await?,
    );
    let before = server.api.get(&greeting).await?.context("no greeting")?;
    host.eventually("hello-rust.wasm", "resynced twice", |plugin| {
        runs(plugin) >= settled + 2
    })
    .await?;
    let after = server.api.get(&greeting).await?.context("no greeting")?;
    assert_eq!(
        before["metadata"]["resourceVersion"],
        after["metadata"]["resourceVersion"]
    );
    Ok(())
}

#[tokio::test]
async fn what_does_not_fit_into_the_caches_stops_its_own_plugins_only() -> Result<()> {
    let server = Server::start().await?;
    let namespace = server.namespace().await?;
    let configs = format!("/api/v1/namespaces/{namespace}/configmaps");
    let filler = "x".repeat(20_000);
    for number in 0..100 {
        let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("c{number}")}, "data": {"filler": filler}});
        server.api.create(&configs, &config).await?;
    }
    let plugins = plugin_directory(&["hello-rust", "endpoints"]);
    let arguments = vec!["--cache-limit".to_owned(), "1Mi".to_owned()];
    let host = Host::start(&HostOptions {
        plugins: plugins.path().into(),
        kubeconfig: server.kubeconfig().into(),
        arguments,
        ..HostOptions::default()
    })
    .await?;
    let waits = host
        .eventually("hello-rust.wasm", "told why it waits", |plugin| {
            plugin["state"] == "waiting" && plugin["reason"].is_string()
        })
        .await?;
    let reason = waits["reason"].as_str().unwrap_or_default();
    assert!(reason.contains("limit"), "{reason}");
    host.eventually("endpoints.wasm", "running", |plugin| {
        plugin["state"] == "running"
    })
    .await?;
    let held: u64 = informers(&host)
        .await?
        .iter()
        .filter_map(|informer| informer["bytes"].as_u64())
        .sum();
    assert!(held <= 1 << 20, "{held} bytes");
    Ok(())
}

/// `endpoints` reads three kinds, `hello-rust` reads one.
#[tokio::test]
async fn a_plugin_for_whose_list_watches_there_is_no_room_waits_and_stops_nobody() -> Result<()> {
    let server = Server::start().await?;
    let plugins = plugin_directory(&["hello-rust", "endpoints"]);
    let arguments = vec!["--watch-limit".to_owned(), "2".to_owned()];
    let host = Host::start(&HostOptions {
        plugins: plugins.path().into(),
        kubeconfig: server.kubeconfig().into(),
        arguments,
        ..HostOptions::default()
    })
    .await?;
    let waits = host
        .eventually("endpoints.wasm", "told why it waits", |plugin| {
            let reason = plugin["reason"].as_str().unwrap_or_default();
            plugin["state"] == "waiting" && reason.contains("list-watches")
        })
        .await?;
    let reason = waits["reason"].as_str().unwrap_or_default();
    assert!(reason.contains("--watch-limit allows 2"), "{reason}");
    host.eventually("hello-rust.wasm", "running", |plugin| {
        plugin["state"] == "running"
    })
    .await?;
    assert_eq!(informers(&host).await?.len(), 1);
    Ok(())
}

/// `fickle` reads only the metadata of pods, `endpoints` reads whole pods.
#[tokio::test]
async fn a_plugin_that_wants_more_of_a_kind_than_fits_stops_nobody_who_reads_less_of_it()
-> Result<()> {
    let server = Server::start().await?;
    namespaces(&server).await?;
    let long = "x".repeat(20_000);
    for number in 0..100 {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": format!("p{number}")},
            "spec": {"containers": [{"name": "c", "image": "i", "args": [long]}]},
        });
        server
            .api
            .create("/api/v1/namespaces/one/pods", &pod)
            .await?;
    }
    let plugins = plugin_directory(&["fickle"]);
    let arguments = ["--cache-limit", "1Mi"];
    let host = start(plugins.path(), server.kubeconfig(), &arguments).await?;
    let pods = async || -> Result<Value> {
        let all = informers(&host).await?;
        let pods = all.into_iter().find(|one| one["informer"] == "v1/Pod");
        pods.context("no informer of pods")
    };
    assert_eq!(pods().await?["detail"], "metadata");

    let endpoints = plugins.path().join("endpoints.wasm");
    std::fs::copy(guest("endpoints"), &endpoints)?;
    while host.plugin("endpoints.wasm").await.is_err() {
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    let waits = host
        .eventually("endpoints.wasm", "told why it waits", |plugin| {
            plugin["state"] == "waiting" && plugin["reason"].is_string()
        })
        .await?;
    let reason = waits["reason"].as_str().unwrap_or_default();
    assert!(reason.contains("limit"), "{reason}");

    // The other plugin keeps running, and its view of the pods is not affected.
    let before = pods().await?["objects"].as_u64().unwrap_or_default();
    pod(&server, "two", "late", "web").await?;
    for _ in 0..400 {
        if pods().await?["objects"].as_u64() > Some(before) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    assert_eq!(pods().await?["objects"], before + 1, "{}", host.log());
    let fickle = host.plugin("fickle.wasm").await?;
    assert_eq!(fickle["state"], "running", "{fickle}");
    assert_eq!(fickle["reason"], Value::Null, "{fickle}");
    Ok(())
}
