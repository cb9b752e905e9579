//! Loads files as plugin versions, off the async threads.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use pilothouse_core::text::hex;
use pilothouse_core::{Digest, LoadOutcome, Manifest, Plugin};
use pilothouse_wasm::{Compiler, Engine, LimitPolicy, WasmPlugin, load_cached, load_with};
use sha2::{Digest as _, Sha256};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tracing::info;

use super::code_room::{CodeRoom, ReservedRoom};
use crate::directory::Directory;
use crate::schema::Schemas;
use crate::settings::size;

/// A compilation that takes longer gets a second log line.
const LONG: Duration = Duration::from_secs(1);

/// A version of a plugin, ready to run.
#[derive(Clone)]
pub struct LoadedVersion {
    pub plugin: Arc<WasmPlugin>,
    pub manifest: Arc<Manifest>,
    /// SHA-256 of the file's bytes, as they were read.
    pub digest: Digest,
    /// The room that its native code takes.
    pub _room: Arc<ReservedRoom>,
}

/// The result of a load.
pub struct Loaded {
    pub file: String,
    /// The number of this load.
    pub load: u64,
    pub result: Result<FileOutcome, String>,
}

pub type FileOutcome = LoadOutcome<LoadedVersion>;

/// Makes versions from files. Both methods block.
pub trait Loader: Send + Sync {
    /// Loads a file if that takes no longer than reading it. `None` if it must be compiled.
    fn read(&self, file: &str, known: &[Digest]) -> Result<Option<FileOutcome>, String>;

    /// Loads a file, and compiles it if necessary.
    fn compile(&self, file: &str, known: &[Digest]) -> Result<FileOutcome, String>;
}

/// How many files may be read and compiled at the same time. Each may need a core and much memory.
#[derive(Clone, Copy, Debug)]
pub struct AtOnce {
    pub read: usize,
    pub compiled: usize,
}

/// Files that are being read and compiled. A file that needs no compilation does not wait for one
/// that does.
pub struct Loading {
    loader: Arc<dyn Loader>,
    reading: Arc<Semaphore>,
    compiling: Arc<Semaphore>,
    tasks: JoinSet<Loaded>,
}

impl Loading {
    pub fn new(loader: Arc<dyn Loader>, at_once: AtOnce) -> Self {
        Self {
            loader,
            reading: Arc::new(Semaphore::new(at_once.read)),
            compiling: Arc::new(Semaphore::new(at_once.compiled)),
            tasks: JoinSet::new(),
        }
    }

    /// Begins to load a file. A file whose digest is in `known` is not compiled again.
    pub fn begin(&mut self, file: String, load: u64, known: Vec<Digest>) {
        let loader = self.loader.clone();
        let (reading, compiling) = (self.reading.clone(), self.compiling.clone());
        self.tasks.spawn(async move {
            let result = load_file(loader, &file, known, &reading, &compiling).await;
            Loaded { file, load, result }
        });
    }

    /// The next file that has been loaded. Waits forever if none is being loaded.
    pub async fn next(&mut self) -> Loaded {
        loop {
            match self.tasks.join_next().await {
                Some(Ok(loaded)) => return loaded,
                Some(Err(_)) => {}
                None => std::future::pending().await,
            }
        }
    }
}

/// Loads a file. It is read again for the compiler, so that a file that waits for its turn takes no
/// memory.
async fn load_file(
    loader: Arc<dyn Loader>,
    file: &str,
    known: Vec<Digest>,
    reading: &Semaphore,
    compiling: &Semaphore,
) -> Result<FileOutcome, String> {
    // The semaphores are never closed.
    let turn = reading.acquire().await;
    let (reader, name, digests) = (loader.clone(), file.to_owned(), known.clone());
    if let Some(outcome) = off_thread(move || reader.read(&name, &digests)).await? {
        return Ok(outcome);
    }
    drop(turn);
    let _turn = compiling.acquire().await;
    let name = file.to_owned();
    off_thread(move || loader.compile(&name, &known)).await
}

async fn off_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    let work = tokio::task::spawn_blocking(|| catch_unwind(AssertUnwindSafe(work)));
    match work.await {
        Ok(Ok(result)) => result,
        _ => Err("the host panicked while loading it; see the panic above".to_owned()),
    }
}

/// Loads the files of the plugin directory.
pub struct FileLoader {
    pub engine: Engine,
    pub compiler: Compiler,
    pub schemas: Schemas,
    pub directory: Directory,
    pub code: CodeRoom,
}

impl Loader for FileLoader {
    fn read(&self, file: &str, known: &[Digest]) -> Result<Option<FileOutcome>, String> {
        let (bytes, digest) = match self.open(file, known)? {
            Opened::Known(digest) => return Ok(Some(LoadOutcome::Known(digest))),
            Opened::NoRoom(reason) => return Ok(Some(LoadOutcome::NoRoom(reason))),
            Opened::New(bytes, digest) => (bytes, digest),
        };
        let policy = LimitPolicy::default();
        let plugin = load_cached(&self.compiler, &self.engine, &bytes, &policy);
        let plugin = plugin.map_err(|error| error.to_string())?;
        let outcome = plugin.map(|plugin| self.outcome(plugin, digest));
        outcome.transpose()
    }

    fn compile(&self, file: &str, known: &[Digest]) -> Result<FileOutcome, String> {
        let (bytes, digest) = match self.open(file, known)? {
            Opened::Known(digest) => return Ok(LoadOutcome::Known(digest)),
            Opened::NoRoom(reason) => return Ok(LoadOutcome::NoRoom(reason)),
            Opened::New(bytes, digest) => (bytes, digest),
        };
        info!(file, size = size(bytes.len()), "compiling");
        let policy = LimitPolicy::default();
        let plugin = load_with(&self.compiler, &self.engine, &bytes, &policy);
        let plugin = plugin.map_err(|error| error.to_string())?;
        let took = plugin.report().compiled.unwrap_or_default();
        if took >= LONG {
            info!(file, took = format!("{took:.1?}"), "compiled");
        }
        self.outcome(plugin, digest)
    }
}

/// The contents of a file.
enum Opened {
    /// The bytes of a version that is known already.
    Known(Digest),
    New(Vec<u8>, Digest),
    /// There was no room for its native code, and there still is none.
    NoRoom(String),
}

impl FileLoader {
    fn open(&self, file: &str, known: &[Digest]) -> Result<Opened, String> {
        let bytes = self.directory.read(file)?;
        // The digest of what was read; the file may have changed since.
        let digest: Digest = hex(&Sha256::digest(&bytes)).into();
        if known.contains(&digest) {
            return Ok(Opened::Known(digest));
        }
        Ok(match self.code.lack(&digest) {
            Some(reason) => Opened::NoRoom(reason),
            None => Opened::New(bytes, digest),
        })
    }

    fn outcome(&self, plugin: WasmPlugin, digest: Digest) -> Result<FileOutcome, String> {
        if let Some(schema) = &plugin.manifest().config_schema {
            let checked = self.schemas.check(schema);
            checked.map_err(|fault| format!("manifest: {fault}"))?;
        }
        let room = match self.code.take(&digest, plugin.report().native_bytes) {
            Ok(room) => Arc::new(room),
            Err(reason) => return Ok(LoadOutcome::NoRoom(reason)),
        };
        Ok(LoadOutcome::New(LoadedVersion {
            manifest: Arc::new(plugin.manifest().clone()),
            plugin: Arc::new(plugin),
            digest,
            _room: room,
        }))
    }
}

#[cfg(test)]
mod tests;
