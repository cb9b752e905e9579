//! A guest can look at more objects than fit into its memory at once, in pages.

use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use anyhow::{Context, Result};
use pilothouse_core::{Action, Manifest, ObjectKey, Outcome, Plugin, Reader, Request, RunError};
use pilothouse_tests::{guest, run_in_memory};
use pilothouse_wasm::{Engine, EngineOptions, LimitPolicy, WasmPlugin};
use serde_json::{Value, json};

const PODS: usize = 150_000;

/// The guest `census`, which is Python, and its last outcome.
struct Census {
    plugin: &'static WasmPlugin,
    outcome: Mutex<Option<Outcome>>,
}

impl Plugin for Census {
    fn manifest(&self) -> &Manifest {
        self.plugin.manifest()
    }

    fn reconcile(&self, request: &Request, reader: &mut Reader) -> Result<Outcome, RunError> {
        let outcome = self.plugin.reconcile(request, reader)?;
        let mut last = self.outcome.lock().unwrap_or_else(PoisonError::into_inner);
        *last = Some(outcome.clone());
        Ok(outcome)
    }
}

static PLUGIN: LazyLock<WasmPlugin> = LazyLock::new(|| {
    let engine = Engine::new(&EngineOptions::default()).expect("an engine");
    let file = std::fs::read(guest("census")).expect("the guest's file");
    pilothouse_wasm::load(&engine, &file, &LimitPolicy::default()).expect("a plugin")
});

/// What the guest makes of a cluster with many Pods, if it reads them in this way.
fn counts(how: &str) -> Result<Outcome> {
    let metadata = json!({"name": "a", "uid": "u", "labels": {"census": how}});
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata});
    let mut objects: Vec<Value> = (0..PODS).map(pod).collect();
    objects.push(namespace);
    let census = Arc::new(Census {
        plugin: &PLUGIN,
        outcome: Mutex::default(),
    });
    run_in_memory(census.clone(), &objects, &ObjectKey::new("", "a"))?;
    let mut last = census
        .outcome
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    last.take().context("it never ran")
}

fn pod(number: usize) -> Value {
    let namespace = format!("team-{}", number % 100);
    let uid = format!("8f4e2a7c-1111-4222-8333-{number:012}");
    let metadata = json!({"namespace": namespace, "name": format!("web-{number}"), "uid": uid});
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata})
}

#[test]
fn a_python_guest_counts_150_000_objects_in_pages() -> Result<()> {
    let outcome = counts("pages")?;
    let Some(Action::Apply { object, .. }) = outcome.stages[0].actions.first() else {
        panic!("no apply: {outcome:?}");
    };
    let applied: Value = serde_json::from_str(object)?;
    assert_eq!(applied["data"]["pods"], PODS.to_string());
    Ok(())
}

#[test]
fn a_list_that_does_not_fit_into_the_memory_ends_the_run_and_says_so() {
    let error = counts("list")
        .expect_err("the objects do not fit")
        .to_string();
    assert!(
        error.contains("all memory is used; read a long list in pages"),
        "{error}"
    );
}
