//! The clock: one time for the whole run. Reading it is recorded like any other read.

use wasmtime::component::LinkerInstance;

use super::fuel;
use crate::run::state::StoreState;

/// Defines the function by hand, because generated bindings have no access to the fuel.
pub(super) fn define(instance: &mut LinkerInstance<'_, StoreState>) -> wasmtime::Result<()> {
    fuel::define(instance, "now", |mut cx, ()| {
        Ok((cx.data_mut().reader("clock.now")?.now_ms(),))
    })
}
