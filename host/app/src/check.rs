//! `pilothouse check`: what a file is, wants and costs, and whether it would load.

mod risks;

use std::fmt::Write;
use std::path::Path;

use anyhow::Context;
use pilothouse_core::manifest::{Manifest, Subject};
use pilothouse_core::plugin::Plugin;
use pilothouse_wasm::{Compiler, Engine, EngineOptions, LimitPolicy, LoadReport, RunLimits};

use crate::compile;
use crate::config::CheckArgs;
use crate::schema::Schemas;
use crate::settings::{Settings, beside, size};

/// Fails if one of the files would not load; what there is to say of the others is printed all the same.
pub fn print(args: &CheckArgs) -> anyhow::Result<String> {
    let engine = Engine::new(&EngineOptions::default())?;
    // The host's own cache: it need not compile again what has been checked.
    let compiler = compile::compiler(args.code.code_cache.as_deref());
    let schemas = Schemas::of_own_executable();
    let mut texts = Vec::new();
    let mut problems = Vec::new();
    for file in &args.files {
        match check(&engine, &compiler, &schemas, file) {
            Ok(text) => texts.push(format!("{}\n{text}", file.display())),
            Err(error) => problems.push(format!("{}: {error:#}", file.display())),
        }
    }
    if problems.is_empty() {
        return Ok(texts.join("\n\n"));
    }
    if !texts.is_empty() {
        println!("{}\n", texts.join("\n\n"));
    }
    anyhow::bail!("{}", problems.join("\nerror: "))
}

fn check(
    engine: &Engine,
    compiler: &Compiler,
    schemas: &Schemas,
    file: &Path,
) -> anyhow::Result<String> {
    let settings = beside(file)?;
    let bytes = std::fs::read(file).context("cannot read the file")?;
    let sandbox = settings.for_sandbox();
    let plugin = compiler.load(engine, &bytes, &LimitPolicy::default())?;
    let name = settings.name_of(plugin.manifest());
    let plugin = plugin.named(&name, &sandbox.policy, sandbox.options);
    let mut lines = file_lines(plugin.report());
    lines.extend(manifest_lines(plugin.manifest()));
    lines.push(("limits", limits(plugin.limits())));
    let risks = risks::risks(plugin.manifest()).into_iter();
    lines.extend(risks.map(|text| ("risk", text)));
    lines.extend(config_line(schemas, plugin.manifest(), &settings)?);
    let width = lines.iter().map(|(what, _)| what.len()).max();
    let width = width.unwrap_or_default();
    let lines = lines
        .iter()
        .map(|(what, text)| format!("  {what:width$}  {text}"));
    Ok(lines.collect::<Vec<_>>().join("\n"))
}

/// Fails if the configuration is not as the schema wants it, or that is no schema.
fn config_line(
    schemas: &Schemas,
    manifest: &Manifest,
    settings: &Settings,
) -> anyhow::Result<Option<Line>> {
    let text = match &manifest.config_schema {
        None if settings.config.is_empty() => return Ok(None),
        None => "not checked: the manifest has no config-schema",
        Some(schema) => {
            schemas.judge(schema, &settings.config_json())?;
            "as the manifest's config-schema wants it"
        }
    };
    Ok(Some(("config", text.to_owned())))
}

type Line = (&'static str, String);

fn file_lines(report: &LoadReport) -> Vec<Line> {
    let LoadReport {
        bytes,
        native_bytes,
        compiled,
        imports,
        exports,
        describe,
        ..
    } = report;
    let compiled = match compiled {
        Some(took) => format!("in {took:.2?}"),
        None => "before; its code is in the code cache".to_owned(),
    };
    vec![
        ("sha256", report.digest_hex()),
        (
            "size",
            format!("{}; native code {}", size(*bytes), size(*native_bytes)),
        ),
        ("compiled", compiled),
        ("imports", imports.join(", ")),
        ("exports", exports.join(", ")),
        (
            "describe",
            format!(
                "{} of fuel, {} of memory, {:.1?}",
                describe.fuel,
                size(describe.memory_bytes),
                describe.duration
            ),
        ),
    ]
}

fn manifest_lines(manifest: &Manifest) -> Vec<Line> {
    let mut lines = vec![
        ("plugin", format!("{} {}", manifest.name, manifest.version)),
        ("reconciles", subject(&manifest.subject)),
    ];
    for read in &manifest.reads {
        let mut text = read.kind.to_string();
        let fields = if read.fields.is_empty() {
            "whole objects".to_owned()
        } else {
            read.fields.join(" ")
        };
        let _ = write!(text, ": {fields}");
        if !read.namespaces.is_empty() {
            let _ = write!(text, "; in {}", read.namespaces.join(", "));
        }
        if read.is_narrowed() {
            let fields = read.field_selector.as_deref().unwrap_or_default();
            let _ = write!(text, "; only {} {fields}", read.labels);
        }
        lines.push(("reads", text));
    }
    for index in &manifest.indexes {
        let paths = index.paths.join(" ");
        lines.push((
            "index",
            format!("{} of {}: {paths}", index.name, index.kind),
        ));
    }
    for write in &manifest.writes {
        let verbs: Vec<&str> = write.verbs.iter().map(|verb| verb.as_str()).collect();
        let subresource = write.subresource.as_deref();
        let subresource = subresource.map(|name| format!("/{name}"));
        let children = if write.children { ", as children" } else { "" };
        let text = format!(
            "{}{}: {}{children}",
            write.kind,
            subresource.unwrap_or_default(),
            verbs.join(", ")
        );
        lines.push(("writes", text));
    }
    lines
}

fn subject(subject: &Subject) -> String {
    match subject {
        Subject::Singleton => "one key for the whole cluster".to_owned(),
        Subject::Each(selection) => {
            let mut text = format!("each {}", selection.kind);
            let labels = selection.labels.to_string();
            if !labels.is_empty() {
                let _ = write!(text, " with {labels}");
            }
            if !selection.namespaces.is_empty() {
                let _ = write!(text, " in {}", selection.namespaces.join(", "));
            }
            text
        }
    }
}

fn limits(limits: &RunLimits) -> String {
    format!(
        "{} of memory, {} of fuel, {:?} of CPU time, {} at once",
        size(usize::try_from(limits.memory_bytes).unwrap_or(usize::MAX)),
        limits.fuel,
        limits.timeout,
        limits.concurrency
    )
}
