//! An API server takes every manifest.

use anyhow::{Context, Result};
use pilothouse_tests::{Api, DEFINITIONS, Server, definition};
use serde_json::{Value, json};

use crate::tool::{Kustomizations, Release, deploy, kustomize};

/// The path of an object of a kind that `deploy/` uses.
pub fn path_of(object: &Value) -> Result<String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (version, kind) = (text(&object["apiVersion"]), text(&object["kind"]));
    let root = match version.contains('/') {
        true => format!("/apis/{version}"),
        false => format!("/api/{version}"),
    };
    let plural = match &*kind {
        "NetworkPolicy" => "networkpolicies".to_owned(),
        _ => format!("{}s", kind.to_lowercase()),
    };
    let namespace = text(&object["metadata"]["namespace"]);
    let place = match &*namespace {
        "" => plural,
        namespace => format!("namespaces/{namespace}/{plural}"),
    };
    let name = object["metadata"]["name"].as_str();
    let name = name.with_context(|| format!("an object without a name: {object}"))?;
    Ok(format!("{root}/{place}/{name}"))
}

/// Applies objects as `kubectl apply --server-side` does: namespaces first.
pub async fn apply(api: &Api, objects: &[Value]) -> Result<()> {
    let (first, rest): (Vec<_>, Vec<_>) = objects
        .iter()
        .partition(|object| object["kind"] == "Namespace");
    for object in first.into_iter().chain(rest) {
        api.apply(&path_of(object)?, object).await?;
    }
    Ok(())
}

/// The Prometheus operator's kind.
async fn define_service_monitors(server: &Server) -> Result<()> {
    let kind = definition("monitoring.coreos.com", "ServiceMonitor");
    server.api.create(DEFINITIONS, &kind).await?;
    let path = "/apis/monitoring.coreos.com/v1/servicemonitors";
    let is_served = |found: Option<&Value>| found.is_some();
    server.api.eventually(path, "served", is_served).await?;
    Ok(())
}

#[tokio::test]
async fn every_kustomization_is_taken_by_an_api_server() -> Result<()> {
    let server = Server::start().await?;
    define_service_monitors(&server).await?;
    let kustomizations = Kustomizations::copy()?;
    let mut applied = 0;
    let base = kustomize(&deploy().join("kustomize/base"))?;
    let mut all = vec![base];
    for component in std::fs::read_dir(kustomizations.at("components"))? {
        let name = component?.file_name();
        let name = name.to_str().context("a name of letters")?;
        all.push(kustomizations.with(&[name])?);
    }
    for example in std::fs::read_dir(kustomizations.at("examples"))? {
        let name = example?.file_name();
        all.push(kustomizations.example(name.to_str().context("a name of letters")?)?);
    }
    for objects in &all {
        apply(&server.api, objects).await?;
        applied += 1;
    }
    assert_eq!(applied, 8, "the base, four components, three examples");
    Ok(())
}

#[tokio::test]
async fn every_form_of_the_chart_is_taken_by_an_api_server() -> Result<()> {
    let server = Server::start().await?;
    define_service_monitors(&server).await?;
    let plugins = pilothouse_tests::plugin_directory(&["endpoints"]);
    let plugins = plugins.path().to_str().context("a path of letters")?;
    let permissions = crate::tool::pilothouse(&["rbac", "--plugins-only", plugins])?;
    let namespace =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "pilothouse"}});
    server
        .api
        .apply("/api/v1/namespaces/pilothouse", &namespace)
        .await?;
    for values in [
        json!({}),
        json!({"share": true, "replicas": 3, "extraArgs": ["--cache-limit=512Mi"]}),
        json!({"plugins": {"from": "volume"}}),
        json!({"plugins": {"from": "image"}}),
        json!({"plugins": {"configMaps": ["one", "two"], "permissions": permissions}}),
        json!({
            "podAnnotations": {"example.dev/a": "b"}, "nodeSelector": {"kubernetes.io/os": "linux"},
            "tolerations": [{"key": "a", "operator": "Exists"}], "priorityClassName": "high",
            "imagePullSecrets": [{"name": "registry"}], "cacheSize": "2Gi",
            "image": {"tag": "1", "pullPolicy": "Always"},
            "networkPolicy": {"apiServerNetworks": ["10.0.0.0/24"], "apiServerPorts": [443]},
            "serviceMonitor": {"enabled": true, "labels": {"release": "prometheus"}},
        }),
    ] {
        let release = Release {
            values: values.clone(),
            ..Release::default()
        };
        let applied = apply(&server.api, &release.objects()?).await;
        applied.with_context(|| values.to_string())?;
    }
    Ok(())
}
