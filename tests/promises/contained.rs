//! A guest that misbehaves causes an error of its key and nothing more.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use pilothouse_tests::{Host, Server, guest, plugin_directory};
use pilothouse_wasm::{Engine, EngineOptions, LimitPolicy, load};
use serde_json::{Value, json};

/// The name of a key that makes the guest misbehave, and a part of the error that the host reports.
const BAD: &[(&str, &str)] = &[
    (
        "trap",
        "misbehaving/src/lib.rs:34:23: told to; trap: unreachable",
    ),
    (
        "loop",
        "over limit: fuel: all of its 500000000 used, which took ",
    ),
    ("memory", "over limit"),
    ("recursion", "trap"),
    ("invalid-json", "action 1 (apply): invalid JSON"),
    (
        "other-kind",
        "apply of v1/Secret is not among the manifest's writes",
    ),
    ("escape", "is not a namespace's name"),
    (
        "reads-secrets",
        "v1/Secret is not among the manifest's reads",
    ),
    ("terminal", "terminal: told to"),
];

#[tokio::test]
async fn a_guest_that_misbehaves_harms_its_own_key_only() -> Result<()> {
    let server = Server::start().await?;
    let namespace = server.namespace().await?;
    let plugins = plugin_directory(&["misbehaving", "hello-rust"]);
    let host = Host::ready(plugins.path(), server.kubeconfig()).await?;
    let configmaps = format!("/api/v1/namespaces/{namespace}/configmaps");
    let create = async |name: &str, label: &str| {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {label: "true"}}});
        server.api.create(&configmaps, &object).await
    };
    // A version that fails on most of its keys is quarantined (`plugins.rs`), so most keys are
    // good.
    for number in 0..2 * BAD.len() {
        create(&format!("well-{number}"), "misbehave").await?;
    }
    let last = format!("{configmaps}/well-{}-done", 2 * BAD.len() - 1);
    let is_there = |found: Option<&Value>| found.is_some();
    server.api.eventually(&last, "there", is_there).await?;
    for (name, _) in BAD {
        create(name, "misbehave").await?;
    }
    create("well", "misbehave").await?;
    create("friend", "hello").await?;

    server
        .api
        .eventually(&format!("{configmaps}/well-done"), "there", |found| {
            found.is_some()
        })
        .await?;
    server
        .api
        .eventually(&format!("{configmaps}/friend-greeting"), "there", |found| {
            found.is_some()
        })
        .await?;
    host.eventually("misbehaving.wasm", "failing for every bad key", |plugin| {
        plugin["keys"]["failed"] == BAD.len()
    })
    .await?;
    let log = host.log();
    for (name, reason) in BAD {
        let errors: Vec<String> = failures(&log, &format!("{namespace}/{name}"));
        assert!(
            errors.iter().any(|error| error.contains(reason)),
            "{name}: want {reason:?}, have {errors:?}\n{log}"
        );
    }
    its_lines_are_the_run_s(&host.log_lines(), &namespace);
    let (status, _) = host.get("/healthz").await?;
    assert_eq!(status, 200);
    assert!(
        server
            .api
            .get("/api/v1/namespaces/kube-system/configmaps/escaped")
            .await?
            .is_none()
    );
    assert!(
        server
            .api
            .get(&format!("/api/v1/namespaces/{namespace}/secrets/stolen"))
            .await?
            .is_none()
    );
    Ok(())
}

#[test]
fn a_panic_before_there_is_a_manifest_is_told_in_its_own_words() -> Result<()> {
    let engine = Engine::new(&EngineOptions::default())?;
    let file = std::fs::read(guest("panicking"))?;
    let error = load(&engine, &file, &LimitPolicy::default()).err();
    let error = error.context("it loads")?.to_string();
    let (before, after) = error
        .split_once("panicking/src/lib.rs")
        .context("no place")?;
    assert!(before.starts_with("describe: panicked at "), "{error}");
    assert!(
        after.contains(": no manifest today; trap: unreachable"),
        "{error}"
    );
    assert!(error.len() < 450, "{error}");
    Ok(())
}

/// A plugin's log lines carry its fields and the id of the reconcile, like the host's lines about
/// it.
fn its_lines_are_the_run_s(lines: &[Value], namespace: &str) {
    let about = |message: &str, name: &str| {
        let object = format!("{namespace}/{name}");
        let is_about = |line: &&Value| line["message"] == message && line["object"] == object;
        lines.iter().filter(is_about).collect::<Vec<_>>()
    };
    let greeting = about("greeting", "friend")[0];
    assert_eq!(greeting["who"], "world", "{greeting}");
    assert_eq!(greeting["level"], "INFO", "{greeting}");
    let panics = about("plugin panicked", "trap");
    let failures = about("reconcile failed", "trap");
    assert!(!failures.is_empty(), "{lines:?}");
    for line in panics.iter().chain(&failures) {
        assert_eq!(line["plugin"], "misbehaving", "{line}");
        assert_eq!(line["version"], "1.0.0", "{line}");
    }
    let panic = panics[0]["panic"].as_str().unwrap_or_default();
    assert!(panic.ends_with(":\ntold to"), "{panic:?}");
    let ids = |lines: &[&Value]| {
        lines
            .iter()
            .map(|line| line["reconcile_id"].to_string())
            .collect::<Vec<_>>()
    };
    assert_eq!(ids(&panics)[..failures.len()], ids(&failures));
    assert_eq!(
        ids(&failures).iter().collect::<BTreeSet<_>>().len(),
        failures.len()
    );
}

/// Returns the errors of an object's reconciles, from the log.
fn failures(log: &str, object: &str) -> Vec<String> {
    let lines = log
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let of_object =
        lines.filter(|line| line["message"] == "reconcile failed" && line["object"] == object);
    of_object
        .filter_map(|line| line["error"].as_str().map(str::to_owned))
        .collect()
}
