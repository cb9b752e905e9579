//! Runs a plugin: a fresh instance for every call, thrown away after it, so that nothing is left for the next. What goes wrong in
//! a guest is an error of that run and touches nothing else; what the guest had read is given back all the same.
#![allow(
    clippy::disallowed_types,
    reason = "durations are measured and reported; nothing is decided by them"
)]

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use pilothouse_core::key::ObjectKey;
use pilothouse_core::manifest::Manifest;
use pilothouse_core::outcome::{Failure, Outcome};
use pilothouse_core::plugin::{Plugin, Request, RunError};
use pilothouse_core::reader::{Reader, Scope};
use pilothouse_core::snapshot::Snapshot;
use wasmtime::{PoolConcurrencyLimitError, Store, Trap};

use crate::bindings::{self, Controller, ControllerPre};
use crate::engine::Engine;
use crate::limits::{HANDLES, HOSTCALL_BYTES, LimitPolicy, RunLimits};
use crate::log::PluginLog;
use crate::state::State;

/// Of an error's text: a guest can have a say in it, and it ends up in status and logs.
const ERROR_BYTES: usize = 2 << 10;
/// wasmtime's words for more than [`HOSTCALL_BYTES`] in one call; the error's type is private.
const HOSTCALL_FUEL: &str = "fuel allocated for hostcalls has been exhausted";

/// A loaded plugin.
pub struct WasmPlugin {
    engine: Engine,
    pre: ControllerPre<State>,
    manifest: Manifest,
    limits: RunLimits,
    name: Arc<str>,
    kind: Option<Arc<str>>,
}

/// What one run took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunStats {
    /// Fuel used, instantiation included.
    pub fuel: u64,
    /// Bytes of memory and tables at their largest.
    pub memory_bytes: usize,
    /// Wall-clock time, instantiation and disposal included.
    pub duration: Duration,
}

impl WasmPlugin {
    pub(crate) fn new(
        engine: Engine,
        pre: ControllerPre<State>,
        manifest: Manifest,
        policy: &LimitPolicy,
    ) -> Self {
        Self {
            limits: policy.grant(&manifest.limits),
            name: manifest.name.as_str().into(),
            kind: manifest.subject_kind().map(|kind| kind.to_string().into()),
            engine,
            pre,
            manifest,
        }
    }

    /// What each run of it may use: what the manifest asks for, as far as the operator's policy goes.
    pub fn limits(&self) -> &RunLimits {
        &self.limits
    }

    /// [`Plugin::reconcile`], and what it took.
    pub fn run(
        &self,
        request: &Request,
        reader: &mut Reader,
    ) -> (Result<Outcome, RunError>, RunStats) {
        let log = PluginLog::new(self.name.clone(), self.kind.clone(), request.key.clone());
        let lent = std::mem::replace(
            reader,
            Reader::new(Snapshot::default(), Arc::new(Scope::default()), 0),
        );
        let state = State::new(&request.key, Some(lent), log, &self.limits);
        let run = in_fresh_instance(
            &self.engine,
            &self.pre,
            state,
            &self.limits,
            |controller, store| controller.call_reconcile(store, &bindings::Request::from(request)),
        );
        if let Some(lent) = run.reader {
            *reader = lent;
        }
        let result = run.result.and_then(|answer| match answer {
            Ok(outcome) => Ok(outcome.into()),
            Err(failure) => Err(RunError::Failure(bounded(failure.into()))),
        });
        (result, run.stats)
    }
}

impl Plugin for WasmPlugin {
    fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    fn reconcile(&self, request: &Request, reader: &mut Reader) -> Result<Outcome, RunError> {
        let (result, stats) = self.run(request, reader);
        tracing::debug!(
            plugin = &*self.name,
            kind = self.kind.as_deref(),
            object = %request.key,
            fuel = stats.fuel,
            memory_bytes = stats.memory_bytes,
            duration = ?stats.duration,
            is_ok = result.is_ok(),
            "reconcile ran"
        );
        result
    }
}

/// Asks a plugin what it is, with the default limits and nothing to read.
pub(crate) fn describe(
    engine: &Engine,
    pre: &ControllerPre<State>,
    policy: &LimitPolicy,
) -> Result<Manifest, RunError> {
    let key = ObjectKey::singleton();
    let log = PluginLog::new("(being loaded)".into(), None, key.clone());
    // It has not yet said how much memory it needs, so it gets what it could have.
    let limits = RunLimits {
        memory_bytes: policy.max.memory_bytes,
        ..policy.default
    };
    let state = State::new(&key, None, log, &limits);
    let run = in_fresh_instance(engine, pre, state, &limits, |controller, store| {
        controller.call_describe(store)
    });
    run.result.map(Manifest::from)
}

/// What is left of an instance.
struct Run<T> {
    result: Result<T, RunError>,
    reader: Option<Reader>,
    stats: RunStats,
}

fn in_fresh_instance<T>(
    engine: &Engine,
    pre: &ControllerPre<State>,
    state: State,
    limits: &RunLimits,
    call: impl FnOnce(Controller, &mut Store<State>) -> wasmtime::Result<T>,
) -> Run<T> {
    let started = Instant::now();
    let mut store = Store::new(engine.wasmtime(), state);
    store.limiter(|state| &mut state.limiter);
    store.set_epoch_deadline(engine.ticks(limits.timeout));
    store.set_hostcall_fuel(HOSTCALL_BYTES);
    store.set_max_component_handles(HANDLES);
    // The store is not used for wasm again after a panic: its data is taken out, and it is dropped.
    let result = catch_unwind(AssertUnwindSafe(|| {
        store.set_fuel(limits.fuel)?;
        let controller = pre.instantiate(&mut store)?;
        call(controller, &mut store)
    }));
    let result = match result {
        Ok(answer) => answer.map_err(|error| classify(&error, store.data(), limits)),
        Err(panic) => Err(RunError::Host(format!("panic: {}", panic_text(&*panic)))),
    };
    store.data_mut().finish_log();
    let reader = store.data_mut().take_reader();
    let mut stats = RunStats {
        fuel: limits
            .fuel
            .saturating_sub(store.get_fuel().unwrap_or_default()),
        memory_bytes: store.data().limiter.used(),
        duration: Duration::ZERO,
    };
    drop(store);
    stats.duration = started.elapsed();
    Run {
        result,
        reader,
        stats,
    }
}

/// Whose fault it was, and which.
fn classify(error: &wasmtime::Error, state: &State, limits: &RunLimits) -> RunError {
    if error.is::<PoolConcurrencyLimitError>() {
        return RunError::Host(format!("no room for another instance: {error:#}"));
    }
    match error.downcast_ref::<Trap>() {
        Some(Trap::OutOfFuel) => {
            return RunError::OverLimit(format!("fuel: all of its {} used", limits.fuel));
        }
        Some(Trap::Interrupt) => return RunError::Timeout(limits.timeout),
        _ => {}
    }
    // A guest that is refused memory mostly aborts, and its trap does not say why.
    if let Some(refusal) = state.limiter.refusal() {
        return RunError::OverLimit(refusal);
    }
    let text = cut(&cause_first(error));
    if text.contains(HOSTCALL_FUEL) {
        return RunError::OverLimit(format!(
            "an answer or an argument of more than {HOSTCALL_BYTES} bytes"
        ));
    }
    RunError::Trap(text)
}

/// What happened, then where: wasmtime says it the other way round and over many lines.
fn cause_first(error: &wasmtime::Error) -> String {
    let (cause, outermost) = (error.root_cause().to_string(), error.to_string());
    if cause == outermost {
        return cause;
    }
    let place = outermost.split_whitespace().collect::<Vec<_>>().join(" ");
    format!("{cause}; {place}")
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("of unknown cause")
}

fn bounded(failure: Failure) -> Failure {
    match failure {
        Failure::Retry(text) => Failure::Retry(cut(&text)),
        Failure::Terminal(text) => Failure::Terminal(cut(&text)),
    }
}

fn cut(text: &str) -> String {
    match text.char_indices().find(|(at, _)| *at >= ERROR_BYTES) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}
