//! Runs every file under `cases/`. The host's tests run the same files through the built plugin.

use std::path::Path;

use namespace::NamespaceController;

fn folder() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/cases"))
}

#[test]
fn every_case_comes_out_as_expected() {
    cases::check::<NamespaceController>(folder());
}

#[test]
fn every_field_of_the_manifest_is_needed() {
    cases::check_fields::<NamespaceController>(folder());
}
