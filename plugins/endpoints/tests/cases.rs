//! Runs every file under `cases/`: objects, a key, and the actions that the controller must return
//! for them. The host's tests run the same files through the built plugin.

use std::path::Path;

use cases::Case;
use endpoints::EndpointsController;
use pilothouse_sdk::Controller;
use serde_json::{Value, json};

fn folder() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/cases"))
}

fn all() -> Vec<Case> {
    cases::load(folder(), &EndpointsController::manifest())
}

#[test]
fn every_case_comes_out_as_expected() {
    cases::check::<EndpointsController>(folder());
    let count = all().len();
    assert!(count >= 90, "there are {count} cases: some are not found");
}

/// What a case's write leaves behind is what the next run wants: no case writes twice.
#[test]
fn nothing_is_written_again() {
    let mut count = 0;
    for case in all() {
        let write = case.expect.pointer("/stages/0/0").unwrap_or(&Value::Null);
        let written = ["create", "update"].map(|verb| &write[verb]["object"]);
        let Some(written) = written.into_iter().find(|object| object.is_object()) else {
            continue;
        };
        let is_other = |object: &Value| object["kind"] != "Endpoints";
        let others = case.objects.iter().filter(|object| is_other(object));
        let again = Case {
            objects: others.cloned().chain([written.clone()]).collect(),
            previous: Vec::new(),
            ..case
        };
        let found = cases::run::<EndpointsController>(EndpointsController::manifest(), &again);
        assert_eq!(
            found,
            json!({"memo": again.expect["memo"]}),
            "{}",
            again.file
        );
        count += 1;
    }
    assert!(count >= 50, "only {count} cases write");
}

#[test]
fn every_field_of_the_manifest_is_needed() {
    cases::check_fields::<EndpointsController>(folder());
}
