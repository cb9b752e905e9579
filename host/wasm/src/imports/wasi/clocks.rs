//! Clocks that do not follow real time. The wall clock stands still at the time of the reconcile.
//! The monotonic clock starts at zero, advances a little on each read, so that a loop that waits
//! for it ends, and jumps to the end of each sleep.

use pilothouse_core::Reader;
use wasmtime::component::{ComponentType, Lift, LinkerInstance, Lower, Resource};

use super::super::fuel;
use super::trap;
use crate::state::StoreState;

/// How far each read advances the monotonic clock.
const STEP_NS: u64 = 1_000_000;
const NS_PER_MS: u64 = 1_000_000;
/// The size of a handle in the guest's memory, and of an index.
const HANDLE_BYTES: usize = 4;

/// Something that a guest can wait for. Its representation is the millisecond of the monotonic
/// clock at which it becomes ready; 0 is ready immediately.
pub(super) enum Pollable {}

/// The monotonic clock of one run, in nanoseconds. It does not depend on real time, so reading it
/// does not make the reconcile depend on time.
#[derive(Default)]
pub(super) struct VirtualClock {
    now_ns: u64,
}

impl VirtualClock {
    fn read(&mut self) -> u64 {
        self.now_ns = self.now_ns.saturating_add(STEP_NS);
        self.now_ns
    }

    fn pollable_at(deadline_ns: u64) -> Resource<Pollable> {
        let deadline_ms = deadline_ns.div_ceil(NS_PER_MS);
        Resource::new_own(u32::try_from(deadline_ms).unwrap_or(u32::MAX))
    }

    fn is_ready(&self, pollable: &Resource<Pollable>) -> bool {
        deadline_ns(pollable) <= self.now_ns
    }

    /// Sleeps until the first of `pollables` is ready and returns the indices of those that are.
    fn poll(&mut self, pollables: &[Resource<Pollable>]) -> Vec<u32> {
        let first = pollables.iter().map(deadline_ns).min().unwrap_or_default();
        self.now_ns = self.now_ns.max(first);
        let ready = (0..)
            .zip(pollables)
            .filter(|(_, pollable)| self.is_ready(pollable));
        ready.map(|(index, _)| index).collect()
    }
}

fn deadline_ns(pollable: &Resource<Pollable>) -> u64 {
    u64::from(pollable.rep()).saturating_mul(NS_PER_MS)
}

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
        ("wasi:io/poll", "[method]pollable.ready") => fuel::define(
            instance,
            function,
            |mut cx, (pollable,): (Resource<Pollable>,)| {
                let clock = &mut cx.data_mut().wasi.clock;
                clock.read();
                Ok((clock.is_ready(&pollable),))
            },
        ),
        ("wasi:io/poll", "[method]pollable.block") => fuel::define(
            instance,
            function,
            |mut cx, (pollable,): (Resource<Pollable>,)| {
                cx.data_mut().wasi.clock.poll(&[pollable]);
                Ok(())
            },
        ),
        ("wasi:io/poll", "poll") => fuel::define(
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_moves_the_clock_and_a_sleep_jumps() {
        let mut clock = VirtualClock::default();
        assert_eq!((clock.read(), clock.read()), (STEP_NS, 2 * STEP_NS));
        let hour = VirtualClock::pollable_at(3_600_000 * NS_PER_MS);
        let minute = VirtualClock::pollable_at(60_000 * NS_PER_MS);
        assert!(!clock.is_ready(&minute));
        assert_eq!(clock.poll(&[hour, minute]), [1], "the first to be ready");
        assert_eq!(clock.now_ns, 60_000 * NS_PER_MS);
    }
}
