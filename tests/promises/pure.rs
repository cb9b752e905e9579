//! A reconcile is a function: the same request on the same snapshot gives the same answer, byte for
//! byte, and uses the same fuel.
#![allow(
    clippy::unwrap_used,
    reason = "clippy knows the tests of an integration test, but not its helpers"
)]

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use anyhow::{Context, Result};
use pilothouse_core::{Manifest, ObjectKey, Outcome, Plugin, Reader, Request, RunError};
use pilothouse_tests::{guest, run_in_memory};
use pilothouse_wasm::{Engine, EngineOptions, LimitPolicy, WasmPlugin};
use serde_json::{Value, json};

const RUNS: usize = 100;

/// What must be the same in every run.
#[derive(Clone, Debug, PartialEq)]
struct Run {
    outcome: Outcome,
    fuel: u64,
    memory_bytes: usize,
}

/// The plugin, and its runs so far.
struct Recorded {
    plugin: WasmPlugin,
    runs: Mutex<Vec<Run>>,
}

impl Plugin for Recorded {
    fn manifest(&self) -> &Manifest {
        self.plugin.manifest()
    }

    fn reconcile(&self, request: &Request, reader: &mut Reader) -> Result<Outcome, RunError> {
        let (result, stats) = self.plugin.run(request, reader);
        let outcome = result?;
        self.runs.lock().unwrap().push(Run {
            outcome: outcome.clone(),
            fuel: stats.fuel,
            memory_bytes: stats.memory_bytes,
        });
        Ok(outcome)
    }
}

/// Runs the guest many times for one key of a cluster with these objects. The guest must have
/// something to do.
fn runs_the_same_each_time(name: &str, objects: &[Value], key: &ObjectKey) -> Result<()> {
    let engine = Engine::new(&EngineOptions::default())?;
    let file = std::fs::read(guest(name))?;
    let recorded = Arc::new(Recorded {
        plugin: pilothouse_wasm::load(&engine, &file, &LimitPolicy::default())?,
        runs: Mutex::default(),
    });
    for _ in 0..=RUNS {
        run_in_memory(recorded.clone(), objects, key)?;
    }
    let runs = recorded.runs.lock().unwrap();
    let first = runs.first().context("it never ran")?;
    assert!(!first.outcome.stages.is_empty() && first.fuel > 0);
    assert_eq!(runs.len(), RUNS + 1);
    for run in &*runs {
        assert_eq!(run, first);
    }
    Ok(())
}

fn somebody_to_greet() -> (Vec<Value>, ObjectKey) {
    let metadata = json!({"namespace": "default", "name": "a", "uid": "u", "resourceVersion": "1", "labels": {"hello": "true"}});
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"who": "moon"}});
    (vec![object], ObjectKey::new("default", "a"))
}

#[test]
fn a_rust_guest_runs_the_same_each_time() -> Result<()> {
    let (objects, key) = somebody_to_greet();
    runs_the_same_each_time("hello-rust", &objects, &key)
}

#[test]
fn a_python_guest_runs_the_same_each_time() -> Result<()> {
    let (objects, key) = somebody_to_greet();
    runs_the_same_each_time("hello-python", &objects, &key)
}

#[test]
fn the_endpoints_guest_runs_the_same_each_time() -> Result<()> {
    let case = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../plugins/endpoints/cases/all-ports-of-all-pods.json");
    let file: Value = serde_json::from_str(&std::fs::read_to_string(case)?)?;
    let case = &file["cases"][0];
    let text = |path: &str| case.pointer(path).and_then(Value::as_str);
    let key = ObjectKey::new(
        text("/key/namespace").context("namespace")?,
        text("/key/name").context("name")?,
    );
    let objects = case["objects"].as_array().context("objects")?;
    runs_the_same_each_time("endpoints", objects, &key)
}
