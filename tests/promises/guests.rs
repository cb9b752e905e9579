//! Every guest under `tests/guests` and `tests/guests-python` is built, and a test uses it.

use std::ffi::OsStr;
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
        "hosts",
        "support",
        "benches",
        "../host/wasm/tests",
    ] {
        for file in files(&tests.join(directory), "rs")? {
            sources += &fs::read_to_string(file)?;
        }
    }
    let makefile = fs::read_to_string(tests.join("../Makefile"))?;
    for (directory, extension, variable) in [
        ("guests", "toml", "test_guests"),
        ("guests-python", "py", "python_guests"),
    ] {
        let mut lines = makefile.lines();
        let list = lines.find(|line| line.starts_with(&format!("{variable} :=")));
        let list = list.context(variable)?.split_whitespace();
        let built: Vec<_> = list.map(|built| Path::new(built).file_name()).collect();
        for file in files(&tests.join(directory), extension)? {
            let name = file.parent().and_then(Path::file_name);
            let text = name.and_then(OsStr::to_str).context("a name in UTF-8")?;
            assert!(
                built.contains(&name),
                "{text} is not among the Makefile's {variable}"
            );
            assert!(
                sources.contains(&format!("\"{text}\"")),
                "no test uses {text}"
            );
        }
    }
    Ok(())
}
