//! Compiles plugins: by another process where there is one, because a stranger's file can make a compiler slow, large, or crash; and
//! once only where there is a cache.
//!
//! [`Compiler`] is the host's side; [`compile_child`] is all that the other process does.
#![allow(
    clippy::disallowed_types,
    reason = "a child process is waited for in real time"
)]

mod child;
mod parent;

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use wasmtime::component::Component;

use crate::code_cache::{CacheStats, CodeCache, EntryKey};
use crate::engine::Engine;
use crate::load::{self, LoadError};
use crate::native::NativeCode;
use crate::secret::Secret;

pub use child::{COMPILE_CHILD, compile_child};

/// Native code may be so many times as large as its file. Python's is twice as large (40 MB of 18), that of small guests in Rust four
/// to five times.
const NATIVE_RATIO: usize = 8;
/// What any file may come to: what does not depend on its size is most of what a small one comes to.
const NATIVE_FLOOR: usize = 1 << 20;
/// What none may.
const NATIVE_BYTES: usize = 256 << 20;

/// Most native code of a file of this size, in bytes.
fn most_native(file_bytes: usize) -> usize {
    let most = file_bytes.saturating_mul(NATIVE_RATIO);
    most.clamp(NATIVE_FLOOR, NATIVE_BYTES)
}

/// A file that becomes many times as large when it is compiled was made to.
fn check_native(file_bytes: usize, native_bytes: usize) -> Result<(), LoadError> {
    let most = most_native(file_bytes);
    if native_bytes <= most {
        return Ok(());
    }
    Err(LoadError::NativeSize { file_bytes, most })
}

/// What one compilation may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompileLimits {
    /// Address space of the compiling process, in bytes (`RLIMIT_AS`).
    pub memory_bytes: u64,
    /// CPU time, in whole seconds (`RLIMIT_CPU`).
    pub cpu: Duration,
    /// Wall-clock time. Compiling is niced, so on a busy host it takes longer than its CPU time.
    pub wall: Duration,
}

impl Default for CompileLimits {
    /// Python, the largest guest known, takes 500 MiB and 15 s.
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
    /// An executable which, when run as `CHILD compile-child MEMORY_BYTES CPU_SECONDS`, calls [`compile_child`]: the host's own
    /// ([`own_executable`]). None: compile in this process, without limits.
    pub child: Option<PathBuf>,
    /// Where compiled code is kept. None: nowhere.
    pub cache: Option<CodeCache>,
    /// Of a child process.
    pub limits: CompileLimits,
    /// Compilations at the same time; others wait.
    pub parallel: NonZeroUsize,
}

impl Default for CompileOptions {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        Self {
            child: None,
            cache: None,
            limits: CompileLimits::default(),
            // The other half goes on running guests.
            parallel: NonZeroUsize::new(cores / 2).unwrap_or(NonZeroUsize::MIN),
        }
    }
}

/// This process's executable, for [`CompileOptions::child`]. On Linux also if its file has been replaced since: a newer one would
/// compile for another wasmtime.
pub fn own_executable() -> std::io::Result<PathBuf> {
    let own = PathBuf::from("/proc/self/exe");
    if own.exists() {
        return Ok(own);
    }
    std::env::current_exe()
}

/// Makes native code of files. Cloning shares it; there should be one in a process. The default one compiles in this process and
/// keeps nothing.
#[derive(Clone, Debug, Default)]
pub struct Compiler {
    options: CompileOptions,
    running: Arc<Running>,
}

/// Compiled, and how.
pub(crate) struct Compiled {
    pub(crate) component: Component,
    pub(crate) native_bytes: usize,
    /// Compiling alone; nothing if it was cached.
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

    /// What the cache did so far; zeros without one.
    pub fn cache_stats(&self) -> CacheStats {
        let cache = self.options.cache.as_ref();
        cache.map(CodeCache::stats).unwrap_or_default()
    }

    /// How many files it compiles at the same time.
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
            // Ours, and yet not to be loaded: what the key says of the engine does not say enough.
            Err(error) => {
                cache.refuse(&key, &format!("{error:#}"));
                None
            }
        }
    }

    /// What guests' random numbers are drawn from: the cache's, which outlives the process, if there is
    /// one.
    pub(crate) fn secret(&self, engine: &Engine) -> Secret {
        let cache = self.options.cache.as_ref();
        cache.map_or_else(|| engine.secret().clone(), CodeCache::random_secret)
    }

    /// Native code of a file that has been scanned, loaded into the engine.
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
            None => load::native_code(engine.wasmtime(), bytes)?,
        };
        check_native(bytes.len(), code.bytes().len())?;
        let took = Some(started.elapsed());
        let component = code.load(engine.wasmtime()).map_err(load::not_compiled)?;
        let compiled = Compiled {
            component,
            native_bytes: code.bytes().len(),
            took,
        };
        Ok((compiled, code))
    }
}

/// How many compilations are under way.
#[derive(Debug, Default)]
struct Running {
    count: Mutex<usize>,
    ended: Condvar,
}

impl Running {
    fn wait(&self, most: NonZeroUsize) -> Turn<'_> {
        let count = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        let mut count = self
            .ended
            .wait_while(count, |count| *count >= most.get())
            .unwrap_or_else(PoisonError::into_inner);
        *count += 1;
        Turn(self)
    }
}

struct Turn<'a>(&'a Running);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        *self.0.count.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
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
        // What was measured: Python's, and a small one in Rust.
        assert!(check_native(18_450_713, 39_896_936).is_ok());
        assert!(check_native(140_009, 660_072).is_ok());
        let error = check_native(200_000, 1_600_001).unwrap_err();
        let text = "does not compile: its native code is larger than 1600000 bytes, which is most for a file of 200000";
        assert_eq!(error.to_string(), text);
    }
}
