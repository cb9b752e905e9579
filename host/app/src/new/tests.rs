use std::collections::BTreeSet;

use super::*;

/// A new project of this name, in a directory of its own.
fn project(name: &str, language: Language) -> tempfile::TempDir {
    let parent = tempfile::tempdir().unwrap();
    make(parent.path(), name, language).unwrap();
    parent
}

/// The text of a file of a project in this directory.
fn text(parent: &tempfile::TempDir, name: &str, path: &str) -> String {
    fs::read_to_string(parent.path().join(name).join(path)).unwrap()
}

/// The text of a file of this repository.
fn own(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(path);
    fs::read_to_string(path).unwrap()
}

#[test]
fn a_project_in_rust_has_its_name_and_the_sdk() {
    let parent = project("cert-expiry", Language::Rust);
    let read = |path: &str| text(&parent, "cert-expiry", path);
    assert!(read("Cargo.toml").contains("name = \"cert-expiry\""));
    assert!(read("README.md").contains("/cert_expiry.wasm"));
    for (path, _) in RUST.files {
        assert!(!read(path).contains("@name@"), "{path}");
        assert!(!read(path).contains("@file@"), "{path}");
    }
    for path in [
        "LICENSE",
        "host/core/src/lib.rs",
        "plugins/sdk/rust/src/bindings.rs",
        "plugins/sdk/rust-derive/src/lib.rs",
        "wit/manifest.schema.json",
        "wit/world.wit",
    ] {
        let vendored = read(&format!("vendor/pilothouse/{path}"));
        assert_eq!(vendored, own(path), "{path}");
    }
}

#[test]
fn a_project_in_python_has_its_name_and_the_sdk() {
    let parent = project("7-days", Language::Python);
    let read = |path: &str| text(&parent, "7-days", path);
    assert!(read("app.py").contains("name=\"7-days\""));
    assert!(read("README.md").contains("-o 7-days.wasm"));
    for (path, _) in PYTHON.files {
        assert!(!read(path).contains("@name@"), "{path}");
    }
    for (path, from) in [
        ("pilothouse/LICENSE", "LICENSE"),
        (
            "pilothouse/testing/cluster.py",
            "plugins/sdk/python/pilothouse/testing/cluster.py",
        ),
        ("wit/world.wit", "wit/world.wit"),
    ] {
        assert_eq!(read(path), own(from), "{path}");
    }
    let tool = read("requirements.txt");
    let script = own("examples/build-python.sh");
    assert!(script.contains(&format!("\nTOOL={tool}")), "{tool}");
}

#[test]
fn links_of_documents_lead_to_what_is_in_the_project_and_others_are_text() {
    let flat = |text: String| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let parent = project("a", Language::Rust);
    let guide = flat(text(&parent, "a", "vendor/pilothouse/docs/plugins.md"));
    let original = flat(own("docs/plugins.md"));
    let (here, gone) = ("[wit/world.wit](../wit/world.wit)", "](plugins-python.md)");
    assert!(original.contains(here) && original.contains(gone));
    assert!(guide.contains(here) && !guide.contains(gone));
    assert!(guide.contains("The same controller in Python has a guide of its own."));
    assert!(guide.contains("[k8s-openapi](https://docs.rs/k8s-openapi)"));

    let parent = project("a", Language::Python);
    let guide = text(&parent, "a", "docs/plugins-python.md");
    assert!(
        guide.contains("README](../pilothouse/README.md)"),
        "it is elsewhere"
    );
}

#[test]
fn no_test_is_vendored_and_no_file_misses_one() {
    for (path, text) in RUST.unpack().unwrap() {
        if path.starts_with("vendor/") {
            assert!(
                !path.contains("test") || path.contains("/testing"),
                "{path}"
            );
            assert!(!text.contains("mod tests;"), "{path}");
            assert!(!text.contains("[dev-dependencies]"), "{path}");
        }
    }
}

#[test]
fn an_empty_directory_is_taken_and_any_other_is_left_as_it_is() {
    let parent = tempfile::tempdir().unwrap();
    let directory = parent.path().join("website");
    fs::create_dir(&directory).unwrap();
    make(parent.path(), "website", Language::Rust).unwrap();
    assert!(directory.join("src/lib.rs").is_file());

    fs::remove_dir_all(&directory).unwrap();
    fs::create_dir(&directory).unwrap();
    fs::write(directory.join("notes"), "mine").unwrap();
    let error = make(parent.path(), "website", Language::Rust).unwrap_err();
    let error = format!("{error:#}");
    assert!(
        error.contains("website") && error.contains("not empty"),
        "{error}"
    );
    assert_eq!(fs::read_dir(&directory).unwrap().count(), 1);

    fs::write(parent.path().join("shop"), "mine").unwrap();
    let error = make(parent.path(), "shop", Language::Rust).unwrap_err();
    let error = format!("{error:#}");
    assert!(error.contains("a file of this name"), "{error}");
}

#[test]
fn a_name_that_the_language_cannot_have_makes_nothing() {
    let parent = tempfile::tempdir().unwrap();
    make(parent.path(), "match", Language::Rust).unwrap_err();
    assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
}

/// The packages of a lock file that come from a registry.
fn locked(text: &str) -> BTreeSet<&str> {
    let packages = text.split("[[package]]").map(str::trim);
    packages
        .filter(|package| package.contains("checksum"))
        .collect()
}

/// What is tested here is what a project begins with.
#[test]
fn a_project_in_rust_has_the_compiler_and_the_versions_of_this_repository() {
    let channel = own("rust-toolchain.toml");
    let channel = channel.lines().find(|line| line.starts_with("channel"));
    let toolchain = own("host/app/templates/rust/rust-toolchain.toml");
    assert!(toolchain.contains(channel.unwrap()), "{toolchain}");

    let manifest = own("host/app/templates/rust/Cargo.toml");
    let root = own("Cargo.toml");
    for part in ["edition = ", "rust-version = "] {
        let line = root.lines().find(|line| line.starts_with(part)).unwrap();
        assert!(manifest.contains(line), "{line}");
    }

    let versions = |text: &str| -> BTreeSet<String> {
        let name_and_version = |package: &str| package.lines().take(2).collect::<String>();
        locked(text).into_iter().map(name_and_version).collect()
    };
    let theirs = versions(&own("host/app/templates/rust/Cargo.lock"));
    let ours = versions(&own("Cargo.lock"));
    let strange: Vec<_> = theirs.difference(&ours).collect();
    assert!(
        strange.is_empty() && !theirs.is_empty(),
        "{strange:?} are not in Cargo.lock; `UPDATE_LOCK=1 make test` renews the project's"
    );
}
