//! Clocks that do not follow real time. The wall clock stands still at the time of the reconcile.
//! The monotonic clock starts at zero, advances a little on each read, so that a loop that waits
//! for it ends, and jumps to the end of each sleep.

use pilothouse_core::Reader;
use wasmtime::component::{ComponentType, Lift, LinkerInstance, Lower, Resource};

use super::super::fuel;
use super::trap;
use crate::run::state::StoreState;
use crate::run::wasi::{Pollable, STEP_NS, VirtualClock};

/// The size of a handle in the guest's memory, and of an index.
const HANDLE_BYTES: usize = 4;

/// What a guest polls to wait for a stream. Streams never block, so it is always ready.
pub(super) fn ready_at_once() -> Resource<Pollable> {
    VirtualClock::pollable_at(0)
}

#[derive(ComponentType, Lift, Lower)]
#[component(record)]
struct Datetime {
    seconds: u64,
    nanoseconds: u32,
}

pub(super) fn define(
    instance: &mut LinkerInstance<'_, StoreState>,
    interface: &str,
    function: &str,
) -> wasmtime::Result<()> {
    match (interface, function) {
        ("wasi:clocks/wall-clock", "now") => fuel::define(instance, function, |mut cx, ()| {
            Ok((wall_clock(cx.data_mut()),))
        }),
        ("wasi:clocks/wall-clock", "resolution") => fuel::define(instance, function, |_, ()| {
            Ok((Datetime {
                seconds: 0,
                nanoseconds: 1_000_000,
            },))
        }),
        ("wasi:clocks/monotonic-clock", "now") => fuel::define(instance, function, |mut cx, ()| {
            Ok((cx.data_mut().wasi.clock.read(),))
        }),
        ("wasi:clocks/monotonic-clock", "resolution") => {
            fuel::define(instance, function, |_, ()| Ok((STEP_NS,)))
        }
        ("wasi:clocks/monotonic-clock", "subscribe-instant") => {
            fuel::define(instance, function, |_, (instant,): (u64,)| {
                Ok((VirtualClock::pollable_at(instant),))
            })
        }
        ("wasi:clocks/monotonic-clock", "subscribe-duration") => {
            fuel::define(instance, function, |cx, (duration,): (u64,)| {
                let now = cx.data().wasi.clock.now_ns;
                Ok((VirtualClock::pollable_at(now.saturating_add(duration)),))
            })
        }
        ("wasi:io/poll", _) => poll(instance, interface, function),
        _ => trap(instance, interface, function),
    }
}

fn poll(
    instance: &mut LinkerInstance<'_, StoreState>,
    interface: &str,
    function: &str,
) -> wasmtime::Result<()> {
    match function {
        "[method]pollable.ready" => fuel::define(
            instance,
            function,
            |mut cx, (pollable,): (Resource<Pollable>,)| {
                let clock = &mut cx.data_mut().wasi.clock;
                clock.read();
                Ok((clock.is_ready(&pollable),))
            },
        ),
        "[method]pollable.block" => fuel::define(
            instance,
            function,
            |mut cx, (pollable,): (Resource<Pollable>,)| {
                cx.data_mut().wasi.clock.poll(&[pollable]);
                Ok(())
            },
        ),
        "poll" => fuel::define(
            instance,
            function,
            |mut cx, (pollables,): (Vec<Resource<Pollable>>,)| {
                if pollables.is_empty() {
                    wasmtime::bail!("poll of nothing would never return");
                }
                fuel::take(&mut cx, 2 * HANDLE_BYTES * pollables.len())?;
                Ok((cx.data_mut().wasi.clock.poll(&pollables),))
            },
        ),
        _ => trap(instance, interface, function),
    }
}

/// The time of the reconcile, which is recorded as read. In `describe`, which has no time, the
/// epoch.
fn wall_clock(state: &mut StoreState) -> Datetime {
    let now_ms = state.reader_if_any().map_or(0, Reader::now_ms);
    Datetime {
        seconds: now_ms / 1_000,
        nanoseconds: u32::try_from(now_ms % 1_000).unwrap_or_default() * 1_000_000,
    }
}
