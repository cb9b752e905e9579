//! From a file's bytes to a plugin. Whatever is wrong with it is said in one line, by the step that found it.
#![allow(
    clippy::disallowed_types,
    reason = "durations are measured and reported; nothing is decided by them"
)]

use std::time::Instant;

use pilothouse_core::manifest::ManifestError;
use pilothouse_core::plugin::RunError;
use wasmtime::component::Component;

pub use crate::scan::ScanError;

use crate::bindings::ControllerPre;
use crate::engine::Engine;
use crate::imports;
use crate::instance::{self, WasmPlugin};
use crate::limits::LimitPolicy;
use crate::scan::{Scan, scan};

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

/// Makes a plugin of a component, or of a core module with a component-type section.
///
/// CPU-bound, and long for a large guest (seconds for Python): not for an async thread.
pub fn load(engine: &Engine, bytes: &[u8], policy: &LimitPolicy) -> Result<WasmPlugin, LoadError> {
    let started = Instant::now();
    let outline = scan(bytes)?;
    let component = if outline.is_component {
        check_world(&outline)?;
        compile(engine, bytes)?
    } else {
        let encoded = componentize(bytes, &outline)?;
        check_world(&scan(&encoded)?)?;
        compile(engine, &encoded)?
    };
    let compiled = started.elapsed();
    let pre = link(&component)?;
    let manifest = instance::describe(engine, &pre, policy).map_err(LoadError::Describe)?;
    manifest.validate()?;
    tracing::debug!(
        plugin = manifest.name,
        bytes = bytes.len(),
        ?compiled,
        total = ?started.elapsed(),
        "plugin loaded"
    );
    Ok(WasmPlugin::new(engine.clone(), pre, manifest, policy))
}

fn componentize(module: &[u8], outline: &Scan) -> Result<Vec<u8>, LoadError> {
    if !outline.has_world_section {
        return Err(LoadError::NoWorld);
    }
    wit_component::ComponentEncoder::default()
        .validate(true)
        .module(module)
        .and_then(wit_component::ComponentEncoder::encode)
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

fn compile(engine: &Engine, component: &[u8]) -> Result<Component, LoadError> {
    Component::new(engine.wasmtime(), component)
        .map_err(|error| LoadError::Compile(one_line(&format!("{error:#}"))))
}

fn link(component: &Component) -> Result<ControllerPre<crate::state::State>, LoadError> {
    imports::linker_for(component)
        .and_then(|linker| linker.instantiate_pre(component))
        .and_then(ControllerPre::new)
        .map_err(|error| LoadError::Link(one_line(&format!("{error:#}"))))
}

/// Errors of the libraries below come with newlines and indented causes.
fn one_line(text: &str) -> String {
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
