//! The functions that a guest can import: one file per WIT interface, and a small WASI for language
//! runtimes that need one.

mod clock;
mod fuel;
mod log;
pub(crate) mod snapshot;
pub(crate) mod wasi;

use wasmtime::component::{Component, HasSelf, Linker};

use crate::bindings::ABI_VERSION;
use crate::bindings::{changes, types};
use crate::run::state::StoreState;

/// The imports for one component: all of the world's, and those WASI interfaces that the component
/// imports.
pub(crate) fn linker_for(component: &Component) -> wasmtime::Result<Linker<StoreState>> {
    let mut linker = Linker::new(component.engine());
    types::add_to_linker::<StoreState, HasSelf<StoreState>>(&mut linker, |state| state)?;
    changes::add_to_linker::<StoreState, HasSelf<StoreState>>(&mut linker, |state| state)?;
    let name = |interface| format!("pilothouse:controller/{interface}@{ABI_VERSION}");
    clock::define(&mut linker.instance(&name("clock"))?)?;
    log::define(&mut linker.instance(&name("log"))?)?;
    snapshot::define(&mut linker.instance(&name("snapshot"))?)?;
    wasi::add_to_linker(&mut linker, component)?;
    Ok(linker)
}

// These interfaces contain only types.
impl types::Host for StoreState {}
impl changes::Host for StoreState {}
