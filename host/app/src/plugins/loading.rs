//! From a file to a version of a plugin, off the async threads.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use pilothouse_core::manifest::Manifest;
use pilothouse_core::plugin::Plugin;
use pilothouse_wasm::{Compiler, Engine, LimitPolicy, WasmPlugin};
use sha2::{Digest as _, Sha256};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::directory::Directory;
use crate::schema::Schemas;
use crate::settings::Settings;

/// A version of a plugin, ready to run.
#[derive(Clone)]
pub struct Version {
    pub plugin: Arc<WasmPlugin>,
    pub manifest: Arc<Manifest>,
    /// SHA-256 of the file's bytes, as they were read.
    pub digest: Digest,
    /// The settings it was last let in with: it goes on with them while there are none that fit its schema.
    pub accepted: Option<Arc<Settings>>,
}

/// SHA-256, in hexadecimal.
pub type Digest = Arc<str>;

/// What became of a load.
pub struct Loaded {
    pub file: String,
    /// Which load of this file; only the last one counts.
    pub ticket: u64,
    pub result: Result<Outcome, String>,
}

pub enum Outcome {
    /// One of the versions that are known already.
    Known(Digest),
    New(Version),
}

/// Files that are being read and compiled.
pub struct Loading {
    engine: Engine,
    compiler: Compiler,
    schemas: Schemas,
    directory: Directory,
    /// So many at once: each may need a core and much memory.
    permits: Arc<Semaphore>,
    tasks: JoinSet<Loaded>,
    begun: u64,
}

impl Loading {
    pub fn new(
        engine: Engine,
        compiler: Compiler,
        schemas: Schemas,
        directory: Directory,
        at_once: usize,
    ) -> Self {
        Self {
            engine,
            compiler,
            schemas,
            directory,
            permits: Arc::new(Semaphore::new(at_once)),
            tasks: JoinSet::new(),
            begun: 0,
        }
    }

    /// Begins to load a file, and says which load this is. One whose digest is known is not compiled again.
    pub fn begin(&mut self, file: &str, known: Vec<Digest>) -> u64 {
        self.begun += 1;
        let ticket = self.begun;
        let (engine, directory) = (self.engine.clone(), self.directory.clone());
        let (compiler, schemas) = (self.compiler.clone(), self.schemas.clone());
        let (permits, file) = (self.permits.clone(), file.to_owned());
        self.tasks.spawn(async move {
            // It is closed by nobody.
            let _permit = permits.acquire_owned().await;
            let name = file.clone();
            let load = move || load(&engine, &compiler, &schemas, &directory, &name, &known);
            let work = tokio::task::spawn_blocking(|| catch_unwind(AssertUnwindSafe(load)));
            let result = match work.await {
                Ok(Ok(result)) => result,
                _ => Err("the host panicked while loading it; see the panic above".to_owned()),
            };
            Loaded {
                file,
                ticket,
                result,
            }
        });
        ticket
    }

    /// The next file that has been loaded; waits for ever if there is none.
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

fn load(
    engine: &Engine,
    compiler: &Compiler,
    schemas: &Schemas,
    directory: &Directory,
    file: &str,
    known: &[Digest],
) -> Result<Outcome, String> {
    let bytes = directory.read(file)?;
    // Of what was read, not of what the file may be by now.
    let digest: Digest = hex(&Sha256::digest(&bytes)).into();
    if known.contains(&digest) {
        return Ok(Outcome::Known(digest));
    }
    let plugin = compiler.load(engine, &bytes, &LimitPolicy::default());
    let plugin = plugin.map_err(|error| error.to_string())?;
    if let Some(schema) = &plugin.manifest().config_schema {
        let checked = schemas.check(schema);
        checked.map_err(|fault| format!("manifest: {fault}"))?;
    }
    Ok(Outcome::New(Version {
        manifest: Arc::new(plugin.manifest().clone()),
        plugin: Arc::new(plugin),
        digest,
        accepted: None,
    }))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
