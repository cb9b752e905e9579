//! The WASI (preview 2) that language runtimes need, with nothing behind it: no environment, no
//! arguments, no files, no sockets, and streams that end in the plugin's log. All answers are a
//! function of the request, so the guest's result is one as well.
//!
//! A function of `wasi:` that is imported and not defined here traps when it is called, with its
//! name in the error. The imported version does not matter: within 0.2 the functions below have
//! never changed, and linking refuses a type that differs.

mod clocks;
mod random;
mod streams;

use wasmtime::component::types::ComponentItem;
use wasmtime::component::{Component, Linker, LinkerInstance, Resource, ResourceType, Val};

use self::streams::{InputStream, OutputStream};
use super::fuel;
use crate::bindings::is_wasi;
use crate::run::state::StoreState;
use crate::run::wasi::Pollable;

/// A resource that the host never creates: descriptors, sockets, terminals, stream errors.
enum Absent {}

/// Defines every `wasi:` interface that `component` imports, at the version it imports.
pub(crate) fn add_to_linker(
    linker: &mut Linker<StoreState>,
    component: &Component,
) -> wasmtime::Result<()> {
    let engine = component.engine();
    for (name, import) in component.component_type().imports(engine) {
        let ComponentItem::ComponentInstance(interface) = import.ty else {
            continue;
        };
        if !is_wasi(name) {
            continue;
        }
        let short = name.split('@').next().unwrap_or(name);
        let mut instance = linker.instance(name)?;
        for (item, export) in interface.exports(engine) {
            match export.ty {
                ComponentItem::ComponentFunc(_) => define(&mut instance, short, item)?,
                ComponentItem::Resource(_) => {
                    instance.resource(item, resource_type(item), |_, _| Ok(()))?;
                }
                _ => {}
            }
        }
    }
    Ok(())
}

fn resource_type(name: &str) -> ResourceType {
    match name {
        "pollable" => ResourceType::host::<Pollable>(),
        "input-stream" => ResourceType::host::<InputStream>(),
        "output-stream" => ResourceType::host::<OutputStream>(),
        _ => ResourceType::host::<Absent>(),
    }
}

fn define(
    instance: &mut LinkerInstance<'_, StoreState>,
    interface: &str,
    function: &str,
) -> wasmtime::Result<()> {
    match interface {
        "wasi:cli/environment" | "wasi:cli/exit" | "wasi:filesystem/preopens" => {
            nothing(instance, interface, function)
        }
        "wasi:cli/stdin" | "wasi:cli/stdout" | "wasi:cli/stderr" | "wasi:io/streams" => {
            streams::define(instance, interface, function)
        }
        "wasi:clocks/wall-clock" | "wasi:clocks/monotonic-clock" | "wasi:io/poll" => {
            clocks::define(instance, interface, function)
        }
        "wasi:random/random" | "wasi:random/insecure" | "wasi:random/insecure-seed" => {
            random::define(instance, interface, function)
        }
        _ => match function {
            // These return an optional resource, which never exists here.
            "get-terminal-stdin"
            | "get-terminal-stdout"
            | "get-terminal-stderr"
            | "filesystem-error-code" => instance.func_new(function, |cx, _, _, results| {
                fuel::call(cx)?;
                results[0] = Val::Option(None);
                Ok(())
            }),
            _ => trap(instance, interface, function),
        },
    }
}

/// Defines a function of an empty environment.
fn nothing(
    instance: &mut LinkerInstance<'_, StoreState>,
    interface: &str,
    function: &str,
) -> wasmtime::Result<()> {
    match function {
        "get-environment" => fuel::define(instance, function, |_, ()| {
            Ok((Vec::<(String, String)>::new(),))
        }),
        "get-arguments" => fuel::define(instance, function, |_, ()| Ok((Vec::<String>::new(),))),
        "initial-cwd" => fuel::define(instance, function, |_, ()| Ok((None::<String>,))),
        "get-directories" => fuel::define(instance, function, |_, ()| {
            Ok((Vec::<(Resource<Absent>, String)>::new(),))
        }),
        "exit" => instance.func_new(function, |_, _, _, _| {
            wasmtime::bail!("the guest called exit")
        }),
        _ => trap(instance, interface, function),
    }
}

fn trap(
    instance: &mut LinkerInstance<'_, StoreState>,
    interface: &str,
    function: &str,
) -> wasmtime::Result<()> {
    let name = format!("{interface}#{function}");
    instance.func_new(function, move |_, _, _, _| {
        wasmtime::bail!("{name} is not available to plugins")
    })
}
