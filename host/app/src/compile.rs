//! Sets up compilation: by another process, with a cache.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use pilothouse_confine::own_executable;
use pilothouse_wasm::{CodeCache, CompileOptions, Compiler};
use tracing::warn;

use crate::child_args::ChildArgs;

/// The value of `--code-cache` that switches the cache off.
pub const NOWHERE: &str = "none";

/// The host's compiler. Without a cache it compiles every plugin each time the host starts.
pub fn compiler(directory: Option<&Path>) -> Compiler {
    let child = own_executable()
        .inspect_err(|error| warn!(%error, "cannot find the host's own executable; compiling in this process, without limits"));
    Compiler::new(CompileOptions {
        child: child.ok(),
        cache: cache(directory),
        ..CompileOptions::default()
    })
}

fn cache(directory: Option<&Path>) -> Option<CodeCache> {
    if directory == Some(Path::new(NOWHERE)) {
        return None;
    }
    let directory = directory.map(Path::to_owned).or_else(usual_directory)?;
    CodeCache::open(&directory, CodeCache::DEFAULT_BYTES)
        .inspect_err(|error| {
            let directory = directory.display();
            warn!(%directory, %error, "compiled plugins are not cached; give --code-cache a directory that only this user can write to");
        })
        .ok()
}

/// The XDG base directory for caches.
fn usual_directory() -> Option<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME").filter(|path| !path.is_empty());
    let home = || std::env::home_dir().map(|home| home.join(".cache"));
    let cache = cache.map(PathBuf::from).or_else(home)?;
    Some(cache.join("pilothouse").join("code"))
}

/// The compiling process: this executable, started by the host. Runs before there is a log, a
/// runtime or a second thread.
pub fn run(args: &ChildArgs) -> ExitCode {
    pilothouse_wasm::compile_child(args.memory_bytes, Duration::from_secs(args.cpu_seconds))
}
