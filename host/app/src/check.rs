//! `pilothouse check`: what a plugin file is, what it asks for, what it costs, and whether
//! `pilothouse run` would run it.

mod risks;
mod table;

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use pilothouse_core::{
    Kind, Limits, Manifest, Plugin, Selection, escaped, lack_of_settings, settings_file_of,
};
use pilothouse_wasm::{
    Compiler, Engine, EngineOptions, LimitPolicy, LoadReport, RunLimits, load_with,
};

use crate::cli::CheckArgs;
use crate::compile;
use crate::directory::Directory;
use crate::kinds;
use crate::output;
use crate::schema::Schemas;
use crate::settings::{GrantSetting, HostDefaults, SettingsFile, beside, size};
use crate::trust::{self, AcceptedStore, Asked, Objection};

/// Prints what is known of each file. Fails if one of them would not load, or if the named cluster
/// does not serve its kinds; the other files are printed all the same.
pub async fn print(args: &CheckArgs) -> anyhow::Result<String> {
    let engine = Engine::new(&EngineOptions::default())?;
    // The host's own cache, so that the host need not compile again what has been checked.
    let compiler = compile::compiler(args.code.code_cache.as_deref());
    let schemas = Schemas::of_own_executable();
    let accepted = args.state.accepted();
    let cluster = match args.cluster.named() {
        Some(cluster) => Some(kinds::of(&cluster).await?),
        None => None,
    };
    let (files, mut problems) = files(&args.files);
    let mut texts = Vec::new();
    for file in &files {
        let problem = |text: &str| format!("{}: {text}", file.display());
        let checked = check(&engine, &compiler, &schemas, &accepted, file);
        let mut checked = match checked {
            Ok(checked) => checked,
            Err(error) => {
                problems.push(problem(&output::chain(&error)));
                continue;
            }
        };
        if let Some(cluster) = &cluster {
            let obstacles = kinds::obstacles(cluster, &checked.manifest).await;
            if obstacles.is_empty() {
                let served = "serves all that it reads and writes".to_owned();
                checked.lines.push(("cluster", served));
            }
            checked.obstacles.extend(obstacles);
        }
        problems.extend(checked.obstacles.iter().map(|text| problem(text)));
        let (lines, table) = (layout(&checked.lines), checked.table.join("\n  "));
        texts.push(format!(
            "{}\n{lines}\n\n  to grant all of this, and to this file alone, write into {}:\n\n  {table}",
            file.display(),
            checked.settings
        ));
    }
    let text = texts.join("\n\n");
    if problems.is_empty() {
        return Ok(text);
    }
    if !text.is_empty() {
        output::print(&(text + "\n"))?;
    }
    anyhow::bail!("{}", problems.join("\nerror: "))
}

/// The files that the arguments stand for, and the problems with others. A directory stands for the
/// plugins that a host would find in it.
fn files(named: &[PathBuf]) -> (Vec<PathBuf>, Vec<String>) {
    let (mut files, mut problems) = (Vec::new(), Vec::new());
    for path in named {
        if !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        match Directory::open(path).and_then(|directory| directory.list()) {
            Ok(listing) if listing.plugins.is_empty() => {
                problems.push(format!("{}: has no *.wasm file", path.display()));
            }
            Ok(listing) => {
                for (name, found) in listing.plugins {
                    let file = path.join(name);
                    match found.wasm {
                        Ok(_) => files.push(file),
                        Err(reason) => problems.push(format!("{}: {reason}", file.display())),
                    }
                }
            }
            Err(error) => problems.push(output::chain(&error)),
        }
    }
    (files, problems)
}

/// The result for a file that loads.
struct Checked {
    lines: Vec<Line>,
    manifest: Manifest,
    /// The name of its settings file.
    settings: String,
    /// Settings that would grant what it asks for.
    table: Vec<String>,
    /// Why it would still have to wait.
    obstacles: Vec<String>,
}

fn check(
    engine: &Engine,
    compiler: &Compiler,
    schemas: &Schemas,
    accepted: &AcceptedStore,
    file: &Path,
) -> anyhow::Result<Checked> {
    let settings = beside(file)?;
    let bytes = std::fs::read(file).context("cannot read the file")?;
    let sandbox = settings.for_sandbox();
    let plugin = load_with(compiler, engine, &bytes, &LimitPolicy::default())?;
    let name = settings.name_of(plugin.manifest());
    let plugin = plugin.named(&name, &sandbox.policy, sandbox.options);
    // The risks come first, because they are the most important lines.
    let risks = risks::risks(plugin.manifest()).into_iter();
    let mut lines: Vec<Line> = risks.map(|text| ("risk", text)).collect();
    lines.extend(file_lines(plugin.report()));
    lines.extend(manifest_lines(plugin.manifest()));
    let asked = &plugin.manifest().limits;
    lines.push(("limits", limits(plugin.limits(), asked)));
    lines.extend(config_line(schemas, plugin.manifest(), &settings)?);
    let (manifest, digest) = (plugin.manifest(), plugin.report().digest_hex());
    let lacks_settings =
        settings.require_settings == Some(true) && !file.with_extension("toml").exists();
    let file = file.file_name().unwrap_or_default().to_string_lossy();
    let asked = Asked {
        file: &file,
        name: &name,
        digest: &digest,
        manifest,
    };
    let objection = trust::objection(&settings, &HostDefaults::of_run(), accepted, asked);
    let more = objection.iter().flat_map(Objection::more);
    lines.extend(more.map(|text| ("asks more", text.clone())));
    let has_namespaces = settings.namespaces.is_some_and(|names| !names.is_empty());
    if has_namespaces && settings.grants == Some(GrantSetting::AsRequested) {
        let text = "nothing of kinds without namespaces, because the settings name some";
        lines.push(("granted", text.to_owned()));
    }
    Ok(Checked {
        lines,
        table: table::table(manifest, &digest),
        manifest: manifest.clone(),
        settings: escaped(&settings_file_of(&file), usize::MAX),
        obstacles: lacks_settings
            .then(|| lack_of_settings(&file))
            .into_iter()
            .chain(objection.iter().map(Objection::to_string))
            .collect(),
    })
}

/// One line for each entry, escaped so that a stranger's text cannot drive the terminal.
fn layout(lines: &[Line]) -> String {
    let width = lines.iter().map(|(what, _)| what.len()).max();
    let width = width.unwrap_or_default();
    let lines = lines
        .iter()
        .map(|(what, text)| format!("  {what:width$}  {}", escaped(text, usize::MAX)));
    lines.collect::<Vec<_>>().join("\n")
}

/// Fails if the configuration does not fit the schema, or if the schema is invalid.
fn config_line(
    schemas: &Schemas,
    manifest: &Manifest,
    settings: &SettingsFile,
) -> anyhow::Result<Option<Line>> {
    let text = match &manifest.config_schema {
        None if settings.config.is_empty() => return Ok(None),
        None => "not checked: the manifest has no configSchema",
        Some(schema) => {
            schemas.judge(schema, &settings.config_json())?;
            "as the manifest's configSchema wants it"
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
    let mut lines = vec![
        ("sha256", report.digest_hex()),
        (
            "size",
            format!("{}; native code {}", size(*bytes), size(*native_bytes)),
        ),
        ("compiled", compiled),
        ("imports", distinct(imports)),
    ];
    // A core module has no list of its own: it exports what the world that it was built against
    // prescribes.
    if !exports.is_empty() {
        lines.push(("exports", distinct(exports)));
    }
    lines.push((
        "describe",
        format!(
            "{} of fuel, {} of memory, {:.1?}",
            describe.fuel,
            size(describe.memory_bytes),
            describe.duration
        ),
    ));
    lines
}

/// Each name once, in the order of the file. A core module names an interface for each of its
/// functions.
fn distinct(names: &[String]) -> String {
    let mut seen = BTreeSet::new();
    let names = names.iter().filter(|name| seen.insert(name.as_str()));
    names.map(String::as_str).collect::<Vec<_>>().join(", ")
}

fn manifest_lines(manifest: &Manifest) -> Vec<Line> {
    let mut lines = vec![("plugin", format!("{} {}", manifest.name, manifest.version))];
    if manifest.reconciles.is_empty() {
        lines.push(("reconciles", "one key for the whole cluster".to_owned()));
    }
    let selections = manifest.reconciles.iter();
    lines.extend(selections.map(|selection| ("reconciles", selected(selection))));
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
        text += optional(manifest, &read.kind);
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
            "{}{}: {}{children}{}",
            write.kind,
            subresource.unwrap_or_default(),
            verbs.join(", "),
            optional(manifest, &write.kind)
        );
        lines.push(("writes", text));
    }
    lines
}

/// What is said of a kind that the plugin works without.
fn optional(manifest: &Manifest, kind: &Kind) -> &'static str {
    match manifest.optional.contains(kind) {
        true => "; if the cluster serves it",
        false => "",
    }
}

fn selected(selection: &Selection) -> String {
    let mut text = format!("each {}", selection.kind);
    let labels = selection.labels.to_string();
    if !labels.is_empty() {
        let _ = write!(text, " with {labels}");
    }
    if !selection.namespaces.is_empty() {
        let _ = write!(text, " in {}", selection.namespaces.join(", "));
    }
    if let Some(fields) = &selection.fields {
        let _ = write!(text, "; only {fields}");
    }
    if !selection.companions.is_empty() {
        let kinds: Vec<String> = selection.companions.iter().map(Kind::to_string).collect();
        let _ = write!(text, "; also enqueued by {}", kinds.join(", "));
    }
    text
}

fn limits(limits: &RunLimits, asked: &Limits) -> String {
    let more = asked.timeout.filter(|asked| *asked > limits.timeout);
    let more = more.map(|asked| format!(" (it asks for {asked:?}: see limits.timeout)"));
    format!(
        "{} of memory, {} of fuel, {:?} of CPU time{}, {} at once",
        size(usize::try_from(limits.memory_bytes).unwrap_or(usize::MAX)),
        limits.fuel,
        limits.timeout,
        more.unwrap_or_default(),
        limits.concurrency
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_strangers_text_makes_no_line_of_its_own_and_hides_none() {
        let lines = [("reads", "v1/Pod: ['\u{1b}[8m\n  risk  none']".to_owned())];
        let text = layout(&lines);
        assert_eq!(text, r"  reads  v1/Pod: ['\u{1b}[8m\n  risk  none']");
    }

    #[test]
    fn what_is_cut_of_the_time_that_a_manifest_asks_for_is_said() {
        let asked = Limits {
            timeout: Some(std::time::Duration::from_secs(200)),
            ..Limits::default()
        };
        let granted = LimitPolicy::default().grant(&asked);
        let text = limits(&granted, &asked);
        let said = "20s of CPU time (it asks for 200s: see limits.timeout)";
        assert!(text.contains(said), "{text}");
        let text = limits(&granted, &Limits::default());
        assert!(text.contains("20s of CPU time, "), "{text}");
    }

    #[test]
    fn what_is_reconciled_is_said_with_all_that_narrows_and_widens_it() {
        let manifest = Manifest::from_json(
            r#"{"name": "p", "version": "1", "reconciles": [{
                "kind": "v1/Service", "labels": "app=web", "fieldSelector": "type=ClusterIP",
                "namespaces": ["a", "b"], "alsoEnqueuedBy": ["v1/Endpoints"]
            }]}"#,
        );
        assert_eq!(
            selected(&manifest.unwrap().reconciles[0]),
            "each v1/Service with app=web in a, b; only type=ClusterIP; also enqueued by v1/Endpoints"
        );
    }

    #[test]
    fn an_interface_is_named_once_however_many_functions_are_imported() {
        let names = ["b", "a", "b", "b"].map(str::to_owned);
        assert_eq!(distinct(&names), "b, a");
    }

    #[test]
    fn a_directory_stands_for_the_plugins_in_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        std::fs::create_dir(path("empty")).unwrap();
        for name in ["b.wasm", "a.wasm", ".hidden.wasm", "a.toml", "readme"] {
            std::fs::write(path(name), "").unwrap();
        }
        let (found, problems) = files(&[directory.path().to_owned()]);
        assert_eq!(found, [path("a.wasm"), path("b.wasm")]);
        assert!(problems.is_empty(), "{problems:?}");
        let (found, problems) = files(&[path("empty"), path("absent.wasm")]);
        assert_eq!(found, [path("absent.wasm")], "reading it says why not");
        assert!(
            problems[0].ends_with("empty: has no *.wasm file"),
            "{problems:?}"
        );
    }
}
