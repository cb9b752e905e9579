//! Runs every file under `cases/`: upstream's tests, and what they leave out.

use std::path::Path;

use job::JobController;

const CASES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/cases");

#[test]
fn every_case_comes_out_as_expected() {
    cases::check::<JobController>(Path::new(CASES));
}

#[test]
fn every_field_of_the_manifest_is_needed() {
    cases::check_fields::<JobController>(Path::new(CASES));
}
