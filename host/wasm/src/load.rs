//! From a file's bytes to a plugin. Whatever is wrong with it is said in one line, by the step that found it.
#![allow(
    clippy::disallowed_types,
    reason = "durations are measured and reported; nothing is decided by them"
)]

use std::time::{Duration, Instant};

use pilothouse_core::manifest::ManifestError;
use pilothouse_core::plugin::RunError;
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

/// The version of the contract, as it stands in `wit/`.
pub const ABI_VERSION: &str = "0.1.0";
const PACKAGE: &str = "pilothouse:controller/";
const EXPORTS: [&str; 2] = ["describe", "reconcile"];

/// Why a file is not a plugin.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// Not WebAssembly, damaged, or too large.
    #[error(transparent)]
    Scan(#[from] ScanError),
    /// A core module that was not built against the world.
    #[error(
        "core module without a component-type section; build it against the pilothouse:controller world"
    )]
    NoWorld,
    /// A core module that does not keep to the world it says it is of.
    #[error("core module cannot be made a component: {0}")]
    Componentize(String),
    /// Built against a contract this host does not speak.
    #[error(
        "speaks pilothouse:controller@{found}; this host speaks {}",
        supported()
    )]
    AbiVersion {
        /// The version it is linked to.
        found: String,
    },
    /// It wants something no plugin is given.
    #[error("imports {0:?}, which is neither of pilothouse:controller nor of wasi")]
    ForeignImport(String),
    /// A component of another world.
    #[error("does not export {missing:?}, so it is not a plugin; it exports {exports:?}")]
    OtherWorld {
        /// The export that is missing.
        missing: &'static str,
        /// What there is instead.
        exports: Vec<String>,
    },
    /// Not valid, or of wasm features that are switched off.
    #[error("does not compile: {0}")]
    Compile(String),
    /// What is wrong with it, as the compiling process says it.
    #[error("{0}")]
    Refused(String),
    /// Compiling it takes more than it may.
    #[error("does not compile: compiling needs more than {0}")]
    CompileLimit(String),
    /// It comes to more native code than its size lets expect.
    #[error(
        "does not compile: its native code is larger than {most} bytes, which is most for a file of {file_bytes}"
    )]
    NativeSize {
        /// The file's size.
        file_bytes: usize,
        /// What a file of that size may come to.
        most: usize,
    },
    /// The compiling process could not be started, or died of something else. A file can have a part in that.
    #[error("does not compile: the compiling process {0}")]
    Compiler(String),
    /// An import or export of the right name has another type.
    #[error("does not fit the world: {0}")]
    Link(String),
    /// `describe` did not return.
    #[error("describe: {0}")]
    Describe(#[source] RunError),
    /// `describe` returned something that cannot be.
    #[error("manifest: {0}")]
    Manifest(#[from] ManifestError),
}

fn supported() -> String {
    let (track, _) = ABI_VERSION.rsplit_once('.').unwrap_or((ABI_VERSION, ""));
    format!("{track}.x")
}

/// What loading a file took, and what is in it.
#[derive(Clone, Debug)]
pub struct LoadReport {
    /// SHA-256 of the file.
    pub digest: [u8; 32],
    /// Size of the file.
    pub bytes: usize,
    /// Size of the native code.
    pub native_bytes: usize,
    /// Time to compile it; none if the code was cached.
    pub compiled: Option<Duration>,
    /// Time for everything.
    pub total: Duration,
    /// What it imports, as written in the file: interfaces of a component, modules of a core module.
    pub imports: Vec<String>,
    /// What it exports, as written in the file.
    pub exports: Vec<String>,
    /// What `describe` took.
    pub describe: RunStats,
}

impl LoadReport {
    /// The digest as people write it.
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
    /// Blocks, and for long if there is something to compile (half a minute for Python): not for an async thread.
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

    /// The same, if its code is in the cache. None if there is something to compile.
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

/// A file that could be a plugin, as far as its outline tells.
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

    /// Its plugin, once it is compiled.
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

/// What can be told from the outline: most files that are not plugins never get as far as a compiler.
fn check_outline(outline: &Scan) -> Result<(), LoadError> {
    if outline.is_component {
        return check_world(outline);
    }
    if !outline.has_world_section {
        return Err(LoadError::NoWorld);
    }
    Ok(())
}

/// Native code of a file: everything that takes long, or works on what nobody has looked at yet. Runs in a process of its own where
/// there is one.
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

/// Judges by names alone, before anything is compiled. A component that imports nothing and exports the two functions passes;
/// their types are compared when it is linked.
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

/// The version of an interface of ours, if it is not on the track this host speaks. Within a track growth is additive, and the
/// linker matches it.
fn foreign_version(name: &str) -> Option<&str> {
    let (_, version) = name
        .strip_prefix(PACKAGE)?
        .split_once('@')
        .unwrap_or(("", "no version"));
    let track = |version| str::rsplit_once(version, '.').map(|(track, _)| track);
    (track(version) != track(ABI_VERSION)).then_some(version)
}

fn link(component: &Component) -> Result<ControllerPre<crate::state::State>, LoadError> {
    imports::linker_for(component)
        .and_then(|linker| linker.instantiate_pre(component))
        .and_then(ControllerPre::new)
        .map_err(|error| LoadError::Link(one_line(&format!("{error:#}"))))
}

/// Errors of the libraries below come with newlines and indented causes.
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
