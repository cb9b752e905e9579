//! Upstream's endpoints cases as data (`plugins/endpoints/cases`), run through the built plugin.
#![allow(
    clippy::unwrap_used,
    reason = "clippy knows the tests of an integration test, but not its helpers"
)]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use anyhow::{Context, Result, ensure};
use pilothouse_core::{
    Action, Delete, Kind, Manifest, ObjectKey, Outcome, PatchType, Plugin, Reader, Request,
    RunError,
};
use pilothouse_tests::{guest, run_in_memory};
use pilothouse_wasm::{Engine, EngineOptions, LimitPolicy, WasmPlugin};
use serde_json::{Value, json};

/// The plugin, and the last outcome that it returned.
struct Recorded {
    plugin: Arc<WasmPlugin>,
    outcome: Mutex<Option<Outcome>>,
}

impl Plugin for Recorded {
    fn manifest(&self) -> &Manifest {
        self.plugin.manifest()
    }

    fn reconcile(&self, request: &Request, reader: &mut Reader) -> Result<Outcome, RunError> {
        let outcome = self.plugin.reconcile(request, reader)?;
        *self.outcome.lock().unwrap() = Some(outcome.clone());
        Ok(outcome)
    }
}

/// Returns the actions that the plugin wants for a key when the cluster has these objects.
fn actions(plugin: &Arc<WasmPlugin>, objects: &[Value], key: &ObjectKey) -> Result<Vec<Value>> {
    let recorded = Arc::new(Recorded {
        plugin: plugin.clone(),
        outcome: Mutex::default(),
    });
    let has_run = run_in_memory(recorded.clone(), objects, key)?;
    let is_there = objects.iter().any(|object| {
        let is_of_key = object["metadata"]["namespace"] == *key.namespace
            && object["metadata"]["name"] == *key.name;
        is_of_key && matches!(object["kind"].as_str(), Some("Service" | "Endpoints"))
    });
    ensure!(
        has_run == is_there,
        "the key runs when its Service or its Endpoints are there, and only then"
    );
    let outcome = recorded.outcome.lock().unwrap().take();
    let stages = outcome.map(|outcome| outcome.stages).unwrap_or_default();
    let actions = stages.into_iter().flat_map(|stage| stage.actions);
    Ok(actions.map(|action| to_json(&action)).collect())
}

/// Returns an action in the form that the cases use.
fn to_json(action: &Action) -> Value {
    let parse = |text: &str| {
        serde_json::from_str::<Value>(text)
            .unwrap_or_else(|error| json!({"not JSON": error.to_string()}))
    };
    match action {
        Action::Apply { object, force, .. } => {
            json!({"apply": {"object": parse(object), "force": force}})
        }
        Action::Delete(Delete { kind, key, uid, .. }) => json!({"delete": {
            "object": object_json(kind, key), "uid": uid,
        }}),
        Action::Patch {
            kind,
            key,
            patch_type: PatchType::Merge,
            body,
            ..
        } => json!({"patch": {
            "object": object_json(kind, key), "patch-type": "merge-patch", "body": parse(body),
        }}),
        other => json!({"unexpected": format!("{other:?}")}),
    }
}

fn object_json(kind: &Kind, key: &ObjectKey) -> Value {
    json!({"kind": kind.to_string(), "namespace": *key.namespace, "name": *key.name})
}

fn cases() -> Result<BTreeMap<String, Value>> {
    let directory = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../plugins/endpoints/cases");
    let mut cases = BTreeMap::new();
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        let text = std::fs::read_to_string(&path)?;
        let case = serde_json::from_str(&text).with_context(|| path.display().to_string())?;
        cases.insert(
            path.file_stem()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned(),
            case,
        );
    }
    Ok(cases)
}

#[test]
fn every_case_holds_through_the_built_plugin() -> Result<()> {
    let engine = Engine::new(&EngineOptions::default())?;
    let plugin = pilothouse_wasm::load(
        &engine,
        &std::fs::read(guest("endpoints"))?,
        &LimitPolicy::default(),
    )?;
    let plugin = Arc::new(plugin);
    let cases = cases()?;
    let mut wrong = Vec::new();
    for (name, case) in &cases {
        let text = |path: &str| {
            case.pointer(path)
                .and_then(Value::as_str)
                .unwrap_or_default()
        };
        let key = ObjectKey::new(text("/key/namespace"), text("/key/name"));
        let objects = case["objects"].as_array().context("objects")?;
        let have = Value::from(actions(&plugin, objects, &key).with_context(|| name.clone())?);
        if have != case["expect"] {
            wrong.push(format!(
                "{name}: {}\n  want {}\n  have {have}",
                text("/description"),
                case["expect"]
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(cases.len() >= 25, "only {} cases", cases.len());
    Ok(())
}

/// Returns a pod as a node writes it, with fields that the controller does not read.
fn pod(number: usize) -> Value {
    let conditions = ["PodScheduled", "Initialized", "ContainersReady", "Ready"]
        .map(|name| json!({"type": name, "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}));
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"namespace": "default", "name": format!("web-{number:05}"),
            "uid": format!("uid-{number}"), "resourceVersion": number.to_string(),
            "labels": {"app": "web", "pod-template-hash": "5d9c7b8f6c"}},
        "spec": {"nodeName": format!("node-{}", number % 500), "containers": [
            {"name": "main", "image": "web", "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}]}]},
        "status": {"phase": "Running", "conditions": conditions,
            "podIP": format!("10.0.{}.{}", number / 250, number % 250),
            "podIPs": [{"ip": format!("10.0.{}.{}", number / 250, number % 250)}]}})
}

#[test]
fn a_service_of_five_thousand_pods_is_within_the_limits_of_a_manifest_that_asks_for_nothing()
-> Result<()> {
    let engine = Engine::new(&EngineOptions::default())?;
    let file = std::fs::read(guest("endpoints"))?;
    let plugin = pilothouse_wasm::load(&engine, &file, &LimitPolicy::default())?;
    let plugin = Arc::new(plugin);
    let service = json!({"apiVersion": "v1", "kind": "Service",
        "metadata": {"namespace": "default", "name": "web", "uid": "uid", "resourceVersion": "1"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": "http", "protocol": "TCP"}]}});
    let objects: Vec<Value> = (0..5_000).map(pod).chain([service]).collect();
    let key = ObjectKey::new("default", "web");
    let actions = actions(&plugin, &objects, &key)?;
    assert_eq!(actions.len(), 1);
    println!("{} of fuel", plugin.totals().fuel);
    Ok(())
}
