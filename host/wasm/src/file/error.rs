//! Why a file is not a plugin.

use pilothouse_core::text::one_line;
use pilothouse_core::{ManifestError, RunError};

use super::scan::ScanError;
use crate::bindings::ABI_VERSION;

/// Why a file is not a plugin.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// It is not WebAssembly, is damaged, or is too large.
    #[error(transparent)]
    Scan(#[from] ScanError),
    /// It is a core module that was not built for the world.
    #[error(
        "core module without a component-type section; build it against the pilothouse:controller world"
    )]
    NoWorld,
    /// It is a core module that does not match the world that it was built for.
    #[error("core module cannot be made a component: {0}")]
    Componentize(String),
    /// It was built for a version of the contract that this host does not support.
    #[error(
        "speaks pilothouse:controller@{found}; this host speaks {}",
        supported()
    )]
    AbiVersion {
        /// The version that the file was built for.
        found: String,
    },
    /// It has an import that is not offered to plugins.
    #[error("imports {0:?}, which is neither of pilothouse:controller nor of wasi")]
    ForeignImport(String),
    /// It is a component for another world.
    #[error("does not export {missing:?}, so it is not a plugin; it exports {exports:?}")]
    OtherWorld {
        /// The export that is missing.
        missing: String,
        /// The exports that it has.
        exports: Vec<String>,
    },
    /// It is invalid or uses WebAssembly features that are switched off.
    #[error("does not compile: {0}")]
    Compile(String),
    /// The compiling process refused it, for this reason.
    #[error("{0}")]
    Refused(String),
    /// Compiling it exceeds a limit.
    #[error("does not compile: compiling needs more than {0}")]
    CompileLimit(String),
    /// Its native code is larger than a file of its size may produce.
    #[error(
        "does not compile: its native code is larger than {most} bytes, which is most for a file of {file_bytes}"
    )]
    NativeSize {
        /// The file's size, in bytes.
        file_bytes: usize,
        /// Most native code that a file of this size may produce, in bytes.
        most: usize,
    },
    /// The compiling process could not be started, or died for another reason. The file may have
    /// caused that.
    #[error("does not compile: the compiling process {0}")]
    Compiler(String),
    /// An import or export has the right name but another type.
    #[error("does not fit the world: {0}")]
    Link(String),
    /// `describe` failed.
    #[error("describe: {0}")]
    Describe(#[source] RunError),
    /// `describe` returned an invalid manifest.
    #[error("manifest: {0}")]
    Manifest(#[from] ManifestError),
}

fn supported() -> String {
    let (track, _) = ABI_VERSION.rsplit_once('.').unwrap_or((ABI_VERSION, ""));
    format!("{track}.x")
}

/// An error of wasmtime's compiler.
#[allow(clippy::needless_pass_by_value, reason = "as map_err wants it")]
pub(crate) fn not_compiled(error: wasmtime::Error) -> LoadError {
    LoadError::Compile(one_line(&format!("{error:#}")))
}
