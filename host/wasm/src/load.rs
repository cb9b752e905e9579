//! From a file's bytes to a plugin. An error describes what is wrong in one line, and comes from
//! the step that found it.
#![allow(
    clippy::disallowed_types,
    reason = "durations are measured and reported; nothing is decided by them"
)]

use std::time::Instant;

use pilothouse_core::Manifest;
use pilothouse_core::text::one_line;
use sha2::{Digest, Sha256};
use wasmtime::component::types::ComponentItem;
use wasmtime::component::{Component, InstancePre};
use wasmtime::error::Context as _;

use crate::bindings::{ABI_VERSION, ControllerPre, PACKAGE, PLUGIN, plugin};
use crate::compile::{Compiled, Compiler};
use crate::engine::Engine;
use crate::file::error::LoadError;
use crate::file::scan::{Scan, scan};
use crate::file::world::check_outline;
use crate::imports;
use crate::run::limits::LimitPolicy;
use crate::run::plugin::{WasmPlugin, describe};
use crate::run::report::LoadReport;
use crate::run::state::StoreState;
use crate::secret::Secret;

/// [`load_with`] the default compiler: in this process, without a cache.
pub fn load(engine: &Engine, bytes: &[u8], policy: &LimitPolicy) -> Result<WasmPlugin, LoadError> {
    load_with(&Compiler::default(), engine, bytes, policy)
}

/// Makes a plugin of a component, or of a core module with a component-type section.
///
/// Blocks, and for long if the file has to be compiled (half a minute for Python). Do not call it
/// from an async thread.
pub fn load_with(
    compiler: &Compiler,
    engine: &Engine,
    bytes: &[u8],
    policy: &LimitPolicy,
) -> Result<WasmPlugin, LoadError> {
    let file = File::scan(bytes)?;
    let compiled = compiler.compile(engine, file.digest, bytes)?;
    file.plugin(engine, &compiled, policy, &compiler.secret(engine))
}

/// Like [`load_with`], but only if the native code is in the cache. `None` if the file would have
/// to be compiled.
pub fn load_cached(
    compiler: &Compiler,
    engine: &Engine,
    bytes: &[u8],
    policy: &LimitPolicy,
) -> Result<Option<WasmPlugin>, LoadError> {
    let file = File::scan(bytes)?;
    let compiled = compiler.cached(engine, file.digest);
    let secret = compiler.secret(engine);
    let plugin = compiled.map(|compiled| file.plugin(engine, &compiled, policy, &secret));
    plugin.transpose()
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
        let (manifest, described) = describe(engine, &pre, policy, secret);
        let manifest = Manifest::from_json(&manifest.map_err(LoadError::Describe)?)?;
        manifest.validate()?;
        let report = LoadReport {
            digest: self.digest,
            bytes: self.bytes,
            native_bytes: compiled.native_bytes,
            compiled: compiled.took,
            total: self.started.elapsed(),
            imports: self.outline.imports,
            exports: self.outline.exports,
            describe: described,
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

fn link(component: &Component) -> Result<ControllerPre<StoreState>, LoadError> {
    imports::linker_for(component)
        .and_then(|linker| linker.instantiate_pre(component))
        .and_then(|pre| {
            check_types(&pre)?;
            ControllerPre::new(pre)
        })
        .map_err(|error| LoadError::Link(one_line(&format!("{error:#}"))))
}

/// Compares the types of the plugin's functions with the contract's, which the generated bindings
/// do only when they make an instance.
fn check_types(pre: &InstancePre<StoreState>) -> wasmtime::Result<()> {
    type Answer = Result<plugin::Outcome, plugin::Failure>;
    let types = pre.instance_type();
    let component = pre.component();
    let name = format!("{PACKAGE}{PLUGIN}@{ABI_VERSION}");
    let interface = component.get_export_index(None, &name);
    let interface = interface.with_context(|| format!("does not export {name:?}"))?;
    let function = |name: &str| match component.get_export(Some(&interface), name) {
        Some((ComponentItem::ComponentFunc(function), _)) => Ok(function),
        _ => Err(wasmtime::format_err!("exports no function {name:?}")),
    };
    function("describe")?
        .typecheck::<(), (String,)>(&types)
        .context("describe")?;
    function("reconcile")?
        .typecheck::<(&plugin::Request,), (Answer,)>(&types)
        .context("reconcile")
}
