//! `pilothouse check`: what a plugin file is, what it asks for, what it costs, and whether
//! `pilothouse run` would run it.

mod lines;
mod obstacles;
mod risks;
mod table;

use std::path::Path;

use anyhow::Context;
use pilothouse_core::text::escaped;
use pilothouse_core::{Manifest, Plugin, lack_of_settings, settings_file_of};
use pilothouse_wasm::{Compiler, Engine, EngineOptions, LimitPolicy, load_with};

use crate::cli::CheckArgs;
use crate::compile;
use crate::directory::Directory;
use crate::kinds;
use crate::named_files::named_files;
use crate::output;
use crate::schema::Schemas;
use crate::settings::{GrantSetting, HostDefaults, SettingsFile, beside};
use crate::trust::{self, AcceptedStore, Asked, Objection};
use lines::{Line, file_lines, layout, limits, manifest_lines};

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
    let (files, mut problems) = named_files(&args.files);
    let (mut texts, mut names) = (Vec::new(), Vec::new());
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
        names.push((file.clone(), checked.name.clone()));
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
            "{}\n{lines}\n\n  to grant all of this, and to this file alone, write into {}, above any [table]:\n\n  {table}",
            file.display(),
            checked.settings
        ));
    }
    problems.extend(names.iter().filter_map(|(file, name)| {
        let reason = obstacles::of_namesake(file, name, &names)?;
        Some(format!("{}: {reason}", file.display()))
    }));
    let text = texts.join("\n\n");
    if problems.is_empty() {
        return Ok(text);
    }
    if !text.is_empty() {
        output::print(&(text + "\n"))?;
    }
    anyhow::bail!("{}", problems.join("\nerror: "))
}

/// The result for a file that loads.
struct Checked {
    /// The plugin's name.
    name: String,
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
    lines.extend(strays(file).map(|text| ("warning", text)));
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
    let obstacles = obstacles::of_settings(&settings, &name, manifest);
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
            .chain(obstacles)
            .collect(),
        name,
    })
}

/// The settings beside a file that are probably meant for it, and that nothing reads.
fn strays(file: &Path) -> impl Iterator<Item = String> {
    let listing = Directory::open(file).and_then(|directory| directory.list());
    let strays = listing.map(|listing| listing.strays).unwrap_or_default();
    strays.into_iter().map(|stray| stray.to_string())
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
