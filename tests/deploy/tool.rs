//! Renders manifests with `deploy/tool`.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tempfile::TempDir;

/// The folder `deploy`.
pub fn deploy() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy")
}

pub fn deploytool() -> Result<Command> {
    let path = std::env::var("PILOTHOUSE_DEPLOYTOOL");
    Ok(Command::new(path.context(
        "PILOTHOUSE_DEPLOYTOOL is not set; run `make test`",
    )?))
}

/// Runs the host's binary. Returns what it prints.
pub fn pilothouse(arguments: &[&str]) -> Result<String> {
    let binary = std::env::var("PILOTHOUSE_BIN").context("PILOTHOUSE_BIN is not set")?;
    printed(Command::new(binary).args(arguments), "")
}

/// Runs a command with this input. Returns what it prints; an error is what it complains of.
pub fn printed(command: &mut Command, input: &str) -> Result<String> {
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.stderr(Stdio::piped()).spawn()?;
    let mut stdin = child.stdin.take().context("no standard input")?;
    stdin.write_all(input.as_bytes())?;
    drop(stdin);
    let output = child.wait_with_output()?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {complaint}");
    Ok(String::from_utf8(output.stdout)?)
}

/// The objects of a kustomization.
pub fn kustomize(directory: &Path) -> Result<Vec<Value>> {
    let text = printed(deploytool()?.arg("kustomize").arg(directory), "")?;
    Ok(serde_json::from_str(&text)?)
}

/// The objects in a text of YAML.
pub fn parse(yaml: &str) -> Result<Vec<Value>> {
    let directory = tempfile::tempdir()?;
    std::fs::write(directory.path().join("objects.yaml"), yaml)?;
    let text = "resources: [objects.yaml]";
    std::fs::write(directory.path().join("kustomization.yaml"), text)?;
    kustomize(directory.path())
}

/// A release of the chart.
pub struct Release<'a> {
    pub name: &'a str,
    pub namespace: &'a str,
    pub values: Value,
}

impl Default for Release<'_> {
    fn default() -> Self {
        Self {
            name: "pilothouse",
            namespace: "pilothouse",
            values: serde_json::json!({}),
        }
    }
}

impl Release<'_> {
    /// The objects of the chart.
    pub fn objects(&self) -> Result<Vec<Value>> {
        Ok(serde_json::from_str(&self.render(&[])?)?)
    }

    /// What is printed after an installation.
    pub fn notes(&self) -> Result<String> {
        self.render(&["--notes"])
    }

    fn render(&self, flags: &[&str]) -> Result<String> {
        let mut values = tempfile::NamedTempFile::new()?;
        values.write_all(self.values.to_string().as_bytes())?;
        let mut command = deploytool()?;
        command.arg("helm").args(flags);
        command.args(["--name", self.name, "--namespace", self.namespace]);
        command.arg("--values").arg(values.path());
        printed(command.arg(deploy().join("helm/pilothouse")), "")
    }
}

/// Checks the pods of these objects against a level of the Pod Security Standards.
pub fn pod_security(level: &str, objects: &[Value]) -> Result<String> {
    let input = serde_json::to_string(objects)?;
    printed(deploytool()?.args(["podsecurity", level]), &input)
}

/// A copy of `deploy/kustomize`, for overlays.
pub struct Kustomizations(TempDir);

impl Kustomizations {
    pub fn copy() -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let mut copy = Command::new("cp");
        copy.arg("-r").arg(deploy().join("kustomize"));
        printed(copy.arg(directory.path().join("kustomize")), "")?;
        Ok(Self(directory))
    }

    /// The path of a file or folder, such as `examples/volume`.
    pub fn at(&self, path: &str) -> PathBuf {
        self.0.path().join("kustomize").join(path)
    }

    /// The objects of the base with these components.
    pub fn with(&self, components: &[&str]) -> Result<Vec<Value>> {
        let overlay = self.at("overlay");
        std::fs::create_dir_all(&overlay)?;
        let components = components.iter();
        let components: Vec<String> = components
            .map(|name| format!("../components/{name}"))
            .collect();
        let text = serde_json::json!({"resources": ["../base"], "components": components});
        std::fs::write(overlay.join("kustomization.yaml"), text.to_string())?;
        kustomize(&overlay)
    }

    /// The objects of an example, made as the comment in it says, with the plugin `endpoints`.
    pub fn example(&self, name: &str) -> Result<Vec<Value>> {
        let directory = self.at("examples").join(name);
        let wasm = directory.join("endpoints.wasm");
        std::fs::copy(pilothouse_tests::guest("endpoints"), &wasm)?;
        let wasm = wasm.to_str().context("a path of letters")?;
        let said = pilothouse(&["check", wasm])?;
        let (_, settings) = said
            .split_once("sha256 = ")
            .context("check prints no settings")?;
        let settings = format!("sha256 = {settings}");
        std::fs::write(directory.join("endpoints.toml"), settings)?;
        let permissions = pilothouse(&["rbac", "--plugins-only", wasm])?;
        std::fs::write(directory.join("plugins.yaml"), permissions)?;
        kustomize(&directory)
    }
}

/// The first object of a kind.
pub fn of_kind<'a>(objects: &'a [Value], kind: &str) -> Result<&'a Value> {
    let found = objects.iter().find(|object| object["kind"] == kind);
    found.with_context(|| format!("there is no {kind}"))
}
