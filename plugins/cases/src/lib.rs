//! Tests of controllers as data. The README has the format of the files.
//!
//! Everything here panics with a text that says what is wrong: it is called by tests.

mod decision;
mod diff;
mod expand;
mod file;

use std::path::Path;

use pilothouse_sdk::testing::FakeCluster;
use pilothouse_sdk::{Controller, Manifest};
use serde_json::Value;

pub use decision::decision;
pub use file::{Case, CaseKind, load};

/// Runs every case of a folder's files with a controller.
///
/// # Panics
///
/// A case comes out differently than it says; or a file is not in the format, or there is none. Or
/// an outcome is settled, and the next run would write something.
pub fn check<C: Controller>(folder: &Path) {
    let manifest = C::manifest();
    let cases = load(folder, &manifest);
    let faults: Vec<String> = cases
        .iter()
        .filter_map(|case| case.fault(&run::<C>(manifest.clone(), case)))
        .collect();
    report(&faults, cases.len());
    cases
        .iter()
        .filter(|case| case.expect["settled"] == true)
        .for_each(|case| carry_out::<C>(manifest.clone(), case));
}

/// A field that every view of an object has. A manifest that names it alone reads no more.
const ALWAYS_THERE: &str = ".metadata.uid";

/// Checks that each field that the manifest asks for changes how some case comes out.
///
/// # Panics
///
/// A field is not needed. The message names all of them.
pub fn check_fields<C: Controller>(folder: &Path) {
    let whole = C::manifest();
    let cases = load(folder, &whole);
    let mut needless = Vec::new();
    for (read, fields) in whole.reads.iter().map(|read| read.fields.len()).enumerate() {
        let kind = &whole.reads[read].kind;
        let cases: Vec<&Case> = cases.iter().filter(|case| has_one(case, kind)).collect();
        for field in 0..fields {
            let mut manifest = whole.clone();
            let fields = &mut manifest.reads[read].fields;
            let name = fields.remove(field);
            if name == ALWAYS_THERE {
                continue;
            }
            if fields.is_empty() {
                // Without any the whole object would be read.
                fields.push(ALWAYS_THERE.to_owned());
            }
            let is_missed = |case: &&Case| run::<C>(manifest.clone(), case) != case.expect;
            if !cases.iter().any(is_missed) {
                needless.push(format!("{name} of {}", whole.reads[read].kind));
            }
        }
    }
    assert!(
        needless.is_empty(),
        "no case needs what the manifest reads:\n{}",
        needless.join("\n")
    );
}

/// True if a case has an object of this kind, or the kind is a pattern: without one, no field of
/// the kind can matter.
fn has_one(case: &Case, kind: &str) -> bool {
    if kind.ends_with('*') {
        return true;
    }
    let text = |object: &Value, name: &str| object[name].as_str().unwrap_or_default().to_owned();
    let mut objects = case.objects.iter();
    objects.any(|object| kind == format!("{}/{}", text(object, "apiVersion"), text(object, "kind")))
}

/// What a controller decides about a case's key, when it sees of the objects what this manifest
/// reads.
#[must_use]
pub fn run<C: Controller>(manifest: Manifest, case: &Case) -> Value {
    let cluster = cluster(manifest, case);
    decision(&match &case.key {
        Some(key) => cluster.reconcile_key::<C>(key),
        None => cluster.reconcile::<C>("", ""),
    })
}

/// Carries out what a controller decides about a case's key.
fn carry_out<C: Controller>(manifest: Manifest, case: &Case) {
    // Shown if it panics.
    println!("{}: {}", case.file, case.description);
    let mut cluster = cluster(manifest, case);
    let outcome = match &case.key {
        Some(key) => cluster.turn_key::<C>(key),
        None => cluster.turn::<C>("", ""),
    };
    assert!(outcome.is_ok(), "{outcome:?}");
}

/// The cluster that a case describes.
fn cluster(manifest: Manifest, case: &Case) -> FakeCluster {
    let cluster = FakeCluster::new(manifest).at(case.now.0);
    let cluster = case.objects.iter().fold(cluster, FakeCluster::with);
    let cluster = case.kinds.iter().fold(cluster, |cluster, it| {
        let verbs: Vec<&str> = it.verbs.iter().map(String::as_str).collect();
        cluster.defining_with(&it.kind, it.namespaced, &verbs)
    });
    let cluster = cluster
        .attempt(case.attempt)
        .previous(case.previous.iter().cloned());
    let cluster = match &case.memo {
        Value::Null => cluster,
        memo => cluster.memo(memo),
    };
    match &case.config {
        Value::Null => cluster,
        config => cluster.configured(config),
    }
}

/// Ends the test if there are faults.
///
/// # Panics
///
/// There are.
pub fn report(faults: &[String], cases: usize) {
    assert!(
        faults.is_empty(),
        "{} of {cases} cases:\n{}",
        faults.len(),
        faults.join("\n")
    );
}
