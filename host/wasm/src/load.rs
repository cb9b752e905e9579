//! From a file's bytes to a plugin. An error describes what is wrong in one line, and comes from
//! the step that found it.
#![allow(
    clippy::disallowed_types,
    reason = "durations are measured and reported; nothing is decided by them"
)]

use std::time::{Duration, Instant};

use pilothouse_core::{ManifestError, RunError};
use sha2::{Digest, Sha256};
use wasmtime::component::Component;

pub use crate::scan::ScanError;

use crate::bindings::ControllerPre;
use crate::code_cache::hex;
use crate::compile::{Compiled, Compiler};
use crate::engine::Engine;
use crate::imports;
use crate::instance::{self, RunStats, WasmPlugin};
use crate::limits::LimitPolicy;
use crate::native::NativeCode;
use crate::scan::{Scan, check_nesting, scan};
use crate::secret::Secret;

/// The version of the contract in `wit/`.
pub const ABI_VERSION: &str = "0.1.0";
const PACKAGE: &str = "pilothouse:controller/";
const EXPORTS: [&str; 2] = ["describe", "reconcile"];

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
        missing: &'static str,
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

/// What loading a file took, and what the file contains.
#[derive(Clone, Debug)]
pub struct LoadReport {
    /// SHA-256 of the file.
    pub digest: [u8; 32],
    /// Size of the file, in bytes.
    pub bytes: usize,
    /// Size of the native code, in bytes.
    pub native_bytes: usize,
    /// Time to compile it. `None` if the code was cached.
    pub compiled: Option<Duration>,
    /// Time for the whole load.
    pub total: Duration,
    /// Its imports, as written in the file: interfaces of a component, or modules of a core module.
    pub imports: Vec<String>,
    /// Its exports, as written in the file.
    pub exports: Vec<String>,
    /// What the call of `describe` used.
    pub describe: RunStats,
}

impl LoadReport {
    /// The digest in hexadecimal.
    pub fn digest_hex(&self) -> String {
        hex(&self.digest)
    }
}

/// [`Compiler::load`] with the default compiler: in this process, without a cache.
pub fn load(engine: &Engine, bytes: &[u8], policy: &LimitPolicy) -> Result<WasmPlugin, LoadError> {
    Compiler::default().load(engine, bytes, policy)
}

impl Compiler {
    /// Makes a plugin of a component, or of a core module with a component-type section.
    ///
    /// Blocks, and for long if the file has to be compiled (half a minute for Python). Do not call
    /// it from an async thread.
    pub fn load(
        &self,
        engine: &Engine,
        bytes: &[u8],
        policy: &LimitPolicy,
    ) -> Result<WasmPlugin, LoadError> {
        let file = File::scan(bytes)?;
        let compiled = self.compile(engine, file.digest, bytes)?;
        file.plugin(engine, &compiled, policy, &self.secret(engine))
    }

    /// Like [`Compiler::load`], but only if the native code is in the cache. `None` if the file
    /// would have to be compiled.
    pub fn load_cached(
        &self,
        engine: &Engine,
        bytes: &[u8],
        policy: &LimitPolicy,
    ) -> Result<Option<WasmPlugin>, LoadError> {
        let file = File::scan(bytes)?;
        let compiled = self.cached(engine, file.digest);
        let secret = self.secret(engine);
        let plugin = compiled.map(|compiled| file.plugin(engine, &compiled, policy, &secret));
        plugin.transpose()
    }
}

/// A file that may be a plugin, judging by its outline.
struct File {
    started: Instant,
    bytes: usize,
    outline: Scan,
    digest: [u8; 32],
}

impl File {
    fn scan(bytes: &[u8]) -> Result<Self, LoadError> {
        let started = Instant::now();
        let outline = scan(bytes)?;
        check_outline(&outline)?;
        Ok(Self {
            started,
            bytes: bytes.len(),
            outline,
            digest: Sha256::digest(bytes).into(),
        })
    }

    /// Links the compiled file and asks it for its manifest.
    fn plugin(
        self,
        engine: &Engine,
        compiled: &Compiled,
        policy: &LimitPolicy,
        secret: &Secret,
    ) -> Result<WasmPlugin, LoadError> {
        let pre = link(&compiled.component)?;
        let (manifest, describe) = instance::describe(engine, &pre, policy, secret);
        let manifest = manifest.map_err(LoadError::Describe)?;
        manifest.validate()?;
        let report = LoadReport {
            digest: self.digest,
            bytes: self.bytes,
            native_bytes: compiled.native_bytes,
            compiled: compiled.took,
            total: self.started.elapsed(),
            imports: self.outline.imports,
            exports: self.outline.exports,
            describe,
        };
        tracing::debug!(
            plugin = manifest.name,
            bytes = report.bytes,
            compiled = ?report.compiled,
            total = ?report.total,
            "plugin loaded"
        );
        Ok(WasmPlugin::new(
            engine.clone(),
            pre,
            manifest,
            policy,
            report,
            secret,
        ))
    }
}

/// Checks what the outline shows. Most files that are not plugins are refused here, before anything
/// is compiled.
fn check_outline(outline: &Scan) -> Result<(), LoadError> {
    if outline.is_component {
        return check_world(outline);
    }
    if !outline.has_world_section {
        return Err(LoadError::NoWorld);
    }
    Ok(())
}

/// Compiles a file to native code. This does all the work that takes long or that handles unchecked
/// parts of the file. It runs in the compiling process, if there is one.
pub(crate) fn native_code(
    engine: &wasmtime::Engine,
    bytes: &[u8],
) -> Result<NativeCode, LoadError> {
    let outline = scan(bytes)?;
    check_outline(&outline)?;
    check_nesting(bytes)?;
    let encoded = match outline.is_component {
        true => None,
        false => Some(componentize(bytes)?),
    };
    if let Some(encoded) = &encoded {
        check_world(&scan(encoded)?)?;
    }
    let component = encoded.as_deref().unwrap_or(bytes);
    NativeCode::compiled_here(engine, component).map_err(not_compiled)
}

#[allow(clippy::needless_pass_by_value, reason = "as map_err wants it")]
pub(crate) fn not_compiled(error: wasmtime::Error) -> LoadError {
    LoadError::Compile(one_line(&format!("{error:#}")))
}

fn componentize(module: &[u8]) -> Result<Vec<u8>, LoadError> {
    wit_component::ComponentEncoder::default()
        .validate(true)
        .module(module)
        .and_then(|mut encoder| encoder.encode())
        .map_err(|error| LoadError::Componentize(one_line(&format!("{error:#}"))))
}

/// Checks imports and exports by name alone, before anything is compiled. A component that imports
/// nothing and exports the two functions passes. Their types are compared when it is linked.
fn check_world(outline: &Scan) -> Result<(), LoadError> {
    for name in outline.imports.iter().chain(&outline.exports) {
        if let Some(found) = foreign_version(name) {
            return Err(LoadError::AbiVersion {
                found: found.to_owned(),
            });
        }
    }
    for name in &outline.imports {
        if !name.starts_with(PACKAGE) && !imports::wasi::is_wasi(name) {
            return Err(LoadError::ForeignImport(name.clone()));
        }
    }
    for missing in EXPORTS {
        if !outline.exports.iter().any(|name| name == missing) {
            return Err(LoadError::OtherWorld {
                missing,
                exports: outline.exports.clone(),
            });
        }
    }
    Ok(())
}

/// The version of one of our interfaces, if this host does not support its track, such as 0.1.
/// Within a track versions only add to the contract, and the linker accepts them.
fn foreign_version(name: &str) -> Option<&str> {
    let (_, version) = name
        .strip_prefix(PACKAGE)?
        .split_once('@')
        .unwrap_or(("", "no version"));
    let track = |version| str::rsplit_once(version, '.').map(|(track, _)| track);
    (track(version) != track(ABI_VERSION)).then_some(version)
}

fn link(component: &Component) -> Result<ControllerPre<crate::state::StoreState>, LoadError> {
    imports::linker_for(component)
        .and_then(|linker| linker.instantiate_pre(component))
        .and_then(ControllerPre::new)
        .map_err(|error| LoadError::Link(one_line(&format!("{error:#}"))))
}

/// Puts a text on one line. Errors of libraries contain newlines and indented causes.
pub(crate) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_versions_of_the_same_track_are_spoken() {
        for good in [
            "pilothouse:controller/log@0.1.0",
            "pilothouse:controller/log@0.1.7",
            "wasi:io/poll@0.2.0",
            "describe",
        ] {
            assert_eq!(foreign_version(good), None, "{good}");
        }
        assert_eq!(
            foreign_version("pilothouse:controller/log@0.2.0"),
            Some("0.2.0")
        );
        assert_eq!(
            foreign_version("pilothouse:controller/log@1.1.0"),
            Some("1.1.0")
        );
        assert_eq!(
            foreign_version("pilothouse:controller/log"),
            Some("no version")
        );
    }

    #[test]
    fn the_abi_version_is_the_one_in_wit() {
        let world = include_str!("../../../wit/world.wit");
        assert!(world.contains(&format!("package pilothouse:controller@{ABI_VERSION};")));
    }
}
