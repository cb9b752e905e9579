//! Compiles plugins.
//!
//! A stranger's file can make a compiler slow, large, or crash. Therefore a child process compiles
//! it, if one is configured. With a cache each file is compiled only once.
//!
//! [`Compiler`] is the host's side. [`compile_child`] is everything that the child process does.
#![allow(
    clippy::disallowed_types,
    reason = "a child process is waited for in real time"
)]

mod child;
pub(crate) mod code_cache;
mod component;
pub(crate) mod native;
mod parent;

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use wasmtime::component::Component;

use crate::engine::Engine;
use crate::file::error::{LoadError, not_compiled};
use crate::secret::Secret;
use code_cache::{CacheStats, CodeCache, EntryKey};
use native::NativeCode;

pub use child::{COMPILE_CHILD, compile_child};

/// Native code may be at most this many times as large as its file. For Python it is about twice as
/// large (40 MB for 18 MB), for small guests in Rust four to five times.
const NATIVE_RATIO: usize = 8;
/// This much native code is allowed for any file, in bytes. The native code of a small file
/// consists mostly of parts that do not depend on the file's size.
const NATIVE_FLOOR: usize = 1 << 20;
/// Most native code that is allowed for any file, in bytes.
const NATIVE_BYTES: usize = 256 << 20;

/// Most native code that is allowed for a file of this size, in bytes.
fn most_native(file_bytes: usize) -> usize {
    let most = file_bytes.saturating_mul(NATIVE_RATIO);
    most.clamp(NATIVE_FLOOR, NATIVE_BYTES)
}

/// Refuses a file whose native code is unusually large. Only a file made on purpose grows that
/// much.
fn check_native(file_bytes: usize, native_bytes: usize) -> Result<(), LoadError> {
    let most = most_native(file_bytes);
    if native_bytes <= most {
        return Ok(());
    }
    Err(LoadError::NativeSize { file_bytes, most })
}

/// Limits of one compilation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompileLimits {
    /// Address space of the compiling process, in bytes (`RLIMIT_AS`).
    pub memory_bytes: u64,
    /// CPU time, in whole seconds (`RLIMIT_CPU`).
    pub cpu: Duration,
    /// Wall-clock time. The compiling process is niced, so on a busy host it takes longer than its
    /// CPU time.
    pub wall: Duration,
}

impl Default for CompileLimits {
    /// Enough for Python, the largest known guest, which takes 500 MiB and 15 s.
    fn default() -> Self {
        Self {
            memory_bytes: 1 << 30,
            cpu: Duration::from_secs(60),
            wall: Duration::from_secs(300),
        }
    }
}

/// How plugins are compiled.
#[derive(Clone, Debug)]
pub struct CompileOptions {
    /// An executable that calls [`compile_child`] when it is run as
    /// `CHILD compile-child MEMORY_BYTES CPU_SECONDS`: usually the host's own
    /// ([`own_executable`](pilothouse_confine::own_executable)). `None`: compile in this process,
    /// without limits.
    pub child: Option<PathBuf>,
    /// Where compiled code is kept. `None`: it is not kept.
    pub cache: Option<CodeCache>,
    /// Limits of the child process. They do not apply without one.
    pub limits: CompileLimits,
    /// How many compilations may run at the same time. Others wait.
    pub parallel: NonZeroUsize,
}

impl Default for CompileOptions {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        Self {
            child: None,
            cache: None,
            limits: CompileLimits::default(),
            // The other half of the cores keeps running guests.
            parallel: NonZeroUsize::new(cores / 2).unwrap_or(NonZeroUsize::MIN),
        }
    }
}

/// Compiles files to native code. Clones share the same state; one per process is enough. The
/// default one compiles in this process and keeps no code.
#[derive(Clone, Debug, Default)]
pub struct Compiler {
    options: CompileOptions,
    running: Arc<Running>,
}

/// A compiled file, and what compiling it took.
pub(crate) struct Compiled {
    pub(crate) component: Component,
    pub(crate) native_bytes: usize,
    /// Time for compiling alone. `None` if the code came from the cache.
    pub(crate) took: Option<Duration>,
}

impl Compiler {
    /// A compiler with these options.
    pub fn new(options: CompileOptions) -> Self {
        Self {
            options,
            running: Arc::default(),
        }
    }

    /// What the cache has done since it was opened. All zero without a cache.
    pub fn cache_stats(&self) -> CacheStats {
        let cache = self.options.cache.as_ref();
        cache.map(CodeCache::stats).unwrap_or_default()
    }

    /// How many files are compiled at the same time.
    pub fn parallel(&self) -> NonZeroUsize {
        self.options.parallel
    }

    /// The native code of a file, if it is in the cache.
    pub(crate) fn cached(&self, engine: &Engine, digest: [u8; 32]) -> Option<Compiled> {
        let cache = self.options.cache.as_ref()?;
        let key = EntryKey::new(digest, engine.wasmtime());
        let code = cache.get(&key)?;
        match code.load(engine.wasmtime()) {
            Ok(component) => Some(Compiled {
                component,
                native_bytes: code.bytes().len(),
                took: None,
            }),
            // This host wrote the entry, yet wasmtime does not load it: the engine has changed in a
            // way that its hash in the key does not cover.
            Err(error) => {
                cache.refuse(&key, &format!("{error:#}"));
                None
            }
        }
    }

    /// The secret that guests' random numbers derive from: the cache's, which survives a restart,
    /// or without a cache the engine's.
    pub(crate) fn secret(&self, engine: &Engine) -> Secret {
        let cache = self.options.cache.as_ref();
        cache.map_or_else(|| engine.secret().clone(), CodeCache::random_secret)
    }

    /// The native code of a scanned file, loaded into the engine.
    pub(crate) fn compile(
        &self,
        engine: &Engine,
        digest: [u8; 32],
        bytes: &[u8],
    ) -> Result<Compiled, LoadError> {
        if let Some(compiled) = self.cached(engine, digest) {
            return Ok(compiled);
        }
        let (compiled, code) = self.compile_anew(engine, bytes)?;
        if let Some(cache) = &self.options.cache {
            cache.put(&EntryKey::new(digest, engine.wasmtime()), &code);
        }
        Ok(compiled)
    }

    fn compile_anew(
        &self,
        engine: &Engine,
        bytes: &[u8],
    ) -> Result<(Compiled, NativeCode), LoadError> {
        let _turn = self.running.wait(self.options.parallel);
        let started = Instant::now();
        let code = match &self.options.child {
            Some(child) => parent::compile(child, bytes, &self.options.limits)?,
            None => component::native_code(engine.wasmtime(), bytes)?,
        };
        check_native(bytes.len(), code.bytes().len())?;
        let took = Some(started.elapsed());
        let component = code.load(engine.wasmtime()).map_err(not_compiled)?;
        let compiled = Compiled {
            component,
            native_bytes: code.bytes().len(),
            took,
        };
        Ok((compiled, code))
    }
}

/// The number of running compilations.
#[derive(Debug, Default)]
struct Running {
    count: Mutex<usize>,
    ended: Condvar,
}

impl Running {
    fn wait(&self, most: NonZeroUsize) -> Turn<'_> {
        let mut count = self.count.lock();
        self.ended
            .wait_while(&mut count, |count| *count >= most.get());
        *count += 1;
        Turn(self)
    }
}

struct Turn<'a>(&'a Running);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        *self.0.count.lock() -= 1;
        self.0.ended.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn native_code_is_a_few_times_as_large_as_its_file_at_most() {
        assert_eq!(most_native(0), 1 << 20);
        assert_eq!(most_native(1 << 20), 8 << 20);
        assert_eq!(most_native(64 << 20), 256 << 20);
        // Measured sizes: Python's, and those of a small guest in Rust.
        assert!(check_native(18_450_713, 39_896_936).is_ok());
        assert!(check_native(140_009, 660_072).is_ok());
        let error = check_native(200_000, 1_600_001).unwrap_err();
        let text = "does not compile: its native code is larger than 1600000 bytes, which is most for a file of 200000";
        assert_eq!(error.to_string(), text);
    }
}
