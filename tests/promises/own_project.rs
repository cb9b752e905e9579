//! `pilothouse new` makes a project that does what its README says.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};
use pilothouse_tests::{Host, Server, ServerOptions};

/// Renews the template's lock file from that of the repository.
const UPDATE: &str = "UPDATE_LOCK";

const LOCK: &str = "../host/app/templates/rust/Cargo.lock";

/// Makes a project in this directory.
fn make(parent: &Path, name: &str, language: &str) -> Result<()> {
    let binary = std::env::var("PILOTHOUSE_BIN").context("PILOTHOUSE_BIN is not set")?;
    let made = Command::new(binary)
        .args(["new", name, "--lang", language])
        .current_dir(parent)
        .output()?;
    ensure!(made.status.success(), "{}", printed(&made));
    Ok(())
}

fn printed(output: &Output) -> String {
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    text(&output.stdout) + &text(&output.stderr)
}

/// The blocks of commands of a README.
fn blocks(readme: &str) -> Vec<&str> {
    let begun = readme.split("```sh\n").skip(1);
    begun
        .filter_map(|block| block.split("```").next())
        .collect()
}

/// Runs commands in a project, as somebody does who has `pilothouse` in the `PATH`.
fn run(commands: &str, project: &Path) -> Result<String> {
    let binary = std::env::var("PILOTHOUSE_BIN").context("PILOTHOUSE_BIN is not set")?;
    let binary = std::path::absolute(binary)?;
    let directory = binary.parent().context("a file is in a directory")?;
    let path = std::env::var("PATH")?;
    let output = Command::new("sh")
        .args(["-ec", commands])
        .current_dir(project)
        .env("PATH", format!("{}:{path}", directory.display()))
        .env_remove("CARGO_TARGET_DIR")
        // What the lock file names, this repository has needed already.
        .env("CARGO_NET_OFFLINE", "true")
        .env("CARGO_INCREMENTAL", "0")
        .env("CARGO_PROFILE_DEV_DEBUG", "0")
        .output()?;
    ensure!(output.status.success(), "{commands}: {}", printed(&output));
    Ok(printed(&output))
}

/// Whether the toolchain can build for wasm without more. Where it cannot, `plugins/build.sh` knows
/// a way that is only for this repository.
fn has_target() -> Result<bool> {
    let output = Command::new("rustc")
        .args(["--print", "target-libdir", "--target"])
        .arg("wasm32-unknown-unknown")
        .output()?;
    Ok(Path::new(String::from_utf8(output.stdout)?.trim()).is_dir())
}

/// The packages of a lock file.
fn packages(lock: &str) -> BTreeSet<&str> {
    lock.split("[[package]]").skip(1).map(str::trim).collect()
}

/// Compares what cargo has made of the lock file with what the project began with.
fn check_lock(template: &Path, lock: &Path, name: &str) -> Result<()> {
    let name = format!("name = \"{name}\"\n");
    let resolved = std::fs::read_to_string(lock)?.replacen(&name, "name = \"@name@\"\n", 1);
    if std::env::var_os(UPDATE).is_some() {
        std::fs::write(template, &resolved)?;
    }
    let began = std::fs::read_to_string(template)?;
    ensure!(
        packages(&began) == packages(&resolved),
        "cargo has changed the lock file; `{UPDATE}=1 make test` renews {LOCK}"
    );
    Ok(())
}

/// Hosts the plugin, applies the example, and waits for what the README says to look at.
async fn try_out(project: &Path, plugins: &str) -> Result<()> {
    let server = Server::start_own(ServerOptions::default()).await?;
    let _host = Host::ready(&project.join(plugins), server.kubeconfig()).await?;
    let example = std::fs::read_to_string(project.join("example.yaml"))?;
    let (namespace, config_map) = example.split_once("---\n").context("two objects")?;
    let api = &server.api;
    api.create_yaml("/api/v1/namespaces", namespace).await?;
    api.create_yaml("/api/v1/namespaces/default/configmaps", config_map)
        .await?;
    let copy = "/api/v1/namespaces/team-a/configmaps/banner";
    let is_copy = |found: Option<&serde_json::Value>| {
        found.is_some_and(|found| found["data"]["text"] == "hello")
    };
    api.eventually(copy, "copied", is_copy).await.map(drop)
}

#[tokio::test]
async fn a_new_project_in_rust_builds_is_tested_and_runs_as_its_readme_says() -> Result<()> {
    let parent = tempfile::tempdir()?;
    let name = "config-copies";
    make(parent.path(), name, "rust")?;
    let project = parent.path().join(name);
    let (repository, lock) = (
        Path::new(env!("CARGO_MANIFEST_DIR")),
        project.join("Cargo.lock"),
    );
    if std::env::var_os(UPDATE).is_some() {
        std::fs::copy(repository.join("../Cargo.lock"), &lock)?;
    }
    let readme = std::fs::read_to_string(project.join("README.md"))?;
    let blocks = blocks(&readme);
    let plugins = "target/wasm32-unknown-unknown/release";
    let dev = format!("pilothouse dev --plugins {plugins}\n");
    ensure!(blocks.len() == 3 && blocks[1] == dev, "{blocks:?}");

    if !has_target()? {
        eprintln!("only `cargo test` is tried: rustc has no wasm32-unknown-unknown");
        run("cargo test", &project)?;
        return check_lock(&repository.join(LOCK), &lock, name);
    }
    let said = run(blocks[0], &project)?;
    for part in [
        "3 passed",
        "config_copies.wasm",
        "v1/ConfigMap with copy=true",
    ] {
        ensure!(said.contains(part), "{part}: {said}");
    }
    ensure!(!said.contains("warning"), "{said}");
    check_lock(&repository.join(LOCK), &lock, name)?;
    try_out(&project, plugins).await
}

/// The directory in which `examples/build-python.sh` has installed this version of componentize-py,
/// if it has.
fn installed(requirement: &str) -> Result<Option<PathBuf>> {
    let cache = std::env::var_os("PILOTHOUSE_CACHE").map(PathBuf::from);
    let usual = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache/pilothouse"));
    let Some(cache) = cache.or_else(usual) else {
        return Ok(None);
    };
    let wanted = requirement.trim().replace("==", " ");
    for entry in std::fs::read_dir(cache.join("python"))
        .into_iter()
        .flatten()
    {
        let tool = entry?.path();
        let version = Command::new(tool.join("bin/componentize-py"))
            .arg("--version")
            .output();
        if version.is_ok_and(|output| printed(&output).trim() == wanted) {
            return Ok(Some(tool));
        }
    }
    Ok(None)
}

#[tokio::test]
async fn a_new_project_in_python_builds_is_tested_and_runs_as_its_readme_says() -> Result<()> {
    let parent = tempfile::tempdir()?;
    let name = "config-copies";
    make(parent.path(), name, "python")?;
    let project = parent.path().join(name);
    let readme = std::fs::read_to_string(project.join("README.md"))?;
    let blocks = blocks(&readme);
    let plugin = "config-copies.wasm";
    let dev = format!("pilothouse dev --plugins {plugin}\n");
    ensure!(blocks.len() == 3 && blocks[1] == dev, "{blocks:?}");

    let mut commands = blocks[0].to_owned();
    let requirement = std::fs::read_to_string(project.join("requirements.txt"))?;
    if let Some(tool) = installed(&requirement)? {
        // As if the two commands that install it had been run.
        std::os::unix::fs::symlink(tool, project.join(".venv"))?;
        let is_kept = |line: &&str| !line.contains("venv .venv") && !line.contains("pip install");
        commands = blocks[0]
            .lines()
            .filter(is_kept)
            .collect::<Vec<_>>()
            .join("\n");
        ensure!(commands.lines().count() == 3, "{commands}");
    }
    let said = run(&commands, &project)?;
    for part in [
        "Ran 3 tests",
        "OK",
        "config-copies 0.1.0",
        "v1/ConfigMap with copy=true",
    ] {
        ensure!(said.contains(part), "{part}: {said}");
    }
    try_out(&project, plugin).await
}
