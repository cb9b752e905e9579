//! What a guest can call: one file per WIT interface, and a small WASI for language runtimes that insist on one.

mod clock;
mod cluster;
mod log;
pub(crate) mod wasi;

use wasmtime::component::{Component, HasSelf, Linker};

use crate::bindings::{Controller, changes, manifest, types};
use crate::state::State;

/// The imports for one component: the world's, and of WASI what the component asks for.
pub(crate) fn linker_for(component: &Component) -> wasmtime::Result<Linker<State>> {
    let mut linker = Linker::new(component.engine());
    Controller::add_to_linker::<State, HasSelf<State>>(&mut linker, |state| state)?;
    wasi::add_to_linker(&mut linker, component)?;
    Ok(linker)
}

// These interfaces have types only.
impl types::Host for State {}
impl changes::Host for State {}
impl manifest::Host for State {}
