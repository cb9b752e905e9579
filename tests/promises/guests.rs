//! Every guest under `tests/guests` is built, and a test uses it.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// The files below a directory that have this extension.
fn files(directory: &Path, extension: &str) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(directory).with_context(|| directory.display().to_string())?;
    let mut found = vec![];
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(files(&path, extension)?);
        } else if path.extension().is_some_and(|have| have == extension) {
            found.push(path);
        }
    }
    Ok(found)
}

#[test]
fn every_guest_is_built_and_used_by_a_test() -> Result<()> {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut sources = String::new();
    for directory in [
        "promises",
        "faults",
        "support",
        "benches",
        "../host/wasm/tests",
    ] {
        for file in files(&tests.join(directory), "rs")? {
            sources += &fs::read_to_string(file)?;
        }
    }
    let makefile = fs::read_to_string(tests.join("../Makefile"))?;
    let list = makefile
        .lines()
        .find(|line| line.starts_with("test_guests :="));
    let built: Vec<&str> = list.context("test_guests")?.split_whitespace().collect();
    for manifest in files(&tests.join("guests"), "toml")? {
        let name = manifest
            .parent()
            .and_then(Path::file_name)
            .context("a name")?;
        let name = name.to_str().context("a name in UTF-8")?;
        assert!(
            built.contains(&name),
            "{name} is not among the Makefile's test_guests"
        );
        assert!(
            sources.contains(&format!("\"{name}\"")),
            "no test uses {name}"
        );
    }
    Ok(())
}
