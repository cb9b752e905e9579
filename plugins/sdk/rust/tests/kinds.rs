//! The fake cluster runs a plugin that reconciles several kinds.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use pilothouse_sdk::testing::{FakeCluster, Run};
use pilothouse_sdk::{
    Children, Controller, Failure, Host, Manifest, ObjectRef, Outcome, Request, Selection,
};
use serde_json::{Value, json};

const JOB: &str = "batch/v1/Job";

const POD: &str = "v1/Pod";

const NOTE: &str = "v1/ConfigMap";

/// Keeps a note of each Job and of each Pod, and fails for objects without a `say`.
struct Notes;

impl Controller for Notes {
    fn manifest() -> Manifest {
        Manifest::new("notes", "1.0.0", Selection::of(JOB))
            .reconciles_also(Selection::of(POD).labels("noted"))
            .reads(JOB, [".spec.say"])
            .reads(POD, [".spec.say", ".metadata.labels"])
            .reads(NOTE, [".data"])
            .keeps_children(NOTE)
    }

    fn reconcile(request: &Request, _: &dyn Host) -> Result<Outcome, Failure> {
        let key = request.key();
        let Some(object) = request.object::<Value>()? else {
            return Ok(Outcome::done().with(Children::new::<Value>([])?));
        };
        let say = object["spec"]["say"].as_str();
        let say = say.ok_or_else(|| Failure::Retry("nothing to say".into()))?;
        let name = format!("{}-{}", key.kind.replace('/', "-").to_lowercase(), key.name);
        let note = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"namespace": key.namespace, "name": name}, "data": {"say": say},
        });
        Ok(Outcome::done().with(Children::new([note])?))
    }
}

fn object(kind: &str, say: Option<&str>) -> Value {
    let (api_version, kind) = kind.rsplit_once('/').unwrap_or(("v1", kind));
    json!({
        "apiVersion": api_version, "kind": kind, "spec": {"say": say},
        "metadata": {"namespace": "default", "name": "a", "labels": {"noted": "true"}},
    })
}

fn a(kind: &str) -> ObjectRef {
    ObjectRef::new(kind, "default", "a")
}

/// The kinds of the keys that ran, each once. Its own children run a key once more.
fn ran(runs: Vec<Run>) -> Vec<String> {
    assert!(runs.iter().all(|run| run.error.is_none()), "{runs:?}");
    let keys = runs.into_iter().filter_map(|run| run.key);
    let kinds: BTreeSet<String> = keys.map(|key| key.kind).collect();
    kinds.into_iter().collect()
}

fn note(cluster: &FakeCluster, name: &str) -> Option<Value> {
    let note = cluster.object(&ObjectRef::new(NOTE, "default", name));
    note.map(|note| note["data"]["say"].clone())
}

#[test]
fn keys_of_two_kinds_are_run_and_cleaned_up_each_by_itself() {
    let mut cluster = FakeCluster::new(Notes::manifest())
        .with(object(JOB, Some("job")))
        .with(object(POD, Some("pod")));
    assert_eq!(ran(cluster.run_due::<Notes>()), [JOB, POD]);
    assert_eq!(note(&cluster, "batch-v1-job-a"), Some(json!("job")));
    assert_eq!(note(&cluster, "v1-pod-a"), Some(json!("pod")));
    cluster.delete(&a(JOB));
    assert_eq!(ran(cluster.run_due::<Notes>()), [JOB]);
    assert_eq!(note(&cluster, "batch-v1-job-a"), None);
    assert_eq!(note(&cluster, "v1-pod-a"), Some(json!("pod")));
}

#[test]
fn a_key_of_a_kind_is_run_alone_and_has_its_own_attempts() {
    let mut cluster = FakeCluster::new(Notes::manifest())
        .with(object(JOB, None))
        .with(object(POD, Some("pod")));
    assert!(cluster.turn_key::<Notes>(&a(JOB)).is_err());
    let mut cluster = cluster.with(object(JOB, Some("job")));
    let outcome = cluster.reconcile_key::<Notes>(&a(POD)).unwrap();
    let effects = cluster.apply_key(&a(POD), &outcome);
    assert_eq!(effects[0].object.name, "v1-pod-a");
    assert_eq!(note(&cluster, "batch-v1-job-a"), None);
    cluster.turn_key::<Notes>(&a(JOB)).unwrap();
    assert_eq!(note(&cluster, "batch-v1-job-a"), Some(json!("job")));
}

#[test]
fn the_kind_of_a_key_must_be_said_and_be_reconciled() {
    let cluster = FakeCluster::new(Notes::manifest());
    let panics = |run: &dyn Fn()| {
        let panic = catch_unwind(AssertUnwindSafe(run)).unwrap_err();
        let text = panic.downcast_ref::<String>().cloned();
        text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
            .unwrap()
    };
    let unsaid = panics(&|| drop(cluster.reconcile::<Notes>("default", "a")));
    assert!(unsaid.contains("reconcile_key"), "{unsaid}");
    let other = panics(&|| drop(cluster.reconcile_key::<Notes>(&a(NOTE))));
    assert!(other.contains("does not name v1/ConfigMap"), "{other}");
}
