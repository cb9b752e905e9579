//! Runs every file under `cases/`: objects, a key, and the actions that the controller must return
//! for them. The host's tests run the same files through the built plugin.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use endpoints::EndpointsController;
use pilothouse_sdk::testing::{FakeCluster, to_json};
use pilothouse_sdk::{Controller, Failure, Manifest};
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Deserialize)]
struct Case {
    description: String,
    upstream: String,
    objects: Vec<Value>,
    key: Key,
    expect: Vec<Value>,
}

#[derive(Deserialize)]
struct Key {
    namespace: String,
    name: String,
}

fn cases() -> BTreeMap<String, Case> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("cases");
    let files = fs::read_dir(folder).expect("the folder of cases is there");
    let paths = files.map(|file| file.expect("a file of the folder can be read").path());
    let read = |path: &Path| {
        let text = fs::read_to_string(path).expect("a case can be read");
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    };
    paths
        .map(|path| {
            (
                path.file_stem()
                    .unwrap_or_default()
                    .to_string_lossy()
                    .into_owned(),
                read(&path),
            )
        })
        .collect()
}

/// What the controller does about a key of a cluster of these objects.
fn actions(objects: impl IntoIterator<Item = Value>, key: &Key) -> Vec<Value> {
    let decided = actions_seeing(EndpointsController::manifest(), objects, key);
    decided.expect("the controller decides")
}

/// The same, when it sees of the objects what this manifest reads.
fn actions_seeing(
    manifest: Manifest,
    objects: impl IntoIterator<Item = Value>,
    key: &Key,
) -> Result<Vec<Value>, Failure> {
    let cluster = objects
        .into_iter()
        .fold(FakeCluster::new(manifest), FakeCluster::with);
    let outcome = cluster.reconcile::<EndpointsController>(&key.namespace, &key.name)?;
    Ok(outcome.actions().map(to_json).collect())
}

#[test]
fn every_case_comes_out_as_expected() {
    let cases = cases();
    assert!(
        cases.len() >= 60,
        "there are {} cases: some are not found",
        cases.len()
    );
    let mut failed = Vec::new();
    for (name, case) in &cases {
        assert!(
            !case.upstream.is_empty(),
            "{name}: which upstream test is this?"
        );
        let found = actions(case.objects.clone(), &case.key);
        if found != case.expect {
            let (expected, found) = (json!(case.expect), json!(found));
            failed.push(format!(
                "{name}: {}\n  expected {expected}\n  found    {found}",
                case.description
            ));
        }
    }
    assert!(
        failed.is_empty(),
        "{} of {} cases:\n{}",
        failed.len(),
        cases.len(),
        failed.join("\n")
    );
}

/// What a case's apply leaves behind is what the next run wants: no case writes twice.
#[test]
fn nothing_is_written_again() {
    for (name, case) in cases() {
        let Some(applied) = case
            .expect
            .first()
            .and_then(|action| action.pointer("/apply/object"))
        else {
            continue;
        };
        let others = case
            .objects
            .iter()
            .filter(|object| object["kind"] != "Endpoints")
            .cloned();
        let found = actions(others.chain([applied.clone()]), &case.key);
        assert!(found.is_empty(), "{name}: {}", json!(found));
    }
}

/// Leaves out each field of the manifest in turn: some case must then end differently. So the
/// manifest asks for no field in vain, and the cases test every field.
#[test]
fn every_field_of_the_manifest_is_needed() {
    let cases = cases();
    let whole = EndpointsController::manifest();
    for (read, fields) in whole.reads.iter().map(|read| read.fields.len()).enumerate() {
        for field in 0..fields {
            let mut manifest = whole.clone();
            let name = manifest.reads[read].fields.remove(field);
            let is_missed = cases.values().any(|case| {
                let found = actions_seeing(manifest.clone(), case.objects.clone(), &case.key);
                found != Ok(case.expect.clone())
            });
            assert!(
                is_missed,
                "no case needs {name} of {}",
                whole.reads[read].kind
            );
        }
    }
}
