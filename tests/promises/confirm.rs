//! What an outcome has confirmed: it is not written on a snapshot that the API server contradicts.
//! The guest `tidy` runs through the host, a proxy that holds a watch back, and a real API server.

use anyhow::{Context, Result};
use pilothouse_tests::proxy::{Proxy, watches};
use pilothouse_tests::{Host, Server, plugin_directory};
use serde_json::{Value, json};

/// The ConfigMap `name`, which the guest deletes when no Service uses it.
fn claim(name: &str) -> Value {
    let metadata = json!({"name": name, "labels": {"tidy": "true"}});
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
}

/// A Service that uses the ConfigMap `name`.
fn user(name: &str) -> Value {
    let spec = json!({"type": "ExternalName", "externalName": name});
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec})
}

#[tokio::test]
async fn nothing_is_deleted_while_a_late_watch_hides_who_uses_it() -> Result<()> {
    let server = Server::start().await?;
    let namespace = server.namespace().await?;
    let at = |resource: &str| format!("/api/v1/namespaces/{namespace}/{resource}");
    let (config_maps, services) = (at("configmaps"), at("services"));
    let proxy = Proxy::before(server.kubeconfig()).await?;
    let plugins = plugin_directory(&["tidy"]);
    let host = Host::ready(plugins.path(), &proxy.kubeconfig()).await?;
    let contradicted = || {
        host.metric(
            "pilothouse_contradicted_reconciles_total",
            r#"controller="tidy""#,
        )
    };

    assert_eq!(proxy.freeze(watches("services")), 1);
    server.api.create(&services, &user("used")).await?;
    for name in ["used", "unused"] {
        server.api.create(&config_maps, &claim(name)).await?;
    }
    let is_gone = |found: Option<&Value>| found.is_none();
    let unused = format!("{config_maps}/unused");
    let found = server.api.eventually(&unused, "gone", is_gone).await;
    found.with_context(|| host.log())?;
    for _ in 0..400 {
        if contradicted().await? >= 1.0 {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(25)).await;
    }
    assert!(contradicted().await? >= 1.0, "{}", host.log());
    let used = format!("{config_maps}/used");
    assert!(server.api.get(&used).await?.is_some(), "{}", host.log());
    let failed = r#"controller="tidy",result="error""#;
    let failed = host
        .metric("controller_runtime_reconcile_total", failed)
        .await?;
    assert!(failed.abs() < 0.5, "it is nobody's failure: {}", host.log());

    proxy.thaw();
    server.api.delete(&format!("{services}/used")).await?;
    let found = server.api.eventually(&used, "gone", is_gone).await;
    found.map(drop).with_context(|| host.log())
}
