//! The plugin directory: loads every file, and lets a plugin in once the cluster serves all its kinds.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, bail};
use pilothouse_cluster::ApiCluster;
use pilothouse_core::hub::{PluginId, Settings};
use pilothouse_core::manifest::Manifest;
use pilothouse_core::plugin::Plugin;
use pilothouse_wasm::{Engine, LimitPolicy, WasmPlugin};
use tokio::task::JoinSet;
use tracing::{error, info, warn};

use crate::metrics::Metrics;
use crate::shared::Shared;
use crate::watches::{Budget, Watches};

/// How often a kind that the cluster does not serve is looked for again: a CRD may be created at any time.
pub const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// How far a file of the plugin directory has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Being read and compiled.
    Loading,
    /// Loaded, but a kind it names cannot be had yet.
    Waiting(String),
    /// Part of the hub; whether its caches are synced is the hub's to say.
    Joined(PluginId),
    /// Not usable.
    Failed(String),
}

/// One file of the plugin directory.
#[derive(Clone, Debug)]
pub struct Entry {
    pub file: String,
    /// Once it has been loaded.
    pub manifest: Option<Arc<Manifest>>,
    pub state: State,
}

/// All files of the plugin directory, in the order of their names.
#[derive(Default)]
pub struct Roster {
    entries: Mutex<Vec<Entry>>,
}

impl Roster {
    pub fn entries(&self) -> Vec<Entry> {
        self.lock().clone()
    }

    fn has_only_failures(&self) -> bool {
        self.lock()
            .iter()
            .all(|entry| matches!(entry.state, State::Failed(_)))
    }

    fn set(&self, number: usize, state: State) {
        self.lock()[number].state = state;
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The `*.wasm` files of a directory, sorted by name.
pub fn find(directory: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let shown = directory.display();
    let entries = std::fs::read_dir(directory)
        .with_context(|| format!("cannot read the plugin directory {shown}; --plugins names a directory with *.wasm files"))?;
    let mut files = Vec::new();
    for entry in entries {
        let path = entry
            .with_context(|| format!("cannot read the plugin directory {shown}"))?
            .path();
        if path
            .extension()
            .is_some_and(|extension| extension == "wasm")
        {
            files.push(path);
        }
    }
    if files.is_empty() {
        bail!(
            "the plugin directory {shown} has no *.wasm file; copy a plugin there and start again"
        );
    }
    files.sort();
    Ok(files)
}

/// Brings plugins from files into the hub.
pub struct Loader {
    pub engine: Engine,
    pub cluster: Arc<ApiCluster>,
    pub shared: Arc<Shared>,
    pub roster: Arc<Roster>,
    pub metrics: Arc<Metrics>,
    pub watches: Watches,
    pub budget: Budget,
    pub options: PluginOptions,
}

/// What the operator says of plugins.
#[derive(Clone, Debug, Default)]
pub struct PluginOptions {
    /// Run every subject again after one to two times this period.
    pub resync: Option<Duration>,
    /// Shares of the workers' time, by plugin; 1 for those that are not here.
    pub weights: BTreeMap<String, u32>,
    /// The plugins that may read the values of Secrets.
    pub secret_values: Vec<String>,
}

/// A plugin that is loaded and not in the hub yet.
struct Candidate {
    number: usize,
    file: String,
    plugin: Arc<WasmPlugin>,
}

/// A file that has been read and compiled, and its place in the order of names.
type Loaded = (usize, String, anyhow::Result<WasmPlugin>);

/// Files that are being read and compiled, off the async threads.
type Loading = JoinSet<Loaded>;

/// Puts files back into the order of their names, so that of two plugins of one name it is always the first that runs.
#[derive(Default)]
struct InOrder {
    next: usize,
    early: BTreeMap<usize, Loaded>,
}

impl InOrder {
    /// A file is loaded; returns those whose turn it is.
    fn add(&mut self, loaded: Loaded) -> Vec<Loaded> {
        self.early.insert(loaded.0, loaded);
        let mut ready = Vec::new();
        while let Some(loaded) = self.early.remove(&self.next) {
            self.next += 1;
            ready.push(loaded);
        }
        ready
    }
}

impl Loader {
    /// Loads every file, and lets each plugin in as soon as it is loaded and its kinds are there. Never ends well: it ends when
    /// nothing can run, or when a watch dies.
    pub async fn run(mut self, files: Vec<PathBuf>) -> anyhow::Error {
        let mut loading = self.load(files);
        let mut loaded = InOrder::default();
        let mut waiting = Vec::new();
        loop {
            tokio::select! {
                error = self.watches.failed() => return error,
                Some(next) = loading.join_next() => {
                    let ready = next.into_iter().flat_map(|next| loaded.add(next));
                    waiting.extend(ready.collect::<Vec<_>>().into_iter().filter_map(|next| self.loaded(next)));
                }
                () = tokio::time::sleep(LOOK_AGAIN), if !waiting.is_empty() => {}
            }
            waiting = self.let_in(waiting).await;
            if loading.is_empty() && self.roster.has_only_failures() {
                return anyhow::anyhow!("no plugin could be loaded; the reasons are above");
            }
        }
    }

    fn load(&self, files: Vec<PathBuf>) -> Loading {
        let names = files.iter().map(|path| file_name(path));
        *self.roster.lock() = names
            .map(|file| Entry {
                file,
                manifest: None,
                state: State::Loading,
            })
            .collect();
        let mut loading = Loading::new();
        for (number, path) in files.into_iter().enumerate() {
            let engine = self.engine.clone();
            loading.spawn_blocking(move || {
                let result = catch_unwind(AssertUnwindSafe(|| load_file(&engine, &path)));
                let result = result.unwrap_or_else(|_| {
                    Err(anyhow::anyhow!(
                        "the host panicked while loading it; see the panic above"
                    ))
                });
                (number, file_name(&path), result)
            });
        }
        loading
    }

    fn loaded(&self, (number, file, result): Loaded) -> Option<Candidate> {
        match result {
            Ok(plugin) => {
                self.roster.lock()[number].manifest = Some(Arc::new(plugin.manifest().clone()));
                Some(Candidate {
                    number,
                    file,
                    plugin: Arc::new(plugin),
                })
            }
            Err(reason) => {
                self.fail(number, &file, &format!("{reason:#}"));
                None
            }
        }
    }

    fn fail(&self, number: usize, file: &str, reason: &str) {
        error!(file, reason, "plugin not loaded");
        self.roster.set(number, State::Failed(reason.to_owned()));
    }

    /// Lets in whoever's kinds are all served; returns the others.
    async fn let_in(&mut self, candidates: Vec<Candidate>) -> Vec<Candidate> {
        let mut waiting = Vec::new();
        for candidate in candidates {
            match self.obstacle(candidate.plugin.manifest()).await {
                None => self.join(candidate),
                Some(reason) => {
                    self.wait(&candidate, reason);
                    waiting.push(candidate);
                }
            }
        }
        waiting
    }

    /// Why one of the plugin's kinds cannot be had.
    async fn obstacle(&self, manifest: &Manifest) -> Option<String> {
        if let Some(reason) = self.budget.is_used_up(&self.shared) {
            return Some(reason);
        }
        let discovery = self.cluster.discovery();
        for read in &manifest.reads {
            match discovery.resolve(&read.kind).await {
                Err(error) => return Some(error.to_string()),
                Ok(resource) if !resource.is_namespaced && !read.namespaces.is_empty() => {
                    let kind = &read.kind;
                    return Some(format!(
                        "{kind} has no namespaces, and the manifest's reads narrow it to some"
                    ));
                }
                Ok(_) => {}
            }
        }
        for write in &manifest.writes {
            if let Err(error) = discovery
                .resolve_write(&write.kind, write.subresource.as_deref())
                .await
            {
                return Some(error.to_string());
            }
        }
        None
    }

    fn wait(&self, candidate: &Candidate, reason: String) {
        let state = State::Waiting(reason);
        let mut entries = self.roster.lock();
        let entry = &mut entries[candidate.number];
        if entry.state != state {
            if let State::Waiting(reason) = &state {
                let plugin = &candidate.plugin.manifest().name;
                warn!(
                    plugin,
                    file = candidate.file,
                    reason,
                    "plugin waits for a kind"
                );
            }
            entry.state = state;
        }
    }

    fn join(&mut self, candidate: Candidate) {
        let Candidate {
            number,
            file,
            plugin,
        } = candidate;
        let manifest = plugin.manifest().clone();
        let settings = Settings {
            concurrency: plugin.limits().concurrency,
            resync: self.options.resync,
            weight: self
                .options
                .weights
                .get(&manifest.name)
                .copied()
                .unwrap_or(1),
            secret_values: self.options.secret_values.contains(&manifest.name),
            ..Settings::default()
        };
        let joined = self
            .shared
            .change(|hub, now| hub.join(plugin, &settings, now));
        let id = match joined {
            Ok(id) => id,
            Err(error) => return self.fail(number, &file, &error.to_string()),
        };
        self.metrics.add_plugin(&manifest.name);
        self.watches.adjust();
        self.roster.set(number, State::Joined(id));
        info!(
            plugin = manifest.name,
            version = manifest.version,
            file,
            "plugin loaded"
        );
    }
}

fn load_file(engine: &Engine, path: &Path) -> anyhow::Result<WasmPlugin> {
    let bytes = std::fs::read(path).context("cannot read the file")?;
    Ok(pilothouse_wasm::load(
        engine,
        &bytes,
        &LimitPolicy::default(),
    )?)
}

fn file_name(path: &Path) -> String {
    path.file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}
