//! The shipped plugins, with all the settings that they need.

use anyhow::{Context, Result};
use pilothouse_tests::{guest, plugin_directory};
use tempfile::TempDir;

/// Settings of those plugins that do not run, or not fully, without.
const SETTINGS: [(&str, &str); 7] = [
    ("bootstrap-signer", "secret-values = true\n"),
    (
        "disruption",
        r#"
[grants]
reads = [
  "*", "PodDisruptionBudget", "Pod", "ReplicationController", "apps/ReplicaSet", "apps/Deployment",
  "apps/StatefulSet",
]
events = true
writes = [
  { kind = "policy/PodDisruptionBudget", subresource = "status" },
  { kind = "Pod", subresource = "status" },
]
"#,
    ),
    (
        "garbage-collector",
        r#"
grants.reads = ["*"]
grants.writes = [{ kind = "*", verbs = ["patch", "delete"] }]
grants.events = true
"#,
    ),
    (
        "namespace",
        r#"
[grants]
reads = ["*", "Pod", "apiregistration.k8s.io/APIService"]
writes = [
  { kind = "*", verbs = ["delete", "deletecollection"] },
  { kind = "Pod", verbs = ["delete", "deletecollection"] },
  { kind = "Namespace", subresource = "status", verbs = ["update"] },
  { kind = "Namespace", subresource = "finalize", verbs = ["update"] },
]
"#,
    ),
    (
        "resourcequota",
        r#"
[grants]
reads = [
  "*", "Pod", "Service", "PersistentVolumeClaim",
  "resource.k8s.io/ResourceClaim", "resource.k8s.io/DeviceClass",
]
writes = [{ kind = "ResourceQuota", subresource = "status" }]
"#,
    ),
    (
        "root-ca-certificate-publisher",
        "[config]\nrootCA = \"-----BEGIN CERTIFICATE-----\\nTUlJQg==\\n-----END CERTIFICATE-----\\n\"\n",
    ),
    ("token-cleaner", "secret-values = true\n"),
];

/// A directory with all shipped plugins: those that `make plugins` has built.
pub fn all_plugins() -> Result<TempDir> {
    let one = guest("endpoints");
    let built = one.parent().context("a plugin is in a directory")?;
    let mut names = Vec::new();
    for entry in built.read_dir()? {
        let path = entry?.path();
        if path.extension().is_some_and(|kind| kind == "wasm") {
            let name = path.file_stem().and_then(|name| name.to_str());
            names.push(name.context("a plugin's name is text")?.to_owned());
        }
    }
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    plugins(&names)
}

/// A directory with these plugins.
pub fn plugins(names: &[&str]) -> Result<TempDir> {
    let directory = plugin_directory(names);
    for (name, settings) in SETTINGS.iter().filter(|(name, _)| names.contains(name)) {
        std::fs::write(directory.path().join(format!("{name}.toml")), settings)?;
    }
    Ok(directory)
}

/// How many plugins there are in a directory.
pub fn count(directory: &TempDir) -> Result<usize> {
    let mut count = 0;
    for entry in directory.path().read_dir()? {
        count += usize::from(entry?.path().extension().is_some_and(|kind| kind == "wasm"));
    }
    Ok(count)
}
