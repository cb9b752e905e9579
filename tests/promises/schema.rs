//! The JSON schema of a configuration is untrusted. The host checks the configuration against it in
//! a process of its own with limits, so no schema can stop the host.

use std::path::Path;
use std::process::Command;

use anyhow::Result;
use pilothouse_tests::{Host, Server, fickle, fickle_with_schema};
use serde_json::{Value, json};

/// Behaviours of the guest `fickle`, which choose its schema, and a part of the error.
const HOSTILE: [(&str, &str); 2] = [
    // Evaluates one definition 2^40 times.
    (
        "slow-schema",
        "configSchema: evaluating it needs more than 1 s of CPU time",
    ),
    ("deep-schema", "has overflowed its stack"),
];

/// Returns whether `pilothouse check` succeeds, and its output.
fn check(plugin: &[u8], settings: &str) -> Result<(bool, String)> {
    let directory = tempfile::tempdir()?;
    let file = directory.path().join("fickle.wasm");
    std::fs::write(&file, plugin)?;
    std::fs::write(file.with_extension("toml"), settings)?;
    let mut command = Command::new(std::env::var("PILOTHOUSE_BIN")?);
    let output = command.arg("check").arg(file).output()?;
    let text = [output.stdout, output.stderr].concat();
    Ok((output.status.success(), String::from_utf8(text)?))
}

fn refused(plugin: &[u8], settings: &str) -> Result<String> {
    let (is_well, text) = check(plugin, settings)?;
    let is_one_line = text.trim_end().lines().count() == 1;
    assert!(
        !is_well && text.starts_with("error: ") && is_one_line,
        "{text}"
    );
    Ok(text)
}

fn strict() -> Value {
    json!({"properties": {"greeting": {"type": "string"}}, "additionalProperties": false})
}

#[test]
fn check_holds_the_settings_beside_a_file_against_its_schema() -> Result<()> {
    let plugin = fickle_with_schema("1.0.0", "nothing-bad", &strict());
    let (is_well, text) = check(&plugin, "[config]\ngreeting = \"hello\"")?;
    assert!(
        is_well && text.contains("as the manifest's configSchema wants it"),
        "{text}"
    );
    let text = refused(&plugin, "[config]\ngreeting = 5")?;
    assert!(
        text.contains(r#"config.greeting: 5 is not of type "string""#),
        "{text}"
    );
    let text = refused(&plugin, "[config]\ngreting = 5")?;
    assert!(text.contains("'greting' was unexpected"), "{text}");
    let (is_well, text) = check(&fickle("1.0.0", "nothing-bad"), "[config]\na = 5")?;
    assert!(
        is_well && text.contains("the manifest has no configSchema"),
        "{text}"
    );
    Ok(())
}

#[test]
fn a_schema_that_is_none_or_refers_to_others_is_refused_with_the_manifest() -> Result<()> {
    let elsewhere = json!({"$ref": "http://127.0.0.1:9/schema"});
    for (schema, wanted) in [
        (json!({"type": "text"}), "configSchema: at /type"),
        (elsewhere, "Retrieval is disabled"),
    ] {
        let text = refused(&fickle_with_schema("1.0.0", "nothing-bad", &schema), "")?;
        assert!(text.contains(wanted), "{text}");
    }
    Ok(())
}

/// The library stops at cycles by itself.
#[test]
fn a_schema_that_refers_to_itself_ends() -> Result<()> {
    for schema in [
        json!({"$ref": "#"}),
        json!({"allOf": [{"$ref": "#"}]}),
        json!({"$dynamicAnchor": "a", "allOf": [{"$dynamicRef": "#a"}]}),
        json!({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}),
    ] {
        let plugin = fickle_with_schema("1.0.0", "nothing-bad", &schema);
        let (is_well, text) = check(&plugin, "[config]\na = 1")?;
        assert!(is_well, "{schema}: {text}");
    }
    Ok(())
}

#[test]
fn a_schema_that_takes_all_time_or_stack_is_refused() -> Result<()> {
    for (does, wanted) in HOSTILE {
        let text = refused(&fickle("1.0.0", does), "[config]\na = 1")?;
        assert!(text.contains(wanted), "{text}");
    }
    Ok(())
}

#[tokio::test]
async fn a_host_outlives_such_schemas_and_goes_on_with_what_ran() -> Result<()> {
    let (server, directory) = (Server::start().await?, tempfile::tempdir()?);
    let put = |file: &Path, does: &str| {
        let beside = file.with_extension("new");
        std::fs::write(&beside, fickle("1.0.0", does))?;
        std::fs::rename(beside, file)
    };
    let file = directory.path().join("fickle.wasm");
    std::fs::write(file.with_extension("toml"), "[config]\na = 1")?;
    put(&file, "nothing-bad")?;
    let host = Host::ready(directory.path(), server.kubeconfig()).await?;
    for (does, wanted) in HOSTILE {
        put(&file, does)?;
        let is_said = |plugin: &Value| {
            let problem = plugin["problem"].as_str().unwrap_or_default();
            plugin["state"] == "running" && problem.contains(wanted)
        };
        host.eventually("fickle.wasm", wanted, is_said).await?;
    }
    Ok(())
}
