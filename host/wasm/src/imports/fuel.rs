//! Charges the guest fuel for the work the host does in its calls, as for its own instructions. A
//! loop of calls therefore runs out of fuel, too.

use wasmtime::{AsContextMut, Trap};

use crate::state::State;

/// Fuel for a call that does almost nothing.
const PER_CALL: u64 = 500;
/// The host takes and inspects this many bytes from the guest for one unit of fuel.
const BYTES_TAKEN: usize = 4;
/// Fuel for one random byte. All of them come from a digest.
const PER_RANDOM_BYTE: u64 = 16;

/// Charges the guest for a call that hands `bytes` bytes to the host.
pub(super) fn take(store: impl AsContextMut<Data = State>, bytes: usize) -> wasmtime::Result<()> {
    charge(store, (bytes / BYTES_TAKEN) as u64)
}

/// Charges the guest for `bytes` random bytes.
pub(super) fn draw(store: impl AsContextMut<Data = State>, bytes: u64) -> wasmtime::Result<()> {
    charge(store, bytes.saturating_mul(PER_RANDOM_BYTE))
}

fn charge(mut store: impl AsContextMut<Data = State>, cost: u64) -> wasmtime::Result<()> {
    let mut store = store.as_context_mut();
    let left = store.get_fuel()?.checked_sub(PER_CALL + cost);
    store.set_fuel(left.unwrap_or_default())?;
    left.map(drop).ok_or_else(|| Trap::OutOfFuel.into())
}
