//! Random numbers that are the same for the same key: see [`secret`](crate::secret).

use wasmtime::component::LinkerInstance;

use super::super::fuel;
use super::trap;
use crate::run::state::StoreState;

/// Most bytes returned by one call. No runtime asks for more than a few dozen.
const BYTES_PER_CALL: u64 = 64 << 10;
const NUMBER_BYTES: u64 = 8;

pub(super) fn define(
    instance: &mut LinkerInstance<'_, StoreState>,
    interface: &str,
    function: &str,
) -> wasmtime::Result<()> {
    match function {
        "get-random-bytes" | "get-insecure-random-bytes" => {
            fuel::define(instance, function, |mut cx, (count,): (u64,)| {
                if count > BYTES_PER_CALL {
                    wasmtime::bail!(
                        "{count} random bytes asked for at once; {BYTES_PER_CALL} are the most"
                    );
                }
                fuel::draw(&mut cx, count)?;
                let count = usize::try_from(count)?;
                Ok((cx.data_mut().wasi.random.bytes(count),))
            })
        }
        "get-random-u64" | "get-insecure-random-u64" => {
            fuel::define(instance, function, |mut cx, ()| {
                fuel::draw(&mut cx, NUMBER_BYTES)?;
                Ok((cx.data_mut().wasi.random.number(),))
            })
        }
        "insecure-seed" => fuel::define(instance, function, |mut cx, ()| {
            fuel::draw(&mut cx, 2 * NUMBER_BYTES)?;
            let random = &mut cx.data_mut().wasi.random;
            Ok(((random.number(), random.number()),))
        }),
        _ => trap(instance, interface, function),
    }
}
