//! Charges the guest fuel for the work the host does in its calls, as for its own instructions. A
//! loop of calls therefore runs out of fuel, too.

use wasmtime::component::{ComponentNamedList, Lift, LinkerInstance, Lower};
use wasmtime::{AsContextMut, StoreContextMut, Trap};

use crate::run::state::StoreState;

/// Fuel for every call, also for one that does almost nothing.
const PER_CALL: u64 = 500;
/// The host takes and inspects this many bytes from the guest for one unit of fuel.
const BYTES_TAKEN: usize = 4;
/// Fuel for one random byte. All of them come from a digest.
const PER_RANDOM_BYTE: u64 = 16;

/// Defines an import. Each call of it is charged before it does anything; what depends on its
/// arguments it charges itself.
pub(super) fn define<F, Params, Return>(
    instance: &mut LinkerInstance<'_, StoreState>,
    function: &str,
    act: F,
) -> wasmtime::Result<()>
where
    F: Fn(StoreContextMut<'_, StoreState>, Params) -> wasmtime::Result<Return>
        + Send
        + Sync
        + 'static,
    Params: ComponentNamedList + Lift + 'static,
    Return: ComponentNamedList + Lower + 'static,
{
    instance.func_wrap(function, move |mut cx, params| {
        call(&mut cx)?;
        act(cx, params)
    })
}

/// Charges the guest for a call.
pub(super) fn call(store: impl AsContextMut<Data = StoreState>) -> wasmtime::Result<()> {
    charge(store, PER_CALL)
}

/// Charges the guest for `bytes` bytes that it hands to the host or is given.
pub(super) fn take(
    store: impl AsContextMut<Data = StoreState>,
    bytes: usize,
) -> wasmtime::Result<()> {
    charge(store, (bytes / BYTES_TAKEN) as u64)
}

/// Charges the guest for `bytes` random bytes.
pub(super) fn draw(
    store: impl AsContextMut<Data = StoreState>,
    bytes: u64,
) -> wasmtime::Result<()> {
    charge(store, bytes.saturating_mul(PER_RANDOM_BYTE))
}

fn charge(mut store: impl AsContextMut<Data = StoreState>, cost: u64) -> wasmtime::Result<()> {
    let mut store = store.as_context_mut();
    let left = store.get_fuel()?.checked_sub(cost);
    store.set_fuel(left.unwrap_or_default())?;
    left.map(drop).ok_or_else(|| Trap::OutOfFuel.into())
}
