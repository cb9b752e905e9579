//! One call of a guest: in a fresh instance, or in one that an earlier call has left. If the call
//! fails, what the guest has read is still returned, and the instance is not used again.
#![allow(
    clippy::disallowed_types,
    reason = "durations are measured and reported; nothing is decided by them"
)]

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use pilothouse_core::{ReadError, Reader, RunError};
use wasmtime::{PoolConcurrencyLimitError, Store, Trap, UpdateDeadline};

use super::stats::RunStats;
use super::trap;
use crate::bindings::{Controller, ControllerPre};
use crate::engine::{Engine, IdleRoom, ticks};
use crate::run::limits::{HANDLES, HOSTCALL_BYTES, RunLimits};
use crate::run::state::StoreState;
use crate::run::stopwatch::{Expired, Stopwatch};

/// wasmtime's message when a call exceeds [`HOSTCALL_BYTES`]. The type of the error is private.
const HOSTCALL_FUEL: &str = "fuel allocated for hostcalls has been exhausted";
/// Most calls of one instance. This bounds what a guest can leak from call to call.
const CALLS: u32 = 1_000;
/// An instance is kept only if it uses at most its memory limit divided by this.
const KEPT_PART: usize = 2;

/// An instance that has answered without an error and may be called again.
pub(super) struct Kept {
    store: Store<StoreState>,
    controller: Controller,
    calls: u32,
    /// Fuel used by its instantiation. Every call is charged for it again, so that the fuel runs
    /// out at the same instruction as in a fresh instance.
    made_for: u64,
    _room: IdleRoom,
}

/// A fresh instance after its first call, with the fuel used by its instantiation.
pub(super) type FreshInstance = (Store<StoreState>, Controller, u64);

/// The outcome of a call.
pub(super) struct Call<T> {
    pub result: Result<T, RunError>,
    pub reader: Option<Reader>,
    pub stats: RunStats,
}

/// The engine, code and limits of a call.
#[derive(Clone, Copy)]
pub(super) struct Site<'a> {
    pub engine: &'a Engine,
    pub pre: &'a ControllerPre<StoreState>,
    pub limits: &'a RunLimits,
}

impl Site<'_> {
    /// Calls a new instance. Also returns the instance, if the call succeeded.
    pub fn fresh<T>(
        self,
        state: StoreState,
        call: impl FnOnce(&Controller, &mut Store<StoreState>) -> wasmtime::Result<T>,
    ) -> (Call<T>, Option<FreshInstance>) {
        let started = Instant::now();
        let _timed = self.engine.begin_run();
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

    /// Calls a kept instance. Also returns the instance, if it may be kept again.
    pub fn again<T>(
        self,
        mut kept: Kept,
        mut state: StoreState,
        call: impl FnOnce(&Controller, &mut Store<StoreState>) -> wasmtime::Result<T>,
    ) -> (Call<T>, Option<Kept>) {
        let started = Instant::now();
        let _timed = self.engine.begin_run();
        let watch = self.engine.stopwatch(self.limits.timeout);
        // The memory of the earlier calls is still allocated, so it still counts.
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

    /// Keeps an instance, unless it has grown too large or too many are kept already.
    pub fn keep(self, (store, controller, made_for): FreshInstance) -> Option<Kept> {
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

    fn is_small(self, store: &Store<StoreState>) -> bool {
        let limit = usize::try_from(self.limits.memory_bytes).unwrap_or(usize::MAX);
        store.data().limiter.used() <= limit / KEPT_PART
    }

    /// Gives the call its full limits, less `used` fuel, whatever earlier calls of the instance
    /// have used.
    fn allow(
        self,
        store: &mut Store<StoreState>,
        watch: Stopwatch,
        used: u64,
    ) -> wasmtime::Result<()> {
        store.set_epoch_deadline(self.engine.ticks(self.limits.timeout));
        // The epoch deadline only decides when to read the clocks. The clocks decide whether to
        // stop the run.
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
        store: &mut Store<StoreState>,
        watch: Stopwatch,
        result: Result<wasmtime::Result<T>, RunError>,
    ) -> Call<T> {
        // This also logs unfinished lines, which may contain the reason for a trap.
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

/// Turns a panic into the run's error. After a panic the store runs no more wasm: its data is taken
/// out, and it is dropped.
fn guarded<T>(call: impl FnOnce() -> wasmtime::Result<T>) -> Result<wasmtime::Result<T>, RunError> {
    catch_unwind(AssertUnwindSafe(call))
        .map_err(|panic| RunError::HostPanic(panic_text(&*panic).to_owned()))
}

/// Classifies an error: which limit was exceeded, or whether the host or the guest failed.
fn classify(
    error: &wasmtime::Error,
    state: &StoreState,
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
    // A guest that is refused memory usually aborts, and its trap does not mention the reason.
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
