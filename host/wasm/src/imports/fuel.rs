//! What the host does in a guest's call costs the guest fuel, as its own instructions do. So fuel
//! ends a loop of calls as well.

use wasmtime::{AsContextMut, Trap};

use crate::state::State;

/// What a call takes that does next to nothing.
const PER_CALL: u64 = 500;
/// Bytes that are taken from the guest, and looked at, for one.
const BYTES_TAKEN: usize = 4;
/// What a random byte takes, of which each is a digest's.
const PER_RANDOM_BYTE: u64 = 16;

/// Has the guest pay for a call that takes so many bytes of it.
pub(super) fn take(store: impl AsContextMut<Data = State>, bytes: usize) -> wasmtime::Result<()> {
    charge(store, (bytes / BYTES_TAKEN) as u64)
}

/// Has the guest pay for so many random bytes.
pub(super) fn draw(store: impl AsContextMut<Data = State>, bytes: u64) -> wasmtime::Result<()> {
    charge(store, bytes.saturating_mul(PER_RANDOM_BYTE))
}

fn charge(mut store: impl AsContextMut<Data = State>, cost: u64) -> wasmtime::Result<()> {
    let mut store = store.as_context_mut();
    let left = store.get_fuel()?.checked_sub(PER_CALL + cost);
    store.set_fuel(left.unwrap_or_default())?;
    left.map(drop).ok_or_else(|| Trap::OutOfFuel.into())
}
