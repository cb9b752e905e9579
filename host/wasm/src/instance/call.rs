//! One call of a guest: in a fresh instance, or in one that an earlier call has left. Whatever goes wrong in it, what the guest had read
//! comes back, and the instance is not used again.
#![allow(
    clippy::disallowed_types,
    reason = "durations are measured and reported; nothing is decided by them"
)]

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use pilothouse_core::plugin::RunError;
use pilothouse_core::reader::{ReadError, Reader};
use wasmtime::{PoolConcurrencyLimitError, Store, Trap, UpdateDeadline};

use super::{RunStats, trap};
use crate::bindings::{Controller, ControllerPre};
use crate::engine::{Engine, IdleRoom, ticks};
use crate::limits::{HANDLES, HOSTCALL_BYTES, RunLimits};
use crate::state::State;
use crate::stopwatch::{Expired, Stopwatch};

/// wasmtime's words for more than [`HOSTCALL_BYTES`] in one call; the error's type is private.
const HOSTCALL_FUEL: &str = "fuel allocated for hostcalls has been exhausted";
/// Calls of one instance. What a guest leaks in each of them ends with it.
const CALLS: u32 = 1_000;
/// An instance that holds more than this part of its memory limit is not kept.
const KEPT_PART: usize = 2;

/// An instance that has answered well and may be asked again.
pub(super) struct Kept {
    store: Store<State>,
    controller: Controller,
    calls: u32,
    /// Fuel that making it took. Every call pays that again, so that the limit ends it at the instruction that it would end a fresh one.
    made_for: u64,
    _room: IdleRoom,
}

/// A fresh instance after its first call, and the fuel that making it took.
pub(super) type Left = (Store<State>, Controller, u64);

/// What is left of a call.
pub(super) struct Call<T> {
    pub result: Result<T, RunError>,
    pub reader: Option<Reader>,
    pub stats: RunStats,
}

/// What a call is made in.
#[derive(Clone, Copy)]
pub(super) struct Site<'a> {
    pub engine: &'a Engine,
    pub pre: &'a ControllerPre<State>,
    pub limits: &'a RunLimits,
}

impl Site<'_> {
    /// Calls a new instance, and says what there is left to keep.
    pub fn fresh<T>(
        self,
        state: State,
        call: impl FnOnce(&Controller, &mut Store<State>) -> wasmtime::Result<T>,
    ) -> (Call<T>, Option<Left>) {
        let started = Instant::now();
        let watch = self.engine.stopwatch(self.limits.timeout);
        let mut store = Store::new(self.engine.wasmtime(), state);
        store.limiter(|state| &mut state.limiter);
        store.set_max_component_handles(HANDLES);
        let mut made = None;
        let result = guarded(|| {
            self.allow(&mut store, watch, 0)?;
            let controller = self.pre.instantiate(&mut store)?;
            let made_for = self.limits.fuel.saturating_sub(store.get_fuel()?);
            let (controller, _) = made.insert((controller, made_for));
            call(controller, &mut store)
        });
        let mut run = self.finish(&mut store, watch, result);
        let left = match made {
            Some((controller, made_for)) if run.result.is_ok() => {
                Some((store, controller, made_for))
            }
            _ => {
                drop(store);
                None
            }
        };
        run.stats.duration = started.elapsed();
        (run, left)
    }

    /// Calls an instance that was kept, and says whether it may be kept again.
    pub fn again<T>(
        self,
        mut kept: Kept,
        mut state: State,
        call: impl FnOnce(&Controller, &mut Store<State>) -> wasmtime::Result<T>,
    ) -> (Call<T>, Option<Kept>) {
        let started = Instant::now();
        let watch = self.engine.stopwatch(self.limits.timeout);
        // Its memory is still there, and still counts.
        state.limiter.hold(kept.store.data().limiter.used());
        *kept.store.data_mut() = state;
        kept.calls += 1;
        let result = guarded(|| {
            self.allow(&mut kept.store, watch, kept.made_for)?;
            call(&kept.controller, &mut kept.store)
        });
        let mut run = self.finish(&mut kept.store, watch, result);
        let keeps = run.result.is_ok() && kept.calls < CALLS && self.is_small(&kept.store);
        let left = keeps.then_some(kept);
        run.stats.is_reused = true;
        run.stats.duration = started.elapsed();
        (run, left)
    }

    /// Keeps an instance, unless it has grown too large, or too many are kept already.
    pub fn keep(self, (store, controller, made_for): Left) -> Option<Kept> {
        if !self.is_small(&store) {
            return None;
        }
        Some(Kept {
            _room: self.engine.idle_room()?,
            store,
            controller,
            calls: 1,
            made_for,
        })
    }

    fn is_small(self, store: &Store<State>) -> bool {
        let limit = usize::try_from(self.limits.memory_bytes).unwrap_or(usize::MAX);
        store.data().limiter.used() <= limit / KEPT_PART
    }

    /// What every call may use, whatever an earlier one used, less what was used already.
    fn allow(self, store: &mut Store<State>, watch: Stopwatch, used: u64) -> wasmtime::Result<()> {
        store.set_epoch_deadline(self.engine.ticks(self.limits.timeout));
        // The epoch says that it is time to look; the clocks say whether it is time to end.
        let tick = self.engine.tick();
        store.epoch_deadline_callback(move |_| match watch.left() {
            Ok(left) => Ok(UpdateDeadline::Continue(ticks(left, tick))),
            Err(expired) => Err(wasmtime::Error::new(expired)),
        });
        store.set_hostcall_fuel(HOSTCALL_BYTES);
        store.set_fuel(self.limits.fuel.saturating_sub(used))
    }

    fn finish<T>(
        self,
        store: &mut Store<State>,
        watch: Stopwatch,
        result: Result<wasmtime::Result<T>, RunError>,
    ) -> Call<T> {
        // Also what was written last and not ended: it may be why the guest trapped.
        store.data_mut().finish_log();
        let result = result.and_then(|answer| {
            answer.map_err(|error| classify(&error, store.data(), self.limits, watch))
        });
        let fuel_left = store.get_fuel().unwrap_or_default();
        Call {
            result,
            reader: store.data_mut().take_reader(),
            stats: RunStats {
                fuel: self.limits.fuel.saturating_sub(fuel_left),
                memory_bytes: store.data().limiter.used(),
                ..RunStats::default()
            },
        }
    }
}

/// A panic is the run's error. The store is not used for wasm again after one: its data is taken out, and it is dropped.
fn guarded<T>(call: impl FnOnce() -> wasmtime::Result<T>) -> Result<wasmtime::Result<T>, RunError> {
    catch_unwind(AssertUnwindSafe(call))
        .map_err(|panic| RunError::HostPanic(panic_text(&*panic).to_owned()))
}

/// Whose fault it was, and which.
fn classify(
    error: &wasmtime::Error,
    state: &State,
    limits: &RunLimits,
    watch: Stopwatch,
) -> RunError {
    if error.is::<PoolConcurrencyLimitError>() {
        return RunError::Host(format!("no room for another instance: {error:#}"));
    }
    if let Some(Trap::OutOfFuel) = error.downcast_ref() {
        return RunError::OutOfFuel {
            fuel: limits.fuel,
            took: watch.cpu(),
        };
    }
    if let Some(expired) = error.downcast_ref::<Expired>() {
        return RunError::Timeout(expired.to_string());
    }
    // A guest that is refused memory mostly aborts, and its trap does not say why.
    if let Some(refusal) = state.limiter.refusal() {
        return RunError::OverLimit(refusal);
    }
    if let Some(error @ (ReadError::TooMany | ReadError::TooLarge(_) | ReadError::Selector)) =
        error.downcast_ref()
    {
        return RunError::OverLimit(error.to_string());
    }
    if error.root_cause().to_string().contains(HOSTCALL_FUEL) {
        return RunError::OverLimit(format!(
            "an answer or an argument of more than {HOSTCALL_BYTES} bytes"
        ));
    }
    match state.last_words.text(trap::PART_BYTES) {
        Some(said) => RunError::Panic {
            trap: trap::told(error, Some(&said)),
            said,
        },
        None => RunError::Trap(trap::told(error, None)),
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("of unknown cause")
}
