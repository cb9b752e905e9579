//! Runs every file under `cases/`: upstream's tests as data. The host's tests run the same files
//! through the built plugin.

use std::path::Path;

use statefulset::StatefulSetController;

const CASES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/cases");

#[test]
fn every_case_comes_out_as_expected() {
    cases::check::<StatefulSetController>(Path::new(CASES));
}

#[test]
fn every_field_of_the_manifest_is_needed() {
    cases::check_fields::<StatefulSetController>(Path::new(CASES));
}
